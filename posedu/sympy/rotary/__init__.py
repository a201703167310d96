"""Rotary encodings in SymPy, one module for each encoding.

Several encodings share the module ``generators``: skew matrices and their exponentials.
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
    rotate_blocks,
    rotate_by_generators,
    rotations,
    skew,
)
from posedu.sympy.rotary.golden_gate import (
    golden_direction,
    golden_gate,
    golden_gate_frequencies,
)
from posedu.sympy.rotary.gta import (
    camera_matrix,
    gta,
    inverse_camera_matrix,
    pose_matrices,
)
from posedu.sympy.rotary.liere import liere
from posedu.sympy.rotary.m_rope import m_rope, m_rope_frequencies
from posedu.sympy.rotary.mixed import mixed, mixed_rotation
from posedu.sympy.rotary.mla import mla
from posedu.sympy.rotary.pope import pope
from posedu.sympy.rotary.rerotation import rerotation
from posedu.sympy.rotary.rope import layout_matrix, rope, rotation, rotation_2d
from posedu.sympy.rotary.self_extend import extended_offset, self_extend
from posedu.sympy.rotary.string import (
    cayley,
    circulant_frequencies,
    circulant_generators,
    fourier_basis,
    string,
)
from posedu.sympy.rotary.tape import rotate_by_blocks, tape, tape_start, tape_update
from posedu.sympy.rotary.value_rotation import value_rotation
from posedu.sympy.rotary.xpos import xpos, xpos_scales

__all__ = [
    "J",
    "ap_generators",
    "axial",
    "axial_frequencies",
    "camera_matrix",
    "cayley",
    "circulant_frequencies",
    "circulant_generators",
    "commutator",
    "comrope_ap",
    "comrope_ld",
    "exponential",
    "extended_offset",
    "fope",
    "fope_offset",
    "fope_table",
    "fourier_basis",
    "golden_direction",
    "golden_gate",
    "golden_gate_frequencies",
    "gta",
    "inverse_camera_matrix",
    "isoclinic",
    "kept_frequencies",
    "layout_matrix",
    "ld_generators",
    "liere",
    "m_rope",
    "m_rope_frequencies",
    "mixed",
    "mixed_rotation",
    "mla",
    "pope",
    "pose_matrices",
    "rerotation",
    "rope",
    "rotate_blocks",
    "rotate_by_blocks",
    "rotate_by_generators",
    "rotation",
    "rotation_2d",
    "rotations",
    "self_extend",
    "skew",
    "string",
    "tape",
    "tape_start",
    "tape_update",
    "value_rotation",
    "xpos",
    "xpos_scales",
]
