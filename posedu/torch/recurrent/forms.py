"""A recurrence in matrix products: all pairs of tokens at once, or chunk by chunk.

The state of a head is a matrix S, whose rows are the features of keys and whose columns
are those of values. Token t changes it to S_t = T_t S_(t−1) + β_t k_t v_tᵀ, and its
output is S_tᵀ q_t. T_t is diag(α_t), or (I − β_t k_t k_tᵀ) diag(α_t): first the state
decays, then the value that it has for k_t is corrected by the delta rule.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from posedu.torch._compiled import untraced

CHUNK = 64


class Writes(NamedTuple):
    """Numbers of each token that change and read the state of a head.

    ``log_decay`` is log α of each token, or of each token and feature of k; with
    ``delta`` the delta rule corrects what the state has for a key. In ``segments``,
    which never fall along the tokens, a token whose number differs from that of the
    token before begins with an empty state. Without
    numbers, [batch, 0], all are of one.
    """

    q: Float[Tensor, "batch heads tokens d"]
    k: Float[Tensor, "batch heads tokens d"]
    v: Float[Tensor, "batch heads tokens d_v"]
    log_decay: Float[Tensor, "batch heads tokens *features"]
    beta: Float[Tensor, "batch heads tokens"]
    segments: Int[Tensor, "batch _"]
    delta: bool


def pair_weights(writes: Writes) -> Float[Tensor, "batch heads tokens tokens"]:
    """Return the weight q_i · T_i ⋯ T_(j+1) k_j β_j of every query i and key j.

    It is 0 for keys after the query and those of other segments. The quadratic form of
    the recurrence (``thm-state-duality``): O(L² d) operations for L tokens without the
    delta rule, O(L² d + L³) with it.
    """
    q, k, _, *numbers, delta = _require_writes(writes)
    return (_delta_weights if delta else _decayed_weights)(q, k, *numbers)


@untraced("decayed_weights")
def _decayed_weights(
    q: Tensor, k: Tensor, log_decay: Tensor, beta: Tensor, segments: Tensor
) -> Tensor:
    sums = log_decay.to(torch.float64).cumsum(2)
    return _within(q, k, sums, segments[:, None]) * beta[..., None, :]


@untraced("delta_weights")
def _delta_weights(
    q: Tensor, k: Tensor, log_decay: Tensor, beta: Tensor, segments: Tensor
) -> Tensor:
    # (I + A) U = β V for the values U that are written, where A has what the state
    # already has for each key.
    sums = log_decay.to(torch.float64).cumsum(2)
    of_queries, of_keys = _within(torch.stack((q, k)), k, sums, segments[:, None])
    weights = solve_written(of_keys, beta, of_queries, left=False)
    return weights * beta[..., None, :]


def _require_writes(writes: Writes) -> Writes:
    if not isinstance(writes, Writes):
        raise TypeError(f"writes must be Writes, got {type(writes).__name__}")
    return writes


def _within(q: Tensor, k: Tensor, sums: Tensor, segments: Tensor) -> Tensor:
    """Return decayed products of queries and keys, 0 for keys of other segments."""
    products = decayed_products(q, k, sums)
    if _is_one(segments):
        return products
    apart = segments[..., :, None] != segments[..., None, :]
    return products.masked_fill(apart, 0.0)


def _is_one(segments: Int[Tensor, "*rows tokens"]) -> bool:
    """Return whether no segments are given, so that all tokens are of one."""
    return segments.shape[-1] == 0


def solve_written(
    products: Float[Tensor, "*batch tokens tokens"],
    beta: Float[Tensor, "*batch tokens"],
    b: Float[Tensor, "*batch rows columns"],
    *,
    left: bool,
) -> Tensor:
    """Return (I + diag(β) P)⁻¹ b, or b (I + diag(β) P)⁻¹ unless ``left``.

    P is the part of ``products`` below the diagonal; the rest is not read.
    """
    return torch.linalg.solve_triangular(
        beta[..., None] * products, b, upper=False, left=left, unitriangular=True
    )


def decayed_products(
    q: Float[Tensor, "*more tokens d"],
    k: Float[Tensor, "*batch tokens d"],
    sums: Float[Tensor, "..."],
) -> Float[Tensor, "*more tokens tokens"]:
    """Return Σ_n q_in k_jn e^(G_in − G_jn) for keys j ≤ i, and 0 for later ones.

    Queries may have more leading axes than keys.
    ``sums`` are G in float64, sums of log decays that fall along the tokens, of each
    token or of each token and feature n. No factor is above 1: for sums of features,
    the tokens are halved, and a query in the second half and a key in the first meet
    at the last token of the first (``thm-wall-anchor``); then each half is halved.
    """
    if sums.ndim < k.ndim:
        exponents = sums[..., :, None] - sums[..., None, :]
        is_later = _ones(exponents).triu(1)
        decays = exponents.masked_fill(is_later, -torch.inf).to(q.dtype).exp()
        return q @ k.mT * decays
    tokens = q.shape[-2]
    if tokens <= 1:
        return (q * k).sum(-1, keepdim=True)[..., :tokens]
    if tokens % 2:
        q, k = (functional.pad(t, (0, 0, 0, 1)) for t in (q, k))
        sums = torch.cat((sums, sums[..., -1:, :]), -2)
        return decayed_products(q, k, sums)[..., :tokens, :tokens]
    q, k, sums = (t.unflatten(-2, (2, tokens // 2)) for t in (q, k, sums))
    (first, second), middle = sums.unbind(-3), sums[..., 0, -1:, :]
    far_q = q[..., 1, :, :] * (second - middle).to(q.dtype).exp()
    far_k = k[..., 0, :, :] * (middle - first).to(q.dtype).exp()
    far = far_q @ far_k.mT
    near_first, near_second = decayed_products(q, k, sums).unbind(-3)
    above = torch.cat((near_first, torch.zeros_like(far)), -1)
    return torch.cat((above, torch.cat((far, near_second), -1)), -2)


def state_outputs(writes: Writes) -> Float[Tensor, "batch heads tokens d_v"]:
    """Return the outputs of :func:`by_chunks`, from empty states."""
    *tensors, delta = writes
    return (_delta_outputs if delta else _decayed_outputs)(*tensors)


@untraced("decayed_outputs", lambda q, k, v, *_: v.new_empty(v.shape))
def _decayed_outputs(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, segments: Tensor
) -> Tensor:
    return by_chunks(Writes(q, k, v, log_decay, beta, segments, delta=False))[0]


@untraced("delta_outputs", lambda q, k, v, *_: v.new_empty(v.shape))
def _delta_outputs(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, segments: Tensor
) -> Tensor:
    return by_chunks(Writes(q, k, v, log_decay, beta, segments, delta=True))[0]


def by_chunks(
    writes: Writes,
    state: Float[Tensor, "batch heads d d_v"] | None = None,
    *,
    chunk: int = CHUNK,
) -> tuple[Float[Tensor, "batch heads tokens d_v"], Float[Tensor, "batch heads d d_v"]]:
    """Return the outputs and the last state, by matrix products in each chunk.

    Within a chunk of C tokens the form is that of :func:`pair_weights`; from chunk to
    chunk the state is carried. O(L (C d + d²)) operations for L tokens, and memory for
    L / C states where gradients are needed (``thm-state-chunks``). ``state`` is that
    before the first token, by default 0.
    """
    tokens = _require_writes(writes).q.shape[2]
    chunk = max(1, min(chunk, tokens))
    padding = -tokens % chunk
    q, k, v, log_decay, beta = (_in_chunks(t, chunk) for t in writes[:5])
    sums = log_decay.to(torch.float64).cumsum(3)
    total = sums[..., -1:, :] if sums.ndim == q.ndim else sums[..., -1:]
    segments = writes.segments[:, None]
    # Rows that read the carried state, rows that are in the next one, and whether the
    # carried state is in it.
    reads = stays = carries = None
    if not _is_one(segments):
        segments = _padded_with_last(writes.segments, padding)
        segments = segments[:, None].unflatten(2, (-1, chunk))
        before = torch.cat((segments[:, :, :1, :1], segments[:, :, :-1, -1:]), 2)
        reads = (segments == before)[..., None]
        stays = (segments == segments[..., -1:])[..., None]
        carries = (before == segments[..., -1:])[..., None]

    def kept_by(rows: Tensor | None, t: Tensor) -> Tensor:
        return t if rows is None else t.masked_fill(~rows, 0.0)

    def decayed(t: Tensor, exponents: Tensor, rows: Tensor | None) -> Tensor:
        factors = exponents.to(t.dtype).exp()
        if factors.ndim < t.ndim:
            factors = factors[..., None]
        return kept_by(rows, t * factors)

    reading = decayed(q, sums, reads)
    kept = decayed(k, total - sums, stays)
    forgotten = total.to(q.dtype).exp()
    forgotten = forgotten.mT if forgotten.ndim == q.ndim else forgotten[..., None]
    forgotten = kept_by(carries, forgotten)
    written = beta[..., None] * v
    corrected = None
    if writes.delta:
        within, products = _within(torch.stack((q, k)), k, sums, segments)
        right = beta[..., None] * torch.cat((v, decayed(k, sums, reads)), -1)
        solved = solve_written(products, beta, right, left=True)
        written, corrected = solved.split((v.shape[-1], k.shape[-1]), -1)
    else:
        within = _within(q, k, sums, segments)
    if state is None:
        state = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1])
    # Unbound, since the gradient of every index would be as long as the text.
    rows = [t.unbind(2) for t in (within, reading, written, kept, forgotten)]
    known = [None] * len(rows[0]) if corrected is None else corrected.unbind(2)
    outputs = [written.flatten(2, 3)[:, :, :0]]
    for pairs, read, new, keep, forget, old in zip(*rows, known, strict=True):
        if old is not None:
            new = new - old @ state
        outputs.append(pairs @ new + read @ state)
        state = forget * state + keep.mT @ new
    return torch.cat(outputs, 2)[:, :, :tokens], state


def _in_chunks(
    t: Float[Tensor, "batch heads tokens *features"], chunk: int
) -> Float[Tensor, "batch heads chunks chunk *features"]:
    if padding := -t.shape[2] % chunk:
        t = functional.pad(t, (0, 0) * (t.ndim - 3) + (0, padding))
    return t.unflatten(2, (-1, chunk))


def _padded_with_last(
    segments: Int[Tensor, "batch tokens"], padding: int
) -> Int[Tensor, "batch padded"]:
    last = segments[:, -1:].expand(-1, padding)
    return torch.cat((segments, last), 1)


def _ones(like: Tensor) -> Bool[Tensor, "tokens tokens"]:
    n = like.shape[-1]
    return torch.ones(n, n, dtype=torch.bool, device=like.device)
