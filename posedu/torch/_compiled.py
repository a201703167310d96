"""Functions with loops as single operations, which a compiler does not trace."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from posedu.torch._autograd import without_autocast

Operation = Callable[..., Tensor]


def pairs_of(q: Tensor, k: Tensor, *_: Tensor) -> Tensor:
    """Return an empty tensor with a number for each query and key."""
    return q.new_empty(*q.shape[:3], k.shape[2])


def untraced(
    name: str, result: Operation = pairs_of
) -> Callable[[Operation], Operation]:
    """Return a decorator for functions whose loop a compiler would unroll.

    The decorated function computes without autocast. Under a compiler it is one
    operation of the name ``posedu::name``, for all lengths, whose backward pass
    computes the function once more. All positional arguments are tensors, those of
    integers without a gradient, and ``result`` makes an empty tensor like the result
    from them: by default ``[batch, heads, queries, keys]`` in the dtype of the first,
    where the first two are queries and keys. Keyword arguments are for calls without a
    compiler.
    """

    def decorate(function: Operation) -> Operation:
        operation = _operation(f"posedu::{name}", function, result)

        @wraps(function)
        def call(*tensors: Tensor, **options: Any) -> Tensor:
            if torch.compiler.is_compiling():
                return operation(*tensors)
            with without_autocast(tensors[0]):
                return function(*tensors, **options)

        return call

    return decorate


def _operation(name: str, function: Operation, result: Operation) -> Operation:
    """Register ``function`` and its gradient as operations; return the first one."""
    names = [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.kind is not p.KEYWORD_ONLY
    ]
    given = ", ".join(f"Tensor {n}" for n in names)

    def gradients(*tensors: Tensor) -> list[Tensor]:
        *inputs, gradient = tensors
        floats = [t for t in inputs if t.is_floating_point()]

        def of_floats(*given: Tensor) -> Tensor:
            rest = iter(given)
            return function(
                *(next(rest) if t.is_floating_point() else t for t in inputs)
            )

        with without_autocast(gradient):
            found = torch.func.vjp(of_floats, *floats)[1](gradient)
        return [t.contiguous() for t in found]

    def outcome(*tensors: Tensor) -> Tensor:
        with without_autocast(tensors[0]):
            return function(*tensors).contiguous()

    forward = torch.library.custom_op(
        name,
        outcome,
        mutates_args=(),
        schema=f"({given}) -> Tensor",
    )
    backward = torch.library.custom_op(
        f"{name}_backward",
        gradients,
        mutates_args=(),
        schema=f"({given}, Tensor gradient) -> Tensor[]",
    )
    forward.register_fake(result)
    backward.register_fake(
        lambda *tensors: [
            t.new_empty(t.shape) for t in tensors[:-1] if t.is_floating_point()
        ]
    )

    def of_all(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        found = iter(backward(*inputs, gradient))
        return tuple(next(found) if t.is_floating_point() else None for t in inputs)

    forward.register_autograd(
        of_all,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return forward
