"""Absolute encodings, the fast face: a module an encoding."""

from posedu.torch.absolute.cape import CAPE
from posedu.torch.absolute.floater import FLOATER, Flow
from posedu.torch.absolute.fourier import FourierLearned, FourierRandom
from posedu.torch.absolute.pose import PoSE
from posedu.torch.absolute.randomised import Randomised
from posedu.torch.absolute.sinusoidal import Sinusoidal
from posedu.torch.absolute.tables import (
    BERTInput,
    Learned,
    LearnedPerLayer,
    Random,
)

__all__ = [
    "CAPE",
    "FLOATER",
    "BERTInput",
    "Flow",
    "FourierLearned",
    "FourierRandom",
    "Learned",
    "LearnedPerLayer",
    "PoSE",
    "Random",
    "Randomised",
    "Sinusoidal",
]
