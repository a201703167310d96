"""How far apart two faces may be: roundoff carried through each formula, not tuned.

u = eps / 2 is the unit roundoff of a dtype. The inputs are what that dtype holds, and
both faces get the same, so that only the arithmetic differs; the reference's own error,
in float64, counts too.
"""

import numpy as np
import torch

from posedu.numpy import attention as reference
from posedu.numpy import rotary


def roundoff(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2


U64 = roundoff(torch.float64)


def angle(positions) -> np.ndarray:
    """By how much two float64 angles position · ω_p may differ, ``[..., 1]``.

    Each is off by at most |position| ω (2u + u ln(1/ω) + u): the power is good to one
    unit in the last place, its exponent to u, whose effect grows with ln(1/ω), and the
    product rounds. With ω ≤ 1 and ω ln(1/ω) ≤ 1/e that is below 3.4 u |position|, in
    each face.
    """
    return 6.8 * U64 * np.abs(np.asarray(positions, dtype=float))[..., None]


def table(positions, dtype: torch.dtype) -> np.ndarray:
    """Error of a cosine or sine: that of its angle, and rounding it to ``dtype``.

    A float64 cosine or sine is good to two units in the last place, each at most u
    for a value up to 1: 2u in either face.
    """
    return angle(positions) + 4 * U64 + roundoff(dtype)


def turned(x: np.ndarray, positions, dtype: torch.dtype, layout: str) -> np.ndarray:
    """For a cos − b sin and a sin + b cos: (|a| + |b|) (table + 2u), and the result.

    Products are formed in float32 or better: one rounding for a product and one for the
    sum, in both faces, then one to ``dtype``, absolute below its normal range.
    """
    a, b = rotary.pairs(x.shape[-1], layout=layout)
    size = np.empty_like(x)
    size[..., a] = size[..., b] = np.abs(x[..., a]) + np.abs(x[..., b])
    working = torch.float64 if dtype == torch.float64 else torch.float32
    inner = table(positions, working) + 2 * roundoff(working) + 2 * U64
    info = torch.finfo(dtype)
    return size * (inner + roundoff(dtype)) + info.tiny * info.eps


def added(x: np.ndarray, positions, dtype: torch.dtype) -> np.ndarray:
    """For x + PE, with PE in the dtype of x: the table, and one rounding of the sum."""
    return table(positions, dtype) + (np.abs(x) + 1) * (roundoff(dtype) + U64)


def attended(
    x: np.ndarray, w: reference.Projections, positions, dtype: torch.dtype, layout: str
) -> np.ndarray:
    """For causal attention with RoPE: each step's error carried into the next.

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

    def turn(value, error):
        grown = turned(abs(value) + error, positions, dtype, layout)
        a, b = rotary.pairs(d, layout=layout)
        spread = np.empty_like(error)
        spread[..., a] = spread[..., b] = error[..., a] + error[..., b]
        return rotary.rope(value, positions, layout=layout), spread + grown

    q, e_q = turn(*project(w.q))
    k, e_k = (t.repeat(group, 0) for t in turn(*project(w.k)))
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
