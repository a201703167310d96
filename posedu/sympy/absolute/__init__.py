"""Absolute positional encodings in SymPy, one module for each encoding."""

from posedu.sympy.absolute.abacus import abacus, trained_share
from posedu.sympy.absolute.cape import cape, mean_over_uniform
from posedu.sympy.absolute.floater import (
    butcher,
    floater,
    flow,
    order_errors,
    released_field,
    rotation_field,
    runge_kutta,
)
from posedu.sympy.absolute.fourier import (
    embed_fourier_learned,
    embed_fourier_random,
    fourier_features,
    gelu,
    mean_over_normal,
    wave_mean,
)
from posedu.sympy.absolute.hash_grid import (
    embed_hash_grid,
    grid_hash,
    hash_grid_features,
)
from posedu.sympy.absolute.integrated import (
    cone_moments,
    embed_integrated,
    integrated_features,
)
from posedu.sympy.absolute.learned import (
    embed_learned,
    embed_random,
    enter_learned,
    one_hot,
    sphere_moment,
)
from posedu.sympy.absolute.nerf import embed_nerf, nerf_features, nerf_kernel
from posedu.sympy.absolute.pose import pose
from posedu.sympy.absolute.position_coupling import position_coupling
from posedu.sympy.absolute.randomized import (
    gap_probability,
    order_statistic_mean,
    randomized,
)
from posedu.sympy.absolute.sinusoidal import (
    commutant,
    embed_sinusoidal,
    offset_equations,
    offset_matrix,
    sinusoidal,
    solve_offset_matrix,
)

__all__ = [
    "abacus",
    "butcher",
    "cape",
    "commutant",
    "cone_moments",
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
    "gap_probability",
    "gelu",
    "grid_hash",
    "hash_grid_features",
    "integrated_features",
    "mean_over_normal",
    "mean_over_uniform",
    "nerf_features",
    "nerf_kernel",
    "offset_equations",
    "offset_matrix",
    "one_hot",
    "order_errors",
    "order_statistic_mean",
    "pose",
    "position_coupling",
    "randomized",
    "released_field",
    "rotation_field",
    "runge_kutta",
    "sinusoidal",
    "solve_offset_matrix",
    "sphere_moment",
    "trained_share",
    "wave_mean",
]
