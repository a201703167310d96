"""Relative position vectors and disentangled attention as PyTorch modules."""

from posedu.torch.relative.deberta import DeBERTa, deberta_rows
from posedu.torch.relative.inkling import Inkling, log_temperature
from posedu.torch.relative.music_transformer import MusicTransformer
from posedu.torch.relative.shaw import Shaw
from posedu.torch.relative.transformer_xl import TransformerXL
from posedu.torch.relative.tupe import TUPE

__all__ = [
    "TUPE",
    "DeBERTa",
    "Inkling",
    "MusicTransformer",
    "Shaw",
    "TransformerXL",
    "deberta_rows",
    "log_temperature",
]
