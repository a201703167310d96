"""Re-rotation of cached keys, over symbols."""

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
    """The rotated ``key``, a column, rotated on by ``shift``: R_Δ k.

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
