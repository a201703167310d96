"""Wall attention in SymPy: exact diagonal matrices of a few tokens."""

from collections.abc import Sequence

import sympy as sp

from posedu.sympy._expressions import expressions, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.gated.fox import forget_bias, log_gates
from posedu.sympy.path.product import path_scores
from posedu.sympy.stickbreaking import sigmoid


def channel_gates(
    x: sp.Matrix, gate_weight: sp.Matrix, gate_bias: Sequence[sp.Expr]
) -> list[sp.Matrix]:
    """One head's diagonal matrix of the gates σ(w · x + b) of each token.

    ``x`` has a row for each token, ``gate_weight`` and ``gate_bias`` have a row and a
    number for each channel. Equation ``def-wall-gate``.
    """
    logits = x * matrix("gate_weight", gate_weight).T
    bias = expressions("gate_bias", gate_bias)
    return [
        sp.diag(*(sigmoid(z + b) for z, b in zip(logits[t, :], bias, strict=True)))
        for t in range(x.rows)
    ]


def wall(
    *,
    gate_weight: Sequence[sp.Matrix],
    gate_bias: sp.Matrix,
    scalar_weight: sp.Matrix | None = None,
    scalar_bias: Sequence[sp.Expr] | None = None,
) -> Hooks:
    """Return the hooks of Wall attention, the functions by which it acts on attention.

    The score is a product of diagonal matrices over the tokens between key and query.
    Arguments as for :func:`posedu.numpy.path.wall`. Equation ``def-wall``.
    """
    if (scalar_weight is None) != (scalar_bias is None):
        raise ValueError("scalar_weight and scalar_bias go together, got one of them")
    bias = matrix("gate_bias", gate_bias)

    def logits(tokens: Tokens) -> Heads:
        if tokens.x is None:
            raise ValueError("wall needs the layer's input: give attend x")
        transitions = [
            channel_gates(tokens.x, weight, bias[h, :])
            for h, weight in enumerate(gate_weight)
        ]
        products = path_scores(tokens, transitions)
        scores = tuple(m / sp.sqrt(tokens.d) for m in products)
        if scalar_weight is None or scalar_bias is None:
            return scores
        weights = matrix("scalar_weight", scalar_weight)
        of_heads = expressions("scalar_bias", scalar_bias)
        return tuple(
            m + forget_bias(log_gates(tokens.x, weights[h, :].T, of_heads[h]))
            for h, m in enumerate(scores)
        )

    return Hooks(logits=logits, heads=len(gate_weight), needs_causal=True)
