"""Hooks: methods by which a positional encoding acts on attention and on a model.

By default the hooks make plain attention without positions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from posedu.torch._sequences import sequence_order
from posedu.torch._tensors import Positions, split_exactly
from posedu.torch.heads import HeadRange
from posedu.torch.shared import Shared
from posedu.torch.tiled_attention import Limits, by_group, per_head

MODEL_HOOKS = ("locate", "embed", "enter", "update")
LAYER_HOOKS = (
    *("rotate", "values", "transport", "scale", "fold", "bias"),
    *("logits", "weigh", "mix", "output"),
)
# Methods that serve a cache or one route, and that need no position.
OTHER_HOOKS = (
    *("remember", "accumulate", "move_keys", "by_distance", "score_mod", "attend"),
    "carry",
)
_HOOKS = (*MODEL_HOOKS, *LAYER_HOOKS, *OTHER_HOOKS)

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


class Sizes(NamedTuple):
    """Sizes of an attention layer; ``d_model`` is ``None`` if no width is known.

    ``d`` is the head dimension; ``causal`` is true if no query attends to a later key.
    """

    heads: int
    kv_heads: int
    d: int
    d_model: int | None
    causal: bool


@dataclass(frozen=True)
class Tokens:
    """Queries, keys, values, positions and masks: the inputs of an encoding's hooks.

    Hooks are the methods by which an encoding acts on attention. ``q`` and ``k`` are
    the results of the hook ``rotate`` (of ``transport``, for the hooks that are called
    after it) and ``v`` the result of ``values``, with as many heads of ``k`` and ``v``
    as of ``q``; ``d`` is the head dimension before ``rotate``.
    Keys, values, key positions and ``memory`` (the per-token state that the encoding's
    ``remember`` returned) include those of the cache; the last query belongs to the
    last key. Positions are ``[1 or batch, tokens, *position]``; ``consecutive`` is true
    if each position is known to be the previous one plus 1; the first one need not be
    0, since a cache may have lost its oldest tokens or been moved. ``x`` is the layer's
    input for the new tokens, ``None`` if it was not given.
    """

    q: Float[Tensor, "batch heads queries features"]
    grouped_k: Float[Tensor, "batch kv_heads keys features"]
    grouped_v: Float[Tensor, "batch kv_heads keys d_v"]
    d: int
    query_positions: Shaped[Tensor, "rows queries *position"]
    key_positions: Shaped[Tensor, "rows keys *position"]
    causal: bool
    x: Float[Tensor, "batch queries d_model"] | None = None
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    window: int | None = None
    padding: Bool[Tensor, "batch keys"] | None = None
    segments: Int[Tensor, "batch keys"] | None = None
    consecutive: bool = False
    shared: Shared = field(default_factory=Shared)

    @property
    def keys(self) -> int:
        """Number of keys to attend to: cached tokens plus new tokens."""
        return self.grouped_k.shape[2]

    @property
    def k(self) -> Float[Tensor, "batch heads keys features"]:
        """Keys of each query head: the keys of its key-value head in ``grouped_k``."""
        return per_head(self.grouped_k, self.q)

    @property
    def v(self) -> Float[Tensor, "batch heads keys d_v"]:
        """Values of each query head: the values of its head in ``grouped_v``."""
        return per_head(self.grouped_v, self.q)

    @property
    def offsets(self) -> Shaped[Tensor, "rows 1 queries keys *position"]:
        """Query position minus key position of every (query, key) pair."""
        return (
            self.query_positions[:, None, :, None] - self.key_positions[:, None, None]
        )

    @property
    def limits(self) -> Limits:
        """Limits of a query's keys: causality, window, padding and segments."""
        return Limits(self.causal, self.window, self.padding, self.segments)

    @property
    def mask(self) -> Bool[Tensor, "rows 1 queries keys"]:
        """Boolean attention mask, true where a query may attend to a key."""
        queries, keys = self.q.shape[2], self.keys
        every = slice(0, queries), slice(0, keys)
        return self.limits.allowed(*every, queries, keys, self.q.device)

    @property
    def sequence_order(self) -> Int[Tensor, "batch keys"]:
        """Indices of all tokens, sorted: padding first, then by segment.

        Within a segment (one of several packed sequences) tokens keep their order.
        """
        of_tokens = self.grouped_k[:, 0]
        return sequence_order(of_tokens, self.padding, self.segments)

    def running_sum(
        self, amounts: Float[Tensor, "batch keys *channels"]
    ) -> Float[Tensor, "batch *channels keys"]:
        """Cumulative sums of ``amounts`` over the tokens, in float64.

        ``amounts`` holds numbers of each token, such as the logarithms of gates; a
        token's sum includes its own, and padding adds nothing. With segments, a
        difference of two sums within a segment is a sum over tokens of this segment
        alone.
        """
        channels = amounts.shape[2:]
        amounts = amounts.to(torch.float64).flatten(2)
        if self.padding is not None:
            amounts = amounts.masked_fill(self.padding[..., None], 0.0)
        if self.segments is None:
            return amounts.cumsum(1).mT.unflatten(1, channels)
        order = self.segments.argsort(dim=1, stable=True)[..., None].expand_as(amounts)
        sums = amounts.gather(1, order).cumsum(1)
        sums = torch.empty_like(sums).scatter(1, order, sums)
        return sums.mT.unflatten(1, channels)


def softmax(
    logits: Float[Tensor, "batch heads queries keys"],
    mask: Bool[Tensor, "#batch #heads queries keys"],
) -> Float[Tensor, "batch heads queries keys"]:
    """Return weights proportional to exp(logit) over the keys that ``mask`` allows.

    A query without an allowed key, or whose logits are all −∞, gets zeros. Equation
    ``def-softmax``.
    """
    hidden = ~mask | (logits == -torch.inf)
    return logits.masked_fill(hidden, -torch.inf).softmax(-1).masked_fill(hidden, 0.0)


class Identity:
    """Identity of an encoding, to compare with ``is``; a copy is the same object.

    A deep copy of an encoding thus has the identity of the original. Pickling keeps
    the identity within one file: an encoding and a cache that are saved together still
    match.
    """

    def __copy__(self) -> "Identity":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Identity":
        return self


class Encoding(nn.Module):
    """A positional encoding: a module that overrides the hooks that it uses.

    Hooks are the methods by which an encoding acts on attention or on a model. With no
    hook overridden, the module is no encoding at all (NoPE). The attributes state what
    the encoding needs of a layer, and :meth:`require` compares them with the layer's:
    ``heads``, ``d`` and ``d_model`` where they matter, ``needs_causal``, ``needs_x``
    (the layer's input). ``position_shape`` is the shape of one position in the layers:
    ``()`` for a number. ``needs_own_key_last`` is true if the result is wrong where
    masked keys stand behind a query's own key, as they do in compiled decoding steps.

    ``head_rows`` are names of parameters whose first axis is that of ``heads``, or of
    the features of all heads one head after another, where ``heads`` is a number.
    ``mixes_heads`` is true if a head's output depends on other heads. ``heads_of`` says
    which heads of a layer this is the encoding of, ``None`` for all (:meth:`of_heads`).

    ``accumulated`` are names of per-token state that is a number of each token, 0 for a
    new one, and that later tokens change (:meth:`accumulate`). ``is_fused`` is true if
    the default route (code path that computes attention) is the encoding's own kernel.

    ``hooks`` are the names of the hooks that the encoding uses: those that its class
    overrides. A constructor may remove names from ``hooks``, if the class has forms
    that do not use all hooks.

    A model (:class:`posedu.torch.transformer.Transformer`) calls the hooks ``locate``
    and ``embed`` once, ``enter`` and ``update`` in each layer; each attention layer
    calls all others.
    """

    heads: int | None = None
    d: int | None = None
    d_model: int | None = None
    position_shape: tuple[int, ...] = ()
    needs_causal = False
    needs_x = False
    needs_own_key_last = False
    head_rows: tuple[str, ...] = ()
    mixes_heads = False
    heads_of: HeadRange | None = None
    _layer_heads: int | None = None
    accumulated: tuple[str, ...] = ()
    is_fused = False

    def __init__(self) -> None:
        super().__init__()
        self.hooks = frozenset(name for name in _HOOKS if _overrides(type(self), name))
        self.identity = Identity()

    def uses(self, hook: str) -> bool:
        """Return whether this encoding uses the hook of the name ``hook``.

        Hooks are the methods by which an encoding acts on attention or on a model. A
        name that no hook has raises a ``ValueError``.
        """
        if hook in self.hooks:
            return True
        if hook not in _HOOKS:
            raise ValueError(f"hook must be one of {', '.join(_HOOKS)}, got {hook!r}")
        return False

    @property
    def needs_positions(self) -> bool:
        """True if the encoding uses a hook (method) that an attention layer calls."""
        return any(map(self.uses, LAYER_HOOKS))

    @property
    def needs_whole_sequence(self) -> bool:
        """True if ``locate`` needs all tokens of a sequence in one call.

        A model whose input is such an encoding takes no caches. By default false.
        """
        return False

    @property
    def given_shape(self) -> tuple[int, ...]:
        """Shape of one position that a caller gives to a model.

        ``()``, a number, if the encoding uses the hook (method) ``locate``, which makes
        the layers' positions from it; else ``position_shape``, the shape in the layers.
        """
        return () if self.uses("locate") else self.position_shape

    def require(self, layer: Sizes) -> None:
        """Raise unless an attention layer of these sizes can use this encoding.

        Raises
        ------
        ValueError
            A layer with a head dimension, width or number of heads other than those for
            which the encoding was made; a layer that is not causal, for an encoding
            that needs a causal one.
        """
        for name in ("heads", "d", "d_model"):
            needed, given = getattr(self, name), getattr(layer, name)
            if None not in (needed, given) and needed != given:
                raise ValueError(
                    f"{type(self).__name__} was made for {name} = {needed}, the layer "
                    f"has {name} = {given}"
                )
        if self.needs_causal and not layer.causal:
            raise ValueError(
                f"{type(self).__name__} is causal, the layer is not; give causal=True"
            )

    def of_heads(self, heads: HeadRange) -> Encoding:
        """Return the encoding of some of a layer's heads; it uses these parameters.

        Its parameters are views, through which gradients flow to this encoding.

        Raises
        ------
        ValueError
            An encoding that mixes heads (:attr:`mixes_heads`).
        """
        if self.mixes_heads:
            raise ValueError(
                f"the heads of {type(self).__name__} depend on each other, so they "
                "cannot be cut over ranks: cut the text by context_parallel"
            )
        names = () if self.heads is None else self.head_rows
        own = heads.copied(self, dict.fromkeys(names, (0, None)))
        own.heads_of, own._layer_heads = heads, self.heads
        if self.heads is not None:
            own.heads = heads.size(self.heads)
            own.identity = Identity()  # a cache's keys are of these heads alone
        return own

    def own_heads(
        self, of_layer: Shaped[Tensor, "heads *features"]
    ) -> Shaped[Tensor, "own_heads *features"]:
        """Return the entries of this encoding's heads, of a tensor of all heads."""
        return of_layer if self.heads_of is None else self.heads_of.rows(of_layer)

    @property
    def layer_heads(self) -> int:
        """The ``heads`` of the encoding of the whole layer: see :meth:`of_heads`."""
        heads = self.heads if self.heads_of is None else self._layer_heads
        assert heads is not None
        return heads

    def locate(
        self,
        positions: Shaped[Tensor, "rows tokens *position"],
        x: Float[Tensor, "batch tokens d_model"],
    ) -> Tensor:
        """Return the positions for a model's layers, made from those given with ``x``.

        A hook that a model calls once; by default the positions are unchanged.
        """
        return positions

    def embed(
        self, x: Float[Tensor, "batch tokens d_model"], positions: Positions
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Change the input vectors ``x`` of a model, once, before its first layer.

        A hook that a model calls; by default the vectors are unchanged.
        """
        return x

    def enter(
        self, x: Float[Tensor, "batch tokens d_model"], positions: Tensor
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Change the hidden states ``x`` before each layer of a model.

        A hook that a model calls; by default the hidden states are unchanged.
        """
        return x

    def rotate(
        self,
        q: Float[Tensor, "batch heads tokens d"],
        k: Float[Tensor, "batch kv_heads tokens d"],
        positions: Positions,
    ) -> tuple[
        Float[Tensor, "batch heads tokens features"],
        Float[Tensor, "batch kv_heads tokens features"],
    ]:
        """Rotate, or otherwise change, queries and keys, each by its own position.

        A hook that an attention layer calls; by default both are unchanged.
        """
        return q, k

    def rotate_in_model(
        self, q: Tensor, k: Tensor, positions: Tensor, shared: Shared
    ) -> tuple[Tensor, Tensor]:
        """Return q and k as :meth:`rotate` does, by a table made once for all layers.

        The table holds the rotation of each position, and ``shared`` keeps it for one
        forward pass. An encoding without such a table does not use ``shared``, and
        calls :meth:`rotate`.
        """
        return self.rotate(q, k, positions)

    def values(
        self, v: Float[Tensor, "batch kv_heads tokens d"], positions: Positions
    ) -> Float[Tensor, "batch kv_heads tokens d_v"]:
        """Change the value vectors, each by the position of its token.

        A hook that an attention layer calls; by default the values are unchanged.
        """
        return v

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Shaped[Tensor, "batch tokens *features"]]:
        """Return what to cache of each token of the input ``x`` besides k and v.

        The dictionary holds a tensor for each name, such as log gates; by default it is
        empty.
        """
        return {}

    def accumulate(self, tokens: Tokens) -> Mapping[str, Float[Tensor, "batch keys"]]:
        """Return the per-token state that the queries change, as it is after them.

        The names are those of ``accumulated``. Called only if there is a cache, whose
        state this replaces; ``tokens.memory`` has the numbers before the queries. By
        default the dictionary is empty.
        """
        return {}

    def rotation_state(self) -> tuple[Tensor, ...]:
        """Return the tensors that determine the rotation angles of cached keys.

        A cache compares these tensors, since it may move its keys only by the angles by
        which the keys were rotated. By default they are all parameters and buffers if
        the encoding overrides ``move_keys``, else none: an empty tuple.
        """
        if not self.uses("move_keys"):
            return ()
        return (*self.parameters(), *self.buffers())

    def move_keys(
        self,
        k: Float[Tensor, "batch kv_heads keys features"],
        shifts: Shaped[Tensor, "rows keys *position"],
    ) -> Float[Tensor, "batch kv_heads keys features"]:
        """Return cached keys moved to other positions, each by its own shift.

        ``shifts`` are the new positions minus the old ones. Keys into which no position
        enters are returned as they are.

        Raises
        ------
        ValueError
            An encoding whose keys hold their positions in a way that cannot be undone.
        """
        inside = ("rotate", "values") if self.needs_positions else ()
        for hook in filter(self.uses, (*MODEL_HOOKS, *inside)):
            raise ValueError(
                f"{type(self).__name__} puts positions into keys and values (the hook "
                f"{hook!r}) and has no move_keys to move them: compute them anew"
            )
        return k

    def transport(
        self, tokens: Tokens
    ) -> tuple[
        Float[Tensor, "batch heads queries features"],
        Float[Tensor, "batch key_heads keys features"],
    ]:
        """Change queries and keys, each by what precedes it in its sequence.

        Unlike :meth:`rotate`, this hook sees the cached tokens too, and keys are cached
        as they were before it. The keys may get as many heads as the queries have.
        A hook that an attention layer calls; by default both are unchanged.
        """
        return tokens.q, tokens.grouped_k

    def scale(self, d: int) -> float:
        """Return the factor of the inner products q · k; by default 1/√d.

        ``d`` is the head dimension.
        """
        return d**-0.5

    def fold(
        self, tokens: Tokens
    ) -> (
        tuple[Float[Tensor, "rows heads queries"], Float[Tensor, "key_rows heads keys"]]
        | None
    ):
        """Return a float64 term of each query and key; their sum is the bias.

        Return ``None`` if the bias is no such sum (default). An encoding that returns
        terms needs no ``bias`` and no ``score_mod``.
        """
        return None

    def bias(self, tokens: Tokens) -> Float[Tensor, "rows #heads queries keys"] | None:
        """Return the bias to add to the scaled inner products, or ``None`` for no bias.

        By default the bias is the sum of the query and key terms of :meth:`fold`, and
        ``None`` if there are no terms.
        """
        summands = self.fold(tokens)
        if summands is None:
            return None
        dtype = torch.promote_types(tokens.q.dtype, torch.float32)
        (a, b), (c, d) = (split_exactly(t, dtype, 2) for t in summands)
        return (a[..., :, None] + c[..., None, :]) + (b[..., :, None] + d[..., None, :])

    def by_distance(self, tokens: Tokens) -> Float[Tensor, "heads offsets"] | None:
        """Return the bias of each offset, the largest offset first, or ``None``.

        An offset is query position minus key position. ``None`` (default) if the bias
        depends on more than the offset.
        """
        return None

    def score_mod(self, tokens: Tokens) -> ScoreMod | None:
        """Return a FlexAttention ``score_mod`` that adds the bias, or ``None``.

        A ``score_mod`` is a function that changes one logit. By default it adds the
        terms of :meth:`fold`; ``None`` if there are none.
        """
        summands = self.fold(tokens)
        if summands is None:
            return None
        dtype = torch.promote_types(tokens.q.dtype, torch.float32)
        shape = tokens.q.shape[:2]
        (a, b), (c, d) = (
            split_exactly(t.expand(*shape, -1), dtype, 2) for t in summands
        )
        return lambda score, batch, h, i, j: (
            score
            + ((a[batch, h, i] + c[batch, h, j]) + (b[batch, h, i] + d[batch, h, j]))
        )

    def logits(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return the logits: scaled products of queries and keys, plus the bias."""
        products = by_group(tokens.q, tokens.grouped_k.mT) * self.scale(tokens.d)
        bias = self.bias(tokens)
        return products if bias is None else products + bias

    def weigh(
        self, logits: Float[Tensor, "batch heads queries keys"], tokens: Tokens
    ) -> Float[Tensor, "batch heads queries columns"]:
        """Return attention weights made of logits; by default the masked softmax."""
        return softmax(logits, tokens.mask)

    def mix(
        self,
        weights: Float[Tensor, "batch heads queries keys"],
        v: Float[Tensor, "batch heads keys d_v"],
        tokens: Tokens,
    ) -> Float[Tensor, "batch heads queries d_v"]:
        """Combine the values by the attention weights; by default a weighted sum."""
        return weights @ v

    def output(
        self, out: Float[Tensor, "batch heads tokens d_v"], positions: Positions
    ) -> Float[Tensor, "batch heads tokens d_v"]:
        """Change the attention output of each token by the position of its query.

        A hook that an attention layer calls; by default the output is unchanged.
        """
        return out

    def attend(self, tokens: Tokens) -> Float[Tensor, "batch heads queries d_v"]:
        """Compute attention by the encoding's own kernel.

        An attention layer with the route (code path) ``"fused"`` calls this hook.
        """
        raise NotImplementedError

    def carry(
        self,
        tokens: Tokens,
        states: Mapping[str, Float[Tensor, "batch heads _ _"]],
    ) -> tuple[
        Float[Tensor, "batch heads queries d_v"],
        Mapping[str, Float[Tensor, "batch heads _ _"]],
    ]:
        """Return the output of new tokens and the states after them, for a recurrence.

        ``states`` are those before the tokens by name, none before the first one. A
        hook that is called in place of :meth:`attend` if the cache is a
        :class:`~posedu.torch.state_cache.StateCache`; keys and all else of ``tokens``
        are those of the new tokens alone.
        """
        raise NotImplementedError

    def update(
        self,
        weights: Float[Tensor, "batch heads queries keys"],
        tokens: Tokens,
        mlp_output: Float[Tensor, "batch queries d_model"],
    ) -> Tensor:
        """Return the positions for a model's next layer; by default they stay.

        A hook that a model calls in each layer, with the attention ``weights`` and the
        MLP output of the layer.
        """
        return tokens.query_positions

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """Raise ``TypeError``: an encoding is for a layer or :func:`attend` to use."""
        raise TypeError(
            f"{type(self).__name__} is no function of tensors: give it to "
            "posedu.torch.attend(q, k, v, encoding) or to a layer"
        )

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """Register a parameter; raise if a hook has the same name.

        Hooks are the methods by which an encoding acts on attention or on a model.
        """
        if name in _HOOKS:
            raise AttributeError(f"{name!r} is a hook: give the parameter another name")
        super().register_parameter(name, param)


def _overrides(kind: type[Encoding], hook: str) -> bool:
    """Return whether the class ``kind`` overrides the hook of the name ``hook``.

    Hooks are methods of :class:`Encoding` by which it acts on attention or on a model.
    """
    return getattr(kind, hook) is not getattr(Encoding, hook)
