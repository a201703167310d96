"""Relative vectors, the reference face: a module an encoding."""

from posedu.numpy.relative.deberta import deberta, deberta_rows
from posedu.numpy.relative.transformer_xl import transformer_xl
from posedu.numpy.relative.tupe import tupe

__all__ = ["deberta", "deberta_rows", "transformer_xl", "tupe"]
