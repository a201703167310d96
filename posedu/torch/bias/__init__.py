"""Biases of distance, the fast face: a module an encoding."""

from posedu.torch.bias.alibi import ALiBi, alibi_slopes
from posedu.torch.bias.kerple import KERPLELog, KERPLEPower
from posedu.torch.bias.sandwich import Sandwich
from posedu.torch.bias.t5 import T5, t5_buckets

__all__ = [
    "T5",
    "ALiBi",
    "KERPLELog",
    "KERPLEPower",
    "Sandwich",
    "alibi_slopes",
    "t5_buckets",
]
