"""NoPE in SymPy: attention without positions, with an optional factor of the logits."""

from collections.abc import Sequence
from typing import Any

import sympy as sp

from posedu.sympy._expressions import expressions
from posedu.sympy.attention import Heads, Hooks


def nope(*, factor: sp.Expr | Sequence[sp.Expr] | sp.Matrix = sp.S.One) -> Hooks:
    """Return the hooks of NoPE, attention without positions.

    Hooks are the functions by which an encoding acts on attention; here they multiply
    the logits by ``factor``, one expression or one for each head. Equation
    ``def-nope``. See :func:`posedu.numpy.nope.nope`.
    """
    given = expressions("factor", factor)
    own = list(given) if isinstance(given, list | sp.MatrixBase) else None
    if own == []:
        raise ValueError("factor must be one expression or one for each head, got none")

    def sharpened(q: Heads, k: Heads, positions: Sequence[Any]) -> tuple[Heads, Heads]:
        factors = own or [given] * len(q)
        return tuple(f * m for f, m in zip(factors, q, strict=True)), k

    return Hooks(rotate=sharpened, heads=None if own is None else len(own))
