"""Position coupling in SymPy: digits of equal significance share a position."""

from collections.abc import Sequence
from typing import Any

import sympy as sp

from posedu.sympy._expressions import matrix, one_expression


def position_coupling(positions: Sequence[sp.Expr | float], *, start: Any) -> sp.Matrix:
    """Add ``start`` to coupled positions, which are at least 0; others get 0.

    The result is a column, for one sequence. Equation ``def-coupling``. See
    :func:`posedu.numpy.absolute.position_coupling`.
    """
    s = one_expression("start", start)
    shifted = [
        sp.Piecewise((p + s, p >= 0), (0, True)) for p in matrix("positions", positions)
    ]
    return sp.Matrix(shifted)
