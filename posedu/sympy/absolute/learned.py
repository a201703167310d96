"""Learned absolute embeddings in SymPy: a table with a vector for each position."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import BeyondTable, require_choice, require_dimension
from posedu.sympy._expressions import expression, matrix

Table = sp.Matrix | Sequence[Sequence[sp.Expr | float]]


def one_hot(position: sp.Expr | float, rows: int, *, beyond: BeyondTable) -> sp.Matrix:
    """One-hot column of a position: a 1 in the row of the position, rounded down.

    The position must have a numerical value. ``beyond`` is the rule for a position that
    has no row: ``"raise"`` an error, return a column of ``"zero"`` entries, or
    ``"clip"`` the position to the nearest row. Equation ``def-learned-one-hot``. See
    :func:`posedu.numpy.absolute.one_hot`.
    """
    rows = require_dimension("rows", rows, 1)
    require_choice("beyond", beyond, BeyondTable)
    at = int(sp.floor(expression("position", position)))
    if beyond == "raise" and not 0 <= at < rows:
        raise ValueError(
            f"positions must be at least 0 and below {rows}, the rows of the table, "
            f"got {at}"
        )
    if beyond == "clip":
        at = min(max(at, 0), rows - 1)
    return sp.Matrix(rows, 1, lambda row, _: int(row == at))


def embed_learned(
    x: sp.Matrix, position: sp.Expr | float, *, table: Table, beyond: BeyondTable
) -> sp.Matrix:
    """Add to the input vector ``x``, a column, the row of ``table`` for its position.

    ``beyond`` is the rule for positions without a row, as in :func:`one_hot`. Equation
    ``def-learned``. See :func:`posedu.numpy.absolute.embed_learned`.
    """
    table = matrix("table", table)
    return x + table.T * one_hot(position, table.rows, beyond=beyond)


def enter_learned(
    x: sp.Matrix, position: sp.Expr | float, *, table: Table, beyond: BeyondTable
) -> sp.Matrix:
    """Add the row of ``table`` for a position to a layer's input vector ``x``.

    The vector is a column. Each layer has a table of its own. ``beyond`` is the rule
    for positions without a row, as in :func:`one_hot`. Equation
    ``def-learned-per-layer``.
    """
    return embed_learned(x, position, table=table, beyond=beyond)


def embed_random(x: sp.Matrix, position: sp.Expr | float, *, table: Table) -> sp.Matrix:
    """Add to the input vector ``x``, a column, a fixed random vector of its position.

    ``table`` has the random vectors as rows. Equation ``def-random``.
    """
    return embed_learned(x, position, table=table, beyond="raise")


def sphere_moment(k: int, d: sp.Expr) -> sp.Expr:
    """The mean of u₁²ᵏ over all unit vectors u in d dimensions, by integration.

    u₁ has a density proportional to (1 − u₁²)^((d − 3)/2); both integrals are Beta
    functions. Equation ``eq-learned-moments``.
    """
    half, k, d = sp.Rational(1, 2), expression("k", k), expression("d", d)

    def integral(power: int) -> sp.Expr:
        a, b = power + half, (d - 1) / 2
        return sp.gamma(a) * sp.gamma(b) / sp.gamma(a + b)

    return sp.gammasimp(integral(k) / integral(0))
