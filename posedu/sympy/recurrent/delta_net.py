"""DeltaNet, Gated DeltaNet and KDA in SymPy: exact transitions of a few tokens."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import sympy as sp

from posedu._arguments import require_bool
from posedu.sympy._expressions import expression, expressions, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.recurrent.gla import diagonal_gates
from posedu.sympy.recurrent.mamba import step_sizes
from posedu.sympy.recurrent.state import (
    delta_transition,
    hooks_of_weights,
    state_weights,
)
from posedu.sympy.stickbreaking import sigmoid, softplus


def delta_net(*, beta_weight: sp.Matrix, negative_eigenvalues: bool = False) -> Hooks:
    """Return the hooks of DeltaNet, the functions by which it acts on attention.

    Arguments as for :func:`posedu.numpy.recurrent.delta_net`. Equation
    ``def-delta-net``.
    """

    def decays(tokens: Tokens, h: int) -> list[sp.Matrix]:
        return [sp.eye(tokens.k[h].cols)] * tokens.k[h].rows

    return _corrected("delta_net", decays, beta_weight, negative_eigenvalues)


def gated_delta_net(
    *,
    beta_weight: sp.Matrix,
    gate_weight: sp.Matrix,
    gate_bias: Sequence[sp.Expr],
    gate_rate: Sequence[sp.Expr],
    negative_eigenvalues: bool = False,
) -> Hooks:
    """Return the hooks of Gated DeltaNet, by which it acts on attention.

    Arguments as for :func:`posedu.numpy.recurrent.gated_delta_net`. Equation
    ``def-gated-delta-net``.
    """
    weight, bias = matrix("gate_weight", gate_weight), expressions("bias", gate_bias)
    rates = expressions("gate_rate", gate_rate)

    def decays(tokens: Tokens, h: int) -> list[sp.Matrix]:
        steps = step_sizes(tokens.x, weight[h, :], bias[h])
        one = sp.eye(tokens.k[h].cols)
        return [sp.exp(-sp.exp(rates[h]) * step) * one for step in steps]

    return _corrected("gated_delta_net", decays, beta_weight, negative_eigenvalues)


def kda(
    *,
    beta_weight: sp.Matrix,
    gate_down: sp.Matrix,
    gate_up: Sequence[sp.Matrix],
    gate_bias: sp.Matrix,
    gate_rate: Sequence[sp.Expr],
    lowest: sp.Expr | float | None = None,
    negative_eigenvalues: bool = False,
) -> Hooks:
    """Return the hooks of Kimi Delta Attention, by which it acts on attention.

    Arguments as for :func:`posedu.numpy.recurrent.kda`. Equation ``def-kda``.
    """
    bias, rates = matrix("gate_bias", gate_bias), expressions("gate_rate", gate_rate)
    bound = None if lowest is None else expression("lowest", lowest)

    def decays(tokens: Tokens, h: int) -> list[sp.Matrix]:
        rate = sp.exp(rates[h])

        def gate(z: sp.Expr) -> sp.Expr:
            if bound is not None:
                return sp.exp(bound * sigmoid(rate * z))
            return sp.exp(-rate * softplus(z))

        return diagonal_gates(tokens.x, gate_down, gate_up[h], bias[h, :], gate)

    return _corrected("kda", decays, beta_weight, negative_eigenvalues)


def _corrected(
    name: str,
    decays: Callable[[Tokens, int], list[sp.Matrix]],
    beta_weight: sp.Matrix,
    negative_eigenvalues: bool,
) -> Hooks:
    """Return the hooks of the delta rule after a decay, for unit queries and keys."""
    require_bool("negative_eigenvalues", negative_eigenvalues)
    weight, largest = (
        matrix("beta_weight", beta_weight),
        2 if negative_eigenvalues else 1,
    )

    def weights(tokens: Tokens) -> Heads:
        if tokens.x is None:
            raise ValueError(f"{name} needs the layer's input: give attend x")
        q, k = (tuple(map(unit_rows, t)) for t in (tokens.q, tokens.k))
        betas, transitions = [], []
        for h, keys in enumerate(k):
            beta = [largest * sigmoid(z) for z in tokens.x * weight[h, :].T]
            of_tokens = zip(beta, decays(tokens, h), strict=True)
            betas.append(beta)
            transitions.append(
                [delta_transition(keys[t, :], *own) for t, own in enumerate(of_tokens)]
            )
        found = state_weights(replace(tokens, q=q, k=k), transitions, betas)
        return tuple(m / sp.sqrt(tokens.d) for m in found)

    return hooks_of_weights(weights, weight.rows)


def unit_rows(rows: sp.Matrix) -> sp.Matrix:
    """Return each row divided by √(row · row + 1e−6)."""
    eps = sp.Rational(1, 10**6)
    return sp.Matrix.vstack(
        *(
            rows[t, :] / sp.sqrt(rows[t, :].dot(rows[t, :]) + eps)
            for t in range(rows.rows)
        )
    )
