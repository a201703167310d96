"""What is timed of any library: a copy of the bytes, a call compiled or trained."""

from collections.abc import Sequence

import torch
from torch import Tensor

from posedu.book.timing.clock import Run


def copy_of(*tensors: Tensor) -> Run:
    """A copy into buffers that are kept: what moving the bytes alone costs."""
    pairs = [(torch.empty_like(t), t.detach()) for t in tensors]
    return lambda: [buffer.copy_(t) for buffer, t in pairs]


def compiled(run: Run, *, fullgraph: bool = True) -> Run:
    """``run`` under ``torch.compile``, for the shapes that it has."""
    return torch.compile(run, fullgraph=fullgraph, dynamic=False)


def with_gradient(run: Run, inputs: Sequence[Tensor]) -> Run:
    """Forward, then backward to ``inputs`` for gradients that lie ready.

    ``run`` returns tensors, a tuple also where it is one.
    """
    gradients = [torch.randn_like(t) for t in run()]
    return lambda: torch.autograd.grad(run(), inputs, gradients)
