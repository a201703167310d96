"""CoPE over symbols."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import SCALINGS, require_choice
from posedu.sympy.attention import softmax
from posedu.sympy.stickbreaking import sigmoid


def contextual_positions(gates: Sequence[sp.Expr]) -> list[sp.Expr]:
    """p_j = Σ g_l over l = j … i, for the gates of one query, oldest key first.

    Equation ``def-cope-position``, before the clamp.
    """
    return [sp.Add(*gates[j:]) for j in range(len(gates))]


def interpolate(values: Sequence[sp.Expr], position: sp.Expr) -> sp.Expr:
    """``values`` at a real position: the fraction weighs the ceiling.

    The position must have a numerical value. Equation ``def-cope-interpolation``.
    """
    low, high = int(sp.floor(position)), int(sp.ceiling(position))
    fraction = position - low
    return fraction * values[high] + (1 - fraction) * values[low]


def cope(
    q: sp.Matrix,
    k: sp.Matrix,
    v: sp.Matrix,
    *,
    table: sp.Matrix,
    scaling: str,
) -> sp.Matrix:
    """Causal attention with CoPE; rows are tokens of one head. Numbers only."""
    require_choice("scaling", scaling, SCALINGS)
    table = sp.Matrix(table)
    root = sp.S.One if scaling == "paper" else sp.sqrt(q.cols)
    rows = []
    for i in range(q.rows):
        content = [(q[i, :] * k[j, :].T)[0] / root for j in range(i + 1)]
        values = list(q[i, :] * table)
        counted = contextual_positions([sigmoid(z) for z in content])
        largest = sp.Integer(table.cols - 1)
        bias = [interpolate(values, sp.Min(p, largest)) for p in counted]
        if scaling == "code":
            bias = [b / root for b in bias]
        logits = [c + b for c, b in zip(content, bias, strict=True)]
        rows.append(softmax(logits) * v[: i + 1, :])
    return sp.Matrix.vstack(*rows)
