"""The multiresolution hash grid in SymPy, at positions that are exact numbers."""

from collections.abc import Sequence
from itertools import product

import sympy as sp

from posedu._arguments import (
    HASH_FACTORS,
    GridResolution,
    require_choice,
    require_hash_grid,
)
from posedu.sympy._expressions import matrix
from posedu.sympy.absolute.fourier import Position, Rows, point
from posedu.sympy.absolute.nerf import add_code


def grid_hash(vertex: Sequence[int], table_size: int) -> int:
    """The hash of one vertex: exclusive or of its coordinates times factors, mod T.

    In whole numbers, without a wrap: T divides 2³². Equation ``def-hash-grid-hash``.
    See :func:`posedu.numpy.absolute.grid_hash`.
    """
    require_hash_grid(len(vertex), 1, table_size, 1, 1)
    mixed = 0
    for coordinate, factor in zip(vertex, HASH_FACTORS, strict=False):
        mixed ^= int(coordinate) * factor
    return mixed % table_size


def hash_grid_features(
    position: Position,
    entries: Rows,
    *,
    levels: int,
    table_size: int,
    coarsest: int,
    finest: int,
    resolution: GridResolution,
) -> sp.Matrix:
    """The hash grid's code of one point, a column; its coordinates are real numbers.

    Equation ``def-hash-grid``. See :func:`posedu.numpy.absolute.hash_grid_features`.
    """
    at, rows = point(position), matrix("entries", entries)
    if at.free_symbols:
        raise ValueError(f"position must be numbers, got {list(at)}")
    axes = at.rows
    require_hash_grid(axes, levels, table_size, coarsest, finest)
    require_choice("resolution", resolution, GridResolution)
    steps, first, code = max(levels - 1, 1), 0, []
    for level in range(levels):
        exact = sp.Integer(coarsest ** (steps - level) * finest**level)
        exact = exact ** sp.Rational(1, steps)
        if resolution == "cells":
            scale, shift, vertices = sp.floor(exact), 0, int(sp.floor(exact)) + 1
        else:
            scale, shift, vertices = exact - 1, sp.S.Half, int(sp.ceiling(exact))
        own = min(vertices**axes, table_size)
        place = [scale * x + shift for x in at]
        low = [int(sp.floor(p)) for p in place]
        total = sp.zeros(1, rows.cols)
        for corner in product((0, 1), repeat=axes):
            vertex = [v + c for v, c in zip(low, corner, strict=True)]
            weight = sp.prod(1 - abs(p - v) for p, v in zip(place, vertex, strict=True))
            if own < vertices**axes:
                row = grid_hash(vertex, own)
            else:
                row = sum(v * vertices**a for a, v in enumerate(vertex)) % own
            total += weight * rows[first + row, :]
        code += list(total)
        first += own
    if first != rows.rows:
        raise ValueError(
            f"entries must have {first} rows, those of all levels, got {rows.rows}"
        )
    return sp.Matrix(code)


def embed_hash_grid(
    x: sp.Matrix,
    position: Position,
    *,
    entries: Rows,
    levels: int,
    table_size: int,
    coarsest: int,
    finest: int,
    resolution: GridResolution,
) -> sp.Matrix:
    """Add the hash grid's code of ``position`` to the first features of the column x.

    The other arguments are those of :func:`hash_grid_features`. The result is for the
    hook ``embed``, the function by which an encoding changes the input of a model.
    Equation ``def-hash-grid``.
    """
    code = hash_grid_features(
        position,
        entries,
        levels=levels,
        table_size=table_size,
        coarsest=coarsest,
        finest=finest,
        resolution=resolution,
    )
    return add_code(x, code)
