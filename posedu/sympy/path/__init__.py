"""Path encodings in SymPy, one module for each encoding."""

from posedu.sympy.path.path import directions, householder, path, path_fox
from posedu.sympy.path.product import path_matrix, path_scores, short_convolution
from posedu.sympy.path.selective_rope import (
    selective_phases,
    selective_rope,
    selective_temperatures,
)

__all__ = [
    "directions",
    "householder",
    "path",
    "path_fox",
    "path_matrix",
    "path_scores",
    "selective_phases",
    "selective_rope",
    "selective_temperatures",
    "short_convolution",
]
