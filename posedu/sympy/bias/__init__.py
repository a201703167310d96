"""Additive relative biases in SymPy, one module for each encoding."""

from posedu.sympy.bias.alibi import alibi, alibi_slopes
from posedu.sympy.bias.bam import bam, bam_bias
from posedu.sympy.bias.dape import dape
from posedu.sympy.bias.fire import fire, fire_input
from posedu.sympy.bias.kerple import (
    kerple_log,
    kerple_log_bias,
    kerple_power,
    kerple_power_bias,
)
from posedu.sympy.bias.sandwich import sandwich, sandwich_sum
from posedu.sympy.bias.t5 import t5, t5_bucket

__all__ = [
    "alibi",
    "alibi_slopes",
    "bam",
    "bam_bias",
    "dape",
    "fire",
    "fire_input",
    "kerple_log",
    "kerple_log_bias",
    "kerple_power",
    "kerple_power_bias",
    "sandwich",
    "sandwich_sum",
    "t5",
    "t5_bucket",
]
