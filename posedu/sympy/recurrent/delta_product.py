"""DeltaProduct in SymPy: products of several reflections for each of a few tokens."""

from collections.abc import Sequence
from dataclasses import replace

import sympy as sp

from posedu._arguments import require_bool
from posedu.sympy._expressions import expressions, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.recurrent.delta_net import unit_rows
from posedu.sympy.recurrent.mamba import step_sizes
from posedu.sympy.recurrent.state import (
    delta_transition,
    hooks_of_weights,
    state_weights,
)
from posedu.sympy.stickbreaking import sigmoid

Steps = tuple[list[sp.Matrix], list[sp.Matrix], list[list[sp.Expr]]]


def delta_product(
    *,
    beta_weight: Sequence[sp.Matrix],
    early_key: Sequence[sp.Matrix],
    early_value: Sequence[sp.Matrix],
    gate_weight: sp.Matrix | None = None,
    gate_bias: Sequence[sp.Expr] | None = None,
    gate_rate: Sequence[sp.Expr] | None = None,
    negative_eigenvalues: bool = True,
) -> Hooks:
    """Return the hooks of DeltaProduct, the functions by which it acts on attention.

    Arguments as for :func:`posedu.numpy.recurrent.delta_product`. Equation
    ``def-delta-product``.
    """
    largest = 2 if require_bool("negative_eigenvalues", negative_eigenvalues) else 1
    betas = [matrix("beta_weight", m) for m in beta_weight]
    heads, steps = betas[0].rows, len(betas)

    def gates(x: sp.Matrix, h: int) -> list[sp.Expr]:
        if gate_weight is None:
            return [sp.Integer(1)] * x.rows
        weight = matrix("gate_weight", gate_weight)[h, :]
        rate = sp.exp(expressions("gate_rate", gate_rate)[h])
        bias = expressions("gate_bias", gate_bias)[h]
        return [sp.exp(-rate * step) for step in step_sizes(x, weight, bias)]

    def early(x: sp.Matrix, weights: Sequence[sp.Matrix], h: int) -> list[sp.Matrix]:
        """Return the keys, or values, of the steps before the last one, by step."""
        found = []
        for weight in weights:
            rows = matrix("early", weight)
            d = rows.rows // heads
            found.append(x * rows[h * d : (h + 1) * d, :].T)
        return found

    def walked(x: sp.Matrix, last: sp.Matrix, h: int) -> Steps:
        """Return a head's transitions, and of each step keys and strengths.

        Keys are those after the later steps of their token.
        """
        one = sp.eye(last.cols)
        transitions = [gate * one for gate in gates(x, h)]
        keys: list[sp.Matrix] = []
        strengths = [[largest * sigmoid(z) for z in x * m[h, :].T] for m in betas]
        for own, beta in zip((*early(x, early_key, h), last), strengths, strict=True):
            rows = unit_rows(own)
            turns = [delta_transition(rows[t, :], b, one) for t, b in enumerate(beta)]
            transitions = [a * b for a, b in zip(turns, transitions, strict=True)]
            keys = [_moved(k, turns) for k in keys] + [rows]
        return transitions, keys, strengths

    def step_weights(tokens: Tokens) -> list[Heads]:
        """Return the weights of what each step of all keys wrote."""
        if tokens.x is None:
            raise ValueError("delta_product needs the layer's input: give attend x")
        walks = [walked(tokens.x, last, h) for h, last in enumerate(tokens.k)]
        q = tuple(map(unit_rows, tokens.q))
        found = [
            state_weights(
                replace(tokens, q=q, k=tuple(keys[m] for _, keys, _ in walks)),
                [transitions for transitions, _, _ in walks],
                [strengths[m] for _, _, strengths in walks],
            )
            for m in range(steps)
        ]
        return [tuple(m / sp.sqrt(tokens.d) for m in of_step) for of_step in found]

    def mix(weights: Heads, v: Heads, tokens: Tokens) -> Heads:
        *of_steps, _ = step_weights(tokens)
        out = [a * b for a, b in zip(weights, v, strict=True)]
        for m, of_heads in enumerate(of_steps):
            for h, found in enumerate(of_heads):
                out[h] += found * early(tokens.x, early_value, h)[m]
        return tuple(out)

    hooks = hooks_of_weights(lambda tokens: step_weights(tokens)[-1], heads)
    return replace(hooks, mix=mix)


def _moved(rows: sp.Matrix, turns: Sequence[sp.Matrix]) -> sp.Matrix:
    """Return the rows, each multiplied by the matrix of its token."""
    moved = (rows[t, :] * turn.T for t, turn in enumerate(turns))
    return sp.Matrix.vstack(*moved)
