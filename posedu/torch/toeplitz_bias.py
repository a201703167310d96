"""Attention with a bias that depends on the offset alone, in O(L) memory."""

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
    bias: Float[Tensor, "heads queries+keys-1"],
    *,
    scale: float,
    causal: bool,
) -> Float[Tensor, "batch heads queries d_v"]:
    """Softmax attention with the logits scale · q · k + b(i − j).

    The matrix of b(i − j) is Toeplitz. From the last query to the first, each of its
    rows is a window of the vector ``bias``, shifted by one, so that no memory but that
    vector is needed. PyTorch's CPU kernel accepts such a view as its mask. Tiles of
    queries skip the keys that come after all of their queries.

    Parameters
    ----------
    q, k, v
        Queries, keys and values, with as many heads each. The last query belongs to the
        last key.
    bias
        b of the offsets keys − 1, …, 1 − queries, float32 or wider.
    scale
        The factor of the inner products.
    causal
        Whether a query attends only to its own key and those before.
    """
    with without_autocast(q):
        return _ByDistance.apply(q, k, v, bias, scale, causal)


def toeplitz(
    row: Float[Tensor, "*heads offsets"], keys: int
) -> Float[Tensor, "*heads queries keys"]:
    """Return the Toeplitz matrix of numbers by offset, the largest offset first."""
    if torch.compiler.is_compiling():  # A compiler would fix the size of a window.
        newest = row.shape[-1] - keys
        i = torch.arange(newest, -1, -1, device=row.device)
        return row[..., i[:, None] + torch.arange(keys, device=row.device)]
    return row.unfold(-1, keys, 1).flip(-2)


def skew(
    products: Float[Tensor, "*batch queries offsets"], keys: int
) -> Float[Tensor, "*batch queries keys"]:
    """Return numbers of each query and offset, by query and key, as a view.

    Column c holds the offset keys − 1 − c. Entry (i, j) has the offset keys − queries
    + i − j and is thus in column j − i + queries − 1. In the flat array it moves on by
    one for each key, and by one less than a row for each query (arXiv 1809.04281
    §3.4.1). If the columns end at offset 0, the entries above the diagonal come from
    the next row and must be masked.
    """
    queries, offsets = products.shape[-2:]
    if queries == 1:
        return products[..., :keys]
    flat = products.flatten(-2)[..., queries - 1 :]
    if offsets > keys:  # No two rows overlap, so that the gradient needs no sum.
        return flat[..., :-1].unflatten(-1, (queries, offsets - 1))[..., :keys]
    return flat.unfold(-1, keys, max(offsets - 1, 1))[..., :queries, :]


def unskew(
    weights: Float[Tensor, "*batch queries keys"], future: int
) -> Float[Tensor, "*batch queries offsets"]:
    """Return numbers of each query and key, by query and offset: undo :func:`skew`.

    The offsets are keys − 1, …, −``future``. With ``future`` 0 the entries above the
    diagonal must be zeros, since they are put into the next row.
    """
    queries, keys = weights.shape[-2:]
    padded = functional.pad(weights, (0, future))
    flat = functional.pad(padded.flatten(-2), (queries - 1, 1))
    return flat.unflatten(-1, (queries, -1))[..., : keys + future]


def _open(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float, causal: bool
) -> Tensor:
    """Compute :func:`attend_by_distance` by operations that PyTorch differentiates."""
    queries, keys = q.shape[-2], k.shape[-2]
    wide = torch.promote_types(q.dtype, torch.float32)
    logits = q.to(wide) @ k.to(wide).mT * scale + toeplitz(bias.to(wide), keys)
    if causal:
        later = torch.ones_like(logits, dtype=torch.bool).triu(keys - queries + 1)
        logits = logits.masked_fill(later, -math.inf)
    return (logits.softmax(-1) @ v.to(wide)).to(q.dtype)


@completed(_open)
class _ByDistance(torch.autograd.Function):
    """Tiled attention with a Toeplitz bias: the backward recomputes the weights."""

    @staticmethod
    def forward(
        q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float, causal: bool
    ) -> Tensor:
        bias = _masked(bias, q, k, causal)
        out = v.new_empty(*q.shape[:-1], v.shape[-1])
        for rows, keys, part in _tiles(q.shape[-2], k.shape[-2], causal):
            mask = bias[:, part].unfold(-1, keys.stop, 1).expand(len(q), -1, -1, -1)
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
        q, k, v, bias, out = ctx.saved_tensors
        with without_autocast(q):
            return _gradients(q, k, v, bias, out, gradient, ctx.scale, ctx.causal)


def _masked(bias: Tensor, q: Tensor, k: Tensor, causal: bool) -> Tensor:
    """Return the bias in the dtype of the logits, −∞ at the offsets of later keys."""
    bias = bias.to(torch.promote_types(q.dtype, torch.float32), copy=True)
    if causal:
        bias[:, k.shape[-2] :] = -math.inf
    return bias


def _tiles(
    queries: int, keys: int, causal: bool
) -> Iterator[tuple[slice, slice, slice]]:
    """Yield the queries, the keys, and the part of the bias of each tile."""
    for start in range(0, queries, _ROWS):
        stop = min(start + _ROWS, queries)
        last = keys - queries + stop if causal else keys
        part = slice(queries - stop, queries - start + last - 1)
        yield slice(start, stop), slice(last), part


def _gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor,
    out: Tensor,
    gradient: Tensor,
    scale: float,
    causal: bool,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of the arguments of ``_ByDistance``, given its output's."""
    masked_bias = _masked(bias, q, k, causal)
    qs, ks, vs, upstream = (t.to(masked_bias.dtype) for t in (q, k, v, gradient))
    d_q, d_k, d_v = (torch.zeros_like(t) for t in (qs, ks, vs))
    d_bias = torch.zeros_like(masked_bias)
    shared = (upstream * out).sum(-1, keepdim=True)
    for b, h in torch.cartesian_prod(*map(torch.arange, q.shape[:2])).tolist():
        own = b, h
        for rows, keys, part in _tiles(q.shape[-2], k.shape[-2], causal):
            z = toeplitz(masked_bias[h, part], keys.stop)
            z.addmm_(qs[own][rows], ks[own][keys].mT, alpha=scale)
            weights = z.softmax(-1)
            up = upstream[own][rows]
            d_v[own][keys].addmm_(weights.mT, up)
            d_z = torch.addmm(shared[own][rows], up, vs[own][keys].mT, beta=-1)
            d_z.mul_(weights)
            torch.mm(d_z, ks[own][keys], out=d_q[own][rows])
            d_k[own][keys].addmm_(d_z.mT, qs[own][rows])
            d_bias[h, part] += _along_diagonals(d_z)
    gradients = (d_q.mul_(scale), d_k.mul_(scale), d_v, d_bias)
    return (
        *(g.to(t.dtype) for g, t in zip(gradients, (q, k, v, bias), strict=True)),
        None,
        None,
    )


def _along_diagonals(
    matrix: Float[Tensor, "queries keys"],
) -> Float[Tensor, "queries+keys-1"]:
    """Return the sums over equal offsets, the largest first."""
    queries, keys = matrix.shape
    padded = matrix.new_zeros(queries, keys + queries)
    padded[:, :keys] = matrix.flip(0)
    # Rows that are one number shorter: each is shifted by one more than the row before.
    return padded.flatten()[:-queries].view(queries, -1).sum(0)
