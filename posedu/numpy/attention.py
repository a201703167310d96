"""Attention, written once, with every place where an encoding may act left open."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from posedu._arguments import require_heads
from posedu.numpy._arrays import (
    Positions,
    require_floats,
    require_mask,
    require_positions,
)

Array = np.ndarray


@dataclass(frozen=True)
class Projections:
    """The four matrices of an attention layer.

    ``q`` is ``[heads, d, d_model]``, ``k`` and ``v`` are ``[kv_heads, d, d_model]``,
    ``o`` is ``[d_model, heads, d]``. With fewer key-value heads than heads, each serves
    a group of consecutive query heads (grouped-query attention, arXiv 2305.13245).
    """

    q: Float[Array, "heads d d_model"]
    k: Float[Array, "kv_heads d d_model"]
    v: Float[Array, "kv_heads d d_model"]
    o: Float[Array, "d_model heads d"]


@dataclass(frozen=True)
class Tokens:
    """What a bias may look at."""

    x: Float[Array, "tokens d_model"]
    q: Float[Array, "heads tokens d"]
    k: Float[Array, "heads tokens d"]
    query_positions: Float[Array, "tokens *axes"]
    key_positions: Float[Array, "tokens *axes"]


def softmax(
    logits: Float[Array, "*rows keys"], mask: Bool[Array, "*rows keys"] | None = None
) -> Float[Array, "*rows keys"]:
    """Weights proportional to exp(logit) over the keys that ``mask`` allows.

    A row with no allowed key gets zeros. Equation ``def-softmax``.
    """
    logits = require_floats("logits", logits)
    if mask is None:
        mask = np.ones_like(logits, dtype=bool)
    mask = require_mask(mask, logits.shape)
    top = np.max(logits, axis=-1, keepdims=True, where=mask, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    weights = np.where(mask, np.exp(np.where(mask, logits - top, 0.0)), 0.0)
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total > 0, total, 1.0)


def mix(
    weights: Float[Array, "heads queries keys"], v: Float[Array, "heads keys d"]
) -> Float[Array, "heads queries d"]:
    """The weighted sum of the values."""
    return weights @ v


@dataclass(frozen=True)
class Doors:
    """Where an encoding may act; each door is shut unless a function is given."""

    embed: Callable = lambda x, positions: x
    rotate: Callable = lambda q, k, positions: (q, k)
    bias: Callable[[Tokens], Array | float] = lambda tokens: 0.0
    weigh: Callable = softmax
    mix: Callable = mix


SHUT = Doors()


def causal_mask(tokens: int) -> Bool[Array, "tokens tokens"]:
    """True where key j is not after query i."""
    return np.tril(np.ones((tokens, tokens), dtype=bool))


def attention(
    x: Float[Array, "tokens d_model"],
    w: Projections,
    positions: Positions | None = None,
    *,
    mask: Bool[Array, "tokens tokens"] | None = None,
    doors: Doors = SHUT,
) -> Float[Array, "tokens d_model"]:
    """Multi-head attention over one sequence (arXiv 1706.03762 §3.2.2).

    Parameters
    ----------
    x
        One vector a token.
    w
        The projections; see :class:`Projections`.
    positions
        Integers or finite reals, ``[tokens]``; ``[tokens, axes]`` for an encoding of
        several coordinates. Default 0, 1, 2, …
    mask
        True where query i may look at key j; :func:`causal_mask` or ``None`` for all.
    doors
        The encoding; all doors shut by default.

    Returns
    -------
    float64 array of the shape of ``x``. Equation ``def-attention``.

    Raises
    ------
    TypeError, ValueError
        ``x`` not floating, positions not finite, shapes or head counts that do not
        match.
    """
    x = require_floats("x", x)
    if x.ndim != 2:
        raise ValueError(f"x must be [tokens, d_model], got shape {list(x.shape)}")
    tokens, d_model = x.shape
    heads, d = w.q.shape[:2]
    group = require_heads(heads, len(w.k))
    kv_shape = (len(w.k), d, d_model)
    shapes = {"q": (heads, d, d_model), "o": (d_model, heads, d)}
    shapes |= {"k": kv_shape, "v": kv_shape}
    for name, needed in shapes.items():
        given = getattr(w, name).shape
        if given != needed:
            raise ValueError(
                f"w.{name} must be {list(needed)} for {heads} heads of {d} features "
                f"and x of shape {list(x.shape)}, got shape {list(given)}"
            )
    positions = require_positions(np.arange(tokens) if positions is None else positions)
    if positions.shape[:1] != (tokens,) or positions.ndim > 2:
        raise ValueError(
            f"positions must be [{tokens}] or [{tokens}, axes] like the tokens, "
            f"got shape {list(positions.shape)}"
        )
    if mask is not None:
        mask = require_mask(mask, (tokens, tokens))

    x = doors.embed(x, positions)
    q = np.einsum("hdm,im->hid", w.q, x)
    k = np.einsum("hdm,jm->hjd", w.k, x).repeat(group, axis=0)
    v = np.einsum("hdm,jm->hjd", w.v, x).repeat(group, axis=0)
    q, k = doors.rotate(q, k, positions)
    logits = q @ k.swapaxes(-1, -2) / np.sqrt(d)
    logits = logits + doors.bias(Tokens(x, q, k, positions, positions))
    if mask is not None:
        mask = np.broadcast_to(mask, logits.shape)
    weights = doors.weigh(logits, mask)
    return np.einsum("mhd,hid->im", w.o, doors.mix(weights, v))
