"""FIRE in SymPy: a bias that an MLP makes of the distance relative to the query."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import FIREActivation, FIRELaterKeys, require_choice
from posedu.sympy._expressions import expression, expressions, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens

EPS = sp.Rational(1, 10**6)


def psi(t: sp.Expr, *, c: sp.Expr) -> sp.Expr:
    """FIRE's function of a distance t, ψ(t) = log(1 + abs(c t)), for a trained c."""
    return sp.log(sp.Abs(expression("c", c) * expression("t", t)) + 1)


def fire_input(
    offset: sp.Expr,
    query: sp.Expr,
    *,
    c: sp.Expr,
    threshold: sp.Expr,
    later: FIRELaterKeys,
    eps: sp.Expr = EPS,
) -> sp.Expr:
    """The input of FIRE's MLP: ψ(distance) / (ψ(max(threshold, query position)) + eps).

    ψ is the function :func:`psi` with the trained ``c``. ``offset`` is query position
    minus key position. The distance is its absolute value if ``later`` is
    ``"distance"``, and 0 for later keys otherwise. Equation ``def-fire-input``. See
    :func:`posedu.numpy.bias.fire_inputs`.
    """
    require_choice("later", later, FIRELaterKeys)
    offset, query = expression("offset", offset), expression("query", query)
    distance = sp.Abs(offset) if later == "distance" else sp.Max(offset, 0)
    return psi(distance, c=c) / (psi(sp.Max(threshold, query), c=c) + eps)


def fire(
    *,
    c: Sequence[sp.Expr],
    multiplier: Sequence[sp.Expr],
    hidden_weight: sp.Matrix,
    hidden_bias: Sequence[sp.Expr],
    out_weight: sp.Matrix,
    out_bias: Sequence[sp.Expr],
    threshold: sp.Expr,
    activation: FIREActivation,
    later: FIRELaterKeys,
    eps: sp.Expr = EPS,
) -> Hooks:
    """Return the hooks of FIRE, the functions by which it acts on attention.

    The bias of a query and key is an MLP (``hidden_…``, ``out_…``) of
    :func:`fire_input`, a number that is made of their distance and the query's
    position. The threshold in this number is abs(``multiplier`` · ``threshold``), of
    which ``multiplier`` is trained. ``activation`` is the activation function of the
    MLP; ``later`` and ``eps`` are those of :func:`fire_input`. Equation ``def-fire``.
    See :func:`posedu.numpy.bias.fire`.
    """
    require_choice("activation", activation, FIREActivation)
    leak = 0 if activation == "relu" else sp.Rational(1, 100)
    ((c,), (multiplier,)) = (expressions("number", n) for n in (c, multiplier))
    w_1, w_2 = matrix("hidden_weight", hidden_weight), matrix("out_weight", out_weight)
    b_1, b_2 = matrix("hidden_bias", hidden_bias), matrix("out_bias", out_bias)
    longest = sp.Abs(multiplier * expression("threshold", threshold))

    def bias(tokens: Tokens) -> Heads:
        at = tokens.positions

        def network(i: int, j: int) -> sp.Matrix:
            x = fire_input(
                at[i] - at[j], at[i], c=c, threshold=longest, later=later, eps=eps
            )
            hidden = (w_1 * x + b_1).applyfunc(lambda z: sp.Max(z, leak * z))
            return w_2 * hidden + b_2

        found = {
            (i, j): network(i, j) for i, keys in enumerate(tokens.visible) for j in keys
        }
        return tokens.by_head(lambda h, i, j: found[i, j][h])

    return Hooks(bias=bias, heads=w_2.rows)
