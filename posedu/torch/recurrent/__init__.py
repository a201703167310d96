"""Recurrent encodings as PyTorch modules: order is in a state, token by token."""

from posedu.torch.recurrent.delta_net import KDA, DeltaNet, GatedDeltaNet
from posedu.torch.recurrent.delta_product import DeltaProduct
from posedu.torch.recurrent.forms import Writes, by_chunks, pair_weights
from posedu.torch.recurrent.gated_convolution import GatedConvolution
from posedu.torch.recurrent.gla import GLA
from posedu.torch.recurrent.layer import RecurrentLayer
from posedu.torch.recurrent.lightning import LightningAttention
from posedu.torch.recurrent.linear_attention import LinearAttention
from posedu.torch.recurrent.mamba import Mamba2
from posedu.torch.recurrent.mamba_3 import Mamba3
from posedu.torch.recurrent.recurrence import Recurrence

__all__ = [
    "GLA",
    "KDA",
    "DeltaNet",
    "DeltaProduct",
    "GatedConvolution",
    "GatedDeltaNet",
    "LightningAttention",
    "LinearAttention",
    "Mamba2",
    "Mamba3",
    "Recurrence",
    "RecurrentLayer",
    "Writes",
    "by_chunks",
    "pair_weights",
]
