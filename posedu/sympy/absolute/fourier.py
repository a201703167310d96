"""Fourier features in SymPy, and exact means over random frequencies."""

from collections.abc import Sequence
from functools import cache

import sympy as sp

from posedu._arguments import (
    AngleUnit,
    FirstFunction,
    FourierAmplitude,
    Layout,
    require_choice,
)
from posedu.sympy._expressions import expression, expressions, matrix
from posedu.sympy.absolute.sinusoidal import stack_pairs

Position = Sequence[sp.Expr | float] | sp.Expr | float
Rows = sp.Matrix | Sequence[Sequence[sp.Expr | float]]
Column = sp.Matrix | Sequence[sp.Expr | float]
Frequencies = Rows | Column


def fourier_features(
    position: Position,
    frequencies: Frequencies,
    *,
    unit: AngleUnit,
    layout: Layout,
    first: FirstFunction,
    amplitude: FourierAmplitude,
) -> sp.Matrix:
    """The Fourier features γ of one position x: cos and sin of 2π b · x, as a column.

    ``frequencies`` are the b. ``position`` is a number if each b is a number, or a
    point if each b is a row. The unit ``"radians"`` leaves out 2π, ``first`` is the
    first function of a pair, and ``amplitude`` sets the length of γ. Equation
    ``def-fourier-features``. See :func:`posedu.numpy.absolute.fourier_features`.
    """
    require_choice("unit", unit, AngleUnit)
    require_choice("first", first, FirstFunction)
    require_choice("layout", layout, Layout)
    require_choice("amplitude", amplitude, FourierAmplitude)
    f, at = matrix("frequencies", frequencies), point(position)
    products = f * at
    radians = 2 * sp.pi if unit == "turns" else sp.S.One
    waves = (sp.cos, sp.sin) if first == "cos" else (sp.sin, sp.cos)
    pairs = [[wave(radians * product) for wave in waves] for product in products]
    divisor = {"one": 1, "pairs": len(pairs), "features": 2 * len(pairs)}[amplitude]
    return stack_pairs(pairs, layout=layout) / sp.sqrt(divisor)


def embed_fourier_random(
    x: sp.Matrix,
    position: Position,
    *,
    frequencies: Frequencies,
    unit: AngleUnit,
    layout: Layout,
    first: FirstFunction,
    amplitude: FourierAmplitude,
) -> sp.Matrix:
    """Add to the input vector ``x`` (a column) the Fourier features of ``position``.

    The other arguments are those of :func:`fourier_features`. The result is for the
    hook ``embed``, the function by which an encoding changes the input of a model.
    """
    return x + fourier_features(
        position,
        frequencies,
        unit=unit,
        layout=layout,
        first=first,
        amplitude=amplitude,
    )


def gelu(z: sp.Expr) -> sp.Expr:
    """The GELU z Φ(z), with the normal distribution function Φ.

    Equation ``def-fourier-gelu``.
    """
    z = expression("z", z)
    return z * (1 + sp.erf(z / sp.sqrt(2))) / 2


def embed_fourier_learned(
    x: sp.Matrix,
    position: Position,
    *,
    frequencies: Frequencies,
    hidden_weight: Rows,
    hidden_bias: Column,
    out_weight: Rows,
    out_bias: Column,
    groups: int,
    unit: AngleUnit,
    layout: Layout,
    first: FirstFunction,
    amplitude: FourierAmplitude,
) -> sp.Matrix:
    """Add to the input vector ``x``, a column, an MLP of its Fourier features γ.

    Each of ``groups`` groups of coordinates gives a part W₂ GELU(W₁ γ + b₁) + b₂ of
    what is added, with the trained W₁, b₁ (``hidden``) and W₂, b₂ (``out``). γ has the
    other arguments of :func:`fourier_features`. Equation ``def-fourier-learned``. See
    :func:`posedu.numpy.absolute.embed_fourier_learned`.
    """
    w_1, w_2 = matrix("hidden_weight", hidden_weight), matrix("out_weight", out_weight)
    b_1, b_2 = matrix("hidden_bias", hidden_bias), matrix("out_bias", out_bias)
    at = list(point(position))
    axes = len(at) // groups
    parts = []
    for group in range(groups):
        r = fourier_features(
            at[axes * group : axes * (group + 1)],
            frequencies,
            unit=unit,
            layout=layout,
            first=first,
            amplitude=amplitude,
        )
        parts += list(w_2 * (w_1 * r + b_1).applyfunc(gelu) + b_2)
    return x + sp.Matrix(parts)


def point(position: Position) -> sp.Matrix:
    """The column of a position's coordinates; a number is its only coordinate."""
    is_point = isinstance(position, Sequence | sp.MatrixBase)
    return matrix("position", position if is_point else [position])


def mean_over_normal(
    function: sp.Expr, b: sp.Symbol, sigma: sp.Expr | float
) -> sp.Expr:
    """The mean over b ~ N(0, σ²) of an expression in sines and cosines of b.

    The sines and cosines may be of multiples of b. The expression is written as a sum
    of waves e^{iλb}, whose means :func:`wave_mean` gives. ``b`` is real and ``sigma``
    positive. Equation ``eq-fourier-bochner``.

    Raises
    ------
    ValueError
        An expression that is no sum of waves.
    """
    names = "function, b and sigma"
    function, b, sigma = expressions(names, (function, b, sigma))
    total = sp.S.Zero
    for wave in sp.Add.make_args(sp.expand(function.rewrite(sp.exp))):
        factor, oscillation = wave.as_independent(b, as_Add=False)
        parts = [] if oscillation == 1 else sp.Mul.make_args(oscillation)
        powers = [part.as_base_exp() for part in parts]
        angle = sp.expand(sum(a for _, a in powers) / sp.I)
        frequency = angle.diff(b)
        is_wave = all(base == sp.E for base, _ in powers)
        if not is_wave or sp.expand(angle - frequency * b) != 0:
            raise ValueError(f"{oscillation} is no wave in {b}")
        total += factor * wave_mean(frequency, sigma)
    return total


def wave_mean(frequency: sp.Expr, sigma: sp.Expr) -> sp.Expr:
    """The mean of the wave e^{iλb} over b ~ N(0, σ²), for a real frequency λ."""
    frequency, sigma = expressions("frequency and sigma", (frequency, sigma))
    b, w = sp.symbols("b lambda", real=True)
    s = sp.Symbol("sigma", positive=True)
    found = _integral_of_a_wave(b, w, s)
    return found.subs({w: frequency, s: sigma}, simultaneous=True)


@cache
def _integral_of_a_wave(b: sp.Symbol, w: sp.Symbol, s: sp.Symbol) -> sp.Expr:
    density = sp.exp(-(b**2) / (2 * s**2)) / (s * sp.sqrt(2 * sp.pi))
    return sp.simplify(sp.integrate(sp.exp(sp.I * w * b) * density, (b, -sp.oo, sp.oo)))
