"""Stick-breaking attention in SymPy: keys take shares of what nearer keys leave."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import Remainder, require_bool, require_choice
from posedu.sympy._expressions import expression, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens


def sigmoid(z: sp.Expr) -> sp.Expr:
    """The logistic function σ(z) = 1/(1 + e^(−z))."""
    return 1 / (1 + sp.exp(-expression("z", z)))


def softplus(z: sp.Expr) -> sp.Expr:
    """The softplus function log(1 + e^z)."""
    return sp.log(1 + sp.exp(expression("z", z)))


def break_stick(beta: Sequence[sp.Expr]) -> tuple[sp.Matrix, sp.Expr]:
    """Stick-breaking weights of one query's keys, and the weight that they leave over.

    ``beta`` has a share β_j for each key, oldest first; the weight of key j is
    A_j = β_j ∏ (1 − β_l) over the nearer keys l > j. Equation ``def-stick``.
    """
    left = sp.S.One
    weights = []
    for b in reversed(beta):
        weights.append(b * left)
        left *= 1 - b
    return sp.Matrix([weights[::-1]]), left


def break_stick_log(logits: Sequence[sp.Expr]) -> tuple[sp.Matrix, sp.Expr]:
    """Logarithms of one query's stick-breaking weights and of the weight left over.

    ``logits`` has a number for each key, oldest first. Equation ``eq-stick-log``.
    """
    spent = sp.S.Zero
    weights = []
    for z in reversed(logits):
        spent += softplus(z)
        weights.append(z - spent)
    return sp.Matrix([weights[::-1]]), -spent


def stick_breaking(
    *,
    attend_current: bool,
    remainder: Remainder,
    sink: sp.Matrix | None = None,
) -> Hooks:
    """Return the hooks of stick-breaking, the functions by which it acts on attention.

    The weights of :func:`break_stick` replace the softmax. ``attend_current`` says
    whether a query attends to its own key, ``remainder`` what gets the weight that the
    keys leave over. ``sink`` has a value vector for each head, in rows, which gets this
    weight if ``remainder`` is ``"sink"``. See
    :func:`posedu.numpy.stickbreaking.stick_breaking`. Equation ``def-stick-attention``.
    """
    require_bool("attend_current", attend_current)
    require_choice("remainder", remainder, Remainder)
    if (sink is not None) != (remainder == "sink"):
        raise ValueError(
            f"sink is for remainder='sink' and needed there, got {remainder!r}"
        )

    def stick(logits: sp.Matrix, tokens: Tokens) -> sp.Matrix:
        columns = tokens.k[0].rows
        filled = sp.zeros(logits.rows, columns + (remainder == "sink"))
        for i, visible in enumerate(tokens.visible):
            keys = [j for j in visible if attend_current or j != i]
            weights, rest = break_stick([sigmoid(logits[i, j]) for j in keys])
            for j, weight in zip(keys, weights, strict=True):
                filled[i, j] = weight
            if remainder == "own":
                filled[i, i] += rest
            elif remainder == "sink":
                filled[i, columns] = rest
            elif remainder == "renormalize" and keys:
                filled[i, :] /= 1 - rest
        return filled

    def weigh(logits: Heads, tokens: Tokens) -> Heads:
        return tuple(stick(matrix, tokens) for matrix in logits)

    def mix(weights: Heads, v: Heads, tokens: Tokens) -> Heads:
        if remainder == "sink":
            rows = (own[h, :] for h in range(len(v)))
            v = [m.col_join(row) for m, row in zip(v, rows, strict=True)]
        return tuple(a * b for a, b in zip(weights, v, strict=True))

    own = None if sink is None else matrix("sink", sink)
    heads = None if own is None else own.rows
    return Hooks(weigh=weigh, mix=mix, heads=heads, needs_causal=True)
