"""Path encodings (PaTH, Selective RoPE) as PyTorch modules, one file for each."""

from posedu.torch.path.path import PaTH, PaTHFoX, path_products
from posedu.torch.path.selective_rope import SelectiveRoPE

__all__ = ["PaTH", "PaTHFoX", "SelectiveRoPE", "path_products"]
