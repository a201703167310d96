"""Stick-breaking attention over symbols."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import REMAINDERS, require_choice


def sigmoid(z: sp.Expr) -> sp.Expr:
    """σ(z) = 1/(1 + e^−z)."""
    return 1 / (1 + sp.exp(-z))


def softplus(z: sp.Expr) -> sp.Expr:
    """log(1 + e^z)."""
    return sp.log(1 + sp.exp(z))


def break_stick(beta: Sequence[sp.Expr]) -> tuple[sp.Matrix, sp.Expr]:
    """Weights and remainder of a row of β, oldest key first.

    A_j = β_j ∏ (1 − β_l) over the nearer keys l > j. Equation ``def-stick``.
    """
    left = sp.S.One
    weights = []
    for b in reversed(beta):
        weights.append(b * left)
        left *= 1 - b
    return sp.Matrix([weights[::-1]]), left


def break_stick_log(logits: Sequence[sp.Expr]) -> tuple[sp.Matrix, sp.Expr]:
    """Logarithms of the weights and of the remainder. Equation ``eq-stick-log``."""
    spent = sp.S.Zero
    weights = []
    for z in reversed(logits):
        spent += softplus(z)
        weights.append(z - spent)
    return sp.Matrix([weights[::-1]]), -spent


def stick_breaking(
    q: sp.Matrix,
    k: sp.Matrix,
    v: sp.Matrix,
    *,
    attend_current: bool,
    remainder: str,
    sink: sp.Matrix | None = None,
) -> sp.Matrix:
    """Attend by breaking sticks; rows of ``q``, ``k`` and ``v`` are tokens of one head.

    As many queries as keys. See ``def-stick-attention``.
    """
    require_choice("remainder", remainder, REMAINDERS)
    logits = q * k.T / sp.sqrt(q.cols)
    rows = []
    for i in range(q.rows):
        keys = i + 1 if attend_current else i
        weights, rest = break_stick([sigmoid(z) for z in logits[i, :keys]])
        row = sp.zeros(1, v.cols)
        for weight, j in zip(weights, range(keys), strict=True):
            row += weight * v[j, :]
        if remainder == "own":
            row += rest * v[i, :]
        elif remainder == "sink":
            row += rest * sink
        elif remainder == "renormalise" and keys:
            row /= 1 - rest
        rows.append(row)
    return sp.Matrix.vstack(*rows)
