"""Stick-breaking and geometric attention in SymPy, one module for each."""

from posedu.sympy.stickbreaking.geometric import (
    break_nearest_first,
    geometric,
    nearest_first,
)
from posedu.sympy.stickbreaking.stickbreaking import (
    break_stick,
    break_stick_log,
    sigmoid,
    softplus,
    stick_breaking,
)

__all__ = [
    "break_nearest_first",
    "break_stick",
    "break_stick_log",
    "geometric",
    "nearest_first",
    "sigmoid",
    "softplus",
    "stick_breaking",
]
