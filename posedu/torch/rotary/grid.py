"""Grids of positions with several coordinates, such as those of image patches."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.types import Device

from posedu._arguments import GridCoordinates, require_choice, require_dimension


def grid(
    *counts: int, coordinates: GridCoordinates, device: Device = None
) -> Float[Tensor, "tokens axes"]:
    """Return the positions of a grid's cells, float64; the first axis varies fastest.

    ``grid(width, height)`` are the (x, y) of an image's patches, row by row. The three
    values of ``coordinates`` are those of :func:`posedu.numpy.rotary.grid`.
    """
    require_choice("coordinates", coordinates, GridCoordinates)
    if not counts:
        raise ValueError("grid needs at least one count, got none")
    steps = []
    for count in counts:
        require_dimension("count", count, 1)
        index = torch.arange(count, dtype=torch.float64, device=device)
        if coordinates == "centers":
            index = (index + 0.5) / count
        elif coordinates == "ends":
            index = index / max(count - 1, 1)
        steps.append(index)
    cells = torch.meshgrid(*reversed(steps), indexing="ij")
    return torch.stack(cells[::-1], -1).flatten(0, -2)
