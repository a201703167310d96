"""Hooks through which an encoding acts on attention; by default each does nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from posedu.torch._tensors import Positions, split_exactly

MODEL_HOOKS = ("locate", "embed", "enter", "update")
LAYER_HOOKS = (
    *("rotate", "values", "scale", "fold", "bias"),
    *("logits", "weigh", "mix", "output"),
)
# Methods that serve a cache or one route, and that need no position.
OTHER_HOOKS = ("remember", "move_keys", "by_distance", "score_mod", "attend")
_HOOKS = (*MODEL_HOOKS, *LAYER_HOOKS, *OTHER_HOOKS)

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


class Sizes(NamedTuple):
    """Sizes of an attention layer. ``d_model`` is ``None`` outside a layer."""

    heads: int
    kv_heads: int
    d: int
    d_model: int | None
    causal: bool


@dataclass(frozen=True)
class Tokens:
    """The inputs of the hooks between queries and keys.

    ``q`` and ``k`` are the results of the hook ``rotate`` and ``v`` that of ``values``,
    with as many heads of ``k`` and ``v`` as of ``q``; ``d`` is the head dimension
    before ``rotate``. Keys, values, key positions and ``memory`` (the per-token state
    that the encoding's ``remember`` returned) include those of the cache; the last
    query belongs to the last key. Positions are ``[1 or batch, tokens, *position]``;
    ``consecutive`` is true if each is known to be the one before plus 1. ``x`` is the
    layer's input for the new tokens, ``None`` if it was not given.
    """

    q: Float[Tensor, "batch heads queries features"]
    k: Float[Tensor, "batch heads keys features"]
    v: Float[Tensor, "batch heads keys d_v"]
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

    @property
    def offsets(self) -> Shaped[Tensor, "rows 1 queries keys *position"]:
        """Query position minus key position, for all heads."""
        return (
            self.query_positions[:, None, :, None] - self.key_positions[:, None, None]
        )

    @property
    def is_limited(self) -> bool:
        """True if the mask hides more than later keys."""
        limited = self.padding is not None or self.segments is not None
        return limited or (self.window is not None and self.window < self.k.shape[2])

    @property
    def is_plain(self) -> bool:
        """True if the mask hides nothing, or the later keys of a square alone."""
        queries, keys = self.q.shape[2], self.k.shape[2]
        return not self.is_limited and (
            not self.causal or queries == keys or queries == 1
        )

    @property
    def is_open(self) -> bool:
        """True if every query may attend to every key."""
        return self.is_plain and (not self.causal or self.q.shape[2] == 1)

    @property
    def mask(self) -> Bool[Tensor, "rows 1 queries keys"]:
        """True where a query may attend to a key."""
        queries, keys = self.q.shape[2], self.k.shape[2]
        mask = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=self.q.device)
        if self.causal:
            mask = mask.tril(keys - queries)
        if self.window is not None:
            mask = mask.triu(keys - queries - self.window + 1)
        if self.padding is not None:
            mask = mask & ~self.padding[:, None, None, :]
        if self.segments is not None:
            same = (
                self.segments[:, None, -queries:, None] == self.segments[:, None, None]
            )
            mask = mask & same
        return mask

    def running_sum(
        self, amounts: Float[Tensor, "batch keys heads"]
    ) -> Float[Tensor, "batch heads keys"]:
        """Cumulative sums over the tokens, in float64; padding adds nothing.

        With segments, a difference of two sums within a segment is a sum over tokens of
        this segment alone.
        """
        amounts = amounts.to(torch.float64)
        if self.padding is not None:
            amounts = amounts.masked_fill(self.padding[..., None], 0.0)
        if self.segments is None:
            return amounts.cumsum(1).mT
        order = self.segments.argsort(dim=1, stable=True)[..., None].expand_as(amounts)
        sums = amounts.gather(1, order).cumsum(1)
        return torch.empty_like(sums).scatter(1, order, sums).mT


def softmax(
    logits: Float[Tensor, "batch heads queries keys"],
    mask: Bool[Tensor, "#batch #heads queries keys"],
) -> Float[Tensor, "batch heads queries keys"]:
    """Return weights proportional to exp(logit) over the keys that ``mask`` allows.

    A row without an allowed key, or whose logits are all −∞, gets zeros. Equation
    ``def-softmax``.
    """
    hidden = ~mask | (logits == -torch.inf)
    return logits.masked_fill(hidden, -torch.inf).softmax(-1).masked_fill(hidden, 0.0)


class Identity:
    """Identity of an encoding, to compare with ``is``; a copy is the same object.

    A deep copy of an encoding thus has the identity of the original. Pickling keeps it
    within one file: an encoding and a cache that are saved together still match.
    """

    def __copy__(self) -> "Identity":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Identity":
        return self


class Encoding(nn.Module):
    """A positional encoding: a module that overrides the hooks that it uses.

    With no hook overridden it is no encoding at all (NoPE). Its attributes state what
    it needs of a layer, and :meth:`require` compares them: ``heads``, ``d`` and
    ``d_model`` where they matter, ``needs_causal``, ``needs_x`` (the layer's input).
    ``position_shape`` is the shape of one position in the layers: ``()`` for a number.

    ``hooks`` are the names of the hooks that the encoding uses: those that its class
    overrides. A constructor may remove some, where a class has several forms.

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

    def __init__(self) -> None:
        super().__init__()
        self.hooks = frozenset(name for name in _HOOKS if _overrides(type(self), name))
        self.identity = Identity()

    def uses(self, hook: str) -> bool:
        """Return whether this encoding uses the named hook."""
        if hook not in _HOOKS:
            raise ValueError(f"hook must be one of {', '.join(_HOOKS)}, got {hook!r}")
        return hook in self.hooks

    @property
    def needs_positions(self) -> bool:
        """True if a hook of the layers reads positions."""
        return any(map(self.uses, LAYER_HOOKS))

    @property
    def given_shape(self) -> tuple[int, ...]:
        """Shape of one position as it is given to a model."""
        return () if self.uses("locate") else self.position_shape

    def require(self, layer: Sizes) -> None:
        """Raise unless a layer fulfils the needs of this encoding.

        Raises
        ------
        ValueError
            Another head dimension, width or number of heads; a layer that is not
            causal where that is needed.
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

    def locate(
        self,
        positions: Shaped[Tensor, "rows tokens *position"],
        x: Float[Tensor, "batch tokens d_model"],
    ) -> Tensor:
        """Return the positions for the layers of a model with the input ``x``."""
        return positions

    def embed(
        self, x: Float[Tensor, "batch tokens d_model"], positions: Positions
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Change the input vectors of a model, once, before its first layer."""
        return x

    def enter(
        self, x: Float[Tensor, "batch tokens d_model"], positions: Tensor
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Change the hidden states at the entry of each layer."""
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
        """Rotate, or otherwise change, queries and keys, each by its own position."""
        return q, k

    def values(
        self, v: Float[Tensor, "batch kv_heads tokens d"], positions: Positions
    ) -> Float[Tensor, "batch kv_heads tokens d_v"]:
        """Change the values, each by its own position."""
        return v

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Shaped[Tensor, "batch tokens *features"]]:
        """Per-token state to cache besides k and v."""
        return {}

    def rotation_state(self) -> tuple[Tensor, ...]:
        """Return the numbers that fix the angles of cached keys.

        A cache compares them, since it may move its keys only by the angles by which
        they were rotated. By default: parameters and buffers of an encoding that
        overrides ``move_keys``.
        """
        if not self.uses("move_keys"):
            return ()
        return (*self.parameters(), *self.buffers())

    def move_keys(
        self,
        k: Float[Tensor, "batch kv_heads keys features"],
        shifts: Shaped[Tensor, "rows keys *position"],
    ) -> Float[Tensor, "batch kv_heads keys features"]:
        """Return cached keys as they would be at other positions, by a shift of each.

        Keys into which no position enters are returned as they are.

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

    def scale(self, d: int) -> float:
        """Return the factor of the inner products, for a head dimension d."""
        return d**-0.5

    def fold(
        self, tokens: Tokens
    ) -> (
        tuple[Float[Tensor, "rows heads queries"], Float[Tensor, "key_rows heads keys"]]
        | None
    ):
        """Return a bias as a float64 number of each query plus one of each key.

        An encoding with such a bias needs no ``bias`` and no ``score_mod``.
        """
        return None

    def bias(self, tokens: Tokens) -> Float[Tensor, "rows #heads queries keys"] | None:
        """Return a term to add to the scaled logits, or ``None``."""
        summands = self.fold(tokens)
        if summands is None:
            return None
        dtype = torch.promote_types(tokens.q.dtype, torch.float32)
        (a, b), (c, d) = (split_exactly(t, dtype, 2) for t in summands)
        return (a[..., :, None] + c[..., None, :]) + (b[..., :, None] + d[..., None, :])

    def by_distance(self, tokens: Tokens) -> Float[Tensor, "heads offsets"] | None:
        """Return the bias by offset, the largest first, if no more decides the bias."""
        return None

    def score_mod(self, tokens: Tokens) -> ScoreMod | None:
        """Return the bias as FlexAttention's ``score_mod``; ``None``: use ``bias``."""
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
        """Return the scaled inner products plus the bias."""
        products = tokens.q @ tokens.k.mT * self.scale(tokens.d)
        bias = self.bias(tokens)
        return products if bias is None else products + bias

    def weigh(
        self, logits: Float[Tensor, "batch heads queries keys"], tokens: Tokens
    ) -> Float[Tensor, "batch heads queries columns"]:
        """Turn logits into weights."""
        return softmax(logits, tokens.mask)

    def mix(
        self,
        weights: Float[Tensor, "batch heads queries keys"],
        v: Float[Tensor, "batch heads keys d_v"],
        tokens: Tokens,
    ) -> Float[Tensor, "batch heads queries d_v"]:
        """Combine the values by the weights."""
        return weights @ v

    def output(
        self, out: Float[Tensor, "batch heads tokens d_v"], positions: Positions
    ) -> Float[Tensor, "batch heads tokens d_v"]:
        """Change the attention output, by the query's position."""
        return out

    def attend(self, tokens: Tokens) -> Float[Tensor, "batch heads queries d_v"]:
        """Attend by the encoding's own kernel, for the route "fused"."""
        raise NotImplementedError

    def update(
        self,
        weights: Float[Tensor, "batch heads queries keys"],
        tokens: Tokens,
        mlp_output: Float[Tensor, "batch queries d_model"],
    ) -> Tensor:
        """Return the positions for the next layer."""
        return tokens.query_positions

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """Refuse the call: only a layer or :func:`attend` can use an encoding."""
        raise TypeError(
            f"{type(self).__name__} is no function of tensors: give it to "
            "posedu.torch.attend(q, k, v, encoding) or to a layer"
        )

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """Register a parameter, unless its name is that of a hook."""
        if name in _HOOKS:
            raise AttributeError(f"{name!r} is a hook: give the parameter another name")
        super().register_parameter(name, param)


def _overrides(kind: type[Encoding], hook: str) -> bool:
    """Return whether a class overrides a hook."""
    return getattr(kind, hook) is not getattr(Encoding, hook)
