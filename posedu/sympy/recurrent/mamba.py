"""Mamba-2 in SymPy: decays and strengths by one step size, for a few tokens."""

from collections.abc import Sequence

import sympy as sp

from posedu.sympy._expressions import expression, expressions, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.recurrent.state import hooks_of_weights, state_weights
from posedu.sympy.stickbreaking import softplus


def step_sizes(
    x: sp.Matrix, gate_weight: sp.Matrix, gate_bias: sp.Expr
) -> list[sp.Expr]:
    """One head's softplus(w · x + b) of each token; ``gate_weight`` is the row w."""
    gate_bias = expression("gate_bias", gate_bias)
    return [softplus(z + gate_bias) for z in x * matrix("w", gate_weight).T]


def mamba_2(
    *,
    gate_weight: sp.Matrix,
    gate_bias: Sequence[sp.Expr],
    gate_rate: Sequence[sp.Expr],
    skip: Sequence[sp.Expr],
) -> Hooks:
    """Return the hooks of Mamba-2's state, by which it acts on attention.

    Arguments as for :func:`posedu.numpy.recurrent.mamba_2`. Equation ``def-mamba-2``.
    """
    weight, bias = matrix("gate_weight", gate_weight), expressions("bias", gate_bias)
    rates, skips = expressions("gate_rate", gate_rate), expressions("skip", skip)

    def weights(tokens: Tokens) -> Heads:
        if tokens.x is None:
            raise ValueError("mamba_2 needs the layer's input: give attend x")
        x, d = tokens.x, tokens.k[0].cols
        steps = [step_sizes(x, weight[h, :], b) for h, b in enumerate(bias)]
        transitions = [
            [sp.exp(-sp.exp(rate) * step) * sp.eye(d) for step in of_head]
            for rate, of_head in zip(rates, steps, strict=True)
        ]
        found = state_weights(tokens, transitions, steps)
        own = sp.eye(x.rows)
        return tuple(m + s * own for m, s in zip(found, skips, strict=True))

    return hooks_of_weights(weights, len(bias))
