"""Mamba-3 in SymPy: transitions that decay and rotate, for a few tokens."""

from collections.abc import Sequence
from dataclasses import replace

import sympy as sp

from posedu._arguments import MambaRate, require_choice
from posedu.sympy._expressions import expressions, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.recurrent.mamba import step_sizes
from posedu.sympy.recurrent.state import hooks_of_weights, state_weights
from posedu.sympy.stickbreaking import sigmoid, softplus


def mamba_3(
    *,
    gate_weight: sp.Matrix,
    gate_bias: Sequence[sp.Expr],
    rate_weight: sp.Matrix,
    rate_bias: Sequence[sp.Expr],
    share_weight: sp.Matrix,
    share_bias: Sequence[sp.Expr],
    angle_weight: sp.Matrix,
    q_bias: sp.Matrix,
    k_bias: sp.Matrix,
    skip: Sequence[sp.Expr],
    rate: MambaRate,
) -> Hooks:
    """Return the hooks of Mamba-3's state, by which it acts on attention.

    Queries and keys are not rotated here: the transitions e^(A Δ) R(δ)ᵀ rotate the
    state, which gives the same scores (``thm-mamba-3-complex``). Arguments as for
    :func:`posedu.numpy.recurrent.mamba_3`. Equation ``def-mamba-3``.
    """
    require_choice("rate", rate, MambaRate)
    steps_of = matrix("gate_weight", gate_weight), expressions("bias", gate_bias)
    rates_of = matrix("rate_weight", rate_weight), expressions("bias", rate_bias)
    shares_of = matrix("share_weight", share_weight), expressions("bias", share_bias)
    angles_of = matrix("angle_weight", angle_weight)
    biases = matrix("q_bias", q_bias), matrix("k_bias", k_bias)
    skips = expressions("skip", skip)

    def weights(tokens: Tokens) -> Heads:
        if tokens.x is None:
            raise ValueError("mamba_3 needs the layer's input: give attend x")
        x, n = tokens.x, tokens.x.rows
        omega = x * angles_of.T
        transitions, strengths, own = [], [], []
        for h, factor in enumerate(skips):
            steps = step_sizes(x, steps_of[0][h, :], steps_of[1][h])
            z, share = (
                [e + biases_[h] for e in x * weights_[h, :].T]
                for weights_, biases_ in (rates_of, shares_of)
            )
            decays = [
                sp.exp(-_rate(e, rate) * s) for e, s in zip(z, steps, strict=True)
            ]
            transitions.append(
                [
                    decays[t] * _rotation(omega[t, :], steps[t], tokens.k[h].cols).T
                    for t in range(n)
                ]
            )
            later = [sigmoid(-e) * s for e, s in zip(share, steps, strict=True)][1:]
            now = [sigmoid(e) * s for e, s in zip(share, steps, strict=True)]
            later.append(sp.S.Zero)
            strengths.append([a + b for a, b in zip(now, later, strict=True)])
            own.append((factor, later))
        q, k = (
            tuple(m + sp.ones(n, 1) * bias[h, :] for h, m in enumerate(heads))
            for heads, bias in ((tokens.q, biases[0]), (tokens.k, biases[1]))
        )
        found = state_weights(replace(tokens, q=q, k=k), transitions, strengths)
        corrected = []
        for h, (factor, later) in enumerate(own):
            products = [q[h][t, :].dot(k[h][t, :]) for t in range(n)]
            diagonal = [
                factor - rest * product
                for rest, product in zip(later, products, strict=True)
            ]
            corrected.append(found[h] + sp.diag(*diagonal))
        return tuple(corrected)

    return hooks_of_weights(weights, len(skips))


def _rate(z: sp.Expr, rate: MambaRate) -> sp.Expr:
    """Return −A of the number ``z``; see :func:`posedu.numpy.recurrent.rates`."""
    if rate == "softplus":
        found = softplus(z)
    else:
        found = sp.Piecewise((1 + z, z > 0), (1 / (1 - z), True))
    return sp.Max(found, sp.Rational(1, 10**4))


def _rotation(omega: sp.Matrix, step: sp.Expr, d: int) -> sp.Matrix:
    """Return the d × d rotation of leading pairs by the angles π step tanh(ω)."""
    blocks = []
    for number in omega:
        angle = sp.pi * step * sp.tanh(number)
        c, s = sp.cos(angle), sp.sin(angle)
        blocks.append(sp.Matrix([[c, -s], [s, c]]))
    return sp.diag(*blocks, sp.eye(d - 2 * len(blocks)))
