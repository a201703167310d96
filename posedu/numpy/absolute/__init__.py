"""Absolute positional encodings in NumPy (reference), one module for each encoding."""

from posedu.numpy.absolute.abacus import abacus, digit_indices, draw_abacus
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
from posedu.numpy.absolute.hash_grid import (
    Level,
    count_collisions,
    embed_hash_grid,
    grid_hash,
    grid_levels,
    hash_grid_features,
)
from posedu.numpy.absolute.integrated import (
    cone_moments,
    embed_integrated,
    integrated_features,
)
from posedu.numpy.absolute.learned import (
    cosine_bound,
    embed_bert,
    embed_learned,
    embed_random,
    enter_learned,
    one_hot,
    random_table,
)
from posedu.numpy.absolute.nerf import embed_nerf, nerf_features, nerf_kernel
from posedu.numpy.absolute.pose import draw_pose, pose
from posedu.numpy.absolute.position_coupling import (
    coupled_indices,
    draw_position_coupling,
    position_coupling,
)
from posedu.numpy.absolute.randomized import draw_randomized, randomized
from posedu.numpy.absolute.sinusoidal import embed_sinusoidal, offset_matrix, sinusoidal

__all__ = [
    "Level",
    "abacus",
    "cape",
    "cone_moments",
    "cosine_bound",
    "count_collisions",
    "coupled_indices",
    "digit_indices",
    "draw_abacus",
    "draw_cape",
    "draw_pose",
    "draw_position_coupling",
    "draw_randomized",
    "embed_bert",
    "embed_fourier_learned",
    "embed_fourier_random",
    "embed_hash_grid",
    "embed_integrated",
    "embed_learned",
    "embed_nerf",
    "embed_random",
    "embed_sinusoidal",
    "enter_learned",
    "floater",
    "flow",
    "fourier_features",
    "gaussian_kernel",
    "gelu",
    "grid_hash",
    "grid_levels",
    "hash_grid_features",
    "integrated_features",
    "nerf_features",
    "nerf_kernel",
    "offset_matrix",
    "one_hot",
    "pose",
    "position_coupling",
    "random_table",
    "randomized",
    "released_field",
    "runge_kutta",
    "sinusoidal",
]
