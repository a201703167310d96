"""Rotary encodings over symbols.

``line``: one coordinate (RoPE). ``axes``: several (axial, mixed). ``lie``: matrix
exponentials (LieRE, ComRoPE). ``fourier``: FoPE.
"""

from posedu.sympy.rotary.axes import axial, axial_frequencies, mixed, mixed_rotation
from posedu.sympy.rotary.fourier import (
    fope,
    fope_offset,
    fope_table,
    kept_frequencies,
)
from posedu.sympy.rotary.lie import (
    J,
    ap_generators,
    commutator,
    comrope_ap,
    comrope_ld,
    exponential,
    isoclinic,
    ld_generators,
    liere,
    rotations,
    skew,
    turn_blocks,
    turn_by_generators,
)
from posedu.sympy.rotary.line import layout_matrix, rope, rotation, rotation_2d

__all__ = [
    "J",
    "ap_generators",
    "axial",
    "axial_frequencies",
    "commutator",
    "comrope_ap",
    "comrope_ld",
    "exponential",
    "fope",
    "fope_offset",
    "fope_table",
    "isoclinic",
    "kept_frequencies",
    "layout_matrix",
    "ld_generators",
    "liere",
    "mixed",
    "mixed_rotation",
    "rope",
    "rotation",
    "rotation_2d",
    "rotations",
    "skew",
    "turn_blocks",
    "turn_by_generators",
]
