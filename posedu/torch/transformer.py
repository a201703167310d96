"""A small transformer: attention and MLPs, with a model's hooks open."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, cast

from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from posedu._arguments import require_dimension
from posedu.torch._tensors import Positions, as_positions, require_input
from posedu.torch.attention import Attention
from posedu.torch.cache import KVCache
from posedu.torch.encoding import LAYER_DOORS, Encoding, Sizes
from posedu.torch.routes import choose_route


class Block(nn.Module):
    """Attention, then an MLP, each on the normalized stream and added to it.

    The encoding of the layer is that of its attention; ``outer``, where it opens a
    model's hooks alone.
    """

    def __init__(
        self, attention: Attention, *, expansion: int, outer: Encoding | None = None
    ):
        super().__init__()
        self.outer = outer
        width = attention.d_model
        self.before_attention = nn.LayerNorm(width)
        self.attention = attention
        self.MLP = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, expansion * width),
            nn.GELU(),
            nn.Linear(expansion * width, width),
        )

    @property
    def encoding(self) -> Encoding:
        """The encoding of the layer."""
        return self.attention.encoding if self.outer is None else self.outer

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        positions: Shaped[Tensor, "rows tokens *position"],
        *,
        counted: bool = False,
        key_padding_mask: Bool[Tensor, "batch keys"] | None = None,
        segments: Int[Tensor, "batch tokens"] | None = None,
        cache: KVCache | None = None,
    ) -> tuple[
        Float[Tensor, "batch tokens d_model"],
        Shaped[Tensor, "next_rows tokens *position"],
    ]:
        """Add what the layer has to say; also the positions for the next one.

        ``counted`` says that ``positions`` are those that attention has by default.
        """
        x = self.encoding.enter(x, positions)
        heard, taken = self.attention.steps(
            self.before_attention(x),
            None if counted else positions,
            key_padding_mask=key_padding_mask,
            segments=segments,
            cache=cache,
        )
        x = x + heard
        fed = self.MLP(x)
        if self.encoding.opens("update") and taken.weights is not None:
            positions = self.encoding.update(taken.weights, taken.tokens, fed)
        return x + fed, positions


class Transformer(nn.Module):
    """Layers of attention and MLP (pre-norm), with a positional encoding.

    Parameters
    ----------
    d_model, heads
        As :class:`posedu.torch.attention.Attention`.
    layers
        How many.
    encoding
        One for all layers, which then share its parameters, or one for each, ``None``
        for a layer without. Default none.
    input
        The encoding whose hooks ``locate`` and ``embed`` act once, on positions and
        vectors as they come in. Default: ``encoding``, if it is one for all. Where
        positions move from layer to layer, the first of several of one class.
    causal
        A decoder, where a token sees only itself and earlier ones (default), or an
        encoder.
    window
        How many of the newest keys a query may look at: one number for all layers, or
        one for each. Default ``None``: all.
    kv_heads, bias, route
        As :class:`posedu.torch.attention.Attention`, for every layer.
    expansion
        Width of the MLP over d_model. Default 4 (arXiv 1706.03762 §3.3).

    Raises
    ------
    TypeError, ValueError
        As :class:`posedu.torch.attention.Attention`; encodings or windows that are not
        as many as the layers; encodings that disagree on what a position is; one of a
        layer that would act on the input of the model, or an ``input`` that would not.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        layers: int,
        *,
        encoding: Encoding | Sequence[Encoding | None] | nn.ModuleList | None = None,
        input: Encoding | None = None,
        causal: bool = True,
        window: int | Sequence[int | None] | None = None,
        kv_heads: int | None = None,
        bias: bool = False,
        route: str | None = None,
        expansion: int = 4,
    ):
        super().__init__()
        require_dimension("layers", layers, 1)
        require_dimension("expansion", expansion, 1)
        if isinstance(encoding, Encoding | None):
            if input is None and encoding is not None and _acts_on_input(encoding):
                input = encoding
            encoding = [encoding] * layers
        encodings = [
            Encoding() if own is None else own
            for own in _one_for_each("encodings", encoding, layers)
        ]
        if isinstance(window, Integral | None):
            window = [window] * layers
        windows = _one_for_each("windows", window, layers)
        _require_places(input, encodings)
        self.d_model = d_model
        self.positions_of, self.position_shape = _kind_of_positions(input, encodings)
        self.input = Encoding() if input is None else input
        self.blocks = nn.ModuleList()
        for own, width in zip(encodings, windows, strict=True):
            is_inner = any(map(own.opens, LAYER_DOORS))
            attention = Attention(
                d_model,
                heads,
                kv_heads=kv_heads,
                encoding=own if is_inner else None,
                causal=causal,
                window=width,
                bias=bias,
                route=choose_route(own, route),
            )
            is_outer = not is_inner and (own.opens("enter") or own.opens("update"))
            outer = own if is_outer else None
            self.blocks.append(Block(attention, expansion=expansion, outer=outer))
        self.norm = nn.LayerNorm(d_model)
        sizes = Sizes(heads, attention.kv_heads, attention.d, d_model, causal)
        for own in (self.input, *encodings):
            own.require(sizes)

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        positions: Positions | None = None,
        *,
        key_padding_mask: Bool[Tensor, "batch keys"] | None = None,
        segments: Int[Tensor, "batch tokens"] | None = None,
        caches: Sequence[KVCache] | None = None,
    ) -> Float[Tensor, "batch tokens d_model"]:
        """What the layers make of ``x``, normalized.

        Parameters
        ----------
        x
            One vector a token.
        positions, key_padding_mask, segments
            As :meth:`posedu.torch.attention.Attention.forward`.
        caches
            What each layer has already seen, one for each: :meth:`caches`. A refused
            call leaves all of them as they were.

        Raises
        ------
        TypeError, ValueError
            As :meth:`posedu.torch.attention.Attention.forward`; caches that are not as
            many as the layers, one for two layers, or of layers that have seen
            different numbers of tokens.
        """
        first = cast(Block, self.blocks[0])
        require_input(x, self.d_model, first.attention.q.weight)
        layers = len(self.blocks)
        held = [] if caches is None else _require_caches(caches, layers)
        grown = [KVCache() for _ in held]
        for new, old in zip(grown, held, strict=True):
            new.take(old)
        start = held[0].count if held else 0
        counted = positions is None and not self.input.opens("locate")
        positions = as_positions(
            positions, self.position_shape, x, start=start, reader=self.positions_of
        )
        positions = self.input.locate(positions, x)
        x = self.input.embed(x, positions)
        entered = type(self.input).__name__ if self.input.opens("embed") else None
        own: Sequence[KVCache | None] = grown or [None] * layers
        for module, cache in zip(self.blocks, own, strict=True):
            block = cast(Block, module)
            x, positions = block(
                x,
                positions,
                counted=counted,
                key_padding_mask=key_padding_mask,
                segments=segments,
                cache=cache,
            )
            counted = counted and not block.encoding.opens("update")
            if block.encoding.opens("enter"):
                entered = type(block.encoding).__name__
            if cache is not None:
                cache.entered = entered
        for new, old in zip(grown, held, strict=True):
            old.take(new)
        return self.norm(x)

    def caches(self) -> list[KVCache]:
        """Empty caches, one for each layer."""
        return [KVCache() for _ in self.blocks]


def _acts_on_input(encoding: Encoding) -> bool:
    return encoding.opens("embed") or encoding.opens("locate")


def _require_places(input: Encoding | None, encodings: list[Encoding]) -> None:
    """Raise unless each encoding stands where all its hooks are."""
    for own in (*encodings, input):
        if not isinstance(own, Encoding | None):
            raise TypeError(f"an encoding must be an Encoding module, got {own!r}")
    if input is not None and not _acts_on_input(input):
        raise ValueError(
            f"{type(input).__name__} does not act on the input of a model: give it as "
            "encoding="
        )
    for own in encodings:
        is_later = type(own) is type(input) and own.opens("update")
        if own is not input and _acts_on_input(own) and not is_later:
            raise ValueError(
                f"{type(own).__name__} of a layer acts on the input of the model: give "
                "it as input="
            )


def _kind_of_positions(
    input: Encoding | None, encodings: list[Encoding]
) -> tuple[str, tuple[int, ...] | None]:
    """Which encoding looks at positions and the shape that it is given of one.

    ``None`` where none looks. All must want the same in the layers.
    """
    readers = [e for e in encodings if e.needs_positions or e.opens("enter")]
    if input is not None:
        readers.insert(0, input)
    if not readers:
        return Encoding.__name__, None
    first = readers[0]
    for other in readers:
        if other.position_shape != first.position_shape:
            raise ValueError(
                "the encodings of a model must agree on what a position is: that of "
                f"{type(first).__name__} has the shape {list(first.position_shape)}, "
                f"that of {type(other).__name__} {list(other.position_shape)}"
            )
    return type(first).__name__, first.given_shape


def _require_caches(caches: Sequence[KVCache], layers: int) -> list[KVCache]:
    caches = _one_for_each("caches", caches, layers)
    for cache in caches:
        if not isinstance(cache, KVCache):
            raise TypeError(f"a cache must be a KVCache, got {type(cache).__name__}")
    if len({id(cache) for cache in caches}) < layers:
        raise ValueError("each layer needs a cache of its own, got one for two layers")
    counts = [cache.count for cache in caches]
    if any(count != counts[0] for count in counts):
        raise ValueError(f"the caches of a model must be equally far, got {counts}")
    return caches


def _one_for_each(name: str, given: object, layers: int) -> list[Any]:
    """``given`` as a list, if it has one for each layer, else raise."""
    if not isinstance(given, Sequence | nn.ModuleList) or isinstance(given, str):
        raise TypeError(f"{name} must be a list, one for each layer, got {given!r}")
    if len(given) != layers:
        raise ValueError(f"{layers} layers need as many {name}, got {len(given)}")
    return list(given)
