"""Recurrent encodings in SymPy: exact transitions and states of a few tokens."""

from posedu.sympy.recurrent.delta_net import delta_net, gated_delta_net, kda
from posedu.sympy.recurrent.delta_product import delta_product
from posedu.sympy.recurrent.gated_convolution import gated_convolution
from posedu.sympy.recurrent.gla import gla
from posedu.sympy.recurrent.lightning import lightning, lightning_decays
from posedu.sympy.recurrent.linear_attention import elu_plus_one, linear_attention
from posedu.sympy.recurrent.mamba import mamba_2
from posedu.sympy.recurrent.mamba_3 import mamba_3
from posedu.sympy.recurrent.state import delta_transition, read_states, state_weights

__all__ = [
    "delta_net",
    "delta_product",
    "delta_transition",
    "elu_plus_one",
    "gated_convolution",
    "gated_delta_net",
    "gla",
    "kda",
    "lightning",
    "lightning_decays",
    "linear_attention",
    "mamba_2",
    "mamba_3",
    "read_states",
    "state_weights",
]
