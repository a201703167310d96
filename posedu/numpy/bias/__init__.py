"""Additive relative biases in NumPy (reference), one module for each encoding."""

from posedu.numpy.bias.alibi import alibi, alibi_slopes
from posedu.numpy.bias.bam import bam, bam_bias
from posedu.numpy.bias.dape import dape
from posedu.numpy.bias.fire import fire, fire_inputs
from posedu.numpy.bias.kerple import (
    kerple_log,
    kerple_log_bias,
    kerple_power,
    kerple_power_bias,
)
from posedu.numpy.bias.sandwich import sandwich, sandwich_sum
from posedu.numpy.bias.t5 import t5, t5_buckets

__all__ = [
    "alibi",
    "alibi_slopes",
    "bam",
    "bam_bias",
    "dape",
    "fire",
    "fire_inputs",
    "kerple_log",
    "kerple_log_bias",
    "kerple_power",
    "kerple_power_bias",
    "sandwich",
    "sandwich_sum",
    "t5",
    "t5_buckets",
]
