"""Stick-breaking and geometric attention in NumPy, one module for each."""

from posedu.numpy.stickbreaking.geometric import (
    break_nearest_first,
    directions,
    geometric,
)
from posedu.numpy.stickbreaking.stickbreaking import (
    break_stick,
    break_stick_log,
    earlier,
    softplus,
    stick_breaking,
)

__all__ = [
    "break_nearest_first",
    "break_stick",
    "break_stick_log",
    "directions",
    "earlier",
    "geometric",
    "softplus",
    "stick_breaking",
]
