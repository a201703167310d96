"""Sandwich in SymPy: the position–position term of sinusoidal encodings as a bias."""

import sympy as sp

from posedu._arguments import (
    SandwichDiagonal,
    require_choice,
    require_dimension,
    require_index,
    require_positive,
)
from posedu.sympy._expressions import expression
from posedu.sympy.attention import Heads, Hooks, Tokens


def sandwich_sum(offset: sp.Expr, *, width: int, index_from: int) -> sp.Expr:
    """Sandwich's sum for one offset i − j: Σ cos((i − j) 10000^(−2k/width)) over k.

    There are width/2 terms, from k = ``index_from`` on. Equation ``def-sandwich``.
    """
    half = require_dimension("width", width) // 2
    first = require_index("index_from", index_from)
    offset = expression("offset", offset)
    exponents = (sp.Rational(-2 * k, width) for k in range(first, first + half))
    return sp.Add(*(sp.cos(offset * sp.Integer(10000) ** e) for e in exponents))


def sandwich(
    *,
    heads: int,
    width: int,
    index_from: int,
    diagonal: SandwichDiagonal,
    compression: float = 8.0,
) -> Hooks:
    """Return the hooks of Sandwich, the functions by which it acts on attention.

    The bias of head h = 1, 2, … is :func:`sandwich_sum`, less width/2 if ``diagonal``
    is ``"zero"``, divided by compression · h/heads. ``width`` and ``index_from`` are
    those of :func:`sandwich_sum`. See :func:`posedu.numpy.bias.sandwich`.
    """
    require_dimension("heads", heads, 1)
    require_positive("compression", compression)
    require_choice("diagonal", diagonal, SandwichDiagonal)
    less = sp.Rational(width, 2) if diagonal == "zero" else 0

    def entry(h: int, offset: sp.Expr) -> sp.Expr:
        total = sandwich_sum(offset, width=width, index_from=index_from) - less
        return total * heads / (sp.Rational(compression) * h)

    def bias(tokens: Tokens) -> Heads:
        return tuple(
            tokens.of_offsets(lambda offset, h=h: entry(h, offset))
            for h in range(1, heads + 1)
        )

    return Hooks(bias=bias, heads=heads)
