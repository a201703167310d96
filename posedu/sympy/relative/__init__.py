"""Relative vectors over symbols: a module an encoding."""

from posedu.sympy.relative.inkling import inkling, log_temperature
from posedu.sympy.relative.music import music_transformer, skew
from posedu.sympy.relative.shaw import shaw, shaw_row

__all__ = [
    "inkling",
    "log_temperature",
    "music_transformer",
    "shaw",
    "shaw_row",
    "skew",
]
