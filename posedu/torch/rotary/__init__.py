"""Rotary encodings as PyTorch modules, one file for each encoding.

All share ``rotation`` (kernels and base classes), ``grid`` (positions with several
coordinates) and ``generators`` (matrix exponentials of skew matrices).
"""

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
from posedu.torch.rotary.golden_gate import (
    GoldenGateRoPE,
    golden_directions,
    golden_gate_frequencies,
)
from posedu.torch.rotary.grid import grid
from posedu.torch.rotary.gta import GTA
from posedu.torch.rotary.liere import LieRE
from posedu.torch.rotary.m_rope import MRoPE, m_rope_positions
from posedu.torch.rotary.mixed import MixedRoPE
from posedu.torch.rotary.mla import MLA
from posedu.torch.rotary.pope import PoPE
from posedu.torch.rotary.rerotation import Rerotation
from posedu.torch.rotary.rope import RoPE, convert_layout, rope_linear_attention
from posedu.torch.rotary.rotation import (
    PairRotation,
    Rotation,
    rotate_blocks,
    rotate_pairs,
)
from posedu.torch.rotary.self_extend import SelfExtend
from posedu.torch.rotary.string import STRING
from posedu.torch.rotary.tape import TAPE
from posedu.torch.rotary.value_rotation import ValueRotation
from posedu.torch.rotary.xpos import XPos

__all__ = [
    "GTA",
    "MLA",
    "STRING",
    "TAPE",
    "AxialRoPE",
    "BlockRotation",
    "ComRoPE",
    "ComRoPEAP",
    "ComRoPELD",
    "FoPE",
    "GoldenGateRoPE",
    "LieRE",
    "MRoPE",
    "MixedRoPE",
    "PairRotation",
    "PoPE",
    "Rerotation",
    "RoPE",
    "Rotation",
    "SelfExtend",
    "ValueRotation",
    "XPos",
    "axial_frequencies",
    "convert_layout",
    "exponential",
    "fold_basis",
    "golden_directions",
    "golden_gate_frequencies",
    "grid",
    "kept_frequencies",
    "m_rope_positions",
    "perturb",
    "rope_linear_attention",
    "rotate_blocks",
    "rotate_pairs",
    "rotations",
    "skew",
]
