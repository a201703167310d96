"""Gated positional encodings in SymPy, one module for each encoding."""

from posedu.sympy.gated.cope import contextual_positions, cope, interpolate
from posedu.sympy.gated.fox import forget_bias, fox, fox_pro

__all__ = [
    "contextual_positions",
    "cope",
    "forget_bias",
    "fox",
    "fox_pro",
    "interpolate",
]
