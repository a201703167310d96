"""Log-n temperature in SymPy: a factor of queries that grows with their position."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import TemperatureGrowth, require_choice, require_index
from posedu.sympy._expressions import expression, expressions
from posedu.sympy.attention import Heads, Hooks


def log_n_temperature(
    position: sp.Expr,
    *,
    growth: TemperatureGrowth,
    index_from: int,
    alpha: sp.Expr | None = None,
    length: sp.Expr | None = None,
    slope: sp.Expr | None = None,
    offset: sp.Expr | None = None,
) -> sp.Expr:
    """The temperature τ that multiplies the query at one position, in one head.

    ``growth`` is the formula, ``index_from`` (0 or 1) the number of the first position.
    The parameters are ``slope`` and ``offset`` for ``"learned"``, and ``alpha`` (α) and
    ``length`` (L) for all other formulas. Equation ``def-log-n``. See
    :func:`posedu.numpy.scaling.log_n_temperature`.
    """
    require_choice("growth", growth, TemperatureGrowth)
    n = expression("position", position) + require_index("index_from", index_from)
    n = sp.Max(n, 0)
    if growth == "learned":
        s, b = expression("slope", slope), expression("offset", offset)
        return s * sp.log(sp.Max(1, n)) + b
    a, share = expression("alpha", alpha), n / expression("length", length)
    if growth == "steps":
        return 1 + a * sp.log(1 + sp.floor(share))
    if growth == "floor":
        return 1 + a * sp.log(sp.Max(1, share))
    return (1 + share) ** a


def log_n(
    *,
    growth: TemperatureGrowth,
    index_from: int,
    alpha: sp.Expr | None = None,
    length: sp.Expr | None = None,
    slope: Sequence[sp.Expr] | None = None,
    offset: Sequence[sp.Expr] | None = None,
) -> Hooks:
    """Return the hooks of a log-n temperature, the functions that change attention.

    Each query is multiplied by :func:`log_n_temperature`, which grows with the query's
    position. ``growth`` is the formula, ``index_from`` (0 or 1) the number of the first
    position. The parameters are ``slope`` and ``offset``, one number for each head, for
    ``"learned"``, and ``alpha`` and ``length`` for all other formulas. Equation
    ``def-log-n``. See :func:`posedu.numpy.scaling.log_n`.
    """

    def rotate(q: Heads, k: Heads, positions: Sequence[sp.Expr]) -> tuple[Heads, Heads]:
        def warmed(h: int, own: sp.Matrix) -> sp.Matrix:
            tau = [
                log_n_temperature(
                    at,
                    growth=growth,
                    index_from=index_from,
                    alpha=alpha,
                    length=length,
                    slope=None if slopes is None else slopes[h],
                    offset=None if offsets is None else offsets[h],
                )
                for at in positions
            ]
            return sp.diag(*tau) * own

        return tuple(warmed(h, own) for h, own in enumerate(q)), k

    slopes = None if slope is None else expressions("slope", slope)
    offsets = None if offset is None else expressions("offset", offset)
    return Hooks(rotate=rotate, heads=None if slopes is None else len(slopes))
