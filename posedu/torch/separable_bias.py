"""Attention with a bias that is a number of the query plus one of the key, in O(L)."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from posedu.torch._autograd import completed, keep, without_autocast
from posedu.torch._tensors import may_look, split_exactly

_ROWS = 128  # queries of a tile
_LONG = 768  # queries from which on tiles pay on a CPU
_SPREAD = 80.0  # of the bias: beyond it weights are subnormal, or not worth a look


def attend_folded(
    q: Float[Tensor, "batch heads queries d"],
    k: Float[Tensor, "batch heads keys d"],
    v: Float[Tensor, "batch heads keys d_v"],
    of_queries: Float[Tensor, "#batch heads queries"],
    of_keys: Float[Tensor, "#batch heads keys"],
    *,
    scale: float,
    causal: bool,
    mask: Bool[Tensor, "#batch 1 queries keys"] | None = None,
) -> Float[Tensor, "batch heads queries d_v"]:
    """Softmax attention of the logits scale · q · k + a_i + b_j, memory O(L).

    Heads go through the stock kernel (:func:`by_features`), but on a CPU those with a
    long and strongly falling bias go in tiles (:func:`by_tiles`): the stock kernel is
    slow where weights are subnormal. Both are exact to the output's rounding.

    Parameters
    ----------
    q, k, v
        As many keys and values as heads.
    of_queries, of_keys
        a and b, float64.
    scale
        What inner products are multiplied by.
    causal
        Whether the mask is that of causality, for as many queries as keys.
    mask
        True where a query may look at a key; in place of ``causal``.
    """
    stock = partial(by_features, scale=scale, causal=causal, mask=mask)
    is_tiled = q.device.type == "cpu" and causal and mask is None
    if not (is_tiled and may_look(of_keys)) or q.shape[2] < _LONG:
        return stock(q, k, v, of_queries, of_keys)
    shape = q.shape[:2]
    numbers = [t.expand(*shape, -1) for t in (of_queries, of_keys)]
    low, high = numbers[1].detach().flatten(0, 1).aminmax(dim=-1)
    order = (high - low).argsort()
    weak = int((high - low < _SPREAD).sum())
    if weak == 0:
        return by_tiles(q, k, v, numbers[1], scale=scale)
    if weak == len(order):
        return stock(q, k, v, *numbers)

    def heads(chosen: Tensor, *tensors: Tensor) -> Iterator[Tensor]:
        return (t.flatten(0, 1).index_select(0, chosen)[None] for t in tensors)

    parts = (
        stock(*heads(order[:weak], q, k, v, *numbers)),
        by_tiles(*heads(order[weak:], q, k, v, numbers[1]), scale=scale),
    )
    return torch.cat(parts, 1).index_select(1, order.argsort()).unflatten(1, shape)[0]


def by_features(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    of_queries: Tensor,
    of_keys: Tensor,
    *,
    scale: float,
    causal: bool,
    mask: Tensor | None = None,
) -> Tensor:
    """The bias as a few more features of queries and keys, and the stock kernel.

    a + b is an inner product: of (a, 1) and (1, b). Both are cut into pieces that the
    dtype holds and whose differences are exact; they come first, so that large sums
    have canceled before the content is added. What is cut off a is the same for its
    whole row, which the softmax ignores; so is what a gets and b gives, for both to be
    small at the newest key. The gradient of a is 0 but for rounding, which must meet
    that of b's: both are kept. Where a and b are trained, it is formed in float32 or
    better: gradients of sums of gates cancel but for what crosses the gate. Arguments
    as :func:`attend_folded`.
    """
    dtype, d_v = q.dtype, v.shape[-1]
    is_wide = torch.finfo(dtype).bits > 16
    if not is_wide and (of_queries.requires_grad or of_keys.requires_grad):
        q, k, v = (t.to(torch.float32) for t in (q, k, v))
        out = by_features(
            q, k, v, of_queries, of_keys, scale=scale, causal=causal, mask=mask
        )
        return out.to(dtype)
    # A kernel may scale each product: exact by a power of 2, and q can take the rest.
    power = 2.0 ** round(math.log2(scale)) if is_wide else scale
    if power != scale:
        q = q * (scale / power)
    unit = 256.0 if dtype == torch.float16 else 1.0  # float16 ends at 65504
    newest = of_keys[..., -1:].detach()
    row = (of_queries + newest) / (power * unit)
    left, _ = split_exactly(row, dtype, 2)
    left = left + (row - row.detach()).to(dtype)
    right = split_exactly(
        (of_keys - newest) / (power * unit), dtype, 2 if is_wide else 3
    )
    one = torch.full((), unit, dtype=dtype, device=q.device)
    q = _before(q, [left, *(one for _ in right)])
    k = _before(k, [one, *right])
    width = max(q.shape[-1], d_v)
    q, k, v = (pad(t, (0, width - t.shape[-1])) for t in (q, k, v))
    with without_autocast(q):
        out = scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal and mask is None, scale=power
        )
    return out[..., :d_v]


def _before(x: Tensor, columns: list[Tensor]) -> Tensor:
    """The features of ``x`` after columns ``[rows, heads, tokens]`` or numbers."""
    new = torch.stack([c.expand(x.shape[:-1]) for c in columns], -1)
    return torch.cat((new, x), -1)


def by_tiles(
    q: Float[Tensor, "batch heads tokens d"],
    k: Float[Tensor, "batch heads tokens d"],
    v: Float[Tensor, "batch heads tokens d_v"],
    of_keys: Float[Tensor, "batch heads tokens"],
    *,
    scale: float,
) -> Float[Tensor, "batch heads tokens d_v"]:
    """Causal attention, 128 queries of a head at a time, without weightless keys.

    The number of the query is the same for its row, so b_j − b_i takes the place of
    a_i + b_j: small where the weight is not. With every scaled product at most R in
    size, by Cauchy and Schwarz, keys whose b is more than 2R + log(keys/u) below the
    largest that a query sees weigh at most u together, u the unit roundoff of the
    dtype; the oldest of them are not looked at (``eq-fold-prune``). Products and sums
    are float32, or float64 for float64.
    """
    with without_autocast(q):
        return _Tiles.apply(q, k, v, of_keys, scale).to(q.dtype)


def _untiled(q: Tensor, k: Tensor, v: Tensor, numbers: Tensor, scale: float) -> Tensor:
    """As :func:`by_tiles`, by operations that PyTorch differentiates."""
    wide = torch.promote_types(q.dtype, torch.float32)
    bias = (numbers[..., None, :] - numbers[..., :, None]).to(wide)
    logits = q.to(wide) @ k.to(wide).mT * scale + bias
    later = torch.ones_like(logits, dtype=torch.bool).triu(1)
    return logits.masked_fill(later, -math.inf).softmax(-1) @ v.to(wide)


@completed(_untiled)
class _Tiles(torch.autograd.Function):
    """Forward and backward compute the weights of a tile anew; the result is wide."""

    @staticmethod
    def forward(
        q: Tensor, k: Tensor, v: Tensor, numbers: Tensor, scale: float
    ) -> Tensor:
        wide = torch.promote_types(q.dtype, torch.float32)
        qs, ks, vs = (t.to(wide).flatten(0, 1) for t in (q, k, v))
        b = numbers.flatten(0, 1)
        roundoff = torch.finfo(q.dtype).eps / 2
        out = vs.new_empty(*qs.shape[:-1], v.shape[-1])
        for h, rows, keys in _tiles(_first_keys(qs, ks, b, scale, roundoff)):
            weights = _weights(qs[h], ks[h], b[h], rows, keys, scale)
            torch.mm(weights, vs[h, keys], out=out[h, rows])
        return out.unflatten(0, q.shape[:2])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        keep(ctx, inputs, output)
        ctx.scale = inputs[-1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, numbers, out = ctx.saved_tensors
        with without_autocast(q):
            return _gradients(q, k, v, numbers, out, gradient, ctx.scale)


def _gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    numbers: Tensor,
    out: Tensor,
    gradient: Tensor,
    scale: float,
) -> tuple[Tensor | None, ...]:
    """Of the arguments of ``_Tiles``, from its result and the gradient of that."""
    qs, ks, vs, outs, upstream = (
        t.to(out.dtype).flatten(0, 1) for t in (q, k, v, out, gradient)
    )
    b = numbers.flatten(0, 1)
    d_q, d_k, d_v = (torch.zeros_like(t) for t in (qs, ks, vs))
    d_b, roundoff = torch.zeros_like(b), torch.finfo(q.dtype).eps / 2
    shared = (upstream * outs).sum(-1, keepdim=True)
    for h, rows, keys in _tiles(_first_keys(qs, ks, b, scale, roundoff)):
        weights = _weights(qs[h], ks[h], b[h], rows, keys, scale)
        up = upstream[h, rows]
        d_v[h, keys].addmm_(weights.mT, up)
        d_z = torch.addmm(shared[h, rows], up, vs[h, keys].mT, beta=-1)
        d_z.mul_(weights)
        torch.mm(d_z, ks[h, keys], out=d_q[h, rows])
        d_k[h, keys].addmm_(d_z.mT, qs[h, rows])
        d_b[h, keys] += d_z.sum(0)
    gradients = (d_q.mul_(scale), d_k.mul_(scale), d_v, d_b)
    return *(
        g.unflatten(0, t.shape[:2]).to(t.dtype)
        for g, t in zip(gradients, (q, k, v, numbers), strict=True)
    ), None


def _first_keys(
    q: Tensor, k: Tensor, b: Tensor, scale: float, u: float
) -> list[list[int]]:
    """The oldest key that each tile looks at, for each head."""
    reach = 2 * scale * q.norm(dim=-1).amax(-1) * k.norm(dim=-1).amax(-1)
    lost = reach.to(b) + math.log(b.shape[-1] / u)
    largest = b.nan_to_num(nan=math.inf).cummax(-1).values  # NaN is heard
    heard = largest[:, ::_ROWS].contiguous() - lost[:, None]
    return torch.searchsorted(largest, heard).tolist()


def _tiles(first: list[list[int]]) -> Iterator[tuple[int, slice, slice]]:
    """Head, queries and keys of every tile; a slice may end beyond the last token."""
    for h, starts in enumerate(first):
        for n, start in enumerate(starts):
            rows = slice(n * _ROWS, (n + 1) * _ROWS)
            yield h, rows, slice(start, rows.stop)


def _weights(
    q: Tensor, k: Tensor, b: Tensor, rows: slice, keys: slice, scale: float
) -> Tensor:
    """Softmax weights of a tile; b_j − b_i by way of the first query's number."""
    q, k = q[rows], k[keys]
    own, seen = b[rows], b[keys]
    z = torch.add((seen - own[0]).to(q.dtype), (own[0] - own).to(q.dtype)[:, None])
    near = z[:, -len(own) :].copy_(own - own[:, None])
    near += torch.full_like(near, -math.inf).triu_(1)
    weights = z.addmm_(q, k.mT, alpha=scale).softmax(-1)
    info = torch.finfo(q.dtype)
    normal = info.tiny / info.eps**2  # numbers below are slow
    return torch.threshold_(weights, normal, 0.0)
