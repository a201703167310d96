"""Log-linear attention: decays, and a factor for each bucket of tokens."""

from functools import cache

import numpy as np
from jaxtyping import Float, Int

from posedu._arguments import LogLinearBuckets, require_choice, require_count
from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks, Tokens, require_input
from posedu.numpy.gated.fox import forget_bias, require_log_gates

Array = np.ndarray


@cache
def bucket_level(t: int, s: int, *, buckets: LogLinearBuckets) -> int:
    """The level of the bucket that holds token s for query t, both counted from 0.

    The query's own token has level 0. Otherwise, with 2^l the largest power of two up
    to t: ``"weak"`` buckets (arXiv 2506.04761) have the tokens 0 … 2^l − 1 in level
    l + 1, and the rest is divided as the tokens of query t − 2^l. Equation
    ``def-bucket-level``. ``"strong"`` buckets, an option of the authors' code, have
    halves of half this size, of which the second one joins the first where t is past
    its middle.

    Raises
    ------
    ValueError
        A negative number, a token after the query, unknown ``buckets``.
    """
    require_choice("buckets", buckets, LogLinearBuckets)
    if not 0 <= require_count("s", s) <= require_count("t", t):
        raise ValueError(f"s must be in 0 … t = {t}, got {s}")
    if t == s:
        return 0
    level = t.bit_length() - 1
    largest = 2**level
    half = largest if buckets == "weak" else max(largest // 2, 1)
    if s < half or (s < 2 * half <= largest and t - largest >= half):
        return level + 1
    step = half if buckets == "weak" or s < 2 * half else 2 * half
    return bucket_level(t - step, s - step, buckets=buckets)


def bucket_levels(
    tokens: int, *, buckets: LogLinearBuckets
) -> Int[Array, "tokens tokens"]:
    """The level of every query and key, by :func:`bucket_level`; −1 for later keys."""
    require_choice("buckets", buckets, LogLinearBuckets)
    tokens = require_count("tokens", tokens)
    levels = np.full((tokens, tokens), -1)
    for t in range(tokens):
        for s in range(t + 1):
            levels[t, s] = bucket_level(t, s, buckets=buckets)
    return levels


def mamba_log_gates(
    x: Float[Array, "tokens d_model"],
    gate_weight: Float[Array, "heads d_model"],
    gate_bias: Float[Array, "heads"],
    gate_rate: Float[Array, "heads"],
) -> Float[Array, "heads tokens"]:
    """Log gates log α = −e^rate softplus(w · x + b), Mamba-2's, of head and token.

    Equation ``def-log-linear-gate``. A ``gate_rate`` so large that e^rate overflows
    raises ValueError.
    """
    if np.any(gate_rate > np.log(np.finfo(float).max)):
        raise ValueError(
            f"gate_rate must be so small that e^rate is finite, got {gate_rate}"
        )
    logits = np.einsum("hc,tc->ht", gate_weight, x) + gate_bias[:, None]
    return -np.exp(gate_rate)[:, None] * np.logaddexp(0.0, logits)


def level_weights(
    x: Float[Array, "tokens d_model"],
    level_weight: Float[Array, "heads levels d_model"],
    level_scale: Float[Array, "heads levels"],
) -> Float[Array, "heads tokens levels"]:
    """The factors λ = softplus(scale · (w · x)) of each head, query and level.

    Equation ``def-log-linear-level``.
    """
    logits = np.einsum("hlc,tc->htl", level_weight, x) * level_scale[:, None]
    return np.logaddexp(0.0, logits)


def log_linear(
    *,
    gate_weight: Float[Array, "heads d_model"],
    gate_bias: Float[Array, "heads"],
    gate_rate: Float[Array, "heads"],
    level_weight: Float[Array, "heads levels d_model"],
    level_scale: Float[Array, "heads levels"],
    buckets: LogLinearBuckets,
) -> Hooks:
    """Return the attention hooks of log-linear attention (arXiv 2506.04761).

    The weight of key s for query t is (q_t · k_s) e^D λ_tl, where D is the sum of the
    log gates of the tokens s + 1 … t, and λ_tl the factor of the query for the level l
    of :func:`bucket_level`. There is no softmax, and nothing is divided by √d.
    Positions are not used: levels count tokens. Equation ``def-log-linear``.

    Parameters
    ----------
    gate_weight, gate_bias, gate_rate
        See :func:`mamba_log_gates`.
    level_weight, level_scale
        See :func:`level_weights`. Higher levels than there are get the last factor.
    buckets
        See :func:`bucket_level`.

    Returns
    -------
    Hooks (functions that attention calls) with ``scale`` and ``weigh``, for causal
    attention.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, shapes that do not match, unknown ``buckets``.
    """
    require_choice("buckets", buckets, LogLinearBuckets)
    given = {
        "gate_weight": require_floats("gate_weight", gate_weight),
        "gate_bias": require_floats("gate_bias", gate_bias),
        "gate_rate": require_floats("gate_rate", gate_rate),
        "level_scale": require_floats("level_scale", level_scale),
    }
    weight = require_floats("level_weight", level_weight)
    if weight.ndim != 3 or not weight.shape[1]:
        raise ValueError(
            "level_weight must be [heads, levels, d_model] with at least one level, "
            f"got shape {list(weight.shape)}"
        )
    heads, levels, d_model = weight.shape
    shapes = {"gate_weight": (heads, d_model), "level_scale": (heads, levels)}
    for name, array in given.items():
        needed = shapes.get(name, (heads,))
        if array.shape != needed:
            raise ValueError(
                f"{name} must be {list(needed)} for a level_weight of shape "
                f"{list(weight.shape)}, got shape {list(array.shape)}"
            )
    scale = given.pop("level_scale")

    def weigh(
        logits: Float[Array, "heads queries keys"], tokens: Tokens
    ) -> Float[Array, "heads queries keys"]:
        x = require_input("log_linear", tokens)
        decays = np.exp(forget_bias(mamba_log_gates(x, **given)))
        number = np.cumsum(np.diagonal(tokens.mask)) - 1  # padding is not counted
        of_pairs = bucket_levels(len(x), buckets=buckets)[np.ix_(number, number)]
        of_pairs = np.clip(of_pairs, 0, levels - 1)
        factors = level_weights(x, weight, scale)
        index = np.broadcast_to(of_pairs, logits.shape)
        factors = np.take_along_axis(factors, index, axis=-1)
        return np.where(tokens.mask, logits * decays * factors, 0.0)

    return Hooks(scale=lambda d: 1.0, weigh=weigh, needs_causal=True)


def log_linear_recurrent(
    q: Float[Array, "heads tokens d"],
    k: Float[Array, "heads tokens d"],
    v: Float[Array, "heads tokens d_v"],
    log_gates: Float[Array, "heads tokens"],
    level_weights: Float[Array, "heads tokens levels"],
) -> Float[Array, "heads tokens d_v"]:
    """Log-linear attention token by token, with a matrix of d × d_v for each bucket.

    ``level_weights`` are λ, for the ``"weak"`` buckets. At token t there are as many
    matrices as the binary digits of t that are 1, and one for the token itself, so that
    T tokens take O(T log T) operations. Equation ``eq-log-linear-states``.
    """
    gates = np.exp(require_log_gates(log_gates))
    tokens = q.shape[1]
    last = level_weights.shape[-1] - 1
    states: dict[int, Array] = {}
    outs = np.zeros((len(q), tokens, v.shape[-1]))
    for t in range(tokens):
        states = {n: gates[:, t, None, None] * state for n, state in states.items()}
        states[0] = k[:, t, :, None] * v[:, t, None, :]
        for level, state in states.items():
            factor = level_weights[:, t, min(level, last), None]
            outs[:, t] += factor * np.einsum("hd,hdv->hv", q[:, t], state)
        merged, level = states.pop(0), 1
        while level in states:
            merged, level = merged + states.pop(level), level + 1
        states[level] = merged
    return outs
