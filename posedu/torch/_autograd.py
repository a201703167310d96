"""Helpers for custom autograd functions: casts, saved inputs, further derivatives."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

# Asked once: torch.compile of PyTorch 2.11 and earlier cannot trace the question.
_WITH_AUTOCAST = frozenset(
    kind
    for kind in (
        *("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "maia", "xla"),
        "privateuseone",
    )
    if torch.amp.is_autocast_available(kind)
)


def autocast_dtype(x: Tensor) -> torch.dtype | None:
    """Return the dtype to which autocast casts on the device of ``x``.

    ``None`` if autocast is off, or does not exist on this device.
    """
    kind = x.device.type
    if kind in _WITH_AUTOCAST and torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return None


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Return a context manager that turns autocast off on the device of ``x``.

    If autocast is off already, the context manager does nothing.
    """
    if autocast_dtype(x) is None:
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)


def lowered(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Cast tensors to autocast's dtype, except those in float64.

    If autocast is off, the tensors are returned unchanged. The device is that of the
    first tensor.
    """
    dtype = autocast_dtype(tensors[0])
    if dtype is None:
        return tensors
    return tuple(t if t.dtype == torch.float64 else t.to(dtype) for t in tensors)


def keep(ctx: Any, inputs: Sequence[object], *outputs: Tensor) -> None:
    """Save the inputs and outputs of an autograd function, for its backward pass.

    ``ctx`` is the function's context object, which stores them. ``inputs`` are all
    arguments of the function, tensors and others; ``outputs`` are tensors. :func:`kept`
    returns both.
    """
    tensors = [t for t in inputs if isinstance(t, Tensor)]
    ctx.other_inputs = [None if isinstance(t, Tensor) else t for t in inputs]
    ctx.tensor_indices = [n for n, t in enumerate(inputs) if isinstance(t, Tensor)]
    ctx.save_for_backward(*tensors, *outputs)
    ctx.save_for_forward(*tensors)


def kept(ctx: Any) -> tuple[list[Any], tuple[Tensor, ...]]:
    """Return the inputs (a list) and outputs (a tuple) that :func:`keep` saved.

    ``ctx`` is the context object of the autograd function, in which they were saved.
    """
    inputs, saved = list(ctx.other_inputs), ctx.saved_tensors
    for n, t in zip(ctx.tensor_indices, saved, strict=False):
        inputs[n] = t
    return inputs, saved[len(ctx.tensor_indices) :]


def completed(
    reference: Callable[..., Any],
) -> Callable[[type[torch.autograd.Function]], type[torch.autograd.Function]]:
    """Return a decorator that adds all derivatives to an autograd function.

    The decorated class computes its output and its gradient by a kernel of its own.
    ``reference`` computes the same output from the same arguments by operations that
    PyTorch differentiates. ``reference`` is used instead of the kernel for derivatives
    of the gradient (``create_graph=True`` and ``torch.func``), in forward mode, and
    under ``torch.vmap``; it may need the memory that the kernel saves. The autograd
    function must save its inputs by :func:`keep`.
    """

    def restricted(
        ctx: Any, indices: Sequence[int]
    ) -> tuple[Callable[..., Any], list[Tensor]]:
        """Return ``reference`` as a function of chosen inputs, and these inputs.

        ``reference``, the argument of :func:`completed`, computes the output of the
        autograd function by differentiable operations. The chosen inputs are those
        at ``indices`` among the function's arguments; all other inputs keep the values
        that were saved in ``ctx``, the function's context object.
        """
        inputs, _ = kept(ctx)

        def run(*chosen: Tensor) -> Any:
            arguments = list(inputs)
            for n, t in zip(indices, chosen, strict=True):
                arguments[n] = t
            return reference(*arguments)

        return run, [inputs[n] for n in indices]

    def complete(kernel: type[torch.autograd.Function]) -> type:
        own_backward = kernel.backward

        def backward(ctx: Any, *gradients: Tensor) -> Any:
            if not torch.is_grad_enabled():
                return own_backward(ctx, *gradients)
            indices = [n for n, needed in enumerate(ctx.needs_input_grad) if needed]
            run, inputs = restricted(ctx, indices)
            vjp = torch.func.vjp(run, *inputs)[1]
            found = vjp(gradients if len(gradients) > 1 else gradients[0])
            of_inputs: list[Tensor | None] = [None] * len(ctx.other_inputs)
            for n, t in zip(indices, found, strict=True):
                of_inputs[n] = t
            return tuple(of_inputs)

        def jvp(ctx: Any, *tangents: Tensor | None) -> Any:
            """Return an autograd function's Jacobian-vector product, by two VJPs.

            A VJP is a vector-Jacobian product, which differentiates backwards. ``ctx``
            is the context object of the autograd function. ``tangents`` has one
            tensor for each input, ``None`` for an input without a tangent. Forward-mode
            differentiation is not used for the product, since PyTorch refuses nested
            tangents.
            """
            directions = {n: t for n, t in enumerate(tangents) if t is not None}
            run, inputs = restricted(ctx, list(directions))
            out, vjp = torch.func.vjp(run, *inputs)[:2]
            zeros = torch.utils._pytree.tree_map(torch.zeros_like, out)
            transposed = torch.func.vjp(vjp, zeros)[1]
            return transposed(tuple(directions.values()))[0]

        def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> Any:
            out = torch.vmap(reference, in_dims)(*inputs)
            return out, (0,) * len(out) if isinstance(out, tuple) else 0

        methods = {
            "backward": staticmethod(backward),
            "jvp": staticmethod(jvp),
            "vmap": staticmethod(vmap),
        }
        return type(kernel.__name__, (kernel,), methods)

    return complete
