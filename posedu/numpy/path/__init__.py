"""Path encodings in NumPy (reference), one module for each encoding."""

from posedu.numpy.path.carope import carope, carope_frequencies
from posedu.numpy.path.grape import grape_a, grape_ap, grape_m, grape_phases
from posedu.numpy.path.path import (
    directions,
    path_attention,
    path_fox,
    path_products,
    strengths,
)
from posedu.numpy.path.product import path_scores, short_convolution, unit_vectors
from posedu.numpy.path.retention import retention, retention_decays, retention_weights
from posedu.numpy.path.selective_rope import (
    selective_phases,
    selective_rope,
    selective_temperatures,
)
from posedu.numpy.path.wall import channel_log_gates, gated_products, wall

__all__ = [
    "carope",
    "carope_frequencies",
    "channel_log_gates",
    "directions",
    "gated_products",
    "grape_a",
    "grape_ap",
    "grape_m",
    "grape_phases",
    "path_attention",
    "path_fox",
    "path_products",
    "path_scores",
    "retention",
    "retention_decays",
    "retention_weights",
    "selective_phases",
    "selective_rope",
    "selective_temperatures",
    "short_convolution",
    "strengths",
    "unit_vectors",
    "wall",
]
