"""What kernels of one's own need: no autocast inside, and every kind of derivative."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def autocast_dtype(x: Tensor) -> torch.dtype | None:
    """What autocast lowers products on the device of ``x`` to, if it is on there."""
    kind = x.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return None


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """A context where products on the device of ``x`` keep the dtypes of their code."""
    if autocast_dtype(x) is None:
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)


def lowered(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors as autocast gives them to a product: float64 stays what it is."""
    dtype = autocast_dtype(tensors[0])
    if dtype is None:
        return tensors
    return tuple(t if t.dtype == torch.float64 else t.to(dtype) for t in tensors)


def keep(ctx: Any, inputs: Sequence[object], *outputs: Tensor) -> None:
    """Save what :func:`completed` wants of a function: its inputs; and ``outputs``."""
    tensors = [t for t in inputs if isinstance(t, Tensor)]
    ctx.others = [None if isinstance(t, Tensor) else t for t in inputs]
    ctx.places = [n for n, t in enumerate(inputs) if isinstance(t, Tensor)]
    ctx.save_for_backward(*tensors, *outputs)
    ctx.save_for_forward(*tensors)


def completed(
    open_form: Callable[..., Any],
) -> Callable[[type[torch.autograd.Function]], type[torch.autograd.Function]]:
    """Give a function with a gradient of its own all the derivatives that it lacks.

    They are those of ``open_form``, which computes the same from the same arguments by
    operations that PyTorch differentiates. It takes over where a gradient is itself to
    be differentiated (``create_graph=True`` and ``torch.func``), in forward mode and
    under ``torch.vmap``; it may need the memory that the kernel saves. The function
    saves its inputs by :func:`keep`.
    """

    def at(ctx: Any, places: Sequence[int]) -> tuple[Callable[..., Any], list[Tensor]]:
        """``open_form`` as a function of some of its arguments, and these."""
        given = list(ctx.others)
        for n, t in zip(ctx.places, ctx.saved_tensors, strict=False):
            given[n] = t

        def run(*chosen: Tensor) -> Any:
            every = list(given)
            for n, t in zip(places, chosen, strict=True):
                every[n] = t
            return open_form(*every)

        return run, [given[n] for n in places]

    def complete(kernel: type[torch.autograd.Function]) -> type:
        own = kernel.backward

        def backward(ctx: Any, *gradients: Tensor) -> Any:
            if not torch.is_grad_enabled():
                return own(ctx, *gradients)
            places = [n for n, needed in enumerate(ctx.needs_input_grad) if needed]
            run, given = at(ctx, places)
            pull = torch.func.vjp(run, *given)[1]
            found = pull(gradients if len(gradients) > 1 else gradients[0])
            every: list[Tensor | None] = [None] * len(ctx.others)
            for n, t in zip(places, found, strict=True):
                every[n] = t
            return tuple(every)

        def jvp(ctx: Any, *tangents: Tensor | None) -> Any:
            """Twice in reverse, for tangents of tangents are refused by PyTorch."""
            moved = {n: t for n, t in enumerate(tangents) if t is not None}
            run, given = at(ctx, list(moved))
            out, pull = torch.func.vjp(run, *given)[:2]
            upstream = torch.utils._pytree.tree_map(torch.zeros_like, out)
            push = torch.func.vjp(pull, upstream)[1]
            return push(tuple(moved.values()))[0]

        def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> Any:
            out = torch.vmap(open_form, in_dims)(*inputs)
            return out, (0,) * len(out) if isinstance(out, tuple) else 0

        methods = {
            "backward": staticmethod(backward),
            "jvp": staticmethod(jvp),
            "vmap": staticmethod(vmap),
        }
        return type(kernel.__name__, (kernel,), methods)

    return complete
