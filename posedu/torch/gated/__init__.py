"""Gated encodings as PyTorch modules, one file for each encoding."""

from posedu.torch.gated.cope import CoPE
from posedu.torch.gated.fox import FoX, FoXPro
from posedu.torch.gated.log_linear import LogLinear
from posedu.torch.gated.selective_attention import SelectiveAttention

__all__ = ["CoPE", "FoX", "FoXPro", "LogLinear", "SelectiveAttention"]
