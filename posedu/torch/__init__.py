"""The fast face: modules to train with, on CPU and GPU."""

from posedu.torch.absolute import Sinusoidal
from posedu.torch.attention import Attention, KVCache
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.rotary import (
    AxialRoPE,
    ComRoPEAP,
    ComRoPELD,
    FoPE,
    LieRE,
    MixedRoPE,
    RoPE,
    convert_layout,
    fold_basis,
    grid,
    turn_blocks,
    turn_pairs,
)

__all__ = [
    "Attention",
    "AxialRoPE",
    "ComRoPEAP",
    "ComRoPELD",
    "Encoding",
    "FoPE",
    "KVCache",
    "LieRE",
    "MixedRoPE",
    "RoPE",
    "Sinusoidal",
    "Tokens",
    "convert_layout",
    "fold_basis",
    "grid",
    "turn_blocks",
    "turn_pairs",
]
