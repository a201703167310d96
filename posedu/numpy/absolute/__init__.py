"""Absolute encodings, the reference face: a module an encoding."""

from posedu.numpy.absolute.floater import (
    floater,
    flow,
    released_field,
    runge_kutta,
)
from posedu.numpy.absolute.sinusoidal import embed_sinusoidal, offset_matrix, sinusoidal

__all__ = [
    "embed_sinusoidal",
    "floater",
    "flow",
    "offset_matrix",
    "released_field",
    "runge_kutta",
    "sinusoidal",
]
