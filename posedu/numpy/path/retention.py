"""Retention (RetNet): a rotation and a decay for each step, and no softmax."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    Layout,
    RetentionNormalization,
    RetentionSpacing,
    Spacing,
    require_base,
    require_choice,
    require_dimension,
)
from posedu.numpy.attention import Hooks, Tokens
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary.rope import rope

Array = np.ndarray
LARGEST_DIVISOR = 5e4  # torchscale's, below the largest float16


def retention_decays(heads: int) -> Float[Array, "heads"]:
    """The decay γ_h = 1 − 2^(−5−h) of each head, h = 0, 1, … (arXiv 2307.08621).

    Equation ``def-retention-decay``.
    """
    return 1 - 2.0 ** (-5 - np.arange(require_dimension("heads", heads, 1)))


def retention_weights(
    logits: Float[Array, "heads queries keys"],
    powers: Float[Array, "heads queries keys"],
    *,
    normalization: RetentionNormalization,
) -> Float[Array, "heads queries keys"]:
    """Retention's weights of the keys, which may be negative and need not sum to 1.

    ``powers`` are γ^(i − j), 0 where a query may not attend to a key, and s_ij is a
    scaled product of query and key, of ``logits``. Equation ``def-retention-weights``.

    Parameters
    ----------
    normalization
        ``"none"``: s_ij γ^(i − j) (flash-linear-attention). ``"paper"``: each row of
        powers is first divided by the root of its sum, and then each row of weights by
        the absolute value of its sum if that is above 1. ``"torchscale"`` (the authors'
        code since November 2023): the sum of the absolute values in its place, but no
        divisor above 50000.
    """
    if require_choice("normalization", normalization, RetentionNormalization) == "none":
        return logits * powers
    total = np.sum(powers, axis=-1, keepdims=True)
    weights = logits * powers / np.sqrt(np.where(total > 0, total, 1.0))
    if normalization == "paper":
        size = np.abs(np.sum(weights, axis=-1, keepdims=True))
    else:
        size = np.sum(np.abs(weights), axis=-1, keepdims=True)
        size = np.minimum(size, LARGEST_DIVISOR)
    return weights / np.maximum(size, 1.0)


def retention(
    *,
    heads: int,
    layout: Layout,
    spacing: RetentionSpacing,
    normalization: RetentionNormalization,
    base: float = 10000.0,
) -> Hooks:
    """Return the attention hooks of retention (RetNet, arXiv 2307.08621).

    Queries and keys are rotated as by RoPE, and a head's products s_ij of query i and
    key j are multiplied by γ^(i − j), where i and j are positions and γ is the head's
    of :func:`retention_decays`. There is no softmax. Equation ``def-retention``.

    Parameters
    ----------
    heads
        Query heads.
    layout
        Which features form a pair: ``"interleaved"`` (torchscale, the authors' code) or
        ``"half"`` (flash-linear-attention).
    spacing
        Frequencies: ``"rope"``, base^(−2p/d), or ``"torchscale"``, base^(−p/(d/2 − 1)).
    normalization
        See :func:`retention_weights`.
    base
        Base of the frequencies. Default 10000 (both).

    Returns
    -------
    Hooks (functions that attention calls) with ``rotate`` and ``weigh``, for causal
    attention.

    Raises
    ------
    TypeError, ValueError
        ``heads`` not a positive integer, an unknown ``layout``, ``spacing`` or
        ``normalization``, ``base`` not above 1.
    """
    gamma = retention_decays(heads)[:, None, None]
    require_choice("layout", layout, Layout)
    require_choice("spacing", spacing, RetentionSpacing)
    require_choice("normalization", normalization, RetentionNormalization)
    base = require_base(base)
    rule: Spacing = "paper" if spacing == "rope" else "tensor2tensor"

    def rotate(q: Array, k: Array, positions: Array) -> tuple[Array, Array]:
        omega = frequencies(q.shape[-1], base=base, spacing=rule)
        rotated = (rope(t, positions, layout=layout, frequencies=omega) for t in (q, k))
        return next(rotated), next(rotated)

    def weigh(
        logits: Float[Array, "heads queries keys"], tokens: Tokens
    ) -> Float[Array, "heads queries keys"]:
        powers = np.where(tokens.mask, gamma**tokens.distances, 0.0)
        return retention_weights(logits, powers, normalization=normalization)

    return Hooks(rotate=rotate, weigh=weigh, needs_causal=True)
