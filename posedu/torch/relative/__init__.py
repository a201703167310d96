"""Relative vectors, the fast face: a module an encoding."""

from posedu.torch.relative.inkling import Inkling, log_temperature
from posedu.torch.relative.music import MusicTransformer
from posedu.torch.relative.shaw import Shaw

__all__ = ["Inkling", "MusicTransformer", "Shaw", "log_temperature"]
