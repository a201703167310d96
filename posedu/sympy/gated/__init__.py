"""Gated positional encodings in SymPy, one module for each encoding."""

from posedu.sympy.gated.cope import contextual_positions, cope, interpolate
from posedu.sympy.gated.fox import forget_bias, fox, fox_pro
from posedu.sympy.gated.log_linear import bucket_level, log_linear
from posedu.sympy.gated.selective_attention import (
    accumulated_selections,
    selections,
    selective_attention,
)

__all__ = [
    "accumulated_selections",
    "bucket_level",
    "contextual_positions",
    "cope",
    "forget_bias",
    "fox",
    "fox_pro",
    "interpolate",
    "log_linear",
    "selections",
    "selective_attention",
]
