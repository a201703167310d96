"""Stick-breaking attention: each key takes its share of what nearer keys left."""

import numpy as np
from jaxtyping import Bool, Float

from posedu._arguments import REMAINDERS, require_choice
from posedu.numpy._arrays import require_floats, require_mask

Array = np.ndarray


def earlier(
    queries: int, keys: int, *, attend_current: bool
) -> Bool[Array, "queries keys"]:
    """True where key j comes before query i, or is its own token if wanted.

    The last query stands at the last key, as when keys are cached.
    """
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
    """Weights and remainder by the products (arXiv 2410.17980; keys are its i).

    A_ij = β_ij ∏ (1 − β_il) over the keys l between j and i, with β = σ(logit): the
    nearest key breaks the stick first. Equation ``def-stick``.

    Parameters
    ----------
    logits
        Scaled inner products, finite.
    attend_current
        Whether the stick starts at the query's own key (the paper's kernel has both;
        its formula starts at the key before it).
    mask
        False where a key is to be skipped, such as padding. Default: no key.

    Returns
    -------
    Weights, zero where a key is not before its query, and what is left of the stick,
    ∏ (1 − β_ij). Together a row makes 1.

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
    """:func:`break_stick` in log space, and the *logarithm* of the remainder.

    log A_ij = z_ij − Σ softplus(z_il) over l from j to the query: no underflow, and a
    remainder far below the unit roundoff keeps its digits. Equation
    ``eq-stick-log``.
    """
    logits, allowed = _require_logits(logits, attend_current, mask)
    cost = np.where(allowed, np.logaddexp(0.0, logits), 0.0)  # softplus
    spent = np.cumsum(cost[..., ::-1], axis=-1)[..., ::-1]
    weights = np.exp(np.where(allowed, logits - spent, -np.inf))
    return weights, -cost.sum(axis=-1)


def _require_logits(logits, attend_current, mask):
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
    q: Float[Array, "*heads queries d"],
    k: Float[Array, "*heads keys d"],
    v: Float[Array, "*heads keys d_v"],
    *,
    attend_current: bool,
    remainder: str,
    sink: Float[Array, "*heads d_v"] | None = None,
    mask: Bool[Array, "*heads queries keys"] | None = None,
) -> Float[Array, "*heads queries d_v"]:
    """Attend by breaking sticks; no position is given and order is known all the same.

    Parameters
    ----------
    q, k, v
        Of each head, any float dtype; computed in float64, logits divided by √d.
    attend_current
        See :func:`break_stick`.
    remainder
        What becomes of the rest of the stick. ``"drop"``: nothing (the paper's
        formula). ``"own"``: it goes to the query's own value (the authors' tests).
        ``"sink"``: it goes to a learned vector of each head (their language models).
        ``"renormalise"``: the weights are divided by their sum (geometric attention,
        arXiv 2110.07732); a row with no weight gives zeros.
    sink
        The vector that ``"sink"`` needs.
    mask
        See :func:`break_stick`.

    Returns
    -------
    float64 array. Equation ``def-stick-attention``.

    Raises
    ------
    TypeError, ValueError
        Shapes that do not match, unknown ``remainder``, a ``sink`` that is missing or
        not wanted.
    """
    q, k, v = (require_floats(n, t) for n, t in (("q", q), ("k", k), ("v", v)))
    require_choice("remainder", remainder, REMAINDERS)
    if (sink is not None) != (remainder == "sink"):
        raise ValueError(
            f"sink is for remainder='sink' and needed there, got remainder="
            f"{remainder!r} and {'no sink' if sink is None else 'a sink'}"
        )
    if (
        q.ndim < 2
        or q.ndim != k.ndim
        or k.ndim != v.ndim
        or q.shape[:-2] != k.shape[:-2]
        or q.shape[-1] != k.shape[-1]
        or k.shape[:-1] != v.shape[:-1]
    ):
        raise ValueError(
            "q, k and v must agree in heads, d and keys, got shapes "
            f"{list(q.shape)}, {list(k.shape)} and {list(v.shape)}"
        )
    logits = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    weights, log_rest = break_stick_log(
        logits, attend_current=attend_current, mask=mask
    )
    out = weights @ v
    rest = np.exp(log_rest)[..., None]
    if remainder == "own":
        out = out + rest * v[..., v.shape[-2] - q.shape[-2] :, :]
    elif remainder == "sink":
        out = out + rest * require_floats("sink", sink)[..., None, :]
    elif remainder == "renormalise":
        total = -np.expm1(log_rest)[..., None]
        out = np.where(total > 0, out / np.where(total > 0, total, 1.0), 0.0)
    return out
