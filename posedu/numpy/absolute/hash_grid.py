"""The multiresolution hash grid of Instant NGP: interpolated rows of hashed tables."""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt32

from posedu._arguments import (
    HASH_FACTORS,
    GridResolution,
    require_choice,
    require_hash_grid,
)
from posedu.numpy._arrays import (
    Positions,
    align_positions,
    as_array,
    require_floats,
)
from posedu.numpy.absolute.nerf import add_code, require_points

Array = np.ndarray


class Level(NamedTuple):
    """One grid: positions are multiplied by ``scale``, and ``shift`` is added.

    ``vertices`` is the number of vertices on each axis, and ``rows`` that of the rows
    of its table; ``hashed`` is true if there are fewer rows than vertices.
    """

    scale: float
    shift: float
    vertices: int
    rows: int
    hashed: bool


def grid_levels(
    *,
    axes: int,
    levels: int,
    table_size: int,
    coarsest: int,
    finest: int,
    resolution: GridResolution,
) -> list[Level]:
    """The levels of a hash grid, from the coarsest to the finest.

    arXiv 2201.05989 §3. A level's resolution is coarsest · b^ℓ with b = (finest /
    coarsest)^(1 / (levels − 1)). It is rounded in whole numbers, since a power of
    floats may be just below the integer that it equals.

    Parameters
    ----------
    axes
        Coordinates of a position: 1, 2 or 3.
    levels, table_size, coarsest, finest
        L, T, N_min and N_max. The paper: 16, a power of two from 2¹⁴ to 2²⁴, 16, and
        512 to 524,288.
    resolution
        ``"cells"``: the resolution, rounded down, is the number of cells on an axis,
        and 0 and 1 are vertices (the paper). ``"vertices"``: it is, rounded up, the
        number of vertices; one less, not rounded, is the scale, and positions are
        shifted by half a cell (tiny-cuda-nn).

    Returns
    -------
    A :class:`Level` for each. Equation ``def-hash-grid-levels``.

    Raises
    ------
    TypeError, ValueError
        Sizes that do not fit; unknown ``resolution``.
    """
    require_hash_grid(axes, levels, table_size, coarsest, finest)
    require_choice("resolution", resolution, GridResolution)
    steps = max(levels - 1, 1)
    found = []
    for level in range(levels):
        power = coarsest ** (steps - level) * finest**level
        whole = _root(power, steps)
        if resolution == "cells":
            scale, shift, vertices = float(whole), 0.0, whole + 1
        else:
            exact = coarsest * (finest / coarsest) ** (level / steps)
            scale, shift = exact - 1, 0.5
            vertices = whole if whole**steps == power else whole + 1
        every = vertices**axes
        rows = min(every, table_size)
        found.append(Level(scale, shift, vertices, rows, rows < every))
    return found


def grid_hash(
    vertices: Int[Array, "*shape axes"], table_size: int
) -> Int[Array, "*shape"]:
    """The hash of integer vertices: exclusive or of coordinates times factors, mod T.

    arXiv 2201.05989 §3. Products wrap at 2³².

    Parameters
    ----------
    vertices
        Integers, whose last axis has 1 to 3 coordinates. Negative ones count from 2³².
    table_size
        T, a power of two.

    Returns
    -------
    int64 array of numbers from 0 to T − 1. Equation ``def-hash-grid-hash``.

    Raises
    ------
    TypeError, ValueError
        Vertices that are no integers or have more than 3 coordinates; ``table_size`` no
        power of two.
    """
    v = as_array("vertices", vertices)
    if v.dtype.kind not in "iu":
        raise TypeError(f"vertices must be integers, got dtype {v.dtype}")
    if v.ndim < 1:
        raise ValueError(f"vertices must be [..., axes], got shape {list(v.shape)}")
    require_hash_grid(v.shape[-1], 1, table_size, 1, 1)
    wrapped: UInt32[Array, "*shape axes"] = v.astype(np.uint32)
    mixed = wrapped[..., 0]
    for axis, factor in enumerate(HASH_FACTORS[1 : v.shape[-1]], 1):
        mixed = mixed ^ (wrapped[..., axis] * np.uint32(factor))
    return np.asarray(mixed.astype(np.int64) % table_size)


def hash_grid_features(
    positions: Positions,
    entries: Float[Array, "rows features"],
    *,
    levels: int,
    table_size: int,
    coarsest: int,
    finest: int,
    resolution: GridResolution,
) -> Float[Array, "*rows code"]:
    """The code of each point: for each level, its cell's corners, interpolated.

    arXiv 2201.05989 §3. A corner's row of the level's table is its number in the grid,
    or its hash where the grid has more vertices than the table has rows.

    Parameters
    ----------
    positions
        Points, whose coordinates are the last axis. They should be in [0, 1]: beyond
        it vertices share the rows of others.
    entries
        The tables of all levels, one below the other: trained vectors.
    levels, table_size, coarsest, finest, resolution
        See :func:`grid_levels`.

    Returns
    -------
    float64 array with a last axis of levels · features numbers. Equation
    ``def-hash-grid``.

    Raises
    ------
    TypeError, ValueError
        Positions not finite or without coordinates; entries of a wrong shape; otherwise
        as :func:`grid_levels`.
    """
    at, e = require_points(positions), require_floats("entries", entries)
    grids = grid_levels(
        axes=at.shape[-1],
        levels=levels,
        table_size=table_size,
        coarsest=coarsest,
        finest=finest,
        resolution=resolution,
    )
    total = sum(grid.rows for grid in grids)
    if e.ndim != 2 or e.shape[0] != total:
        raise ValueError(
            f"entries must be [{total}, features], the rows of all levels, got shape "
            f"{list(e.shape)}"
        )
    ends = np.cumsum([grid.rows for grid in grids])[:-1]
    tables = np.split(e, ends)
    parts = [
        _interpolated(at, table, grid)
        for table, grid in zip(tables, grids, strict=True)
    ]
    return np.concatenate(parts, -1)


def embed_hash_grid(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    entries: Float[Array, "rows features"],
    levels: int,
    table_size: int,
    coarsest: int,
    finest: int,
    resolution: GridResolution,
) -> Float[Array, "*batch tokens d"]:
    """Add the hash grid's code of its position to each vector's first features.

    For the hook ``embed``, a function that a model calls before its layers.
    ``positions`` is ``[tokens, axes]``, with or without a batch axis in front. The
    width d is at least that of the code; other features stay. Other arguments and
    errors as :func:`hash_grid_features`. Equation ``def-hash-grid``.
    """
    x = require_floats("x", x)
    at = align_positions(positions, x, require_points(positions).shape[-1])
    code = hash_grid_features(
        at,
        entries,
        levels=levels,
        table_size=table_size,
        coarsest=coarsest,
        finest=finest,
        resolution=resolution,
    )
    return add_code(x, code)


def _interpolated(at: Array, table: Array, grid: Level) -> Array:
    place = at * grid.scale + grid.shift
    low = np.floor(place)
    part = place - low
    total = np.zeros((*at.shape[:-1], table.shape[1]))
    for corner in product((0, 1), repeat=at.shape[-1]):
        weight = np.where(corner, part, 1 - part).prod(-1)
        vertex = low.astype(np.int64) + np.array(corner)
        total += weight[..., None] * table[_rows(vertex, grid)]
    return total


def _rows(vertex: Array, grid: Level) -> Array:
    """Return each vertex's row in the table of its grid."""
    if grid.hashed:
        return grid_hash(vertex, grid.rows)
    strides = grid.vertices ** np.arange(vertex.shape[-1])
    return np.asarray((vertex * strides).sum(-1) % grid.rows)


def _root(power: int, steps: int) -> int:
    """Return the largest integer whose ``steps``-th power is at most ``power``."""
    low, high = 0, 1 << (power.bit_length() // steps + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if middle**steps <= power:
            low = middle
        else:
            high = middle
    return low


def count_collisions(rows: Int[Array, "*shape"] | Sequence[int]) -> int:
    """Return how many pairs of entries of ``rows``, integers, are equal.

    Equation ``def-hash-grid-pairs``. Other dtypes raise a ``TypeError``.
    """
    given = as_array("rows", rows)
    if given.dtype.kind not in "iu":
        raise TypeError(f"rows must be integers, got dtype {given.dtype}")
    _, counts = np.unique(given, return_counts=True)
    return int((counts * (counts - 1) // 2).sum())
