"""Relative vectors, the fast face: a module an encoding."""

from posedu.torch.relative.deberta import DeBERTa, deberta_rows
from posedu.torch.relative.transformer_xl import TransformerXL
from posedu.torch.relative.tupe import TUPE

__all__ = ["TUPE", "DeBERTa", "TransformerXL", "deberta_rows"]
