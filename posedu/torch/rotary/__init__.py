"""Rotary encodings, the fast face: a module an encoding.

Several share ``turning`` (the kernels), ``axes`` (positions with several coordinates)
and ``generators`` (matrix exponentials of skew matrices).
"""

from posedu.torch.rotary.axes import grid
from posedu.torch.rotary.axial import AxialRoPE, axial_frequencies
from posedu.torch.rotary.comrope import (
    ComRoPE,
    ComRoPEAP,
    ComRoPELD,
    fold_basis,
    perturb,
)
from posedu.torch.rotary.fope import FoPE, kept_frequencies
from posedu.torch.rotary.generators import BlockRotation, exponential, rotations, skew
from posedu.torch.rotary.liere import LieRE
from posedu.torch.rotary.mixed import MixedRoPE
from posedu.torch.rotary.pope import PoPE
from posedu.torch.rotary.rope import RoPE, convert_layout
from posedu.torch.rotary.tape import TAPE
from posedu.torch.rotary.turning import PairRotation, Rotation, turn_blocks, turn_pairs

__all__ = [
    "TAPE",
    "AxialRoPE",
    "BlockRotation",
    "ComRoPE",
    "ComRoPEAP",
    "ComRoPELD",
    "FoPE",
    "LieRE",
    "MixedRoPE",
    "PairRotation",
    "PoPE",
    "RoPE",
    "Rotation",
    "axial_frequencies",
    "convert_layout",
    "exponential",
    "fold_basis",
    "grid",
    "kept_frequencies",
    "perturb",
    "rotations",
    "skew",
    "turn_blocks",
    "turn_pairs",
]
