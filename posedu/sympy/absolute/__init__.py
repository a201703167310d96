"""Absolute encodings, the symbolic face: a module an encoding."""

from posedu.sympy.absolute.sinusoidal import (
    commutant,
    embed_sinusoidal,
    offset_equations,
    offset_matrix,
    sinusoidal,
    solve_offset_matrix,
)

__all__ = [
    "commutant",
    "embed_sinusoidal",
    "offset_equations",
    "offset_matrix",
    "sinusoidal",
    "solve_offset_matrix",
]
