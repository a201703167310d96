"""Absolute encodings, the fast face: a module an encoding."""

from posedu.torch.absolute.floater import FLOATER, Flow
from posedu.torch.absolute.fourier import FourierLearned, FourierRandom
from posedu.torch.absolute.sinusoidal import Sinusoidal
from posedu.torch.absolute.tables import (
    BERTInput,
    Learned,
    LearnedPerLayer,
    Random,
)

__all__ = [
    "FLOATER",
    "BERTInput",
    "Flow",
    "FourierLearned",
    "FourierRandom",
    "Learned",
    "LearnedPerLayer",
    "Random",
    "Sinusoidal",
]
