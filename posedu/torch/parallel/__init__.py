"""One text on many devices: layers and models that are run on a part of the tokens."""

from posedu.torch.parallel.chunks import ORDERS, Chunks, Order
from posedu.torch.parallel.cut import (
    FORMS,
    Form,
    TextCut,
    context_parallel,
    sum_gradients,
)
from posedu.torch.parallel.ranks import Processes, Ranks, simulated

__all__ = [
    "FORMS",
    "ORDERS",
    "Chunks",
    "Form",
    "Order",
    "Processes",
    "Ranks",
    "TextCut",
    "context_parallel",
    "simulated",
    "sum_gradients",
]
