"""Gated encodings over symbols.

``forget``: FoX and FoX Pro. ``contextual``: CoPE.
"""

from posedu.sympy.gated.contextual import contextual_positions, cope, interpolate
from posedu.sympy.gated.forget import forget_bias, fox, fox_pro

__all__ = [
    "contextual_positions",
    "cope",
    "forget_bias",
    "fox",
    "fox_pro",
    "interpolate",
]
