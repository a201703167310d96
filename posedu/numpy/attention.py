"""Softmax attention with hooks: functions by which a positional encoding acts on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
    """The projection matrices of an attention layer: queries, keys, values, output.

    ``q`` is ``[heads, d, d_model]``, ``k`` and ``v`` are ``[kv_heads, d, d_model]``,
    ``o`` is ``[d_model, heads, d]``. With fewer key-value heads than query heads, each
    key-value head serves a group of consecutive query heads (grouped-query attention,
    arXiv 2305.13245).
    """

    q: Float[Array, "heads d d_model"]
    k: Float[Array, "kv_heads d d_model"]
    v: Float[Array, "kv_heads d d_model"]
    o: Float[Array, "d_model heads d"]


@dataclass(frozen=True)
class Tokens:
    """The queries, keys, values, positions and mask that attention passes to its hooks.

    Hooks are functions by which a positional encoding acts on attention
    (:class:`Hooks`). ``q`` and ``k`` are the results of the hook ``rotate`` (of
    ``transport``, for the hooks that are called after it), ``v`` is the result of the
    hook ``values``; keys and values are repeated, so that each query
    head has its own. ``d`` is the head dimension before ``rotate``. ``mask`` is true
    where query i may attend to key j. ``x`` is the layer's input, ``None`` where it was
    not given.
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
        """Query position minus key position for every pair, if positions are numbers.

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
        """Query position minus key position for every (query, key) pair."""
        return self.query_positions[:, None] - self.key_positions[None, :]


def softmax(
    logits: Float[Array, "*rows keys"], mask: Bool[Array, "*rows keys"] | None = None
) -> Float[Array, "*rows keys"]:
    """Weights proportional to exp(logit) over the keys that ``mask`` allows.

    A query with no allowed key gets zeros. Equation ``def-softmax``. ``None``: all keys
    are allowed.
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
    """Attention weights: :func:`softmax` over the keys that a query may attend to.

    These keys are given by ``tokens.mask``, true where query i may attend to key j.
    """
    return softmax(logits, np.broadcast_to(tokens.mask, logits.shape))


def mix(
    weights: Float[Array, "heads queries keys"],
    v: Float[Array, "heads keys d"],
    tokens: Tokens,
) -> Float[Array, "heads queries d"]:
    """Attention output: each query's sum of the values ``v``, weighted by ``weights``.

    ``tokens`` is not used: it is an argument of every hook ``mix``.
    """
    return weights @ v


@dataclass(frozen=True)
class Hooks:
    """The functions by which a positional encoding acts on attention, called hooks.

    By default the hooks make plain softmax attention. Called once for a model:
    ``locate`` (makes the positions) and ``embed`` (changes the input vectors). Called
    in each layer: ``enter`` (changes the layer's input vectors) and ``update`` (makes
    the next layer's positions from attention weights, :class:`Tokens` and MLP output).
    Called inside attention: ``rotate`` (changes queries and keys), ``values`` (changes
    values), ``transport`` (changes queries and keys by what precedes them in
    :class:`Tokens`), ``scale`` (gives the factor of the inner products), ``bias`` (is
    added to the scaled products: one number, ``[queries, keys]`` for all heads or
    ``[heads, queries, keys]``), ``logits`` (replaces scaled products and bias),
    ``weigh`` (makes weights of logits), ``mix`` (sums values by weights) and ``output``
    (changes the sums). With ``needs_causal`` no key may come after its query.
    """

    locate: Callable[[Array, Array], Array] = lambda positions, x: positions
    embed: Callable[[Array, Array], Array] = lambda x, positions: x
    enter: Callable[[Array, Array], Array] = lambda x, positions: x
    rotate: Callable[[Array, Array, Array], tuple[Array, Array]] = (
        lambda q, k, positions: (q, k)
    )
    values: Callable[[Array, Array], Array] = lambda v, positions: v
    transport: Callable[[Tokens], tuple[Array, Array]] | None = None
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
    """Return the layer's input ``tokens.x``, or raise if attention got no ``x``.

    ``name`` is the name of the encoding in the error message.
    """
    if not isinstance(tokens, Tokens):
        raise TypeError(f"{name} needs attention's Tokens, got {type(tokens).__name__}")
    if tokens.x is None:
        raise ValueError(f"{name} needs the layer's input: give attention x")
    return tokens.x


def logits(
    tokens: Tokens, hooks: Hooks = NO_HOOKS
) -> Float[Array, "heads queries keys"]:
    """Attention logits: scaled inner products plus bias, or what hook ``logits`` gives.

    A hook is a function by which a positional encoding acts on attention; see
    :class:`Hooks`.

    Raises
    ------
    ValueError
        A bias whose shape is none of those that :class:`Hooks` lists.
    """
    if hooks.logits is not None:
        return hooks.logits(tokens)
    products = tokens.q @ tokens.k.swapaxes(-1, -2)
    bias = require_bias(hooks.bias(tokens), products)
    return products * hooks.scale(tokens.d) + bias


def require_bias(
    bias: Array | float, products: Float[Array, "heads queries keys"]
) -> Array | float:
    """Return ``bias`` if it has a shape that :class:`Hooks` lists, else raise.

    The bias is to be added to ``products``, those of queries and keys.
    """
    if np.shape(bias) not in ((), products.shape[1:], products.shape):
        heads, queries, keys = products.shape
        raise ValueError(
            f"a bias must be one number, [{queries}, {keys}] or [{heads}, {queries}, "
            f"{keys}] for {heads} heads, got shape {list(np.shape(bias))}"
        )
    return bias


def causal_mask(tokens: int) -> Bool[Array, "tokens tokens"]:
    """Boolean mask of causal attention: true where key j is not after query i.

    The mask is ``[tokens, tokens]``; ``tokens`` is the number of tokens.
    """
    return np.tril(np.ones((tokens, tokens), dtype=bool))


class Steps(NamedTuple):
    """Intermediate results of attention: hook arguments, logits, weights and output.

    ``tokens`` are the arguments that attention passes to an encoding's hooks (functions
    by which the encoding acts on attention); ``out`` is the output of all heads, before
    the output projection.
    """

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
    """Attention of given queries, keys and values, with all intermediate results.

    Parameters
    ----------
    q, k, v
        Queries, keys and values of one sequence, any float dtype; computed in float64.
        With fewer key-value heads than query heads, each key-value head serves a group
        of neighboring query heads.
    hooks
        The encoding's hooks (functions that attention calls); by default plain
        attention without positions.
    positions
        Finite reals, ``[tokens]``, or ``[tokens, *axes]`` for an encoding whose
        positions have several numbers. Default 0, 1, 2, …
    x
        The layer's input, for encodings that need it.
    mask
        True where query i may attend to key j, for example :func:`causal_mask`.
        Default ``None``: every query attends to every key.

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
    if hooks.transport is not None:
        q, k = hooks.transport(tokens)
        tokens = replace(tokens, q=q, k=k)
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
    """Attention output of given queries, keys and values, without projections.

    With ``causal`` no query attends to a later key. The output is ``out`` of
    :func:`steps`, which explains the other arguments and the errors. The encoding acts
    by ``hooks``, functions that attention calls. Equation ``def-hooks``.
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
        The layer's input: a vector for each token.
    w
        The projections; see :class:`Projections`.
    positions
        Integers or finite reals, ``[tokens]``; ``[tokens, axes]`` for an encoding of
        several coordinates. Default 0, 1, 2, …
    mask
        True where query i may attend to key j, for example :func:`causal_mask`.
        Default ``None``: every query attends to every key.
    hooks
        The encoding's hooks (functions that attention calls); by default plain
        attention without positions. The hooks ``locate``, ``embed``, ``enter`` and
        ``update`` are not called here, only in :func:`stack`.

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
    """Return the intermediate values and the output of one attention layer.

    The output is that after the output projection, ``[tokens, d_model]``. Arguments as
    for :func:`attention`.
    """
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
    """Apply a stack of attention and MLP layers with residual sums and without norms.

    Parameters
    ----------
    x, positions, mask
        As :func:`attention`.
    layers
        Projections and MLP of each layer; the MLP is a function of hidden vectors.
    hooks
        One encoding's hooks (functions by which an encoding acts) for all layers, or
        hooks for each layer; ``locate`` and ``embed`` are the first layer's.

    Returns
    -------
    The hidden vectors after the last layer; ``x`` itself if there are no layers.
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
