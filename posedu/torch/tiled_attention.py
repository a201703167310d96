"""Softmax attention under a mask, with a bias by offset, in O(L) memory on a CPU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.compiler import is_compiling
from torch.nn.functional import pad, scaled_dot_product_attention
from torch.types import Device

from posedu.torch._autograd import completed, keep, kept, without_autocast
from posedu.torch.toeplitz_bias import toeplitz

_ROWS = 256  # queries of a tile


class Limits(NamedTuple):
    """The limits of the keys to which a query may attend.

    The last query belongs to the last key. ``causal``: no later key; ``window``: no key
    but the newest ones, the query's own included, and later ones where not causal;
    ``padding``: no key where it is true; ``segments``: no key of another number.
    """

    causal: bool
    window: int | None = None
    padding: Bool[Tensor, "batch keys"] | None = None
    segments: Int[Tensor, "batch keys"] | None = None

    @property
    def by_token(self) -> bool:
        """True if padding or segments limit the keys, and not only the offset."""
        return self.padding is not None or self.segments is not None

    def are_none(self, queries: int, keys: int) -> bool:
        """Return whether every query may attend to every key.

        ``queries`` and ``keys`` are their numbers.
        """
        is_cut = self.window is not None and self.window < keys
        return not (self.by_token or is_cut or (self.causal and queries > 1))

    def columns(self, rows: slice, queries: int, keys: int) -> slice:
        """Return the slice of keys, first to last, that queries may attend to.

        The queries are the slice ``rows``; ``queries`` and ``keys`` are the numbers of
        all queries and keys. Causality and the window are considered, padding and
        segments are not.
        """
        first, last = 0, keys
        if self.window is not None:
            first = max(0, keys - queries + rows.start - self.window + 1)
        if self.causal:
            last = keys - queries + rows.stop
        return slice(first, last)

    def allowed(
        self, rows: slice, columns: slice, queries: int, keys: int, device: Device
    ) -> Bool[Tensor, "batch_or_1 1 rows columns"]:
        """Return a mask, true where a query may attend to a key.

        ``rows`` is the slice of queries and ``columns`` the slice of keys that the mask
        is for; ``queries`` and ``keys`` are the numbers of all queries and keys.
        """
        places = keys - queries
        shape = 1, 1, rows.stop - rows.start, columns.stop - columns.start
        newest = places + rows.start - columns.start
        mask = torch.ones(shape, dtype=torch.bool, device=device)
        if self.causal:
            mask = mask.tril(newest)
        if self.window is not None:
            mask = mask.triu(newest - self.window + 1)
        if self.padding is not None:
            mask = mask & ~self.padding[:, None, None, columns]
        if self.segments is not None:
            own = self.segments[:, places + rows.start : places + rows.stop]
            mask = mask & (
                own[:, None, :, None] == self.segments[:, None, None, columns]
            )
        return mask


def per_head(
    grouped: Float[Tensor, "batch kv_heads keys n"],
    q: Float[Tensor, "batch heads queries features"],
) -> Float[Tensor, "batch heads keys n"]:
    """Repeat each key-value head for the query heads of its group.

    ``grouped`` are keys or values; the number of query heads is that of ``q``.
    """
    group = q.shape[1] // grouped.shape[1]
    return grouped if group == 1 else grouped.repeat_interleave(group, 1)


def by_group(
    rows: Float[Tensor, "batch heads queries n"],
    grouped: Float[Tensor, "batch kv_heads n m"],
) -> Float[Tensor, "batch heads queries m"]:
    """Multiply the rows of each query head by the matrix of its key-value head.

    ``rows`` are queries or attention weights, one row for each query. Neighboring query
    heads form a group, which shares a key-value head; ``grouped`` has a matrix for each
    key-value head.
    """
    (heads, queries), groups = rows.shape[1:3], grouped.shape[1]
    if heads == groups:
        return rows @ grouped
    shape = heads // groups, queries
    of_groups = rows.unflatten(1, (groups, heads // groups)).flatten(2, 3)
    return (of_groups @ grouped).unflatten(2, shape).flatten(1, 2)


def grouped_sdpa(
    q: Float[Tensor, "batch heads queries d"],
    k: Float[Tensor, "batch kv_heads keys d"],
    v: Float[Tensor, "batch kv_heads keys d_v"],
    *,
    scale: float,
    mask: Tensor | None = None,
    causal: bool = False,
) -> Float[Tensor, "batch heads queries d_v"]:
    """Compute attention by PyTorch's kernel, which reads each key and value once.

    In grouped-query attention, keys are not repeated for the query heads of a group,
    except for several queries under a mask on a GPU. Where there is one query, those of
    a group become several queries of one head. Where keys have more features than
    values, or fewer, zeros are appended, since the kernel for unequal numbers has
    queries × keys weights. ``mask`` is a boolean mask or a bias, ``causal`` hides later
    keys and ``scale`` is the factor of the products q · k.
    """
    (batch, heads, queries), d_v = q.shape[:3], v.shape[-1]
    group = heads // k.shape[1]
    if queries == 1:
        if group > 1:
            q = _rows_of_group(q, group)
            mask = None if mask is None else _rows_of_group(mask, group)
        out = scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        return out.reshape(batch, heads, 1, d_v)
    if group > 1 and mask is not None and not q.is_cpu:  # no such kernel on a GPU
        k, v, group = *(t.repeat_interleave(group, 1) for t in (k, v)), 1
    width = max(q.shape[-1], d_v)
    q, k, v = (
        t if t.shape[-1] == width else pad(t, (0, width - t.shape[-1]))
        for t in (q, k, v)
    )
    out = scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=group > 1
    )
    return out[..., :d_v]


def _rows_of_group(t: Tensor, group: int) -> Tensor:
    """Gather the rows of the query heads of each group in one key-value head.

    For a single query: the rows are the query's vector, or mask, in each head. ``t`` is
    ``[batch, heads, 1, n]``; ``group`` query heads share a key-value head.
    """
    if t.shape[1] == 1:
        return t
    return t.reshape(t.shape[0], t.shape[1] // group, group, t.shape[3])


def attend_within(
    limits: Limits,
    q: Float[Tensor, "batch heads queries d"],
    k: Float[Tensor, "batch kv_heads keys d"],
    v: Float[Tensor, "batch kv_heads keys d_v"],
    bias: Float[Tensor, "heads queries+keys-1"] | None = None,
    *,
    scale: float,
) -> Float[Tensor, "batch heads queries d_v"]:
    """Softmax attention with the logits scale · q · k + b(i − j), within limits.

    On a CPU, and not compiled, this takes O(queries + keys) memory: tiles (blocks of
    queries) have masks of their own and skip the keys that the offset excludes.
    Elsewhere a mask of queries × keys is made unless the limits are none, or causal
    with as many queries as keys.

    Parameters
    ----------
    limits
        The keys to which a query may attend. A query with none gives zeros.
    q, k, v
        Queries, keys and values; with fewer heads of keys, each serves a group of
        neighbors. The last query belongs to the last key.
    bias
        b of the offsets keys − 1, …, 1 − queries, float32 or wider. Default: none. Its
        matrix is Toeplitz: from the last query to the first, each row is a window of
        the vector, shifted by one, which PyTorch's CPU kernel accepts as its mask.
    scale
        The factor of the inner products.
    """
    queries, keys = q.shape[2], k.shape[2]
    with without_autocast(q):
        if bias is None:
            if limits.are_none(queries, keys):
                return grouped_sdpa(q, k, v, scale=scale)
            # A compiler sees an expression of lengths, not a constant: it must branch.
            if limits.are_none(1, keys) and queries == keys:
                return grouped_sdpa(q, k, v, scale=scale, causal=True)
            if queries <= _ROWS or is_compiling() or not q.is_cpu:
                return _attend_at_once(limits, q, k, v, scale)
        elif queries == 1:
            return _attend_at_once(limits, q, k, v, scale, bias)
        return _Tiled.apply(q, k, v, bias, *limits[1:], limits.causal, scale)


def _attend_at_once(
    limits: Limits,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    bias_of_keys: Tensor | None = None,
) -> Tensor:
    """Compute attention with one mask for all queries, without tiles.

    ``limits`` are the limits of a query's keys, ``scale`` is the factor of the products
    q · k. ``bias_of_keys``, ``[heads, keys]``, is the bias of each key for a single
    query; ``None``: no bias.
    """
    queries, keys = q.shape[2], k.shape[2]
    rows, columns = slice(0, queries), slice(0, keys)
    if not is_compiling():
        columns = limits.columns(rows, queries, keys)
        k, v = k[:, :, columns], v[:, :, columns]
    mask = None
    if queries > 1 or limits.by_token or is_compiling():
        mask = limits.allowed(rows, columns, queries, keys, q.device)
    if bias_of_keys is not None:
        bias = bias_of_keys[None, :, None, columns]
        mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    return grouped_sdpa(q, k, v, scale=scale, mask=mask)


def _open(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    window: int | None,
    padding: Tensor | None,
    segments: Tensor | None,
    causal: bool,
    scale: float,
) -> Tensor:
    """Compute the output of ``_Tiled`` without tiles, by differentiable operations.

    ``_Tiled`` is the autograd function of attention in tiles. ``bias`` is the bias of
    each offset or ``None``; ``window``, ``padding``, ``segments`` and ``causal`` are
    the fields of :class:`Limits`; ``scale`` is the factor of the products q · k.
    """
    limits = Limits(causal, window, padding, segments)
    queries, keys = q.shape[2], k.shape[2]
    wide = torch.promote_types(q.dtype, torch.float32)
    group = q.shape[1] // k.shape[1]
    k, v = (t.to(wide).repeat_interleave(group, 1) for t in (k, v))
    logits = q.to(wide) @ k.mT * scale
    if bias is not None:
        logits = logits + toeplitz(bias.to(wide), keys)
    every = slice(0, queries), slice(0, keys)
    hidden = ~limits.allowed(*every, queries, keys, q.device) | (logits == -math.inf)
    weights = logits.masked_fill(hidden, -math.inf).softmax(-1).masked_fill(hidden, 0.0)
    return (weights @ v).to(q.dtype)


@completed(_open)
class _Tiled(torch.autograd.Function):
    """Autograd function of attention in tiles (blocks of queries)."""

    @staticmethod
    def forward(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        window: int | None,
        padding: Tensor | None,
        segments: Tensor | None,
        causal: bool,
        scale: float,
    ) -> Tensor:
        limits = Limits(causal, window, padding, segments)
        queries, keys = q.shape[2], k.shape[2]
        bias = None if bias is None else _bounded(bias, limits, q, keys)
        out = v.new_empty(*q.shape[:-1], v.shape[-1])
        for rows, columns in _tiles(limits, queries, keys):
            q_tile = q[:, :, rows]
            k_tile, v_tile = (t[:, :, columns] for t in (k, v))
            mask = None
            if bias is None or limits.by_token:
                mask = limits.allowed(rows, columns, queries, keys, q.device)
            if bias is not None:  # rows from the last to the first: see attend_within
                window_of_row = bias[:, _diagonals(rows, columns, queries)]
                matrix = window_of_row.unfold(-1, k_tile.shape[2], 1)[None]
                q_tile = q_tile.flip(2)
                mask = (
                    matrix.expand(len(q), -1, -1, -1)
                    if mask is None
                    else matrix.masked_fill(~mask.flip(2), -math.inf)
                )
            of_tile = grouped_sdpa(q_tile, k_tile, v_tile, scale=scale, mask=mask)
            out[:, :, rows] = of_tile if bias is None else of_tile.flip(2)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        keep(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (q, k, v, bias, *mask, causal, scale), (out,) = kept(ctx)
        with without_autocast(q):
            gradients = _gradients(
                Limits(causal, *mask), (q, k, v, bias), out, gradient, scale
            )
        return *gradients, *(None for _ in mask), None, None


def _bounded(bias: Tensor, limits: Limits, q: Tensor, keys: int) -> Tensor:
    """Return the bias of each offset, −∞ at offsets that causality or window exclude.

    ``bias`` is ``[heads, offsets]``, the largest offset first, ``keys`` the number of
    keys. The copy returned is float32 or wider.
    """
    bias = bias.to(torch.promote_types(q.dtype, torch.float32), copy=True)
    if limits.causal:
        bias[:, keys:] = -math.inf
    if limits.window is not None:
        bias[:, : max(0, keys - limits.window)] = -math.inf
    return bias


def _tiles(limits: Limits, queries: int, keys: int) -> Iterator[tuple[slice, slice]]:
    """Yield slices of queries and of keys for each tile, a block of 256 queries.

    ``queries`` and ``keys`` are the numbers of all. The slice of keys leaves out keys
    that causality or the window excludes for all queries of the tile.
    """
    for start in range(0, queries, _ROWS):
        rows = slice(start, min(start + _ROWS, queries))
        yield rows, limits.columns(rows, queries, keys)


def _diagonals(rows: slice, columns: slice, queries: int) -> slice:
    """Return the slice of a bias by offset that a tile of queries and keys needs.

    ``rows`` and ``columns`` are the tile's slices of queries and of keys, ``queries``
    is the number of all queries. The bias has the largest offset first.
    """
    return slice(
        queries - rows.stop + columns.start, queries - rows.start + columns.stop - 1
    )


def _gradients(
    limits: Limits,
    inputs: tuple[Tensor, Tensor, Tensor, Tensor | None],
    out: Tensor,
    gradient: Tensor,
    scale: float,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of ``inputs``: q, k, v and bias.

    The last is ``None`` if there is no bias. ``out`` is the attention output and
    ``gradient`` the gradient of this output; ``scale`` is the factor of the products q
    · k.
    """
    q, k, v, bias = inputs
    queries, keys, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    wide = torch.promote_types(q.dtype, torch.float32)
    qs, ks, vs, upstream = (t.to(wide) for t in (q, k, v, gradient))
    d_q, d_k, d_v = (torch.zeros_like(t) for t in (qs, ks, vs))
    row = None if bias is None else _bounded(bias, limits, q, keys)
    d_row = None if row is None else torch.zeros_like(row)
    shared = (upstream * out).sum(-1, keepdim=True)
    heads = torch.cartesian_prod(*map(torch.arange, q.shape[:2])).tolist()
    for rows, columns in _tiles(limits, queries, keys):
        hidden = None
        if row is None or limits.by_token:
            hidden = ~limits.allowed(rows, columns, queries, keys, q.device)[:, 0]
        part = _diagonals(rows, columns, queries)
        for b, h in heads:
            own, of_group = (b, h), (b, h // group)
            q_tile, k_tile, v_tile = (
                qs[own][rows],
                ks[of_group][columns],
                vs[of_group][columns],
            )
            if row is None:
                z = q_tile @ k_tile.mT * scale
            else:
                z = toeplitz(row[h, part], len(k_tile)).addmm_(
                    q_tile, k_tile.mT, alpha=scale
                )
            if hidden is not None:
                z.masked_fill_(hidden[b % len(hidden)], -math.inf)
            weights = z.softmax(-1)
            if limits.by_token:  # a row without keys is 0/0
                weights.masked_fill_(z == -math.inf, 0.0)
            up = upstream[own][rows]
            d_v[of_group][columns].addmm_(weights.mT, up)
            d_z = torch.addmm(shared[own][rows], up, v_tile.mT, beta=-1)
            d_z.mul_(weights)
            torch.mm(d_z, k_tile, out=d_q[own][rows])
            d_k[of_group][columns].addmm_(d_z.mT, q_tile)
            if d_row is not None:
                d_row[h, part] += _along_diagonals(d_z)
    found = d_q.mul_(scale), d_k.mul_(scale), d_v, d_row
    return tuple(
        None if g is None or t is None else g.to(t.dtype)
        for g, t in zip(found, inputs, strict=True)
    )


def _along_diagonals(
    matrix: Float[Tensor, "queries keys"],
) -> Float[Tensor, "queries+keys-1"]:
    """Return the sum of a matrix over each offset, the largest offset first.

    The offset of an entry is query position minus key position, constant on a diagonal.
    """
    queries, keys = matrix.shape
    padded = matrix.new_zeros(queries, keys + queries)
    padded[:, :keys] = matrix.flip(0)
    # Rows that are one number shorter: each is shifted by one more than the row before.
    return padded.flatten()[:-queries].view(queries, -1).sum(0)
