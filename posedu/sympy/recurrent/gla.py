"""Gated linear attention (GLA) in SymPy: diagonal transitions of a few tokens."""

from collections.abc import Callable, Sequence

import sympy as sp

from posedu.sympy._expressions import expression, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.recurrent.state import hooks_of_weights, state_weights
from posedu.sympy.stickbreaking import sigmoid


def diagonal_gates(
    x: sp.Matrix,
    gate_down: sp.Matrix,
    gate_up: sp.Matrix,
    gate_bias: sp.Matrix,
    gate: Callable[[sp.Expr], sp.Expr],
) -> list[sp.Matrix]:
    """One head's diagonal matrix of gates of each token, from z = W₂ W₁ x + b.

    ``gate_up`` and ``gate_bias``, a row, are those of the head; ``gate`` is the
    function of a number z.
    """
    z = x * matrix("gate_down", gate_down).T * matrix("gate_up", gate_up).T
    return [sp.diag(*(gate(e) for e in z[t, :] + gate_bias)) for t in range(x.rows)]


def gla(
    *,
    gate_down: sp.Matrix,
    gate_up: Sequence[sp.Matrix],
    gate_bias: sp.Matrix,
    temperature: sp.Expr | float = 16,
) -> Hooks:
    """Return the hooks of gated linear attention, by which it acts on attention.

    Arguments as for :func:`posedu.numpy.recurrent.gla`. Equation ``def-gla``.
    """
    bias, tau = matrix("gate_bias", gate_bias), expression("temperature", temperature)

    def weights(tokens: Tokens) -> Heads:
        if tokens.x is None:
            raise ValueError("gla needs the layer's input: give attend x")
        transitions = [
            diagonal_gates(
                *(tokens.x, gate_down, up, bias[h, :]),
                gate=lambda z: sigmoid(z) ** (1 / tau),
            )
            for h, up in enumerate(gate_up)
        ]
        ones = [[1] * tokens.x.rows] * len(transitions)
        found = state_weights(tokens, transitions, ones)
        return tuple(m / sp.sqrt(tokens.d) for m in found)

    return hooks_of_weights(weights, bias.rows)
