"""The hooks through which an encoding acts on attention, all shut by default."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from posedu.torch._tensors import Positions, split_exactly

MODEL_DOORS = ("locate", "embed", "enter", "update")
LAYER_DOORS = (
    *("rotate", "values", "scale", "fold", "bias"),
    *("logits", "weigh", "mix", "output"),
)

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


class Sizes(NamedTuple):
    """What a layer is like. ``d_model`` is ``None`` where no layer is there yet."""

    heads: int
    kv_heads: int
    d: int
    d_model: int | None
    causal: bool


@dataclass(frozen=True)
class Tokens:
    """What the hooks between queries and keys may look at.

    ``q`` and ``k`` are as the hook ``rotate`` left them and ``v`` as ``values`` did,
    one of ``k`` and ``v`` for each head of ``q``; ``d`` is the head dimension before.
    Keys, key positions and ``memory`` (what the encoding's own ``remember`` made of
    each token) include what a cache holds; the last query stands at the last key.
    Positions are ``[1 or batch, tokens, *position]``; ``consecutive`` says that each is
    known to be one more than the one before. ``x`` are the layer's new input vectors,
    ``None`` where they were not given.
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
        """Whether the mask is more than causality or nothing."""
        limited = self.padding is not None or self.segments is not None
        return limited or (self.window is not None and self.window < self.k.shape[2])

    @property
    def is_plain(self) -> bool:
        """Whether the mask is nothing but causality of a square, or nothing at all."""
        queries, keys = self.q.shape[2], self.k.shape[2]
        return not self.is_limited and (
            not self.causal or queries == keys or queries == 1
        )

    @property
    def is_open(self) -> bool:
        """Whether every query may look at every key."""
        return self.is_plain and (not self.causal or self.q.shape[2] == 1)

    @property
    def mask(self) -> Bool[Tensor, "rows 1 queries keys"]:
        """True where a query may look at a key."""
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
        """Sums over the tokens up to each, in float64; padding adds nothing.

        With segments, differences within one are sums over its own tokens alone.
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
    """Weights proportional to exp(logit) over the keys that ``mask`` allows.

    A row with no allowed key, or none of a logit above −∞, gets zeros. Equation
    ``def-softmax``.
    """
    hidden = ~mask | (logits == -torch.inf)
    return logits.masked_fill(hidden, -torch.inf).softmax(-1).masked_fill(hidden, 0.0)


class Encoding(nn.Module):
    """A positional encoding: a module that overrides the hooks it opens.

    With nothing overridden it is no encoding at all (NoPE). What it needs of a layer
    it says in its attributes, which :meth:`require` compares: ``heads``, ``d`` and
    ``d_model`` where they matter, ``needs_causal``, ``needs_x`` (the layer's input).
    ``position_shape`` are the axes of one position as layers see it: ``()`` for a
    number.

    A model (:class:`posedu.torch.transformer.Transformer`) opens the hooks ``locate``
    and ``embed`` once, ``enter`` and ``update`` in each layer; all others are opened by
    each attention layer.
    """

    heads: int | None = None
    d: int | None = None
    d_model: int | None = None
    position_shape: tuple[int, ...] = ()
    needs_causal = False
    needs_x = False
    turning = ""  # what angles a position has, where another module may differ

    @property
    def needs_positions(self) -> bool:
        """Whether a layer's hooks look at positions."""
        return any(map(self.opens, LAYER_DOORS))

    @property
    def given_shape(self) -> tuple[int, ...]:
        """The axes of one position as a model is given it."""
        return () if self.opens("locate") else self.position_shape

    def require(self, layer: Sizes) -> None:
        """Raise unless a layer gives what this encoding needs.

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
        """What the layers of a model are given as positions of its input ``x``."""
        return positions

    def embed(
        self, x: Float[Tensor, "batch tokens d_model"], positions: Positions
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Change the input vectors of a model."""
        return x

    def enter(
        self, x: Float[Tensor, "batch tokens d_model"], positions: Tensor
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Change the vectors that come to each layer."""
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
        """Change queries and keys, each by its own position."""
        return q, k

    def values(
        self, v: Float[Tensor, "batch kv_heads tokens d"], positions: Positions
    ) -> Float[Tensor, "batch kv_heads tokens d_v"]:
        """Change the values, each by its own position."""
        return v

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Shaped[Tensor, "batch tokens *features"]]:
        """What later queries will want to know of these tokens, besides k and v."""
        return {}

    def moved(
        self,
        k: Float[Tensor, "batch kv_heads keys features"],
        shifts: Shaped[Tensor, "rows keys *position"],
    ) -> Float[Tensor, "batch kv_heads keys features"]:
        """Cached keys as they would be at other positions, each by its own shift.

        Where positions enter between query and key alone, the keys stay what they are.

        Raises
        ------
        ValueError
            An encoding whose keys hold their positions in a way that cannot be undone.
        """
        inside = ("rotate", "values") if self.needs_positions else ()
        for hook in filter(self.opens, (*MODEL_DOORS, *inside)):
            raise ValueError(
                f"{type(self).__name__} puts positions into keys and values (the hook "
                f"{hook!r}) and does not say how they move: compute them anew"
            )
        return k

    def scale(self, d: int) -> float:
        """What inner products are multiplied by, for a head dimension d."""
        return d**-0.5

    def fold(
        self, tokens: Tokens
    ) -> (
        tuple[Float[Tensor, "rows heads queries"], Float[Tensor, "key_rows heads keys"]]
        | None
    ):
        """Numbers of each query and of each key, in float64, whose sums are the bias.

        An encoding that has them needs no ``bias`` and no ``score_mod``.
        """
        return None

    def bias(self, tokens: Tokens) -> Float[Tensor, "rows #heads queries keys"] | None:
        """A term to add to the scaled logits, or ``None``."""
        summands = self.fold(tokens)
        if summands is None:
            return None
        dtype = torch.promote_types(tokens.q.dtype, torch.float32)
        (a, b), (c, d) = (split_exactly(t, dtype, 2) for t in summands)
        return (a[..., :, None] + c[..., None, :]) + (b[..., :, None] + d[..., None, :])

    def by_distance(self, tokens: Tokens) -> Float[Tensor, "heads offsets"] | None:
        """The bias of the offsets from the largest down, where that is all it is."""
        return None

    def score_mod(self, tokens: Tokens) -> ScoreMod | None:
        """The bias as a FlexAttention ``score_mod``, or ``None`` to use ``bias``."""
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
        """Scaled inner products and bias."""
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
        """Change what was gathered, by the query's position."""
        return out

    def attend(self, tokens: Tokens) -> Float[Tensor, "batch heads queries d_v"]:
        """Attend by a kernel of the encoding's own, for the route "fused"."""
        raise NotImplementedError

    def update(
        self,
        weights: Float[Tensor, "batch heads queries keys"],
        tokens: Tokens,
        fed: Float[Tensor, "batch queries d_model"],
    ) -> Tensor:
        """Positions for the next layer; ``fed`` is what the MLP said."""
        return tokens.query_positions

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """Refuse: attention is a layer's business, or that of :func:`attend`."""
        raise TypeError(
            f"{type(self).__name__} is no function of tensors: give it to "
            "posedu.torch.attend(q, k, v, encoding) or to a layer"
        )

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """As every module's, but not under the name of a hook."""
        if name in (*MODEL_DOORS, *LAYER_DOORS, "remember", "score_mod", "attend"):
            raise AttributeError(f"{name!r} is a hook: give the parameter another name")
        super().register_parameter(name, param)

    def opens(self, hook: str) -> bool:
        """Whether this encoding opens the named hook."""
        return getattr(type(self), hook) is not getattr(Encoding, hook)
