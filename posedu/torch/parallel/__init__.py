"""Context and tensor parallelism: each rank computes some tokens, or some heads."""

from posedu.torch.parallel.cache import CutCache
from posedu.torch.parallel.chunks import ORDERS, Chunks, Order
from posedu.torch.parallel.cut import (
    FORMS,
    Form,
    TextCut,
    context_parallel,
    sum_gradients,
)
from posedu.torch.parallel.heads import (
    HeadParallel,
    tensor_parallel,
    tensor_parallel_plan,
)
from posedu.torch.parallel.ranks import Processes, Ranks, simulated
from posedu.torch.parallel.ring import Merged

__all__ = [
    "FORMS",
    "ORDERS",
    "Chunks",
    "CutCache",
    "Form",
    "HeadParallel",
    "Merged",
    "Order",
    "Processes",
    "Ranks",
    "TextCut",
    "context_parallel",
    "simulated",
    "sum_gradients",
    "tensor_parallel",
    "tensor_parallel_plan",
]
