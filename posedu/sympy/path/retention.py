"""Retention (RetNet) in SymPy: exact decays and rotations of a few tokens."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import (
    Layout,
    RetentionNormalization,
    RetentionSpacing,
    require_choice,
    require_dimension,
)
from posedu.sympy.attention import Heads, Hooks, Tokens, by_token
from posedu.sympy.frequencies import frequencies
from posedu.sympy.rotary.rope import rope


def retention_decays(heads: int) -> list[sp.Rational]:
    """The decay γ_h = 1 − 2^(−5−h) of each head. Equation ``def-retention-decay``."""
    return [
        1 - sp.Rational(1, 2 ** (5 + h))
        for h in range(require_dimension("heads", heads, 1))
    ]


def retention_row(
    logits: Sequence[sp.Expr],
    powers: Sequence[sp.Expr],
    *,
    normalization: RetentionNormalization,
) -> list[sp.Expr]:
    """Retention's weights of one query, for the keys that it may attend to.

    See :func:`posedu.numpy.path.retention_weights`. Equation ``def-retention-weights``.
    """
    weights = [s * power for s, power in zip(logits, powers, strict=True)]
    if require_choice("normalization", normalization, RetentionNormalization) == "none":
        return weights
    weights = [w / sp.sqrt(sp.Add(*powers)) for w in weights]
    if normalization == "paper":
        size = sp.Abs(sp.Add(*weights))
    else:
        size = sp.Min(sp.Add(*map(sp.Abs, weights)), 50000)
    return [w / sp.Max(size, 1) for w in weights]


def retention(
    *,
    heads: int,
    layout: Layout,
    spacing: RetentionSpacing,
    normalization: RetentionNormalization,
    base: sp.Expr | float = 10000,
) -> Hooks:
    """Return the hooks of retention, the functions by which it acts on attention.

    Arguments as for :func:`posedu.numpy.path.retention`. Equation ``def-retention``.
    """
    decays = retention_decays(heads)
    require_choice("layout", layout, Layout)
    require_choice("spacing", spacing, RetentionSpacing)
    require_choice("normalization", normalization, RetentionNormalization)
    rule = "paper" if spacing == "rope" else "tensor2tensor"

    def rotate(q: Heads, k: Heads, positions: Sequence[sp.Expr]) -> tuple[Heads, Heads]:
        omega = frequencies(q[0].cols, base=base, spacing=rule)

        def rotated(column: sp.Matrix, position: sp.Expr) -> sp.Matrix:
            return rope(column, position, layout=layout, frequencies=omega)

        return by_token(rotated, q, positions), by_token(rotated, k, positions)

    def weigh(logits: Heads, tokens: Tokens) -> Heads:
        at = tokens.positions
        of_heads = []
        for gamma, scores in zip(decays, logits, strict=True):
            filled = sp.zeros(*scores.shape)
            for i, keys in enumerate(tokens.visible):
                row = retention_row(
                    [scores[i, j] for j in keys],
                    [gamma ** (at[i] - at[j]) for j in keys],
                    normalization=normalization,
                )
                for j, weight in zip(keys, row, strict=True):
                    filled[i, j] = weight
            of_heads.append(filled)
        return tuple(of_heads)

    return Hooks(rotate=rotate, weigh=weigh, heads=heads, needs_causal=True)
