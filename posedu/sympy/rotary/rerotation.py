"""Re-rotation in SymPy: a cached key, already rotated by RoPE, moves by an offset."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import Layout
from posedu.sympy.rotary.rope import rope


def rerotation(
    key: sp.Matrix,
    shift: sp.Expr | float,
    *,
    layout: Layout,
    base: sp.Expr | float = 10000,
    rotary_dim: int | None = None,
    frequencies: Sequence[sp.Expr | float] | None = None,
) -> sp.Matrix:
    """Move a key, already rotated by RoPE, by ``shift`` positions: R_Δ k, a column.

    The other arguments are those of :func:`rope` with which the key was rotated.
    Equation ``def-cache-rerotation``.
    """
    return rope(
        key,
        shift,
        layout=layout,
        base=base,
        rotary_dim=rotary_dim,
        frequencies=frequencies,
    )
