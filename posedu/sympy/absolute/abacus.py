"""Abacus in SymPy: the index of a digit in its number, plus a shift."""

from collections.abc import Sequence
from typing import Any

import sympy as sp

from posedu.sympy._expressions import expression, matrix, one_expression


def abacus(positions: Sequence[sp.Expr | float], *, shift: Any) -> sp.Matrix:
    """Add ``shift`` to the positions of digits, which are above 0; others get 0.

    The result is a column, for one sequence. Equation ``def-abacus``. See
    :func:`posedu.numpy.absolute.abacus`.
    """
    k = one_expression("shift", shift)
    shifted = [
        sp.Piecewise((p + k, p > 0), (0, True)) for p in matrix("positions", positions)
    ]
    return sp.Matrix(shifted)


def trained_share(
    t: sp.Expr | float, *, digits: sp.Expr | float, max_shift: sp.Expr | float
) -> sp.Expr:
    """Probability that a number of ``digits`` digits has the shifted position ``t``.

    The shift is uniform in 0 … ``max_shift``, and t from 1 to ``digits`` +
    ``max_shift``. Equation ``eq-abacus-share``.
    """
    t, most = expression("t", t), expression("max_shift", max_shift)
    first = sp.Max(0, t - expression("digits", digits))
    return (sp.Min(most, t - 1) - first + 1) / (most + 1)
