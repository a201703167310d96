"""NeRF's encoding in SymPy, exact."""

import sympy as sp

from posedu._arguments import (
    NeRFLayout,
    NeRFUnit,
    require_bool,
    require_choice,
    require_dimension,
)
from posedu.sympy._expressions import expression, expressions, matrix
from posedu.sympy.absolute.fourier import Position, point


def nerf_features(
    position: Position,
    *,
    octaves: int,
    unit: NeRFUnit,
    layout: NeRFLayout,
    append_input: bool,
) -> sp.Matrix:
    """NeRF's code γ of one point x, as a column: sin and cos of 2^ℓ π x_a.

    Equation ``def-nerf-features``. See :func:`posedu.numpy.absolute.nerf_features`.
    """
    at = point(position)
    frequencies = octave_frequencies(octaves, unit=unit)
    waves = [[(sp.sin(f * x), sp.cos(f * x)) for f in frequencies] for x in at]
    features = arrange(waves, layout)
    if require_bool("append_input", append_input):
        features = at.col_join(features)
    return features


def embed_nerf(
    x: sp.Matrix,
    position: Position,
    *,
    octaves: int,
    unit: NeRFUnit,
    layout: NeRFLayout,
    append_input: bool,
) -> sp.Matrix:
    """Add NeRF's code of ``position`` to the first features of ``x``, a column.

    The other arguments are those of :func:`nerf_features`. The result is for the hook
    ``embed``, the function by which an encoding changes the input of a model. Equation
    ``def-nerf-embed``.
    """
    code = nerf_features(
        position, octaves=octaves, unit=unit, layout=layout, append_input=append_input
    )
    return add_code(x, code)


def nerf_kernel(offset: sp.Expr | float, *, octaves: int, unit: NeRFUnit) -> sp.Expr:
    """The inner product of two NeRF codes on one axis: k(t) = Σ_ℓ cos 2^ℓ π t.

    Equation ``def-nerf-kernel``.
    """
    t = expression("offset", offset)
    return sp.Add(*(sp.cos(f * t) for f in octave_frequencies(octaves, unit=unit)))


def octave_frequencies(octaves: int, *, unit: NeRFUnit) -> list[sp.Expr]:
    """Return the frequencies 2^ℓ, times π if they count half turns, ℓ = 0 … L − 1."""
    require_dimension("octaves", octaves, 1)
    half_turn = sp.pi if require_choice("unit", unit, NeRFUnit) == "half turns" else 1
    return [half_turn * sp.Integer(2) ** octave for octave in range(octaves)]


def arrange(
    waves: list[list[tuple[sp.Expr, sp.Expr]]], layout: NeRFLayout
) -> sp.Matrix:
    """The column of waves [axis][octave][function] in the order of ``layout``."""
    waves = expressions("waves", waves)
    axes, octaves, functions = range(len(waves)), range(len(waves[0])), range(2)
    places = {
        "axes": [(a, o, f) for a in axes for o in octaves for f in functions],
        "octaves": [(a, o, f) for o in octaves for f in functions for a in axes],
        "half": [(a, o, f) for f in functions for o in octaves for a in axes],
    }[require_choice("layout", layout, NeRFLayout)]
    return sp.Matrix([waves[a][o][f] for a, o, f in places])


def add_code(x: sp.Matrix, code: sp.Matrix) -> sp.Matrix:
    """Add a column to the first features of ``x``; raise if it has more than ``x``."""
    x = matrix("x", x)
    if x.rows < code.rows:
        raise ValueError(
            f"x must have at least {code.rows} features, the width of the code, got "
            f"{x.rows}"
        )
    return x + code.col_join(sp.zeros(x.rows - code.rows, 1))
