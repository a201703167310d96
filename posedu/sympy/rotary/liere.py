"""LieRE in SymPy: rotations by exponentials of skew generators with free entries."""

from collections.abc import Sequence

import sympy as sp

from posedu.sympy.rotary.generators import (
    require_block_size,
    rotate_by_generators,
    skew,
)
from posedu.sympy.rotary.mixed import Position


def liere(
    x: sp.Matrix,
    position: Position,
    *,
    entries: Sequence[Sequence[Sequence[sp.Expr]]],
    block: int,
) -> sp.Matrix:
    """Rotate one query or key, the column ``x``, by LieRE.

    ``entries[k][m]`` are the free entries of the skew generator of coordinate k and
    block m. See :func:`posedu.numpy.rotary.liere`.
    """
    generators = [[skew(free) for free in blocks] for blocks in entries]
    require_block_size(block, generators[0])
    return rotate_by_generators(x, position, generators)
