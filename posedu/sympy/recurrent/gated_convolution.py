"""Gated short convolutions (LFM2) in SymPy: exact weights of the last few tokens."""

import sympy as sp

from posedu.sympy._expressions import matrix
from posedu.sympy.attention import Heads, Hooks, Tokens


def gated_convolution(*, taps: sp.Matrix) -> Hooks:
    """Return the hooks of a gated short convolution, by which it acts on attention.

    Arguments as for :func:`posedu.numpy.recurrent.gated_convolution`. Equation
    ``def-gated-convolution``.
    """
    taps = matrix("taps", taps)
    width = taps.cols

    def weigh(products: Heads, tokens: Tokens) -> Heads:
        def entry(h: int, i: int, j: int) -> sp.Expr:
            return (
                products[h][i, j] * taps[h, width - 1 - (i - j)] if i - j < width else 0
            )

        return tokens.by_head(entry)

    return Hooks(
        scale=lambda d: sp.Integer(1), weigh=weigh, heads=taps.rows, needs_causal=True
    )
