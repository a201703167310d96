"""Attention with a bias that is a query term plus a key term, in O(L) memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from posedu.torch._autograd import completed, keep, without_autocast
from posedu.torch._tensors import may_look, split_exactly
from posedu.torch.tiled_attention import Limits, attend_within, per_head

_ROWS = 128  # queries of a tile
_LONG = 768  # the number of queries from which tiles are faster on a CPU
_SPREAD = 80.0  # the range of a bias beyond which weights are subnormal or negligible


def attend_folded(
    q: Float[Tensor, "batch heads queries d"],
    k: Float[Tensor, "batch kv_heads keys d"],
    v: Float[Tensor, "batch kv_heads keys d_v"],
    query_terms: Float[Tensor, "#batch heads queries"],
    key_terms: Float[Tensor, "#batch heads keys"],
    *,
    limits: Limits,
    scale: float,
) -> Float[Tensor, "batch heads queries d_v"]:
    """Softmax attention with the logits scale · q · k + a_i + b_j, in O(L) memory.

    a_i is a term of query i, b_j a term of key j. Heads use PyTorch's kernel
    (:func:`by_features`). On a CPU, heads with a long and steep bias use tiles instead
    (:func:`by_tiles`), since PyTorch's kernel is slow where weights are subnormal. Both
    are exact to the output's rounding.

    Parameters
    ----------
    q, k, v
        Queries, keys and values; with fewer heads of keys, each serves a group.
    query_terms, key_terms
        a and b, float64, of each query head.
    limits
        The keys to which a query may attend.
    scale
        The factor of the inner products.
    """
    k, v = (per_head(t, q) for t in (k, v))
    attend_by_features = partial(by_features, limits=limits, scale=scale)
    queries, keys = q.shape[2], k.shape[2]
    is_square = limits.causal and queries == keys and limits.are_none(1, keys)
    if not (is_square and q.is_cpu and may_look(key_terms)) or queries < _LONG:
        return attend_by_features(q, k, v, query_terms, key_terms)
    shape = q.shape[:2]
    terms = [t.expand(*shape, -1) for t in (query_terms, key_terms)]
    low, high = terms[1].detach().flatten(0, 1).aminmax(dim=-1)
    order = (high - low).argsort()
    flat_heads = int((high - low < _SPREAD).sum())
    if flat_heads == 0:
        return by_tiles(q, k, v, terms[1], scale=scale)
    if flat_heads == len(order):
        return attend_by_features(q, k, v, *terms)

    def heads(chosen: Tensor, *tensors: Tensor) -> Iterator[Tensor]:
        return (t.flatten(0, 1).index_select(0, chosen)[None] for t in tensors)

    parts = (
        attend_by_features(*heads(order[:flat_heads], q, k, v, *terms)),
        by_tiles(*heads(order[flat_heads:], q, k, v, terms[1]), scale=scale),
    )
    return torch.cat(parts, 1).index_select(1, order.argsort()).unflatten(1, shape)[0]


def by_features(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_terms: Tensor,
    key_terms: Tensor,
    *,
    limits: Limits,
    scale: float,
) -> Tensor:
    """Compute attention by PyTorch's kernel, with the bias as features of q and k.

    a is the query term and b the key term of the bias. a + b is the inner product of
    (a, 1) and (1, b). a and b are each split into summands that the dtype holds and
    whose differences are exact. These features come first, so that large terms cancel
    before the content is added.

    The softmax ignores a constant added to all logits of a query. So a may be
    truncated, and a constant may be moved from b to a, which keeps both small at the
    newest key. A causal query i takes −b_i for a, whatever ``query_terms`` are, so that
    a + b is small where the weight is not. The exact gradient of a is 0, the rounded
    one is not: it must be added to b's gradient, for the rounding of both to cancel.
    Where a or b is trained, the computation is in float32 or better: if b is a sum of
    gates, all cancels in a gate's gradient but the weights of queries after the gate
    for keys before it. Arguments as for :func:`attend_folded`.
    """
    dtype = q.dtype
    is_wide = torch.finfo(dtype).bits > 16
    if not is_wide and (query_terms.requires_grad or key_terms.requires_grad):
        q, k, v = (t.to(torch.float32) for t in (q, k, v))
        out = by_features(q, k, v, query_terms, key_terms, limits=limits, scale=scale)
        return out.to(dtype)
    # A kernel may scale each product, which is exact for a power of 2. The queries are
    # multiplied by the rest of the scale.
    power = 2.0 ** round(math.log2(scale)) if is_wide else scale
    if power != scale:
        q = q * (scale / power)
    unit = 256.0 if dtype == torch.float16 else 1.0  # float16 overflows at 65504
    newest = key_terms[..., -1:].detach()
    if limits.causal:
        query_terms = -key_terms[..., k.shape[2] - q.shape[2] :]
    row = (query_terms + newest) / (power * unit)
    left, _ = split_exactly(row, dtype, 2)
    left = left + (row - row.detach()).to(dtype)
    right = split_exactly(
        (key_terms - newest) / (power * unit), dtype, 2 if is_wide else 3
    )
    one = torch.full((), unit, dtype=dtype, device=q.device)
    q = _before(q, [left, *(one for _ in right)])
    k = _before(k, [one, *right])
    return attend_within(limits, q, k, v, scale=power)


def _before(x: Tensor, columns: list[Tensor]) -> Tensor:
    """Prepend feature columns to the features of ``x``, ``[batch, heads, tokens, d]``.

    A column has a number for each token, ``[rows, heads, tokens]``, or is one number
    for all.
    """
    new = torch.stack([c.expand(x.shape[:-1]) for c in columns], -1)
    return torch.cat((new, x), -1)


def by_tiles(
    q: Float[Tensor, "batch heads tokens d"],
    k: Float[Tensor, "batch heads tokens d"],
    v: Float[Tensor, "batch heads tokens d_v"],
    key_terms: Float[Tensor, "batch heads tokens"],
    *,
    scale: float,
) -> Float[Tensor, "batch heads tokens d_v"]:
    """Compute causal attention in tiles of 128 queries, skipping negligible keys.

    The bias is a term a_i of the query plus a term b_j of the key. The query term is
    the same for all keys of a query, so b_j − b_i takes the place of a_i + b_j; the
    difference is small where the weight is not. By the Cauchy–Schwarz inequality every
    scaled product is at most R in size. Keys whose b is more than 2R + log(keys/u)
    below the largest b of the query's keys then have weights of at most u together,
    where u is the unit roundoff of the dtype; the oldest of these keys are skipped
    (``eq-fold-prune``). Products and sums are float32, or float64 for float64.
    ``key_terms`` holds b, ``scale`` is the factor of the products q · k.
    """
    with without_autocast(q):
        return _Tiles.apply(q, k, v, key_terms, scale).to(q.dtype)


def _untiled(q: Tensor, k: Tensor, v: Tensor, b: Tensor, scale: float) -> Tensor:
    """Compute the output of :func:`by_tiles` by differentiable PyTorch operations.

    ``b`` holds the key terms of the bias, ``[batch, heads, tokens]``; ``scale`` is the
    factor of the products q · k.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    bias = (b[..., None, :] - b[..., :, None]).to(wide)
    logits = q.to(wide) @ k.to(wide).mT * scale + bias
    later = torch.ones_like(logits, dtype=torch.bool).triu(1)
    return logits.masked_fill(later, -math.inf).softmax(-1) @ v.to(wide)


@completed(_untiled)
class _Tiles(torch.autograd.Function):
    """Autograd function of :func:`by_tiles`; its backward pass recomputes the weights.

    The output is float32, or float64 for float64 inputs.
    """

    @staticmethod
    def forward(
        q: Tensor, k: Tensor, v: Tensor, key_terms: Tensor, scale: float
    ) -> Tensor:
        wide = torch.promote_types(q.dtype, torch.float32)
        qs, ks, vs = (t.to(wide).flatten(0, 1) for t in (q, k, v))
        b = key_terms.flatten(0, 1)
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
        q, k, v, key_terms, out = ctx.saved_tensors
        with without_autocast(q):
            return _gradients(q, k, v, key_terms, out, gradient, ctx.scale)


def _gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_terms: Tensor,
    out: Tensor,
    gradient: Tensor,
    scale: float,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of q, k, v and key terms, and ``None`` for ``scale``.

    ``out`` is the output of :func:`by_tiles`, ``gradient`` the gradient of this output.
    """
    qs, ks, vs, outs, upstream = (
        t.to(out.dtype).flatten(0, 1) for t in (q, k, v, out, gradient)
    )
    b = key_terms.flatten(0, 1)
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
        for g, t in zip(gradients, (q, k, v, key_terms), strict=True)
    ), None


def _first_keys(
    q: Tensor, k: Tensor, b: Tensor, scale: float, u: float
) -> list[list[int]]:
    """Return the index of the oldest key for each tile of queries, for each head.

    Older keys are skipped, since their weights are negligible; see :func:`by_tiles`. q
    and k are ``[heads, tokens, d]``, with the heads of all sequences; b are the key
    terms of the bias, ``scale`` is the factor of the products q · k and u the unit
    roundoff.
    """
    largest_product = scale * q.norm(dim=-1).amax(-1) * k.norm(dim=-1).amax(-1)
    margin = (2 * largest_product).to(b) + math.log(b.shape[-1] / u)
    largest = b.nan_to_num(nan=math.inf).cummax(-1).values  # keys after NaN are used
    threshold = largest[:, ::_ROWS].contiguous() - margin[:, None]
    threshold = threshold.nan_to_num(nan=-math.inf)  # no key is skipped beside NaN
    return torch.searchsorted(largest, threshold).tolist()


def _tiles(first: list[list[int]]) -> Iterator[tuple[int, slice, slice]]:
    """Yield the head, the slice of queries and the slice of keys of each tile.

    ``first`` holds the index of the oldest key of each tile, for each head. A slice may
    end after the last token.
    """
    for h, starts in enumerate(first):
        for n, start in enumerate(starts):
            rows = slice(n * _ROWS, (n + 1) * _ROWS)
            yield h, rows, slice(start, rows.stop)


def _weights(
    q: Tensor, k: Tensor, b: Tensor, rows: slice, keys: slice, scale: float
) -> Tensor:
    """Return the attention weights of one tile of queries and keys, for one head.

    ``rows`` and ``keys`` are the tile's slices of queries and of keys. q and k are
    ``[tokens, d]``; b holds the key terms, ``[tokens]``. The bias b_j − b_i of query i
    and key j is the sum of b_j − b and b − b_i, where b belongs to the tile's first
    query; for keys among the tile's own queries it is the difference itself. Weights
    too small for products that are normal numbers are set to 0.
    """
    q, k = q[rows], k[keys]
    of_rows, of_keys = b[rows], b[keys]
    first = of_rows[0]
    z = torch.add((of_keys - first).to(q.dtype), (first - of_rows).to(q.dtype)[:, None])
    near = z[:, -len(of_rows) :].copy_(of_rows - of_rows[:, None])
    near += torch.full_like(near, -math.inf).triu_(1)
    weights = z.addmm_(q, k.mT, alpha=scale).softmax(-1)
    info = torch.finfo(q.dtype)
    normal = info.tiny / info.eps**2  # smaller numbers make products subnormal: slow
    return torch.threshold_(weights, normal, 0.0)
