"""Gated encodings (CoPE, FoX) as PyTorch modules, one file for each encoding."""

from posedu.torch.gated.cope import CoPE
from posedu.torch.gated.fox import FoX, FoXPro

__all__ = ["CoPE", "FoX", "FoXPro"]
