"""Gated short convolutions (LFM2): weights of the last few tokens by their distance."""

import numpy as np
from jaxtyping import Float

from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks, Tokens

Array = np.ndarray


def gated_convolution(*, taps: Float[Array, "heads width"]) -> Hooks:
    """Return the attention hooks of a gated short convolution (LFM2, arXiv 2511.23404).

    The weight of key j for query i is q_i · k_j c_(i − j) for i − j < ``width`` and 0
    for earlier keys, where c are the taps of a head and i − j counts tokens. There is
    no softmax, and nothing is divided by √d. LFM2's layer has as many heads as
    features, each of one feature: it convolves the products of keys (B) and values (x),
    and multiplies them by the queries (C). Positions are not used. Equation
    ``def-gated-convolution``.

    Parameters
    ----------
    taps
        c of each head; the last one is of the token itself.

    Returns
    -------
    Hooks (functions that attention calls) with ``scale`` and ``weigh``, for causal
    attention.

    Raises
    ------
    TypeError, ValueError
        Taps that hold no floats or are no matrix.
    """
    taps = require_floats("taps", taps)
    if taps.ndim != 2 or not taps.size:
        raise ValueError(f"taps must be [heads, width], got shape {list(taps.shape)}")
    width = taps.shape[1]

    def weigh(
        products: Float[Array, "heads queries keys"], tokens: Tokens
    ) -> Float[Array, "heads queries keys"]:
        i, j = np.indices(tokens.mask.shape)
        is_near = tokens.mask & (i - j < width)
        factors = taps[:, np.clip(width - 1 - (i - j), 0, width - 1)]
        return np.where(is_near, products * factors, 0.0)

    return Hooks(scale=lambda d: 1.0, weigh=weigh, needs_causal=True)
