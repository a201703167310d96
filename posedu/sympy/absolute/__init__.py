"""Absolute encodings, the symbolic face: a module an encoding."""

from posedu.sympy.absolute.fourier import (
    embed_fourier_learned,
    embed_fourier_random,
    fourier_features,
    gelu,
    mean_over_normal,
    wave_mean,
)
from posedu.sympy.absolute.sinusoidal import (
    commutant,
    embed_sinusoidal,
    offset_equations,
    offset_matrix,
    sinusoidal,
    solve_offset_matrix,
)

__all__ = [
    "commutant",
    "embed_fourier_learned",
    "embed_fourier_random",
    "embed_sinusoidal",
    "fourier_features",
    "gelu",
    "mean_over_normal",
    "offset_equations",
    "offset_matrix",
    "sinusoidal",
    "solve_offset_matrix",
    "wave_mean",
]
