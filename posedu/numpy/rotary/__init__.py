"""Rotary encodings, the reference face: a module an encoding.

Several share ``axes`` (positions with several coordinates) and ``generators`` (matrix
exponentials of skew matrices).
"""

from posedu.numpy.rotary.axes import grid
from posedu.numpy.rotary.axial import axial, axial_frequencies
from posedu.numpy.rotary.comrope import (
    ap_generators,
    comrope_ap,
    comrope_ld,
    ld_generators,
)
from posedu.numpy.rotary.fope import (
    fope,
    fope_offset,
    fope_scores,
    fope_table,
    kept_frequencies,
)
from posedu.numpy.rotary.generators import (
    exponential,
    normal_form,
    rotations,
    skew,
    turn_blocks,
    turn_by_generators,
)
from posedu.numpy.rotary.lerope import lerope
from posedu.numpy.rotary.liere import liere
from posedu.numpy.rotary.llama3 import llama3
from posedu.numpy.rotary.longrope import longrope, longrope_amplitude
from posedu.numpy.rotary.mixed import mixed
from posedu.numpy.rotary.ntk import ntk, ntk_dynamic
from posedu.numpy.rotary.p_rope import p_rope
from posedu.numpy.rotary.pi import pi
from posedu.numpy.rotary.pope import pope
from posedu.numpy.rotary.resonance import resonance
from posedu.numpy.rotary.riflex import riflex
from posedu.numpy.rotary.rope import (
    convert_layout,
    decay_bound,
    layout_permutation,
    pairs,
    rope,
    rope_complex,
    rope_dense,
    rope_linear_attention,
    rotation,
    to_complex,
)
from posedu.numpy.rotary.tape import tape, tape_start, tape_update, turn_by_blocks
from posedu.numpy.rotary.yarn import yarn, yarn_amplitude

__all__ = [
    "ap_generators",
    "axial",
    "axial_frequencies",
    "comrope_ap",
    "comrope_ld",
    "convert_layout",
    "decay_bound",
    "exponential",
    "fope",
    "fope_offset",
    "fope_scores",
    "fope_table",
    "grid",
    "kept_frequencies",
    "layout_permutation",
    "ld_generators",
    "lerope",
    "liere",
    "llama3",
    "longrope",
    "longrope_amplitude",
    "mixed",
    "normal_form",
    "ntk",
    "ntk_dynamic",
    "p_rope",
    "pairs",
    "pi",
    "pope",
    "resonance",
    "riflex",
    "rope",
    "rope_complex",
    "rope_dense",
    "rope_linear_attention",
    "rotation",
    "rotations",
    "skew",
    "tape",
    "tape_start",
    "tape_update",
    "to_complex",
    "turn_blocks",
    "turn_by_blocks",
    "turn_by_generators",
    "yarn",
    "yarn_amplitude",
]
