"""ComRoPE in SymPy: rotations by exponentials of skew generators that commute."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import require_block, require_dimension
from posedu.sympy._expressions import expressions, matrix
from posedu.sympy.rotary.generators import require_block_size, rotate_by_generators
from posedu.sympy.rotary.mixed import Position, Rows


def comrope_ap(
    x: sp.Matrix,
    position: Position,
    *,
    matrices: Sequence[Rows],
    block: int,
    axes: int = 2,
) -> sp.Matrix:
    """Rotate one query or key, the column ``x``, by ComRoPE with an axial partition.

    Each block of ``block`` features is rotated by one coordinate t of the position: by
    exp(t (P − Pᵀ)), where P is the block's trained matrix in ``matrices``. Equation
    ``def-comrope-ap``. See :func:`posedu.numpy.rotary.comrope_ap`.
    """
    generators = ap_generators(matrices, axes=axes)
    require_block_size(block, generators[0])
    return rotate_by_generators(x, position, generators)


def ap_generators(matrices: Sequence[Rows], *, axes: int = 2) -> list[list[sp.Matrix]]:
    """Return ComRoPE-AP's skew generators, by axis and then by block of features.

    Block j has the generator P_j − P_jᵀ on axis j mod ``axes``, and 0 on all other
    axes; P_j is the trained matrix of the block in ``matrices``. :func:`rotations`
    takes the result.
    """
    axes = require_dimension("axes", axes, 1)
    require_dimension("the number of blocks", len(matrices), axes)
    parts = _skew_parts(matrices)
    return [
        [part if m % axes == k else 0 * part for m, part in enumerate(parts)]
        for k in range(axes)
    ]


def comrope_ld(
    x: sp.Matrix,
    position: Position,
    *,
    matrices: Sequence[Rows],
    multipliers: Sequence[Sequence[sp.Expr]],
    block: int,
) -> sp.Matrix:
    """Rotate one query or key, ``x``, by ComRoPE with linearly dependent generators.

    Block j of ``block`` features is rotated by exp(Σ_k x_k θ_kj (P_j − P_jᵀ)), where
    x_k are the position's coordinates, P_j is the block's trained matrix in
    ``matrices``, and θ_kj is a trained number in ``multipliers``. Equation
    ``def-comrope-ld``. See :func:`posedu.numpy.rotary.comrope_ld`.
    """
    generators = ld_generators(matrices, multipliers)
    require_block_size(block, generators[0])
    return rotate_by_generators(x, position, generators)


def ld_generators(
    matrices: Sequence[Rows], multipliers: Sequence[Sequence[sp.Expr]]
) -> list[list[sp.Matrix]]:
    """Return ComRoPE-LD's skew generators, by axis and then by block of features.

    Block j on axis k has θ_kj (P_j − P_jᵀ), where P_j is the block's trained matrix in
    ``matrices``, and θ_kj is a trained number in ``multipliers``. :func:`rotations`
    takes the result.
    """
    parts = _skew_parts(matrices)
    return [
        [t * part for t, part in zip(theta, parts, strict=True)]
        for theta in expressions("multipliers", multipliers)
    ]


def _skew_parts(matrices: Sequence[Rows]) -> list[sp.Matrix]:
    squares = [matrix("matrices", p) for p in matrices]
    for p in squares:
        require_block(p.rows)
    return [p - p.T for p in squares]
