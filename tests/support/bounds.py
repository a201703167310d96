"""Bounds on the difference of two implementations, derived from roundoff and not tuned.

u = eps / 2 is the unit roundoff of a dtype. Both implementations get the same inputs,
numbers of that dtype, so that only the arithmetic differs. The reference's own float64
error counts too.
"""

import numpy as np
import torch

from posedu.numpy import attention as reference
from posedu.numpy import rotary


def roundoff(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2


U64 = roundoff(torch.float64)


def angle(positions) -> np.ndarray:
    """Bound the difference of two float64 angles position · ω_p, ``[..., 1]``.

    Each is off by at most |position| ω (2u + u ln(1/ω) + u): the power is good to one
    unit in the last place, its exponent to u, whose effect grows with ln(1/ω), and the
    product rounds. With ω ≤ 1 and ω ln(1/ω) ≤ 1/e that is below 3.4 u |position|, in
    each implementation.
    """
    return 6.8 * U64 * np.abs(np.asarray(positions, dtype=float))[..., None]


def table(positions, dtype: torch.dtype) -> np.ndarray:
    """Error of a cosine or sine: that of its angle, and rounding it to ``dtype``.

    A float64 cosine or sine is good to two units in the last place, each at most u
    for a value up to 1: 2u in either implementation.
    """
    return angle(positions) + 4 * U64 + roundoff(dtype)


def rotated(x: np.ndarray, positions, dtype: torch.dtype, layout: str) -> np.ndarray:
    """Bound a rotation's error: (|a| + |b|) (table + 2u), and rounding the result.

    The results are a cos − b sin and a sin + b cos. Products are formed in float32 or
    better: one rounding for a product and one for the sum, in both implementations,
    then one to ``dtype``, absolute below its normal range.
    """
    a, b = rotary.pairs(x.shape[-1], layout=layout)
    size = np.empty_like(x)
    size[..., a] = size[..., b] = np.abs(x[..., a]) + np.abs(x[..., b])
    working = torch.float64 if dtype == torch.float64 else torch.float32
    inner = table(positions, working) + 2 * roundoff(working) + 2 * U64
    info = torch.finfo(dtype)
    return size * (inner + roundoff(dtype)) + info.tiny * info.eps


def added(x: np.ndarray, positions, dtype: torch.dtype) -> np.ndarray:
    """Bound the error of x + PE, PE in x's dtype: the table, and rounding the sum."""
    return table(positions, dtype) + (np.abs(x) + 1) * (roundoff(dtype) + U64)


def attended(
    x: np.ndarray, w: reference.Projections, positions, dtype: torch.dtype, layout: str
) -> np.ndarray:
    """Bound causal attention with RoPE: each step's error carried into the next.

    A sum of n products is off by at most γ_n Σ|products|, γ_n = nu / (1 − nu), in any
    order. If logits are off by E, weights are off by the factor e^{2E}. Roundings of
    the softmax itself (difference, exponential, sum, quotient) are added to E.
    """
    u = roundoff(dtype)

    def gamma(n):
        return n * u / (1 - n * u)

    heads, d, d_model = w.q.shape
    group = heads // len(w.k)

    def project(matrix):
        value = np.einsum("hdm,im->hid", matrix, x)
        error = gamma(d_model + 1) * np.einsum("hdm,im->hid", abs(matrix), abs(x))
        return value, error

    def rotate(value, error):
        grown = rotated(abs(value) + error, positions, dtype, layout)
        a, b = rotary.pairs(d, layout=layout)
        spread = np.empty_like(error)
        spread[..., a] = spread[..., b] = error[..., a] + error[..., b]
        return rotary.rope(value, positions, layout=layout), spread + grown

    q, e_q = rotate(*project(w.q))
    k, e_k = (t.repeat(group, 0) for t in rotate(*project(w.k)))
    v, e_v = (t.repeat(group, 0) for t in project(w.v))

    def scores(left, right):
        return left @ right.swapaxes(-1, -2) / np.sqrt(d)

    big_q, big_k = abs(q) + e_q, abs(k) + e_k
    e_logits = scores(big_q, e_k) + scores(e_q, abs(k))
    e_logits = e_logits + gamma(d + 4) * scores(big_q, big_k)
    mask = np.broadcast_to(reference.causal_mask(len(x)), e_logits.shape)
    steps = u * (2 * abs(scores(q, k)).max() + len(x) + 8)
    e = np.where(mask, e_logits, 0).max(-1, keepdims=True) + steps
    weights = reference.softmax(scores(q, k), mask)
    off = weights * np.expm1(2 * e)
    mixed = (weights + off) @ (abs(v) + e_v)
    e_mixed = off @ abs(v) + (weights + off) @ e_v + gamma(len(x) + 2) * mixed
    total = gamma(heads * d + 1) * (mixed + e_mixed) + e_mixed
    return np.einsum("mhd,hid->im", abs(w.o), total)


def rotation(size, block: int = 2):
    """Bound the difference of two computed exp(Σ x_k A_k) in norm: b u (24 + 12 size).

    ``size`` is Σ_k |x_k| |A_k| and b the block. Each of the two is off by

    - N + 2 roundings of every entry of the exponent, N ≤ 3 coordinates: in norm
      5 √b u size, at most 4 b u size. The exponential passes it on as it is, for
      e^A − e^B = ∫ e^(tA) (A − B) e^((1−t)B) dt, and both factors keep lengths;
    - the backward error of the eigenvalues, or of a product of b terms at each
      squaring, whose error doubles log₂ size times: 2 b u (1 + size);
    - the product of what makes it up, with cosines and sines good to 2u:
      2 (b + 4) √b u, at most 10 b u for b ≤ 16.
    """
    return block * U64 * (24 + 12 * np.asarray(size, dtype=float))


def relative_scores(q, k, size, block: int = 2) -> np.ndarray:
    """Bound the change of q · R(x)ᵀ R(y) k under a common shift: ``[queries, keys]``.

    Both rotations are computed at both places; ``size`` is their largest. Moved
    positions are rounded, size u each. A block is a product of b terms, a score one of
    d, and each is formed twice: |q| |k| (2 rotation + 2 size u + 2 (d + 2b + 2) u).
    """
    length = np.linalg.norm(q, axis=-1)[..., :, None]
    length = length * np.linalg.norm(k, axis=-1)[..., None, :]
    roundings = 2 * (size + q.shape[-1] + 2 * block + 2) * U64
    return length * (2 * rotation(size, block) + roundings)


def rotated_blocks(x: np.ndarray, size, block: int, dtype: torch.dtype) -> np.ndarray:
    """Bound the error of rotation blocks times features of ``x``, ``[..., tokens, 1]``.

    The rows of a rotation have length 1, so that by Cauchy and Schwarz an entry is off
    by the length of the token times: the rotation's error, b + 2 roundings of the
    table, products and sums, in both implementations, and one to ``dtype``, absolute
    below its normal range. ``size`` is that of each token, ``[..., tokens]``.
    """
    working = torch.float64 if dtype == torch.float64 else torch.float32
    relative = rotation(size, block) + (block + 2) * (roundoff(working) + U64)
    info = torch.finfo(dtype)
    length = np.linalg.norm(x, axis=-1)
    return (length * (relative + roundoff(dtype)))[..., None] + info.tiny * info.eps
