"""Randomised positions over symbols: a sample, sorted and looked up."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import require_count, require_dimension
from posedu.sympy._expressions import matrix


def randomised(
    positions: Sequence[int], *, sample: Sequence[sp.Expr | float]
) -> sp.Matrix:
    """Position i becomes the i-th smallest of the sample. Equation ``def-randomised``.

    A column, of one sequence. See :func:`posedu.numpy.absolute.randomised`.
    """
    at, places = matrix("positions", positions), sorted(matrix("sample", sample))
    return sp.Matrix([places[int(i)] for i in at])


def order_statistic_mean(k: int, n: int, limit: int) -> sp.Expr:
    """The mean of the k-th smallest of n of 0 … limit − 1, k from 0, by counting.

    It is m in C(m, k) C(limit − 1 − m, n − 1 − k) of the C(limit, n) samples. Equation
    ``eq-shaken-order-mean``.
    """
    k, n = require_count("k", k), require_dimension("n", n, 1)
    total = 0
    for m in range(require_dimension("limit", limit, 1)):
        total += m * sp.binomial(m, k) * sp.binomial(limit - 1 - m, n - 1 - k)
    return sp.Rational(total, sp.binomial(limit, n))


def gap_probability(gap: int, n: int, limit: int) -> sp.Expr:
    """How probable it is that two neighbours of a sample lie ``gap`` apart.

    C(limit − gap, n − 1) of C(limit, n) samples of n ≥ 2. Equation ``eq-shaken-gap``.
    """
    gap, n = require_dimension("gap", gap, 1), require_dimension("n", n, 1)
    limit = require_dimension("limit", limit, 1)
    return sp.Rational(sp.binomial(limit - gap, n - 1), sp.binomial(limit, n))
