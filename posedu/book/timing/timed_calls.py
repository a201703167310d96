"""Functions to time: a copy, a compiled function, a function with its backward."""

from collections.abc import Sequence

import torch
from torch import Tensor

from posedu.book.timing.clock import Run


def copy_of(*tensors: Tensor) -> Run:
    """Return a function that copies the tensors into reused buffers."""
    pairs = [(torch.empty_like(t), t.detach()) for t in tensors]
    return lambda: [buffer.copy_(t) for buffer, t in pairs]


def compiled(run: Run, *, fullgraph: bool = True) -> Run:
    """Compile a function with ``torch.compile``, for the shapes of its first call.

    With ``fullgraph``, a function that does not compile as a whole is an error.
    """
    return torch.compile(run, fullgraph=fullgraph, dynamic=False)


def with_gradient(run: Run, inputs: Sequence[Tensor]) -> Run:
    """Return a function that calls ``run`` and computes gradients for ``inputs``.

    The output gradients are random and made beforehand. ``run`` returns a sequence of
    tensors, also where it has a single output.
    """
    gradients = [torch.randn_like(t) for t in run()]
    return lambda: torch.autograd.grad(run(), inputs, gradients)
