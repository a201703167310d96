"""Reference solution of the project "latent attention"."""

import numpy as np
import torch

from posedu.book.exercises.rotary.kv_cache import absorbed_logits
from posedu.book.exercises.rotary.rope import rope_in
from posedu.book.projects.latent_attention import EPSILON, ROPE, plain_step
from posedu.book.projects.records import Rubric


def entry(weights, x, position):
    """Return the normalized latent vector and the rotated shared key of a token."""
    latent = weights.down @ x
    latent = latent / (latent.square().mean() + EPSILON).sqrt() * weights.gain
    key = ROPE((weights.k_rope @ x)[None], [position])[0]
    return latent, key


def attend(weights, x, position, cached):
    """Return the layer's output for the newest token, without keys or values."""
    latents, keys = cached
    q = weights.q @ x
    q_rope = ROPE((weights.q_rope @ x)[:, None], [position])[:, 0]
    logits = absorbed_logits(q, weights.k_up, latents, q_rope, keys)
    mixed = logits.softmax(-1) @ latents
    values = (weights.v_up @ mixed[:, :, None]).squeeze(-1)
    return (weights.out @ values[:, :, None]).sum(0).squeeze(-1)


def counterexample(w_q, up, matrix):
    """Return the positions of the offset at which the matrix is off by most."""

    def off(offset):
        rotated = rope_in(up.T, np.full(up.shape[1], -offset), "half").T
        return abs(w_q.T @ rotated - matrix).max()

    return max(range(len(w_q) + 1), key=off), 0


def first_offset(w_q, up, matrix):
    """Return neighboring positions, whatever the matrix is."""
    return 1, 0


def attend_plainly(weights, x, position, cached):
    """Return the layer's output with keys and values computed from the cache."""
    return plain_step(weights, x, position, *cached)


def full_entry(weights, x, position):
    """Return the keys of all heads, the shared key, and the values of a token."""
    latent, key = entry(weights, x, position)
    k, v = weights.k_up @ latent, weights.v_up @ latent
    return k.flatten(), key, v.flatten()


def attend_to_full_cache(weights, x, position, cached):
    """Return the layer's output with the cached keys and values of all heads."""
    heads, d, _ = weights.k_up.shape
    k, keys, v = cached
    k, v = k.unflatten(-1, (heads, d)), v.unflatten(-1, (heads, d))
    q = weights.q @ x
    q_rope = ROPE((weights.q_rope @ x)[:, None], [position])[:, 0]
    products = torch.einsum("hd,jhd->hj", q, k) + q_rope @ keys.T
    shares = (products / (d + q_rope.shape[1]) ** 0.5).softmax(-1)
    outputs = torch.einsum("hj,jhd->hd", shares, v)
    return torch.einsum("hmd,hd->m", weights.out, outputs)


ANSWERS = (entry, attend, counterexample)

INSUFFICIENT = {
    "no-absorption": (entry, attend_plainly, counterexample),
    "full-cache": (full_entry, attend_to_full_cache, first_offset),
}

RUBRIC = Rubric(
    full=r"""
The cache holds the normalized latent vector and the rotated shared key, and the step multiplies the query by $U_h^\top$ and the mixed latent vectors by $V_h$, once for all cached tokens.
The answer says why both moves are allowed: the logit is linear in the key, and the softmax weights are numbers, so that $V_h$ leaves the sum.
It counts the multiplications for a cached token, $h(2\ell + r)$, compares them with $2hd\ell + h(2d + r)$ of the plain step and with $h(2d + r)$ of a full cache, and sees that absorption saves memory against a full cache, not multiplications.
The counterexample tries the offsets $0, \dots, d$, because {prf:ref}`thm-cache-absorb` says that one of them refutes the matrix; the write-up explains why a single offset cannot, and why $r$ features are kept apart.
""",
    partial=r"""
The step is right and small, but the output side is found by trial: $V_h$ is applied after the mixing without a reason, or the whole product $O_h V_h$ is formed although the factors are smaller.
The latent vector is cached before its norm, or the shared key before its rotation, and the missing step is repeated for the whole cache in every call.
The error in float64 is small, the one in float32 is not, because angles were computed in float32; the cause was found after the measurement.
The counterexample is an offset that worked in the examples, such as the largest; that another matrix is right just there was overlooked at first.
""",
    none=r"""
Keys and values are computed from the latent vectors, perhaps head by head or in blocks, so that no single tensor is large; the multiplications show it.
Or full keys and values are cached, and the answer argues that this is faster.
The root is $\sqrt d$ or that of the latent width, since the absorbed query is taken for a query of its own.
The write-up says that RoPE “does not commute” and leaves it there, with no offsets and no matrix; asked what would happen if it did, it promises one matrix for all offsets.
""",
)
