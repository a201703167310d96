"""The integrated positional encoding in SymPy: exact means over a Gaussian."""

import sympy as sp

from posedu._arguments import NeRFLayout, NeRFUnit
from posedu.sympy._expressions import expressions
from posedu.sympy.absolute.fourier import Position, point, wave_mean
from posedu.sympy.absolute.nerf import add_code, arrange, octave_frequencies


def integrated_features(
    position: Position, *, octaves: int, unit: NeRFUnit, layout: NeRFLayout
) -> sp.Matrix:
    """The mean of NeRF's code over x ~ N(μ, diag σ²), as a column, by integration.

    ``position`` holds the N numbers of μ and the N of σ. Equation ``def-integrated``.
    See :func:`posedu.numpy.absolute.integrated_features`.
    """
    at = list(point(position))
    if len(at) % 2:
        raise ValueError(
            "position must have as many means as standard deviations, got "
            f"{len(at)} numbers"
        )
    axes = len(at) // 2
    frequencies = octave_frequencies(octaves, unit=unit)
    waves = [
        [_mean_waves(f, mean, deviation) for f in frequencies]
        for mean, deviation in zip(at[:axes], at[axes:], strict=True)
    ]
    return arrange(waves, layout)


def _mean_waves(
    frequency: sp.Expr, mean: sp.Expr, deviation: sp.Expr
) -> tuple[sp.Expr, sp.Expr]:
    """The means of sin θx and cos θx over x ~ N(μ, σ²), for the frequency θ."""
    damping = wave_mean(frequency, deviation)
    return damping * sp.sin(frequency * mean), damping * sp.cos(frequency * mean)


def embed_integrated(
    x: sp.Matrix,
    position: Position,
    *,
    octaves: int,
    unit: NeRFUnit,
    layout: NeRFLayout,
) -> sp.Matrix:
    """Add the mean code of ``position`` to the first features of ``x``, a column.

    The other arguments are those of :func:`integrated_features`. The result is for the
    hook ``embed``, the function by which an encoding changes the input of a model.
    Equation ``def-integrated``.
    """
    code = integrated_features(position, octaves=octaves, unit=unit, layout=layout)
    return add_code(x, code)


def cone_moments(
    near: sp.Expr | float, far: sp.Expr | float, *, radius: sp.Expr | float
) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """Mean and variances of a point drawn evenly from a piece of a cone, by integrals.

    The mean of the distance from the tip, its variance, and the variance of a
    coordinate across the axis. Equations ``def-integrated-cone`` and
    ``eq-integrated-cone``. See :func:`posedu.numpy.absolute.cone_moments`.
    """
    first, last, r = expressions("near, far and radius", (near, far, radius))
    t = sp.Symbol("t", positive=True)
    area = sp.pi * (r * t) ** 2

    def mean(of: sp.Expr) -> sp.Expr:
        volume = sp.integrate(area, (t, first, last))
        return sp.factor(sp.integrate(of * area, (t, first, last)) / volume)

    # A coordinate of a point drawn evenly from a disk has a quarter of its radius².
    across = mean((r * t) ** 2 / 4)
    return mean(t), sp.factor(mean(t**2) - mean(t) ** 2), across
