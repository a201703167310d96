"""Relative position vectors in NumPy (reference), one module for each encoding."""

from posedu.numpy.relative.deberta import deberta, deberta_rows
from posedu.numpy.relative.inkling import inkling, log_temperature
from posedu.numpy.relative.music_transformer import music_transformer, skew, unskew
from posedu.numpy.relative.shaw import shaw, shaw_rows
from posedu.numpy.relative.transformer_xl import transformer_xl
from posedu.numpy.relative.tupe import tupe

__all__ = [
    "deberta",
    "deberta_rows",
    "inkling",
    "log_temperature",
    "music_transformer",
    "shaw",
    "shaw_rows",
    "skew",
    "transformer_xl",
    "tupe",
    "unskew",
]
