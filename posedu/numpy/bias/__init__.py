"""Biases of distance, the reference face: a module an encoding."""

from posedu.numpy.bias.alibi import alibi, alibi_slopes
from posedu.numpy.bias.t5 import t5, t5_buckets

__all__ = ["alibi", "alibi_slopes", "t5", "t5_buckets"]
