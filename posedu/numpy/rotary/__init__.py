"""Rotary encodings, the reference face.

``line``: one coordinate (RoPE). ``axes``: several (axial, mixed). ``lie``: matrix
exponentials (LieRE, ComRoPE). ``fourier``: FoPE.
"""

from posedu.numpy.rotary.axes import axial, axial_frequencies, grid, mixed
from posedu.numpy.rotary.fourier import (
    fope,
    fope_offset,
    fope_scores,
    fope_table,
    kept_frequencies,
)
from posedu.numpy.rotary.lie import (
    ap_generators,
    comrope_ap,
    comrope_ld,
    exponential,
    ld_generators,
    liere,
    normal_form,
    rotations,
    skew,
    turn_blocks,
    turn_by_generators,
)
from posedu.numpy.rotary.line import (
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
    "liere",
    "mixed",
    "normal_form",
    "pairs",
    "rope",
    "rope_complex",
    "rope_dense",
    "rope_linear_attention",
    "rotation",
    "rotations",
    "skew",
    "to_complex",
    "turn_blocks",
    "turn_by_generators",
]
