"""Path encodings in NumPy (reference), one module for each encoding."""

from posedu.numpy.path.path import (
    directions,
    path,
    path_fox,
    path_products,
    strengths,
)
from posedu.numpy.path.product import path_scores, short_convolution, unit_vectors
from posedu.numpy.path.selective_rope import (
    selective_phases,
    selective_rope,
    selective_temperatures,
)

__all__ = [
    "directions",
    "path",
    "path_fox",
    "path_products",
    "path_scores",
    "selective_phases",
    "selective_rope",
    "selective_temperatures",
    "short_convolution",
    "strengths",
    "unit_vectors",
]
