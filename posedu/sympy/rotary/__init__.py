"""Rotary encodings over symbols.

``line``: one coordinate (RoPE). ``axes``: several (axial, mixed). ``lie``: matrix
exponentials (LieRE, ComRoPE). ``fourier``: FoPE.
"""

from posedu.sympy.rotary.axes import axial, axial_frequencies, mixed, mixed_rotation
from posedu.sympy.rotary.fourier import fope, kept_frequencies
from posedu.sympy.rotary.lie import (
    J,
    commutator,
    comrope_ap,
    comrope_ld,
    exponential,
    isoclinic,
    liere,
    skew,
    turn_blocks,
)
from posedu.sympy.rotary.line import layout_matrix, rope, rotation, rotation_2d

__all__ = [
    "J",
    "axial",
    "axial_frequencies",
    "commutator",
    "comrope_ap",
    "comrope_ld",
    "exponential",
    "fope",
    "isoclinic",
    "kept_frequencies",
    "layout_matrix",
    "liere",
    "mixed",
    "mixed_rotation",
    "rope",
    "rotation",
    "rotation_2d",
    "skew",
    "turn_blocks",
]
