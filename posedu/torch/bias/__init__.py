"""Additive relative biases as PyTorch modules, one file for each encoding."""

from posedu.torch.bias.alibi import ALiBi, alibi_slopes
from posedu.torch.bias.bam import BAM
from posedu.torch.bias.dape import DAPE
from posedu.torch.bias.fire import FIRE, broken_lines
from posedu.torch.bias.kerple import KERPLELog, KERPLEPower
from posedu.torch.bias.sandwich import Sandwich
from posedu.torch.bias.t5 import T5, t5_buckets

__all__ = [
    "BAM",
    "DAPE",
    "FIRE",
    "T5",
    "ALiBi",
    "KERPLELog",
    "KERPLEPower",
    "Sandwich",
    "alibi_slopes",
    "broken_lines",
    "t5_buckets",
]
