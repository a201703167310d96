"""Relative position vectors in SymPy, one module for each encoding."""

from posedu.sympy.relative.deberta import deberta, deberta_row
from posedu.sympy.relative.inkling import inkling, log_temperature
from posedu.sympy.relative.music_transformer import music_transformer, skew
from posedu.sympy.relative.shaw import shaw, shaw_row
from posedu.sympy.relative.transformer_xl import transformer_xl
from posedu.sympy.relative.tupe import tupe

__all__ = [
    "deberta",
    "deberta_row",
    "inkling",
    "log_temperature",
    "music_transformer",
    "shaw",
    "shaw_row",
    "skew",
    "transformer_xl",
    "tupe",
]
