"""NoPE in SymPy: attention without positions, with an optional temperature."""

from collections.abc import Sequence
from typing import Any

import sympy as sp

from posedu.sympy._expressions import expressions
from posedu.sympy.attention import Heads, Hooks


def nope(*, temperature: sp.Expr | Sequence[sp.Expr] | sp.Matrix = sp.S.One) -> Hooks:
    """Return the hooks of NoPE, attention without positions.

    Hooks are the functions by which an encoding acts on attention; here they multiply
    the logits by ``temperature``, one expression or one for each head. Equation
    ``def-nope``. See :func:`posedu.numpy.nope.nope`.
    """
    given = expressions("temperature", temperature)
    own = list(given) if isinstance(given, list | sp.MatrixBase) else None
    if own == []:
        words = "temperature must be one expression or one for each head, got none"
        raise ValueError(words)

    def sharpened(q: Heads, k: Heads, positions: Sequence[Any]) -> tuple[Heads, Heads]:
        temperatures = own or [given] * len(q)
        return tuple(f * m for f, m in zip(temperatures, q, strict=True)), k

    return Hooks(rotate=sharpened, heads=None if own is None else len(own))
