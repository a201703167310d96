"""Absolute encodings as PyTorch modules, one file for each encoding."""

from posedu.torch.absolute.abacus import Abacus, digit_indices
from posedu.torch.absolute.cape import CAPE
from posedu.torch.absolute.floater import FLOATER, VectorField
from posedu.torch.absolute.fourier import FourierLearned, FourierRandom
from posedu.torch.absolute.hash_grid import HashGrid
from posedu.torch.absolute.integrated import Integrated
from posedu.torch.absolute.learned import (
    BERTInput,
    Learned,
    LearnedPerLayer,
    Random,
)
from posedu.torch.absolute.nerf import NeRF
from posedu.torch.absolute.pose import PoSE
from posedu.torch.absolute.position_coupling import PositionCoupling, coupled_indices
from posedu.torch.absolute.randomized import Randomized
from posedu.torch.absolute.sinusoidal import Sinusoidal

__all__ = [
    "CAPE",
    "FLOATER",
    "Abacus",
    "BERTInput",
    "FourierLearned",
    "FourierRandom",
    "HashGrid",
    "Integrated",
    "Learned",
    "LearnedPerLayer",
    "NeRF",
    "PoSE",
    "PositionCoupling",
    "Random",
    "Randomized",
    "Sinusoidal",
    "VectorField",
    "coupled_indices",
    "digit_indices",
]
