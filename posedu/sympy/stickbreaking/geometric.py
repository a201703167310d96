"""Geometric attention in SymPy: exact shares of a stick broken on both sides."""

from collections.abc import Sequence
from operator import index

import sympy as sp

from posedu._arguments import require_bool
from posedu.sympy._expressions import expressions, matrix, one_expression
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.stickbreaking.stickbreaking import break_stick, sigmoid


def nearest_first(i: int, keys: Sequence[int]) -> list[int]:
    """Sort the keys of query i by distance, without key i; at ties the later first.

    Equation ``def-nearest-first``.
    """
    i, keys = index(i), [index(j) for j in keys]
    return sorted((j for j in keys if j != i), key=lambda j: (abs(i - j), j < i))


def break_nearest_first(
    logits: Sequence[sp.Expr], i: int, keys: Sequence[int], *, normalize: bool
) -> list[sp.Expr]:
    """Geometric weights of query i for all keys, of which it may attend to ``keys``.

    ``logits`` has a number for each key. With ``normalize`` the weights are divided by
    their sum, or by 10⁻¹² if that is larger. Equation ``def-nearest-first``.
    """
    logits = expressions("logits", logits)
    order = nearest_first(i, keys)
    shares, _ = break_stick([sigmoid(logits[j]) for j in reversed(order)])
    weights = [sp.S.Zero] * len(logits)
    for j, weight in zip(reversed(order), shares, strict=True):
        weights[j] = weight
    if require_bool("normalize", normalize):
        total = sp.Max(sp.Add(*weights), sp.Rational(1, 10**12))
        return [weight / total for weight in weights]
    return weights


def geometric(
    *,
    normalize: bool,
    product_scale: Sequence[sp.Expr],
    logit_bias: Sequence[sp.Expr],
    content_bias: sp.Matrix,
    direction_weight: Sequence[sp.Matrix] | None = None,
    direction_bias: sp.Matrix | None = None,
) -> Hooks:
    """Return the hooks of geometric attention, by which it acts on attention.

    Arguments as for :func:`posedu.numpy.stickbreaking.geometric`. Equation
    ``def-geometric``.
    """
    require_bool("normalize", normalize)
    alpha = one_expression("product_scale", product_scale)
    gamma = one_expression("logit_bias", logit_bias)
    content = matrix("content_bias", content_bias)
    if (direction_weight is None) != (direction_bias is None):
        raise ValueError(
            "direction_weight and direction_bias go together, got one of them"
        )

    def direction(tokens: Tokens, h: int) -> sp.Matrix:
        if direction_weight is None or direction_bias is None:
            return sp.zeros(len(tokens.visible))
        if tokens.x is None:
            raise ValueError("geometric needs the layer's input: give attend x")
        sides = tokens.x * matrix("direction_weight", direction_weight[h]).T
        biases = matrix("direction_bias", direction_bias)

        def entry(i: int, j: int) -> sp.Expr:
            if i == j:
                return sp.S.Zero
            side = 1 if j > i else 0
            return sides[i, side] + biases[h, side]

        return tokens.pairs(entry)

    def logits(tokens: Tokens) -> Heads:
        ones = sp.ones(len(tokens.visible), 1)
        return tuple(
            alpha * (q + ones * content[h, :]) * k.T
            + gamma * ones * ones.T
            + direction(tokens, h)
            for h, (q, k) in enumerate(zip(tokens.q, tokens.k, strict=True))
        )

    def weigh(logits: Heads, tokens: Tokens) -> Heads:
        return tuple(
            sp.Matrix(
                [
                    break_nearest_first(list(m[i, :]), i, keys, normalize=normalize)
                    for i, keys in enumerate(tokens.visible)
                ]
            ).reshape(*m.shape)
            for m in logits
        )

    return Hooks(logits=logits, weigh=weigh, heads=content.rows)
