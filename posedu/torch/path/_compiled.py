"""Products over the path as single operations, which a compiler does not trace."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from posedu.torch._autograd import without_autocast

Products = Callable[..., Tensor]


def untraced(name: str) -> Callable[[Products], Products]:
    """Return a decorator for functions whose loop a compiler would unroll.

    The decorated function computes without autocast. Under a compiler it is one
    operation of the name ``posedu::name``, for all lengths, whose backward pass
    computes the products once more. All positional arguments are tensors, the first two
    queries and keys ``[batch, heads, tokens, d]``, and the result is ``[batch, heads,
    queries, keys]`` in the dtype of the queries. Keyword arguments are for calls
    without a compiler.
    """

    def decorate(products: Products) -> Products:
        operation = _operation(f"posedu::{name}", products)

        @wraps(products)
        def call(*tensors: Tensor, **options: Any) -> Tensor:
            if torch.compiler.is_compiling():
                return operation(*tensors)
            with without_autocast(tensors[0]):
                return products(*tensors, **options)

        return call

    return decorate


def _operation(name: str, products: Products) -> Products:
    """Register ``products`` and its gradient as operations; return the first one."""
    names = [
        p.name
        for p in inspect.signature(products).parameters.values()
        if p.kind is not p.KEYWORD_ONLY
    ]
    given = ", ".join(f"Tensor {n}" for n in names)

    def gradients(*tensors: Tensor) -> list[Tensor]:
        *inputs, gradient = tensors
        with without_autocast(gradient):
            found = torch.func.vjp(products, *inputs)[1](gradient)
        return [t.contiguous() for t in found]

    def result(*tensors: Tensor) -> Tensor:
        with without_autocast(tensors[0]):
            return products(*tensors)

    forward = torch.library.custom_op(
        name,
        result,
        mutates_args=(),
        schema=f"({given}) -> Tensor",
    )
    backward = torch.library.custom_op(
        f"{name}_backward",
        gradients,
        mutates_args=(),
        schema=f"({given}, Tensor gradient) -> Tensor[]",
    )
    forward.register_fake(lambda q, k, *_: q.new_empty(*q.shape[:3], k.shape[2]))
    backward.register_fake(
        lambda *tensors: [t.new_empty(t.shape) for t in tensors[:-1]]
    )
    forward.register_autograd(
        lambda ctx, gradient: tuple(backward(*ctx.saved_tensors, gradient)),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return forward
