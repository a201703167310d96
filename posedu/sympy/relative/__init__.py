"""Relative vectors over symbols: a module an encoding."""

from posedu.sympy.relative.deberta import deberta, deberta_row
from posedu.sympy.relative.transformer_xl import transformer_xl
from posedu.sympy.relative.tupe import tupe

__all__ = ["deberta", "deberta_row", "transformer_xl", "tupe"]
