"""Geometric attention: a stick that is broken on both sides, the nearest key first."""

import numpy as np
from jaxtyping import Bool, Float

from posedu._arguments import require_bool
from posedu.numpy._arrays import require_floats, require_mask
from posedu.numpy.attention import Hooks, Tokens, require_input
from posedu.numpy.stickbreaking.stickbreaking import softplus

Array = np.ndarray
FLOOR = 1e-12  # of the sum by which weights are divided, as in the authors' code


def break_nearest_first(
    logits: Float[Array, "*rows tokens tokens"],
    mask: Bool[Array, "tokens tokens"],
    *,
    normalize: bool,
) -> Float[Array, "*rows tokens tokens"]:
    """Geometric weights: each key takes a share of what nearer keys leave.

    The weight of key j for query i is P_ij ∏ (1 − P_il) over the keys l that are nearer
    to i than j, with P = σ(logit), and 0 for j = i. Of two keys at equal distances, the
    later one is the nearer. Equation ``def-nearest-first``.

    Parameters
    ----------
    logits
        Finite numbers.
    mask
        True where a query may attend to a key. Other keys are skipped. A token that may
        not attend to itself is padding, which is not counted in distances.
    normalize
        Whether the weights of a query are divided by their sum, or by 1e−12 if that is
        larger (the default of the authors' code).
    """
    logits = require_floats("logits", logits)
    mask = require_mask(mask, logits.shape[-2:])
    at = np.cumsum(np.diagonal(mask))
    offsets = at[:, None] - at
    is_left = np.tri(len(mask), dtype=bool)
    order = np.argsort(2 * np.abs(offsets) + is_left, axis=-1, kind="stable")
    order = np.broadcast_to(order, logits.shape)
    allowed = np.broadcast_to(mask & ~np.eye(len(mask), dtype=bool), logits.shape)
    cost = np.take_along_axis(np.where(allowed, softplus(logits), 0.0), order, axis=-1)
    spent = np.cumsum(cost, axis=-1)
    by_key = np.take_along_axis(spent, np.argsort(order, axis=-1), axis=-1)
    weights = np.exp(np.where(allowed, logits - by_key, -np.inf))
    if not require_bool("normalize", normalize):
        return weights
    return weights / np.maximum(np.sum(weights, axis=-1, keepdims=True), FLOOR)


def directions(
    x: Float[Array, "tokens d_model"],
    direction_weight: Float[Array, "heads two d_model"],
    direction_bias: Float[Array, "heads two"],
) -> Float[Array, "heads tokens tokens"]:
    """A number of each query for the keys on its left, and another for its right.

    They are w · x + b, where the first w and b of a head are those of the earlier keys,
    on the left. A token's own entry is 0. Equation ``def-geometric-direction``.
    """
    numbers = np.einsum("hsc,tc->hst", direction_weight, x) + direction_bias[..., None]
    left = np.tri(len(x), k=-1, dtype=bool)
    earlier = np.where(left, numbers[:, 0, :, None], 0.0)
    return np.where(left.T, numbers[:, 1, :, None], earlier)


def geometric(
    *,
    normalize: bool,
    product_scale: Float[Array, "one"],
    logit_bias: Float[Array, "one"],
    content_bias: Float[Array, "heads d"],
    direction_weight: Float[Array, "heads two d_model"] | None = None,
    direction_bias: Float[Array, "heads two"] | None = None,
) -> Hooks:
    """Return the attention hooks of geometric attention (arXiv 2110.07732).

    The logit of query i and key j is α (q_i + c) · k_j + D_ij + γ, from which
    :func:`break_nearest_first` makes weights in the place of the softmax. Positions are
    not used, and attention may be causal or not. Equation ``def-geometric``.

    Parameters
    ----------
    normalize
        See :func:`break_nearest_first`.
    product_scale, logit_bias
        α and γ, one number each for all heads.
    content_bias
        The vector c of each head.
    direction_weight, direction_bias
        Those of :func:`directions`, which gives D. Default: D = 0.

    Returns
    -------
    Hooks (functions that attention calls) with ``logits`` and ``weigh``.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, shapes that do not match, one of
        ``direction_weight`` and ``direction_bias`` without the other.
    """
    require_bool("normalize", normalize)
    alpha = require_floats("product_scale", product_scale)
    gamma = require_floats("logit_bias", logit_bias)
    content = require_floats("content_bias", content_bias)
    for name, array, needed in (
        ("product_scale", alpha, (1,)),
        ("logit_bias", gamma, (1,)),
        ("content_bias", content, (*content.shape[:1], *content.shape[-1:])),
    ):
        if array.shape != needed:
            shape = "[heads, d]" if array is content else "[1]"
            raise ValueError(f"{name} must be {shape}, got shape {list(array.shape)}")
    if (direction_weight is None) != (direction_bias is None):
        raise ValueError(
            "direction_weight and direction_bias go together, got one of them"
        )
    sides = None
    if direction_weight is not None and direction_bias is not None:
        sides = (
            require_floats("direction_weight", direction_weight),
            require_floats("direction_bias", direction_bias),
        )
        needed = len(content), 2
        if sides[0].shape[:-1] != needed or sides[1].shape != needed:
            raise ValueError(
                f"direction_weight must be {[*needed, 'd_model']} and direction_bias "
                f"{list(needed)}, got shapes {list(sides[0].shape)} and "
                f"{list(sides[1].shape)}"
            )

    def logits(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        products = (tokens.q + content[:, None]) @ tokens.k.swapaxes(-1, -2)
        scores = products * alpha + gamma
        if sides is None:
            return scores
        return scores + directions(require_input("geometric", tokens), *sides)

    def weigh(
        logits: Float[Array, "heads queries keys"], tokens: Tokens
    ) -> Float[Array, "heads queries keys"]:
        return break_nearest_first(logits, tokens.mask, normalize=normalize)

    return Hooks(logits=logits, weigh=weigh)
