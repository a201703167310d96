"""Inkling's relative logits in SymPy: a bias that mixes curves of the distance."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import InklingDivisor, require_choice, require_limit
from posedu.sympy._expressions import expression, expressions, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens

_ALPHA = sp.Rational(1, 10)
_EPSILON = sp.Rational(1, 10**6)  # added to a norm that is divided by


def log_temperature(
    position: sp.Expr, *, floor: sp.Expr | None, alpha: sp.Expr
) -> sp.Expr:
    """Inkling's temperature of the query at a position, which multiplies its logits.

    It is 1 + ``alpha`` · log(max(1, (position + 1)/``floor``)), and 1 if ``floor`` is
    ``None``. Equation ``def-inkling-tau``.
    """
    if floor is None:
        return sp.S.One
    i, n, a = (
        expression(name, value)
        for name, value in (("position", position), ("floor", floor), ("alpha", alpha))
    )
    return 1 + a * sp.log(sp.Max(1, (i + 1) / n))


def inkling(
    *,
    r_proj_weight: sp.Matrix,
    distance_basis: sp.Matrix,
    divisor: InklingDivisor,
    r_proj_bias: Sequence[sp.Expr] | None = None,
    r_scale: sp.Matrix | None = None,
    limit: sp.Expr | None = None,
    floor: sp.Expr | None = None,
    alpha: sp.Expr = _ALPHA,
) -> Hooks:
    """Return the hooks of Inkling, the functions by which it acts on attention.

    The bias of a query and key is a mixture of learned curves of their distance, the
    rows of ``distance_basis``. The coefficients come from the query's token by the
    trained matrix ``r_proj_weight``, multiplied by ``r_scale`` and shortened to the
    norm ``limit`` if these are given. ``divisor`` says what q · k is divided by;
    ``floor`` and ``alpha`` are those of :func:`log_temperature`. Equation
    ``def-inkling``. See :func:`posedu.numpy.relative.inkling`.
    """
    require_choice("divisor", divisor, InklingDivisor)
    require_limit(limit, r_scale is not None)
    weight, distance_basis = (
        matrix("r_proj_weight", r_proj_weight),
        matrix("distance_basis", distance_basis),
    )
    d_rel, table_length = distance_basis.shape
    shift = sp.zeros(1, weight.rows)
    if r_proj_bias is not None:
        shift = sp.Matrix([expressions("r_proj_bias", r_proj_bias)])

    def rotate(q: Heads, k: Heads, positions: Sequence[sp.Expr]) -> tuple[Heads, Heads]:
        tau = [log_temperature(t, floor=floor, alpha=alpha) for t in positions]
        return tuple(sp.diag(*tau) * own for own in q), k

    def bias(tokens: Tokens) -> Heads:
        at = tokens.positions

        def entry(h: int, i: int, j: int) -> sp.Expr:
            t = sp.floor(at[i] - at[j])
            if not 0 <= t < table_length:
                return sp.S.Zero
            r = (tokens.x[i, :] * weight.T + shift)[:, h * d_rel : (h + 1) * d_rel]
            if r_scale is not None:
                r = r.multiply_elementwise(matrix("r_scale", r_scale)[h, :])
                r = r * sp.Min(1, limit / (sp.sqrt(r.dot(r)) + _EPSILON))
            tau = log_temperature(at[i], floor=floor, alpha=alpha)
            return tau * (r * distance_basis[:, int(t)])[0]

        return tokens.by_head(entry)

    return Hooks(
        rotate=rotate,
        scale=lambda d: sp.S.One / d if divisor == "width" else 1 / sp.sqrt(d),
        bias=bias,
    )
