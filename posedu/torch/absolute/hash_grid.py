"""The multiresolution hash grid of Instant NGP, as a PyTorch module."""

from __future__ import annotations

import math
from itertools import product

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posedu._arguments import (
    HASH_FACTORS,
    GridResolution,
    require_choice,
    require_dimension,
    require_hash_grid,
    require_not_negative,
)
from posedu.torch.absolute._point_code import PointCode

_WORD = 2**32 - 1
_DIGITS = 10  # to which a resolution is rounded before it becomes an integer


class HashGrid(PointCode):
    """A multiresolution hash grid (arXiv 2201.05989 §3), added to the input.

    Each level has a grid and a trained table; a point's code has the vectors of its
    cell's corners, interpolated, level by level. Where a grid has more vertices than
    its table has rows, a hash chooses the row, and the gradient of a row is the sum of
    those of its vertices. The code is added to the first features of the input;
    :meth:`table` returns the code itself. Equation ``def-hash-grid``.

    Parameters
    ----------
    d_model
        Width of the input vectors, at least that of the code: levels · features.
    axes
        Coordinates of a position, 1 to 3. They should be in [0, 1].
    features
        Features of a row. The paper: 2.
    levels, table_size, coarsest, finest
        Number of grids, largest number of rows of a table, a power of two, and the
        resolutions of the first and the last grid; see
        :func:`posedu.numpy.absolute.grid_levels`. The paper: 16, 2¹⁴ to 2²⁴, 16, and
        512 to 524,288.
    resolution
        Whether a resolution counts ``"cells"`` (the paper) or ``"vertices"``
        (tiny-cuda-nn).
    spread
        Entries start evenly distributed between −spread and spread. Default 10⁻⁴.

    Raises
    ------
    TypeError, ValueError
        Sizes that are no positive integers or do not fit, ``d_model`` below the width
        of the code, unknown ``resolution``, ``spread`` negative or not finite.
    """

    def __init__(
        self,
        d_model: int,
        *,
        axes: int,
        features: int,
        levels: int,
        table_size: int,
        coarsest: int,
        finest: int,
        resolution: GridResolution,
        spread: float = 1e-4,
    ):
        require_hash_grid(axes, levels, table_size, coarsest, finest)
        require_dimension("features", features, 1)
        super().__init__(d_model, coordinates=axes, width=levels * features)
        self.levels, self.table_size = levels, table_size
        self.coarsest, self.finest = coarsest, finest
        self.resolution = require_choice("resolution", resolution, GridResolution)
        growth = math.log(finest / coarsest) / max(levels - 1, 1)
        sizes = [coarsest * math.exp(growth * level) for level in range(levels)]
        whole = [round(size, _DIGITS) for size in sizes]
        if resolution == "cells":
            self._scales = [float(math.floor(size)) for size in whole]
            self._vertices = [math.floor(size) + 1 for size in whole]
        else:
            self._scales = [size - 1 for size in sizes]
            self._vertices = [math.ceil(size) for size in whole]
        self._rows = [min(n**axes, table_size) for n in self._vertices]
        spread = require_not_negative("spread", spread)
        entries = torch.empty(sum(self._rows), features)
        self.entries = nn.Parameter(nn.init.uniform_(entries, -spread, spread))

    def _code(self, at: Float[Tensor, "*rows coordinates"]) -> Tensor:
        parts, first = [], 0
        for level, rows in enumerate(self._rows):
            place = at * self._scales[level]
            if self.resolution == "vertices":
                place = place + 0.5
            low = place.detach().floor()
            part = place - low
            total: Tensor | float = 0.0
            for corner in product((0, 1), repeat=self.coordinates):
                weights = [
                    part[..., axis] if is_upper else 1 - part[..., axis]
                    for axis, is_upper in enumerate(corner)
                ]
                vertex = [
                    low[..., axis].long() + is_upper
                    for axis, is_upper in enumerate(corner)
                ]
                row = first + self._row_of(vertex, level)
                weight = math.prod(weights[1:], start=weights[0])
                total = total + weight[..., None] * self.entries[row].to(at.dtype)
            parts.append(total)
            first += rows
        return torch.cat(parts, -1)  # type: ignore[arg-type]

    def _row_of(
        self, vertex: list[Int[Tensor, "*rows"]], level: int
    ) -> Int[Tensor, "*rows"]:
        """Return each vertex's row in the table of its level."""
        side, rows = self._vertices[level], self._rows[level]
        if rows < side**self.coordinates:
            row = vertex[0]
            for coordinate, factor in zip(vertex[1:], HASH_FACTORS[1:], strict=False):
                row = row ^ ((coordinate & _WORD) * factor)
            return row & (rows - 1)
        row = vertex[-1]
        for coordinate in vertex[-2::-1]:
            row = row * side + coordinate
        return row % rows

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d_model}, axes={self.coordinates}, "
            f"features={self.entries.shape[1]}, levels={self.levels}, "
            f"table_size={self.table_size}, coarsest={self.coarsest}, "
            f"finest={self.finest}, resolution={self.resolution!r}"
        )
