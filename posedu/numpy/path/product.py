"""Scores as a product of transitions over the path from key to query, in NumPy."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from posedu.numpy._arrays import require_floats

Array = np.ndarray
Transition = Callable[[int, Float[Array, "heads keys d"]], Float[Array, "heads keys d"]]
"""A function (t, vectors): the vectors of each head, multiplied by its T_t."""


def path_scores(
    q: Float[Array, "heads tokens d"],
    k: Float[Array, "heads tokens d"],
    transition: Transition,
) -> Float[Array, "heads tokens tokens"]:
    """Scores s_ij = q_i · T_i T_(i−1) ⋯ T_(j+1) k_j of every query i and key j ≤ i.

    T_t is the transition of token t, a matrix for each head. Each token moves all keys
    before it, and a query meets the moved keys; its own key is not moved. Scores of
    keys after the query are 0. Equation ``def-path-product``.
    """
    if not callable(transition):
        raise TypeError(
            f"transition must be a function (t, vectors), got {transition!r:.40}"
        )
    heads, tokens, _ = q.shape
    scores = np.zeros((heads, 0, tokens))
    moved = k[:, :0]
    for i in range(tokens):
        moved = np.concatenate((transition(i, moved), k[:, i : i + 1]), axis=1)
        row = np.einsum("hd,hjd->hj", q[:, i], moved)
        later = np.zeros((heads, tokens - 1 - i))
        row = np.concatenate((row, later), axis=1)
        scores = np.concatenate((scores, row[:, None]), axis=1)
    return scores


def short_convolution(
    features: Float[Array, "tokens *channels"], taps: Float[Array, "*channels width"]
) -> Float[Array, "tokens *channels"]:
    """Causal convolution over the tokens: Σ_s taps_s · features_(t − width + 1 + s).

    Each channel has its own taps, the last of which is for the token itself; tokens
    before the first count as zeros. Equation ``def-short-convolution``.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, or whose channels differ.
    """
    features = require_floats("features", features)
    taps = require_floats("taps", taps)
    if taps.ndim != features.ndim or taps.shape[:-1] != features.shape[1:]:
        raise ValueError(
            f"taps must be {[*features.shape[1:], 'width']} for features of shape "
            f"{list(features.shape)}, got shape {list(taps.shape)}"
        )
    tokens, width = len(features), taps.shape[-1]
    before = np.zeros((width - 1, *features.shape[1:]))
    padded = np.concatenate((before, features))
    return sum(taps[..., s] * padded[s : s + tokens] for s in range(width))


def unit_vectors(
    x: Float[Array, "*vectors d"], eps: float = 1e-6
) -> Float[Array, "*vectors d"]:
    """Vectors divided by √(x · x + ``eps``): of length 1, unless they are tiny."""
    return x / np.sqrt(np.sum(x**2, axis=-1, keepdims=True) + eps)
