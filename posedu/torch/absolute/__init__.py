"""Absolute encodings, the fast face: a module an encoding."""

from posedu.torch.absolute.fourier import FourierLearned, FourierRandom
from posedu.torch.absolute.sinusoidal import Sinusoidal

__all__ = [
    "FourierLearned",
    "FourierRandom",
    "Sinusoidal",
]
