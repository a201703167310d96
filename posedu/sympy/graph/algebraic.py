"""Algebraic positional encodings in SymPy: products of rotations along a path."""

from collections.abc import Sequence

import sympy as sp

from posedu.sympy._expressions import expressions
from posedu.sympy.rotary.generators import (
    exponential,
    require_block_size,
    rotate_blocks,
    skew,
)
from posedu.sympy.rotary.mixed import Position


def path_rotations(
    position: Position, generators: Sequence[Sequence[sp.Matrix]]
) -> list[sp.Matrix]:
    """Rotation ρ of a position, one matrix for each block.

    The product of exp(x A) over the coordinates x; ``generators[n][m]`` is block m of
    the generator A of branch n. See :func:`posedu.numpy.graph.path_rotations`.
    """
    position = expressions("position", position)
    branches = len(generators)
    if not position or len(position) % branches:
        raise ValueError(
            f"position must be whole steps of {branches} coordinates, got "
            f"{len(position)}"
        )
    products = [sp.eye(a.rows) for a in generators[0]]
    for c, x in enumerate(position):
        products = [
            product * exponential(x * a)
            for product, a in zip(products, generators[c % branches], strict=True)
        ]
    return products


def algebraic(
    x: sp.Matrix,
    position: Position,
    *,
    entries: Sequence[Sequence[Sequence[sp.Expr]]],
    block: int,
) -> sp.Matrix:
    """Rotate one query or key, the column ``x``, by the rotations along its path.

    ``entries[n][m]`` are the free entries of the skew generator of branch n and block
    m. See :func:`posedu.numpy.graph.algebraic`.
    """
    generators = [[skew(free) for free in blocks] for blocks in entries]
    require_block_size(block, generators[0])
    return rotate_blocks(x, path_rotations(position, generators))
