"""Absolute encodings, the reference face: a module an encoding."""

from posedu.numpy.absolute.cape import cape, draw_cape
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
from posedu.numpy.absolute.pose import draw_pose, pose
from posedu.numpy.absolute.randomised import draw_randomised, randomised
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
    "cape",
    "cosine_bound",
    "draw_cape",
    "draw_pose",
    "draw_randomised",
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
    "pose",
    "random_table",
    "randomised",
    "released_field",
    "runge_kutta",
    "sinusoidal",
]
