"""A recurrence as products of its transition matrices, for a few tokens."""

from collections.abc import Callable, Sequence

import sympy as sp

from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.path.product import path_scores


def delta_transition(k: sp.Matrix, beta: sp.Expr, decay: sp.Matrix) -> sp.Matrix:
    """The matrix (I − β k kᵀ) A of a key k, a row, and a diagonal matrix A of decays.

    Equation ``def-delta-transition``.
    """
    return (sp.eye(k.cols) - beta * k.T * k) * decay


def read_states(
    q: sp.Matrix,
    k: sp.Matrix,
    v: sp.Matrix,
    transitions: Sequence[sp.Matrix],
    beta: Sequence[sp.Expr],
) -> sp.Matrix:
    """The outputs S_tᵀ q_t of S_t = T_t S_(t−1) + β_t k_t v_tᵀ, a row for each token.

    Queries, keys and values are rows. Equation ``def-state``.
    """
    state, outputs = sp.zeros(k.cols, v.cols), []
    for t, transition in enumerate(transitions):
        state = transition * state + beta[t] * k[t, :].T * v[t, :]
        outputs.append(q[t, :] * state)
    return sp.Matrix.vstack(*outputs)


def state_weights(
    tokens: Tokens,
    transitions: Sequence[Sequence[sp.Matrix]],
    beta: Sequence[Sequence[sp.Expr]],
) -> Heads:
    """The weights q_i · T_i ⋯ T_(j+1) k_j β_j of each head, 0 for later keys.

    ``transitions`` and ``beta`` have an entry for each token of each head. Equation
    ``eq-state-weights``.
    """
    products = path_scores(tokens, transitions)
    return tuple(
        m * sp.diag(*of_head) for m, of_head in zip(products, beta, strict=True)
    )


def hooks_of_weights(weights: Callable[[Tokens], Heads], heads: int | None) -> Hooks:
    """Return hooks of attention with these weights, and no softmax."""
    return Hooks(
        logits=weights,
        weigh=lambda logits, tokens: logits,
        heads=heads,
        needs_causal=True,
    )
