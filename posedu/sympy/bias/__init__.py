"""Biases of distance over symbols: a module an encoding."""

from posedu.sympy.bias.alibi import alibi, alibi_slopes
from posedu.sympy.bias.t5 import t5, t5_bucket

__all__ = ["alibi", "alibi_slopes", "t5", "t5_bucket"]
