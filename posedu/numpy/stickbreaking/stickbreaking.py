"""Stick-breaking attention: each key takes a share of the weight nearer keys leave."""

import numpy as np
from jaxtyping import Bool, Float

from posedu._arguments import Remainder, require_bool, require_choice
from posedu.numpy._arrays import require_floats, require_mask
from posedu.numpy.attention import Hooks, Tokens

Array = np.ndarray


def softplus(z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The softplus log(1 + e^z) of each number, without overflow."""
    result = np.logaddexp(0.0, require_floats("z", z))
    return result[...]  # an array, of no axis for a single number


def earlier(
    queries: int, keys: int, *, attend_current: bool
) -> Bool[Array, "queries keys"]:
    """Boolean mask: true where key j is before query i, or at it if ``attend_current``.

    ``queries`` and ``keys`` are the numbers of queries and of keys. The last query has
    the position of the last key, as when earlier keys are cached.
    """
    require_bool("attend_current", attend_current)
    if queries > keys:
        raise ValueError(
            f"there must be at least as many keys as queries, got {keys} and {queries}"
        )
    return np.tri(queries, keys, keys - queries - (not attend_current), dtype=bool)


def break_stick(
    logits: Float[Array, "*rows queries keys"],
    *,
    attend_current: bool,
    mask: Bool[Array, "*rows queries keys"] | None = None,
) -> tuple[Float[Array, "*rows queries keys"], Float[Array, "*rows queries"]]:
    """Stick-breaking weights of each query, and the weight left over, as products.

    The weight of key j for query i is A_ij = β_ij ∏ (1 − β_il) over the keys l between
    j and i, with β = σ(logit): the nearest key breaks the stick first (arXiv
    2410.17980, which calls the key i). Equation ``def-stick``.

    Parameters
    ----------
    logits
        Scaled inner products, finite.
    attend_current
        Whether the stick starts at the query's own key (the paper's kernel has both
        settings; its formula starts at the key before the query).
    mask
        False where a key is to be skipped, such as padding. Default: no key is skipped.

    Returns
    -------
    The weights, zero where a query may not attend to a key, and the remainder of the
    stick, ∏ (1 − β_ij). The weights and the remainder of a query sum to 1.

    Raises
    ------
    TypeError, ValueError
        Logits not floating or not finite, more queries than keys, a mask of another
        shape.
    """
    logits, allowed = _require_logits(logits, attend_current, mask)
    beta = np.where(allowed, 1 / (1 + np.exp(-np.maximum(logits, -700))), 0.0)
    left = np.cumprod(1 - beta[..., ::-1], axis=-1)[..., ::-1]
    before = np.concatenate((left[..., 1:], np.ones_like(left[..., :1])), axis=-1)
    return beta * before, np.prod(1 - beta, axis=-1)


def break_stick_log(
    logits: Float[Array, "*rows queries keys"],
    *,
    attend_current: bool,
    mask: Bool[Array, "*rows queries keys"] | None = None,
) -> tuple[Float[Array, "*rows queries keys"], Float[Array, "*rows queries"]]:
    """Stick-breaking weights of each query, and the *logarithm* of the weight left.

    Arguments as :func:`break_stick`, computed in log space: log A_ij = z_ij − Σ
    softplus(z_il) over l from j to the query, with the weight A_ij and the logit z_ij
    of query i and key j. The logarithm of the remainder does not underflow, and keeps
    its digits far below the unit roundoff; weights may underflow to 0. Equation
    ``eq-stick-log``.
    """
    logits, allowed = _require_logits(logits, attend_current, mask)
    cost = np.where(allowed, softplus(logits), 0.0)
    spent = np.cumsum(cost[..., ::-1], axis=-1)[..., ::-1]
    weights = np.exp(np.where(allowed, logits - spent, -np.inf))
    return weights, -cost.sum(axis=-1)


def _require_logits(
    logits: Array, attend_current: bool, mask: Array | None
) -> tuple[Array, Array]:
    logits = require_floats("logits", logits)
    if logits.ndim < 2:
        raise ValueError(
            f"logits must be [..., queries, keys], got shape {list(logits.shape)}"
        )
    if not np.isfinite(logits).all():
        bad = logits[~np.isfinite(logits)][0]
        raise ValueError(f"logits must be finite, got {bad}; hide keys with mask")
    allowed = earlier(*logits.shape[-2:], attend_current=attend_current)
    allowed = np.broadcast_to(allowed, logits.shape)
    return logits, allowed if mask is None else allowed & require_mask(
        mask, logits.shape
    )


def stick_breaking(
    *,
    attend_current: bool,
    remainder: Remainder,
    sink: Float[Array, "heads d_v"] | None = None,
) -> Hooks:
    """Return the attention hooks of stick-breaking attention.

    The weights of :func:`break_stick` replace the softmax. They depend on the order of
    the keys; positions are not used.

    Parameters
    ----------
    attend_current
        See :func:`break_stick`.
    remainder
        Use of the weight that all keys leave over. ``"drop"``: none (the paper's
        formula). ``"own"``: it goes to the query's own value (the authors' tests).
        ``"sink"``: it goes to a learned vector of each head (their language models).
        ``"renormalize"``: the weights are divided by their sum (geometric attention,
        arXiv 2110.07732); a query with no weight gets zeros.
    sink
        The learned vectors, one for each head, that ``remainder="sink"`` needs.

    Returns
    -------
    Hooks (functions that attention calls) with ``weigh`` and ``mix``, for causal
    attention. Equation ``def-stick-attention``.

    Raises
    ------
    TypeError, ValueError
        Unknown ``remainder``, a ``sink`` that is missing or not wanted.
    """
    require_bool("attend_current", attend_current)
    require_choice("remainder", remainder, Remainder)
    if (sink is not None) != (remainder == "sink"):
        raise ValueError(
            f"sink is for remainder='sink' and needed there, got remainder="
            f"{remainder!r} and {'no sink' if sink is None else 'a sink'}"
        )

    def weigh(
        logits: Float[Array, "heads queries keys"], tokens: Tokens
    ) -> Float[Array, "heads queries columns"]:
        mask = np.broadcast_to(tokens.mask, logits.shape)
        weights, log_rest = break_stick_log(
            logits, attend_current=attend_current, mask=mask
        )
        rest = np.exp(log_rest)[..., None]
        if remainder == "own":
            queries, keys = weights.shape[-2:]
            return weights + rest * np.eye(queries, keys, keys - queries)
        if remainder == "sink":
            return np.concatenate((weights, rest), axis=-1)
        if remainder == "renormalize":
            total = -np.expm1(log_rest)[..., None]
            return weights / np.where(total > 0, total, 1.0)
        return weights

    def mix(
        weights: Float[Array, "heads queries columns"],
        v: Float[Array, "heads keys d_v"],
        tokens: Tokens,
    ) -> Float[Array, "heads queries d_v"]:
        if sink is not None:
            vector = require_floats("sink", sink)
            if vector.shape != (len(v), v.shape[-1]):
                raise ValueError(
                    f"sink must be {[len(v), v.shape[-1]]} like the values of each "
                    f"head, got shape {list(vector.shape)}"
                )
            v = np.concatenate((v, vector[:, None]), axis=1)
        return weights @ v

    return Hooks(weigh=weigh, mix=mix, needs_causal=True)
