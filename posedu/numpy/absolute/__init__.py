"""Absolute encodings, the reference face: a module an encoding."""

from posedu.numpy.absolute.floater import (
    floater,
    flow,
    released_field,
    runge_kutta,
)
from posedu.numpy.absolute.fourier import (
    embed_fourier_learned,
    embed_fourier_random,
    fourier_features,
    gaussian_kernel,
    gelu,
)
from posedu.numpy.absolute.sinusoidal import embed_sinusoidal, offset_matrix, sinusoidal
from posedu.numpy.absolute.tables import (
    cosine_bound,
    embed_bert,
    embed_learned,
    embed_random,
    enter_learned,
    one_hot,
    random_table,
)

__all__ = [
    "cosine_bound",
    "embed_bert",
    "embed_fourier_learned",
    "embed_fourier_random",
    "embed_learned",
    "embed_random",
    "embed_sinusoidal",
    "enter_learned",
    "floater",
    "flow",
    "fourier_features",
    "gaussian_kernel",
    "gelu",
    "offset_matrix",
    "one_hot",
    "random_table",
    "released_field",
    "runge_kutta",
    "sinusoidal",
]
