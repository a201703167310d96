"""The fast face: modules to train with, on CPU and GPU."""

from posedu.torch.absolute import Sinusoidal
from posedu.torch.attention import Attention, KVCache
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.rotary import RoPE, convert_layout, turn_pairs

__all__ = [
    "Attention",
    "Encoding",
    "KVCache",
    "RoPE",
    "Sinusoidal",
    "Tokens",
    "convert_layout",
    "turn_pairs",
]
