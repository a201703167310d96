"""Timing of attention's routes (its implementations), relative to matrix products.

The products are the matrix products of which attention itself consists.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from posedu._argument_types import check_types
from posedu._arguments import require_dimension
from posedu.book.timing.clock import Run
from posedu.book.timing.growth import Growth, time_growth
from posedu.book.timing.timed_calls import copy_of, with_gradient
from posedu.torch import Attention


@check_types
def products_of_attention(x: Tensor, heads: int, *, times: int = 1) -> Run:
    """Return a function that computes attention's matrix products alone, into buffers.

    They are four projections of the tokens, and two products for each head.

    Parameters
    ----------
    x
        ``[1, tokens, heads · d]``, for size, dtype and device.
    heads
        Number of heads of queries, of keys and of values.
    times
        Number of repetitions of all products: 1 for a forward; 3 for a forward and
        backward, since the derivative of a product consists of two products.
    """
    require_dimension("heads", heads, 1)
    require_dimension("times", times, 1)
    if x.ndim != 3 or not x.is_floating_point():
        raise ValueError(
            "x must be [1, tokens, heads · d] of floats, got shape "
            f"{list(x.shape)} of {x.dtype}"
        )
    _, tokens, width = x.shape
    rows = x[0].detach()
    q, k, v, attended = x.new_zeros(4, heads, tokens, width // heads).unbind()
    weight, projected = x.new_zeros(width, width), torch.empty_like(rows)
    logits = x.new_zeros(heads, tokens, tokens)

    def run() -> None:
        for _ in range(times):
            for _ in range(4):
                torch.matmul(rows, weight, out=projected)
            torch.matmul(q, k.mT, out=logits)
            torch.matmul(logits, v, out=attended)

    return run


@check_types
def time_routes(
    routes: Sequence[str],
    lengths: Sequence[int],
    *,
    heads: int = 4,
    d: int = 64,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    backward: bool = False,
    repeats: int = 5,
) -> Growth:
    """Time causal attention by each route, its matrix products alone, and a copy of x.

    A route is an implementation of attention.

    Parameters
    ----------
    routes
        Routes of :class:`posedu.torch.attention.Attention`; ``"flex"`` is compiled.
    lengths
        Tokens of one sequence ``x [1, L, heads · d]``.
    heads, d, dtype, device
        Sizes, dtype and device of the layers, which have no encoding.
    backward
        Whether the gradients of the input and of all weights are computed, too.
    repeats
        Timed calls at each length.

    Raises
    ------
    ValueError
        An unknown route, or fewer than two lengths.
    """
    times = 3 if backward else 1

    def call_of(route: str, x: Tensor) -> Run:
        layer = Attention(heads * d, heads, route=route).to(device, dtype)
        call = torch.compile(layer) if route == "flex" else layer
        if backward:
            return with_gradient(lambda: (call(x),), [x, *layer.parameters()])
        return torch.no_grad()(lambda: call(x))

    def calls(length: int) -> Mapping[str, Run]:
        x = torch.randn(1, length, heads * d, dtype=dtype, device=device)
        x.requires_grad_(backward)
        alone = products_of_attention(x, heads, times=times)
        by_route = {route: call_of(route, x) for route in routes}
        return {"products alone": alone, **by_route, "copy": copy_of(x)}

    return time_growth(
        calls, lengths, limit="products alone", device=device, repeats=repeats
    )
