"""Path encodings (PaTH, Selective RoPE) as PyTorch modules, one file for each."""

from posedu.torch.path.carope import CARoPE
from posedu.torch.path.grape import GRAPEA, GRAPEAP, GRAPEM
from posedu.torch.path.path import PaTH, PaTHFoX, path_products
from posedu.torch.path.retention import Retention
from posedu.torch.path.selective_rope import SelectiveRoPE
from posedu.torch.path.wall import Wall, gated_products

__all__ = [
    "GRAPEA",
    "GRAPEAP",
    "GRAPEM",
    "CARoPE",
    "PaTH",
    "PaTHFoX",
    "Retention",
    "SelectiveRoPE",
    "Wall",
    "gated_products",
    "path_products",
]
