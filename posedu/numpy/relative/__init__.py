"""Relative vectors, the reference face: a module an encoding."""

from posedu.numpy.relative.inkling import inkling, log_temperature
from posedu.numpy.relative.music import music_transformer, skew
from posedu.numpy.relative.shaw import shaw, shaw_rows

__all__ = [
    "inkling",
    "log_temperature",
    "music_transformer",
    "shaw",
    "shaw_rows",
    "skew",
]
