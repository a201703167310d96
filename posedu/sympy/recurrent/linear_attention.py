"""Linear attention in SymPy: exact sums of a few tokens, with or without RoPE."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import Layout, require_choice
from posedu.sympy._expressions import expression
from posedu.sympy.attention import Heads, Hooks, Tokens, by_token
from posedu.sympy.rotary.rope import rope


def elu_plus_one(x: sp.Expr) -> sp.Expr:
    """The feature map of linear attention: x + 1 above 0 and e^x below."""
    return sp.Piecewise((x + 1, x > 0), (sp.exp(x), True))


def linear_attention(
    *,
    layout: Layout | None,
    base: sp.Expr | float = 10000,
    eps: sp.Expr | float = 1e-6,
) -> Hooks:
    """Return the hooks of linear attention, by which it acts on attention.

    Arguments as for :func:`posedu.numpy.recurrent.linear_attention`. Equation
    ``def-linear-attention``.
    """
    if layout is not None:
        require_choice("layout", layout, Layout)
    eps = expression("eps", eps)

    def products(q: Heads, k: Heads, tokens: Tokens) -> Heads:
        return tuple(
            tokens.pairs(lambda i, j, m=a * b.T: m[i, j])
            for a, b in zip(q, k, strict=True)
        )

    def features(heads: Heads) -> Heads:
        return tuple(m.applyfunc(elu_plus_one) for m in heads)

    def logits(tokens: Tokens) -> Heads:
        q, k = features(tokens.q), features(tokens.k)
        if layout is not None:
            q, k = (_rotated(t, tokens.positions, layout, base) for t in (q, k))
        return products(q, k, tokens)

    def weigh(logits: Heads, tokens: Tokens) -> Heads:
        sums = products(features(tokens.q), features(tokens.k), tokens)
        return tuple(
            sp.diag(*(1 / (sp.Add(*s[i, :]) + eps) for i in range(s.rows))) * m
            for m, s in zip(logits, sums, strict=True)
        )

    return Hooks(logits=logits, weigh=weigh, needs_causal=True)


def _rotated(
    heads: Heads, positions: Sequence[sp.Expr], layout: Layout, base: sp.Expr | float
) -> Heads:
    return by_token(
        lambda column, position: rope(column, position, layout=layout, base=base),
        heads,
        positions,
    )
