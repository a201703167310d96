"""Absolute encodings, the reference face: a module an encoding."""

from posedu.numpy.absolute.sinusoidal import embed_sinusoidal, offset_matrix, sinusoidal

__all__ = [
    "embed_sinusoidal",
    "offset_matrix",
    "sinusoidal",
]
