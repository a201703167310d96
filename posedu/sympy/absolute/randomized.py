"""Randomized positions in SymPy: position i is the i-th smallest number of a sample."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import require_dimension, require_pair, require_room
from posedu.sympy._expressions import matrix


def randomized(
    positions: Sequence[int], *, sample: Sequence[sp.Expr | float]
) -> sp.Matrix:
    """Replace position i by the i-th smallest number of ``sample``, counted from 0.

    The result is a column, for one sequence. Equation ``def-randomized``. See
    :func:`posedu.numpy.absolute.randomized`.
    """
    at, places = matrix("positions", positions), matrix("sample", sample)
    if not all(place.is_Integer for place in places) or len({*places}) < len(places):
        raise ValueError(f"sample must hold different integers, got {[*places]}")
    for i in at:
        if not (i.is_Integer and 0 <= i < len(places)):
            raise ValueError(
                f"positions must be integers from 0 to {len(places) - 1}, got {i}"
            )
    return sp.Matrix([sorted(places)[int(i)] for i in at])


def order_statistic_mean(k: int, n: int, limit: int) -> sp.Expr:
    """The mean of the k-th smallest number in a sample of n of 0 … limit − 1, k from 0.

    The k-th smallest number is m in C(m, k) C(limit − 1 − m, n − 1 − k) of the
    C(limit, n) samples. Equation ``eq-randomized-order-mean``.
    """
    n, limit = require_dimension("n", n, 1), require_dimension("limit", limit, 1)
    require_room(n, "limit", limit)
    k, total = require_pair("k", k, n), 0
    for m in range(limit):
        total += m * sp.binomial(m, k) * sp.binomial(limit - 1 - m, n - 1 - k)
    return sp.Rational(total, sp.binomial(limit, n))


def gap_probability(gap: int, n: int, limit: int) -> sp.Expr:
    """Probability that two neighbors of a sorted random sample differ by ``gap``.

    The sample has n ≥ 2 numbers of 0 … limit − 1. The neighbors differ by ``gap`` in
    C(limit − gap, n − 1) of C(limit, n) samples, in none if the gap is above the limit.
    Equation ``eq-randomized-gap``.
    """
    gap, n = require_dimension("gap", gap, 1), require_dimension("n", n, 1)
    if n < 2:
        raise ValueError(f"n must be at least 2, for neighbors, got {n}")
    require_room(n, "limit", require_dimension("limit", limit, 1))
    left = max(0, limit - gap)
    return sp.Rational(sp.binomial(left, n - 1), sp.binomial(limit, n))
