"""Absolute encodings, the reference face: a module an encoding."""

from posedu.numpy.absolute.fourier import (
    embed_fourier_learned,
    embed_fourier_random,
    fourier_features,
    gaussian_kernel,
    gelu,
)
from posedu.numpy.absolute.sinusoidal import embed_sinusoidal, offset_matrix, sinusoidal

__all__ = [
    "embed_fourier_learned",
    "embed_fourier_random",
    "embed_sinusoidal",
    "fourier_features",
    "gaussian_kernel",
    "gelu",
    "offset_matrix",
    "sinusoidal",
]
