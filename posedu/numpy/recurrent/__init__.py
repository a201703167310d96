"""Recurrent encodings in NumPy (reference): order is in a state, token by token."""

from posedu.numpy.recurrent.delta_net import delta_net, gated_delta_net, kda
from posedu.numpy.recurrent.delta_product import delta_product
from posedu.numpy.recurrent.gated_convolution import gated_convolution
from posedu.numpy.recurrent.gla import gla
from posedu.numpy.recurrent.lightning import lightning, lightning_decays
from posedu.numpy.recurrent.linear_attention import linear_attention
from posedu.numpy.recurrent.mamba import mamba_2
from posedu.numpy.recurrent.mamba_3 import mamba_3, rates
from posedu.numpy.recurrent.state import read_states, state_weights

__all__ = [
    "delta_net",
    "delta_product",
    "gated_convolution",
    "gated_delta_net",
    "gla",
    "kda",
    "lightning",
    "lightning_decays",
    "linear_attention",
    "mamba_2",
    "mamba_3",
    "rates",
    "read_states",
    "state_weights",
]
