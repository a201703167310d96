"""Path encodings in SymPy, one module for each encoding."""

from posedu.sympy.path.carope import carope, carope_frequencies
from posedu.sympy.path.grape import (
    grape_a,
    grape_ap,
    grape_m,
    grape_phases,
    lifted_score,
    unipotent,
)
from posedu.sympy.path.path import directions, householder, path_attention, path_fox
from posedu.sympy.path.product import path_matrix, path_scores, short_convolution
from posedu.sympy.path.retention import retention, retention_decays, retention_row
from posedu.sympy.path.selective_rope import (
    selective_phases,
    selective_rope,
    selective_temperatures,
)
from posedu.sympy.path.wall import channel_gates, wall

__all__ = [
    "carope",
    "carope_frequencies",
    "channel_gates",
    "directions",
    "grape_a",
    "grape_ap",
    "grape_m",
    "grape_phases",
    "householder",
    "lifted_score",
    "path_attention",
    "path_fox",
    "path_matrix",
    "path_scores",
    "retention",
    "retention_decays",
    "retention_row",
    "selective_phases",
    "selective_rope",
    "selective_temperatures",
    "short_convolution",
    "unipotent",
    "wall",
]
