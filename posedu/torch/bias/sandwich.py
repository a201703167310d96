"""Sandwich: the inner product of sinusoidal encodings as a bias."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from posedu._arguments import (
    SandwichDiagonal,
    require_choice,
    require_dimension,
    require_index,
    require_positive,
)
from posedu.torch.bias.distance import ByDistance


class Sandwich(ByDistance):
    """Bias Σ cos((i − j) ω_k), divided by a ratio of each head (arXiv 2212.10356).

    i and j are the positions of query and key, ω_k sinusoidal frequencies. No
    parameters, no maximal length. Equation ``def-sandwich``.

    Parameters
    ----------
    heads
        Query heads.
    width
        Features of the sinusoidal encoding, even; it does not depend on the head
        dimension.
    index_from, diagonal, compression
        First index of the frequencies, bias at distance 0, and ratio of the last head;
        see :func:`posedu.numpy.bias.sandwich`.

    Raises
    ------
    TypeError, ValueError
        ``heads`` not a positive integer, ``width`` odd or not positive, ``index_from``
        other than 0 and 1, unknown ``diagonal``, ``compression`` not positive.
    """

    heads: int

    def __init__(
        self,
        heads: int,
        *,
        width: int,
        index_from: int,
        diagonal: SandwichDiagonal,
        compression: float = 8.0,
    ):
        super().__init__()
        self.heads = require_dimension("heads", heads, 1)
        self.width = require_dimension("width", width)
        self.index_from = require_index("index_from", index_from)
        self.diagonal = require_choice("diagonal", diagonal, SandwichDiagonal)
        self.compression = require_positive("compression", compression)

    def of_offsets(
        self, offsets: Shaped[Tensor, "*shape"]
    ) -> Float[Tensor, "heads *shape"]:
        """Return the bias of each offset, a scaled sum of cosines, in float64.

        An offset is query position minus key position.
        """
        steps = offsets.flatten().to(torch.float64)
        total = torch.zeros_like(steps)
        for k in range(self.index_from, self.index_from + self.width // 2):
            total += (steps * 1e4 ** (-2 * k / self.width)).cos()
        if self.diagonal == "zero":
            total -= self.width / 2
        heads = self.layer_heads
        h = torch.arange(1, heads + 1, dtype=torch.float64, device=steps.device)
        inverse = self.own_heads(heads / (self.compression * h))
        return (inverse[:, None] * total).unflatten(-1, offsets.shape)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.heads}, width={self.width}, index_from={self.index_from}, "
            f"diagonal={self.diagonal!r}, compression={self.compression:g}"
        )
