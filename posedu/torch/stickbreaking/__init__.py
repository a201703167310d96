"""Stick-breaking and geometric attention in PyTorch, one module for each."""

from posedu.torch.stickbreaking.geometric import Geometric, break_nearest_first
from posedu.torch.stickbreaking.stickbreaking import (
    StickBreaking,
    break_stick_log,
    earlier,
    softplus,
    stick_breaking_tiles,
)

__all__ = [
    "Geometric",
    "StickBreaking",
    "break_nearest_first",
    "break_stick_log",
    "earlier",
    "softplus",
    "stick_breaking_tiles",
]
