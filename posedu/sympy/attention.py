"""Attention over symbols: a few tokens, exact weights."""

from collections.abc import Sequence

import sympy as sp


def softmax(row: Sequence[sp.Expr]) -> sp.Matrix:
    """Weights proportional to exp(logit), as a row. Equation ``def-softmax``."""
    total = sum(sp.exp(logit) for logit in row)
    return sp.Matrix([[sp.exp(logit) / total for logit in row]])


def attention(
    x: sp.Matrix,
    w_q: sp.Matrix,
    w_k: sp.Matrix,
    w_v: sp.Matrix,
    *,
    bias: sp.Matrix | None = None,
    causal: bool = False,
) -> sp.Matrix:
    """One head of attention, one token a row of ``x``. Equation ``def-attention``.

    ``w_q``, ``w_k`` and ``w_v`` are ``[d, d_model]``; ``bias`` is ``[queries, keys]``
    and added to the scaled logits.
    """
    q, k, v = x * w_q.T, x * w_k.T, x * w_v.T
    logits = q * k.T / sp.sqrt(w_q.rows)
    if bias is not None:
        logits += bias
    rows = []
    for i in range(x.rows):
        keys = range(i + 1 if causal else x.rows)
        weights = softmax([logits[i, j] for j in keys])
        rows.append(sum((weights[j] * v.row(j) for j in keys), sp.zeros(1, v.cols)))
    return sp.Matrix.vstack(*rows)


def permutation_matrix(order: Sequence[int]) -> sp.Matrix:
    """The matrix P with (P X)_i = X_{order[i]}."""
    n = len(order)
    return sp.Matrix(n, n, lambda i, j: int(order[i] == j))
