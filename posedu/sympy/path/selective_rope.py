"""Selective RoPE in SymPy: exact rotation matrices of a few tokens."""

from collections.abc import Sequence
from typing import Any

import sympy as sp

from posedu._arguments import (
    Layout,
    PhaseTemperature,
    require_bool,
    require_choice,
    require_dimension,
)
from posedu.sympy._expressions import expression, expressions, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.frequencies import frequencies
from posedu.sympy.path.product import path_scores, short_convolution
from posedu.sympy.rotary.rope import rotation
from posedu.sympy.stickbreaking import sigmoid


def selective_phases(
    x: sp.Matrix,
    *,
    heads: int,
    phase_weight: Sequence[sp.Matrix],
    phase_down: sp.Matrix | None = None,
    phase_scale: Sequence[sp.Expr] | None = None,
    taps: Sequence[sp.Matrix] | None = None,
    activation: bool = False,
    phase_bias: sp.Matrix | None = None,
    gate_weight: sp.Matrix | None = None,
    gate_bias: Sequence[sp.Expr] | None = None,
) -> list[sp.Matrix]:
    """The number that each token adds to the positions of the pairs, for each head.

    Each head has a matrix ``[tokens, pairs]``. The arguments are those of
    :func:`posedu.numpy.path.selective_phases`. Equation ``def-selective-phase``.
    """
    width = x.cols // heads
    parts = [_unit_rows(x[:, h * width : (h + 1) * width]) for h in range(heads)]
    whole = sp.Matrix.hstack(*parts)
    of_heads = []
    for h in range(heads):
        weight = matrix("phase_weight", phase_weight[h])
        if phase_down is None:
            rows = [
                weight[p, :] / sp.sqrt(weight[p, :].dot(weight[p, :]))
                for p in range(weight.rows)
            ]
            scale = expressions("phase_scale", phase_scale)[h]
            phases = scale * parts[h] * sp.Matrix.vstack(*rows).T
        else:
            phases = whole * matrix("phase_down", phase_down).T * weight.T
        if taps is not None:
            phases = short_convolution(phases, matrix("taps", taps[h]))
        if activation:
            phases = phases.applyfunc(lambda z: z * sigmoid(z))
        if phase_bias is not None:
            added = matrix("phase_bias", phase_bias)[h, :].applyfunc(sp.exp)
            phases = phases + sp.ones(phases.rows, 1) * added
        if gate_weight is not None:
            logits = whole * matrix("gate_weight", gate_weight)[h, :].T
            bias = expressions("gate_bias", gate_bias)[h]
            phases = sp.diag(*(sigmoid(z + bias) for z in logits)) * phases
        of_heads.append(phases)
    return of_heads


def selective_temperatures(
    d: int,
    *,
    temperature: PhaseTemperature = "rope",
    base: sp.Expr | float = 500000,
    largest: sp.Expr | float = 1,
) -> list[sp.Expr]:
    """Selective RoPE's factor τ of each pair's angle; see the NumPy function.

    Equation ``def-selective-temperature``.
    """
    require_choice("temperature", temperature, PhaseTemperature)
    largest = expression("largest", largest)
    if temperature == "rope":
        return [largest * w for w in frequencies(d, base=base)]
    if temperature == "one":
        return [largest] * (require_dimension("d", d) // 2)
    last = require_dimension("d", d, 4) // 2 - 1
    widest = sp.Rational(9999, 10000) * sp.pi / 2
    tangents = [sp.tan(widest * p / last) for p in range(last + 1)]
    return [largest * t / tangents[-1] for t in tangents]


def selective_rope(
    *,
    heads: int,
    layout: Layout,
    temperature: PhaseTemperature = "rope",
    base: sp.Expr | float = 500000,
    largest: sp.Expr | float = 1,
    activation: bool = False,
    **weights: Any,
) -> Hooks:
    """Return the hooks of Selective RoPE, the functions by which it acts on attention.

    The score is a product over the tokens between key and query: of rotations by minus
    their angles, since the query is rotated by the larger sum.
    Arguments as for :func:`posedu.numpy.path.selective_rope`. Equation
    ``def-selective-rope``.
    """
    require_dimension("heads", heads, 1)
    require_choice("layout", layout, Layout)
    require_choice("temperature", temperature, PhaseTemperature)
    require_bool("activation", activation)

    def logits(tokens: Tokens) -> Heads:
        if tokens.x is None:
            raise ValueError("selective_rope needs the layer's input: give attend x")
        tau = selective_temperatures(
            tokens.d, temperature=temperature, base=base, largest=largest
        )
        phases = selective_phases(
            tokens.x, heads=heads, activation=activation, **weights
        )
        transitions = [
            [
                rotation(
                    -1,
                    [a * t for a, t in zip(own[n, :], tau, strict=True)],
                    layout=layout,
                )
                for n in range(own.rows)
            ]
            for own in phases
        ]
        scores = path_scores(tokens, transitions)
        return tuple(m / sp.sqrt(tokens.d) for m in scores)

    return Hooks(logits=logits, heads=heads, needs_causal=True)


def _unit_rows(x: sp.Matrix) -> sp.Matrix:
    eps = sp.Rational(1, 10**6)
    rows = [x[t, :] / sp.sqrt(x[t, :].dot(x[t, :]) + eps) for t in range(x.rows)]
    return sp.Matrix.vstack(*rows) if rows else x
