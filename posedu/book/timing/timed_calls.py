"""Functions to time: a copy, a compiled function, a function with its backward."""

from collections.abc import Sequence

import torch
from torch import Tensor

from posedu._argument_types import check_types
from posedu.book.timing.clock import Run


@check_types
def copy_of(*tensors: Tensor) -> Run:
    """Return a function that copies the tensors into buffers.

    The buffers are made once, and every call writes into them.
    """
    pairs = [(torch.empty_like(t), t.detach()) for t in tensors]
    return lambda: [buffer.copy_(t) for buffer, t in pairs]


@check_types
def compiled(run: Run, *, fullgraph: bool = True) -> Run:
    """Compile a function with ``torch.compile``, for the shapes of its first call.

    With ``fullgraph``, a call raises an error if the function does not compile as a
    whole; otherwise the rest runs uncompiled.
    """
    return torch.compile(run, fullgraph=fullgraph, dynamic=False)


@check_types
def with_gradient(run: Run, inputs: Sequence[Tensor]) -> Run:
    """Return a function that calls ``run`` and computes gradients for ``inputs``.

    ``run`` returns a sequence of tensors, even if there is only one, computed from the
    tensors ``inputs``. The gradients of these outputs are random and made beforehand.
    """
    gradients = [torch.randn_like(t) for t in run()]
    return lambda: torch.autograd.grad(run(), inputs, gradients)
