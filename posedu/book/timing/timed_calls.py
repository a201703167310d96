"""Calls to time: a copy, a compiled call, a call with its backward."""

from collections.abc import Sequence

import torch
from torch import Tensor

from posedu.book.timing.clock import Run


def copy_of(*tensors: Tensor) -> Run:
    """Return a call that copies the tensors into reused buffers."""
    pairs = [(torch.empty_like(t), t.detach()) for t in tensors]
    return lambda: [buffer.copy_(t) for buffer, t in pairs]


def compiled(run: Run, *, fullgraph: bool = True) -> Run:
    """Return ``run`` under ``torch.compile``, for its present shapes."""
    return torch.compile(run, fullgraph=fullgraph, dynamic=False)


def with_gradient(run: Run, inputs: Sequence[Tensor]) -> Run:
    """Return a call of ``run`` and of its backward to ``inputs``.

    The output gradients are made beforehand. ``run`` returns a sequence of tensors,
    also where it has a single output.
    """
    gradients = [torch.randn_like(t) for t in run()]
    return lambda: torch.autograd.grad(run(), inputs, gradients)
