"""PoSE in SymPy: training positions in two chunks, with positions skipped between."""

from collections.abc import Sequence
from typing import Any

import sympy as sp

from posedu.sympy._expressions import matrix, one_expression


def pose(positions: Sequence[sp.Expr | float], *, cut: Any, skip: Any) -> sp.Matrix:
    """Positions with a skip: positions from ``cut`` on are shifted by ``skip``.

    The result is a column, for one sequence. Equation ``def-pose``. See
    :func:`posedu.numpy.absolute.pose`.
    """
    b, u = one_expression("cut", cut), one_expression("skip", skip)
    shifted = [
        sp.Piecewise((p + u, p >= b), (p, True)) for p in matrix("positions", positions)
    ]
    return sp.Matrix(shifted)
