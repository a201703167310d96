"""Attention with hooks: the points where an encoding may act."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from posedu._arguments import require_bool, require_heads
from posedu._renamed import renamed_names
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
    """The arguments of the hooks between queries and keys.

    ``q`` and ``k`` are as the hook ``rotate`` left them and ``v`` as ``values`` did,
    one of ``k`` and ``v`` for each head of ``q``; ``d`` is the head dimension before.
    ``mask`` is true where query i may attend to key j. ``x`` is the layer's input,
    ``None`` where it was not given.
    """

    q: Float[Array, "heads queries features"]
    k: Float[Array, "heads keys features"]
    v: Float[Array, "heads keys d_v"]
    d: int
    query_positions: Float[Array, "queries *axes"]
    key_positions: Float[Array, "keys *axes"]
    mask: Bool[Array, "queries keys"]
    x: Float[Array, "tokens d_model"] | None = None

    @property
    def distances(self) -> Float[Array, "queries keys"]:
        """The offsets, for an encoding with one number as position.

        Raises
        ------
        ValueError
            Positions of several coordinates.
        """
        if self.query_positions.ndim != 1:
            raise ValueError(
                "positions must be one number for each token, got shape "
                f"{list(self.query_positions.shape)}"
            )
        return self.offsets

    @property
    def offsets(self) -> Float[Array, "queries keys *axes"]:
        """Query position minus key position."""
        return self.query_positions[:, None] - self.key_positions[None, :]


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


def weigh(
    logits: Float[Array, "heads queries keys"], tokens: Tokens
) -> Float[Array, "heads queries keys"]:
    """:func:`softmax` over the keys that a query may attend to."""
    return softmax(logits, np.broadcast_to(tokens.mask, logits.shape))


def mix(
    weights: Float[Array, "heads queries keys"],
    v: Float[Array, "heads keys d"],
    tokens: Tokens,
) -> Float[Array, "heads queries d"]:
    """The weighted sum of the values."""
    return weights @ v


@dataclass(frozen=True)
class Hooks:
    """The points where an encoding may act; a hook does nothing by default.

    Once for a model: ``locate`` (the positions), ``embed`` (the input vectors). In each
    layer of it: ``enter`` (the vectors), ``update`` (the positions, from the
    weights, their tokens and the MLP output). Inside attention: ``rotate`` (queries and
    keys), ``values``, ``scale`` (the factor of inner products), ``bias`` (added to
    them: one number, ``[queries, keys]`` for all heads or ``[heads, queries, keys]``),
    ``logits`` (in place of scaled products and bias), ``weigh``, ``mix`` and
    ``output``. With ``needs_causal`` no key may come after its query.
    """

    locate: Callable[[Array, Array], Array] = lambda positions, x: positions
    embed: Callable[[Array, Array], Array] = lambda x, positions: x
    enter: Callable[[Array, Array], Array] = lambda x, positions: x
    rotate: Callable[[Array, Array, Array], tuple[Array, Array]] = (
        lambda q, k, positions: (q, k)
    )
    values: Callable[[Array, Array], Array] = lambda v, positions: v
    scale: Callable[[int], float] = lambda d: 1 / np.sqrt(d)
    bias: Callable[[Tokens], Array | float] = lambda tokens: 0.0
    logits: Callable[[Tokens], Array] | None = None
    weigh: Callable[[Array, Tokens], Array] = weigh
    mix: Callable[[Array, Array, Tokens], Array] = mix
    output: Callable[[Array, Array], Array] = lambda out, positions: out
    update: Callable[[Array, Tokens, Array], Array] = (
        lambda weights, tokens, mlp_output: tokens.query_positions
    )
    needs_causal: bool = False


NO_HOOKS = Hooks()


def require_input(name: str, tokens: Tokens) -> Float[Array, "tokens d_model"]:
    """Return the layer's input, or raise if it was not given to attention."""
    if tokens.x is None:
        raise ValueError(f"{name} needs the layer's input: give attention x")
    return tokens.x


def logits(
    tokens: Tokens, hooks: Hooks = NO_HOOKS
) -> Float[Array, "heads queries keys"]:
    """Scaled inner products and bias, or the result of the hook ``logits``.

    Raises
    ------
    ValueError
        A bias whose shape is none of those that :class:`Hooks` lists.
    """
    if hooks.logits is not None:
        return hooks.logits(tokens)
    products = tokens.q @ tokens.k.swapaxes(-1, -2)
    bias = hooks.bias(tokens)
    if np.shape(bias) not in ((), products.shape[1:], products.shape):
        heads, queries, keys = products.shape
        raise ValueError(
            f"a bias must be one number, [{queries}, {keys}] or [{heads}, {queries}, "
            f"{keys}] for {heads} heads, got shape {list(np.shape(bias))}"
        )
    return products * hooks.scale(tokens.d) + bias


def causal_mask(tokens: int) -> Bool[Array, "tokens tokens"]:
    """True where key j is not after query i."""
    return np.tril(np.ones((tokens, tokens), dtype=bool))


class Steps(NamedTuple):
    """The intermediate results of attention."""

    tokens: Tokens
    logits: Float[Array, "heads tokens tokens"]
    weights: Float[Array, "heads tokens keys"]
    out: Float[Array, "heads tokens d_v"]


def steps(
    q: Float[Array, "heads tokens d"],
    k: Float[Array, "kv_heads tokens d"],
    v: Float[Array, "kv_heads tokens d_v"],
    hooks: Hooks = NO_HOOKS,
    *,
    positions: Positions | None = None,
    x: Float[Array, "tokens d_model"] | None = None,
    mask: Bool[Array, "tokens tokens"] | None = None,
) -> Steps:
    """Attention without projections, with its intermediate results.

    Parameters
    ----------
    q, k, v
        Of one sequence, any float dtype; computed in float64. With fewer key-value
        heads than heads, each serves a group of neighbors.
    hooks
        The encoding; by default no hook does anything.
    positions
        Finite reals, ``[tokens]``, or ``[tokens, *axes]`` for an encoding that wants
        more than a number. Default 0, 1, 2, …
    x
        The layer's input, for encodings that need it.
    mask
        True where query i may attend to key j; :func:`causal_mask`, or ``None``: all.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, positions not finite, shapes or head counts that do
        not match.
    """
    if not isinstance(hooks, Hooks):
        raise TypeError(f"hooks must be Hooks, got {type(hooks).__name__}")
    q, k, v = (require_floats(n, t) for n, t in (("q", q), ("k", k), ("v", v)))
    if (
        not q.ndim == k.ndim == v.ndim == 3
        or q.shape[1:] != k.shape[1:]
        or k.shape[:2] != v.shape[:2]
    ):
        raise ValueError(
            "q, k and v must be [heads, tokens, d] and agree in tokens and d, got "
            f"shapes {list(q.shape)}, {list(k.shape)} and {list(v.shape)}"
        )
    (_, tokens, d), group = q.shape, require_heads(len(q), len(k))
    if d == 0:
        raise ValueError(f"q must have features, got shape {list(q.shape)}")
    positions = require_positions(np.arange(tokens) if positions is None else positions)
    if positions.shape[:1] != (tokens,):
        raise ValueError(
            f"positions must be [{tokens}] or [{tokens}, axes] like the tokens, "
            f"got shape {list(positions.shape)}"
        )
    if x is not None:
        x = require_floats("x", x)
        if x.ndim != 2 or len(x) != tokens:
            raise ValueError(
                f"x must be [{tokens}, d_model] like the queries, got shape "
                f"{list(x.shape)}"
            )
    if mask is None:
        mask = np.ones((tokens, tokens), dtype=bool)
    mask = require_mask(mask, (tokens, tokens))
    if hooks.needs_causal and np.triu(mask, 1).any():
        raise ValueError("the encoding is causal, the mask is not; give causal=True")

    q, k = hooks.rotate(q, k, positions)
    k, v = k.repeat(group, axis=0), hooks.values(v, positions).repeat(group, axis=0)
    tokens = Tokens(q, k, v, d, positions, positions, mask, x)
    scores = logits(tokens, hooks)
    weights = hooks.weigh(scores, tokens)
    out = hooks.output(hooks.mix(weights, v, tokens), positions)
    return Steps(tokens, scores, weights, out)


def attend(
    q: Float[Array, "heads tokens d"],
    k: Float[Array, "kv_heads tokens d"],
    v: Float[Array, "kv_heads tokens d_v"],
    hooks: Hooks = NO_HOOKS,
    *,
    positions: Positions | None = None,
    x: Float[Array, "tokens d_model"] | None = None,
    causal: bool = True,
) -> Float[Array, "heads tokens d_v"]:
    """Attention without projections: the output of :func:`steps`.

    Equation ``def-hooks``. Other arguments and errors as :func:`steps`.
    """
    q = require_floats("q", q)
    if q.ndim != 3:
        raise ValueError(f"q must be [heads, tokens, d], got shape {list(q.shape)}")
    mask = causal_mask(q.shape[1]) if require_bool("causal", causal) else None
    return steps(q, k, v, hooks, positions=positions, x=x, mask=mask).out


def attention(
    x: Float[Array, "tokens d_model"],
    w: Projections,
    positions: Positions | None = None,
    *,
    mask: Bool[Array, "tokens tokens"] | None = None,
    hooks: Hooks = NO_HOOKS,
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
        True where query i may attend to key j; :func:`causal_mask`, or ``None``: all.
    hooks
        The encoding; by default no hook does anything. ``locate``, ``embed``,
        ``enter`` and ``update`` are a model's: see :func:`stack`.

    Returns
    -------
    float64 array of the shape of ``x``. Equation ``def-attention``.

    Raises
    ------
    TypeError, ValueError
        ``x`` not floating, positions not finite, shapes or head counts that do not
        match.
    """
    return _layer(x, w, positions, mask, hooks)[1]


def _layer(
    x: Array,
    w: Projections,
    positions: Positions | None,
    mask: Array | None,
    hooks: Hooks,
) -> tuple[Steps, Array]:
    """Return the intermediate results of a layer and its output."""
    x = require_floats("x", x)
    if x.ndim != 2:
        raise ValueError(f"x must be [tokens, d_model], got shape {list(x.shape)}")
    d_model = x.shape[1]
    heads, d = w.q.shape[:2]
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
    q, k, v = (np.einsum("hdm,im->hid", m, x) for m in (w.q, w.k, w.v))
    results = steps(q, k, v, hooks, positions=positions, x=x, mask=mask)
    return results, np.einsum("mhd,hid->im", w.o, results.out)


def stack(
    x: Float[Array, "tokens d_model"],
    layers: Sequence[tuple[Projections, Callable[[Array], Array]]],
    positions: Positions | None = None,
    *,
    mask: Bool[Array, "tokens tokens"] | None = None,
    hooks: Hooks | Sequence[Hooks] = NO_HOOKS,
) -> Float[Array, "tokens d_model"]:
    """Layers of attention and MLP, each added to the stream, without norms.

    Parameters
    ----------
    x, positions, mask
        As :func:`attention`.
    layers
        Of each, the projections and the MLP: a function of vectors.
    hooks
        One encoding for all layers, or one for each; ``locate`` and ``embed`` are
        those of the first.
    """
    hooks = [hooks] * len(layers) if isinstance(hooks, Hooks) else hooks
    positions = require_positions(np.arange(len(x)) if positions is None else positions)
    if layers:
        positions = hooks[0].locate(positions, x)
        x = hooks[0].embed(x, positions)
    for (w, MLP), own in zip(layers, hooks, strict=True):
        x = own.enter(x, positions)
        results, attention_output = _layer(x, w, positions, mask, own)
        x = x + attention_output
        mlp_output = MLP(x)
        x = x + mlp_output
        positions = own.update(results.weights, results.tokens, mlp_output)
    return x


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
