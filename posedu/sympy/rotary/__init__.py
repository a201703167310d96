"""Rotary encodings over symbols: a module an encoding.

Several share ``generators``: skew matrices and their exponentials.
"""

from posedu.sympy.rotary.axial import axial, axial_frequencies
from posedu.sympy.rotary.comrope import (
    ap_generators,
    comrope_ap,
    comrope_ld,
    ld_generators,
)
from posedu.sympy.rotary.fope import fope, fope_offset, fope_table, kept_frequencies
from posedu.sympy.rotary.generators import (
    J,
    commutator,
    exponential,
    isoclinic,
    rotations,
    skew,
    turn_blocks,
    turn_by_generators,
)
from posedu.sympy.rotary.liere import liere
from posedu.sympy.rotary.mixed import mixed, mixed_rotation
from posedu.sympy.rotary.pope import pope
from posedu.sympy.rotary.rope import layout_matrix, rope, rotation, rotation_2d
from posedu.sympy.rotary.tape import tape, tape_start, tape_update, turn_by_blocks

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
    "pope",
    "rope",
    "rotation",
    "rotation_2d",
    "rotations",
    "skew",
    "tape",
    "tape_start",
    "tape_update",
    "turn_blocks",
    "turn_by_blocks",
    "turn_by_generators",
]
