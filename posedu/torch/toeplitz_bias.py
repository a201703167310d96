"""Attention with a bias of the distance alone: a number for each, memory O(L)."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention

from posedu.torch._autograd import completed, keep, without_autocast

_ROWS = 256  # queries of a tile


def attend_by_distance(
    q: Float[Tensor, "batch heads queries d"],
    k: Float[Tensor, "batch heads keys d"],
    v: Float[Tensor, "batch heads keys d_v"],
    row: Float[Tensor, "heads queries+keys-1"],
    *,
    scale: float,
    causal: bool,
) -> Float[Tensor, "batch heads queries d_v"]:
    """Softmax attention of the logits scale · q · k + b(i − j), the last at the last.

    The matrix of b is Toeplitz: read from the newest query up, each row of it is a
    window of one row of numbers, further by one, and no memory but that row's is
    needed. The stock kernel of a CPU takes such a view as its mask; tiles of queries
    spare it the keys that none of them sees.

    Parameters
    ----------
    q, k, v
        As many keys and values as heads.
    row
        b of the offsets keys − 1, …, 1 − queries, float32 or wider.
    scale
        What inner products are multiplied by.
    causal
        Whether a query sees only the keys up to its own; the last query stands at the
        last key.
    """
    with without_autocast(q):
        return _ByDistance.apply(q, k, v, row, scale, causal)


def toeplitz(
    row: Float[Tensor, "*heads offsets"], keys: int
) -> Float[Tensor, "*heads queries keys"]:
    """The matrix of a row of numbers by offset, from the largest offset down."""
    if torch.compiler.is_compiling():  # to which a window's size is a constant
        newest = row.shape[-1] - keys
        i = torch.arange(newest, -1, -1, device=row.device)
        return row[..., i[:, None] + torch.arange(keys, device=row.device)]
    return row.unfold(-1, keys, 1).flip(-2)


def skew(
    products: Float[Tensor, "*batch queries offsets"], keys: int
) -> Float[Tensor, "*batch queries keys"]:
    """What is known of each query and offset, by query and key: a view.

    Column c is the offset keys − 1 − c. Entry (i, j), whose offset is keys − queries
    + i − j, is column j − i + queries − 1: one further along the flat array for each
    key, and one less than a row for each query (arXiv 1809.04281 §3.4.1). Where columns
    end at offset 0, the entries above the diagonal are those of the next row: junk,
    to be masked.
    """
    queries, offsets = products.shape[-2:]
    if queries == 1:
        return products[..., :keys]
    flat = products.flatten(-2)[..., queries - 1 :]
    if offsets > keys:  # no two of the rows overlap, which spares gradients a sum
        return flat[..., :-1].unflatten(-1, (queries, offsets - 1))[..., :keys]
    return flat.unfold(-1, keys, max(offsets - 1, 1))[..., :queries, :]


def unskew(
    weights: Float[Tensor, "*batch queries keys"], future: int
) -> Float[Tensor, "*batch queries offsets"]:
    """What is known of each query and key, by query and offset: the way back.

    The offsets are keys − 1, …, −``future``; with ``future`` 0 there must be zeros
    above the diagonal, which would come to stand in the next row.
    """
    queries, keys = weights.shape[-2:]
    apart = functional.pad(weights, (0, future))
    flat = functional.pad(apart.flatten(-2), (queries - 1, 1))
    return flat.unflatten(-1, (queries, -1))[..., : keys + future]


def _open(
    q: Tensor, k: Tensor, v: Tensor, row: Tensor, scale: float, causal: bool
) -> Tensor:
    """As :func:`attend_by_distance`, by operations that PyTorch differentiates."""
    queries, keys = q.shape[-2], k.shape[-2]
    wide = torch.promote_types(q.dtype, torch.float32)
    logits = q.to(wide) @ k.to(wide).mT * scale + toeplitz(row.to(wide), keys)
    if causal:
        later = torch.ones_like(logits, dtype=torch.bool).triu(keys - queries + 1)
        logits = logits.masked_fill(later, -math.inf)
    return (logits.softmax(-1) @ v.to(wide)).to(q.dtype)


@completed(_open)
class _ByDistance(torch.autograd.Function):
    """The backward computes the weights of a tile anew."""

    @staticmethod
    def forward(
        q: Tensor, k: Tensor, v: Tensor, row: Tensor, scale: float, causal: bool
    ) -> Tensor:
        row = _masked(row, q, k, causal)
        out = v.new_empty(*q.shape[:-1], v.shape[-1])
        for rows, keys, part in _tiles(q.shape[-2], k.shape[-2], causal):
            mask = row[:, part].unfold(-1, keys.stop, 1).expand(len(q), -1, -1, -1)
            out[:, :, rows] = scaled_dot_product_attention(
                q[:, :, rows].flip(2),
                k[:, :, keys],
                v[:, :, keys],
                attn_mask=mask,
                scale=scale,
            ).flip(2)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        keep(ctx, inputs, output)
        ctx.scale, ctx.causal = inputs[-2:]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, row, out = ctx.saved_tensors
        with without_autocast(q):
            return _gradients(q, k, v, row, out, gradient, ctx.scale, ctx.causal)


def _masked(row: Tensor, q: Tensor, k: Tensor, causal: bool) -> Tensor:
    """The row in the dtype of the logits, −∞ where the key comes later."""
    row = row.to(torch.promote_types(q.dtype, torch.float32), copy=True)
    if causal:
        row[:, k.shape[-2] :] = -math.inf
    return row


def _tiles(
    queries: int, keys: int, causal: bool
) -> Iterator[tuple[slice, slice, slice]]:
    """Queries, keys, and the part of the row of every tile."""
    for start in range(0, queries, _ROWS):
        stop = min(start + _ROWS, queries)
        seen = keys - queries + stop if causal else keys
        part = slice(queries - stop, queries - start + seen - 1)
        yield slice(start, stop), slice(seen), part


def _gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    row: Tensor,
    out: Tensor,
    gradient: Tensor,
    scale: float,
    causal: bool,
) -> tuple[Tensor | None, ...]:
    """Of the arguments of ``_ByDistance``, from its result and the gradient of that."""
    numbers = _masked(row, q, k, causal)
    qs, ks, vs, upstream = (t.to(numbers.dtype) for t in (q, k, v, gradient))
    d_q, d_k, d_v = (torch.zeros_like(t) for t in (qs, ks, vs))
    d_row = torch.zeros_like(numbers)
    shared = (upstream * out).sum(-1, keepdim=True)
    for b, h in torch.cartesian_prod(*map(torch.arange, q.shape[:2])).tolist():
        own = b, h
        for rows, keys, part in _tiles(q.shape[-2], k.shape[-2], causal):
            z = toeplitz(numbers[h, part], keys.stop)
            z.addmm_(qs[own][rows], ks[own][keys].mT, alpha=scale)
            weights = z.softmax(-1)
            up = upstream[own][rows]
            d_v[own][keys].addmm_(weights.mT, up)
            d_z = torch.addmm(shared[own][rows], up, vs[own][keys].mT, beta=-1)
            d_z.mul_(weights)
            torch.mm(d_z, ks[own][keys], out=d_q[own][rows])
            d_k[own][keys].addmm_(d_z.mT, qs[own][rows])
            d_row[h, part] += _along_diagonals(d_z)
    gradients = (d_q.mul_(scale), d_k.mul_(scale), d_v, d_row)
    return (
        *(g.to(t.dtype) for g, t in zip(gradients, (q, k, v, row), strict=True)),
        None,
        None,
    )


def _along_diagonals(
    matrix: Float[Tensor, "queries keys"],
) -> Float[Tensor, "queries+keys-1"]:
    """Sums over equal offsets, from the largest down: each row shifted by one more."""
    queries, keys = matrix.shape
    apart = matrix.new_zeros(queries, keys + queries)
    apart[:, :keys] = matrix.flip(0)
    return apart.flatten()[:-queries].view(queries, -1).sum(0)
