"""Rotary encodings in NumPy (reference), one module for each encoding.

Several encodings share the modules ``grid`` (positions with several coordinates) and
``generators`` (matrix exponentials of skew matrices).
"""

from posedu.numpy.rotary.axial import axial, axial_frequencies
from posedu.numpy.rotary.comrope import (
    ap_generators,
    comrope_ap,
    comrope_ld,
    ld_generators,
    perturb,
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
    rotate_blocks,
    rotate_by_generators,
    rotations,
    skew,
)
from posedu.numpy.rotary.golden_gate import (
    golden_directions,
    golden_gate,
    golden_gate_frequencies,
)
from posedu.numpy.rotary.grid import grid
from posedu.numpy.rotary.gta import (
    camera_matrix,
    gta,
    image_frequencies,
    inverse_camera_matrix,
)
from posedu.numpy.rotary.lerope import lerope
from posedu.numpy.rotary.liere import liere
from posedu.numpy.rotary.llama3 import llama3
from posedu.numpy.rotary.longrope import longrope, longrope_attention_factor
from posedu.numpy.rotary.m_rope import (
    m_rope,
    m_rope_axes,
    m_rope_frequencies,
    m_rope_positions,
)
from posedu.numpy.rotary.mixed import mixed
from posedu.numpy.rotary.mla import mla
from posedu.numpy.rotary.ntk import ntk, ntk_dynamic
from posedu.numpy.rotary.p_rope import p_rope
from posedu.numpy.rotary.pi import pi
from posedu.numpy.rotary.pope import pope
from posedu.numpy.rotary.rerotation import rerotation
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
from posedu.numpy.rotary.self_extend import extended_offsets, self_extend
from posedu.numpy.rotary.string import (
    cayley,
    circulant_frequencies,
    circulant_generators,
    string,
)
from posedu.numpy.rotary.tape import rotate_by_blocks, tape, tape_start, tape_update
from posedu.numpy.rotary.value_rotation import value_rotation
from posedu.numpy.rotary.xpos import xpos, xpos_scales
from posedu.numpy.rotary.yarn import yarn, yarn_attention_factor

__all__ = [
    "ap_generators",
    "axial",
    "axial_frequencies",
    "camera_matrix",
    "cayley",
    "circulant_frequencies",
    "circulant_generators",
    "comrope_ap",
    "comrope_ld",
    "convert_layout",
    "decay_bound",
    "exponential",
    "extended_offsets",
    "fope",
    "fope_offset",
    "fope_scores",
    "fope_table",
    "golden_directions",
    "golden_gate",
    "golden_gate_frequencies",
    "grid",
    "gta",
    "image_frequencies",
    "inverse_camera_matrix",
    "kept_frequencies",
    "layout_permutation",
    "ld_generators",
    "lerope",
    "liere",
    "llama3",
    "longrope",
    "longrope_attention_factor",
    "m_rope",
    "m_rope_axes",
    "m_rope_frequencies",
    "m_rope_positions",
    "mixed",
    "mla",
    "normal_form",
    "ntk",
    "ntk_dynamic",
    "p_rope",
    "pairs",
    "perturb",
    "pi",
    "pope",
    "rerotation",
    "resonance",
    "riflex",
    "rope",
    "rope_complex",
    "rope_dense",
    "rope_linear_attention",
    "rotate_blocks",
    "rotate_by_blocks",
    "rotate_by_generators",
    "rotation",
    "rotations",
    "self_extend",
    "skew",
    "string",
    "tape",
    "tape_start",
    "tape_update",
    "to_complex",
    "value_rotation",
    "xpos",
    "xpos_scales",
    "yarn",
    "yarn_attention_factor",
]
