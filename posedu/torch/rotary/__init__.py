"""Rotary encodings, the fast face.

``turning``: the kernels. ``line``: one coordinate (RoPE). ``axes``: several (axial,
mixed). ``lie``: matrix exponentials (LieRE, ComRoPE). ``fourier``: FoPE.
"""

from posedu.torch.rotary.axes import AxialRoPE, MixedRoPE, axial_frequencies, grid
from posedu.torch.rotary.fourier import FoPE, kept_frequencies
from posedu.torch.rotary.lie import (
    BlockRotation,
    ComRoPE,
    ComRoPEAP,
    ComRoPELD,
    LieRE,
    exponential,
    fold_basis,
    perturb,
    rotations,
    skew,
)
from posedu.torch.rotary.line import RoPE, convert_layout
from posedu.torch.rotary.turning import PairRotation, Rotation, turn_blocks, turn_pairs

__all__ = [
    "AxialRoPE",
    "BlockRotation",
    "ComRoPE",
    "ComRoPEAP",
    "ComRoPELD",
    "FoPE",
    "LieRE",
    "MixedRoPE",
    "PairRotation",
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
