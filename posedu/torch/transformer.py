"""A small transformer of attention and MLPs, which calls an encoding's hooks.

Hooks are methods by which a positional encoding acts on attention or on a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from posedu._arguments import require_dimension
from posedu.torch._cut import current_cut
from posedu.torch._tensors import Positions, as_positions, require_input
from posedu.torch.attention import Attention, QKNorm, require_masks
from posedu.torch.cache import KVCache
from posedu.torch.encoding import LAYER_HOOKS, Encoding
from posedu.torch.routes import Route, choose_route
from posedu.torch.shared import Shared
from posedu.torch.state_cache import StateCache


class Block(nn.Module):
    """Pre-norm transformer layer: adds attention, then an MLP, to the hidden states.

    The layer's encoding is the encoding of ``attention``, or ``outer`` if given: an
    encoding that uses no other hooks (methods by which it acts) than ``enter``, which
    changes hidden states, and ``update``, which changes positions.
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
        """The layer's encoding: ``outer`` if given, else its attention's encoding."""
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
        shared: Shared | None = None,
    ) -> tuple[
        Float[Tensor, "batch tokens d_model"],
        Shaped[Tensor, "next_rows tokens *position"],
    ]:
        """Apply attention and MLP; return hidden states and the next layer's positions.

        ``counted`` is true if ``positions`` are the default positions of attention.
        ``shared`` holds tables that all layers of a model use; a model that gives it
        has checked all arguments. If it is ``None``, they are checked here. Other
        arguments as :meth:`posedu.torch.attention.Attention.forward`.
        """
        encoding = self.encoding
        x = encoding.enter(x, positions)
        normalized = self.before_attention(x)
        if shared is None:
            attention_output, steps = self.attention.steps(
                normalized,
                None if counted else positions,
                key_padding_mask=key_padding_mask,
                segments=segments,
                cache=cache,
            )
        else:
            consecutive = counted and (cache is None or cache.consecutive)
            attention_output, steps = self.attention.checked_steps(
                *(normalized, positions, consecutive, key_padding_mask, segments),
                *(cache, shared),
            )
        x = x + attention_output
        mlp_output = self.MLP(x)
        parts = [p for p in steps.parts or (steps,) if p.weights is not None]
        if encoding.uses("update") and parts:
            of_parts = mlp_output.tensor_split(len(parts), 1)
            updated = [
                encoding.update(cast(Tensor, part.weights), part.tokens, own)
                for part, own in zip(parts, of_parts, strict=True)
            ]
            positions = as_positions(
                torch.cat(updated, 1),
                encoding.position_shape,
                x,
                start=0,
                reader=type(encoding).__name__,
            )
        return x + mlp_output, positions


class Transformer(nn.Module):
    """Layers of attention and MLP (pre-norm), with a positional encoding.

    Parameters
    ----------
    d_model, heads
        Width of the hidden states, and query heads, as for
        :class:`posedu.torch.attention.Attention`.
    layers
        Number of layers.
    encoding
        One encoding for all layers, which then share its parameters, or a list of one
        encoding for each layer, with ``None`` for a layer without encoding. Default
        none.
    input
        The encoding whose hooks (methods by which it acts) ``locate`` and ``embed`` act
        once, on the positions and the input of the model. Default: ``encoding``, if it
        is one for all layers. Where layers update positions (TAPE) and each has an
        encoding of its own: the first layer's.
    mixers
        A list with a layer for each layer of the model that is to take the place of its
        attention, such as a :class:`~posedu.torch.recurrent.RecurrentLayer` or
        :class:`~posedu.torch.rotary.MLA`, and ``None`` for the others. Such a layer has
        its own encoding, window and norms, and takes none from the other arguments.
        Default ``None``: attention everywhere.
    causal
        Whether a token attends only to itself and earlier tokens (a decoder, default)
        or to all (an encoder).
    window
        How many of the newest keys a query may attend to: one number for all layers, or
        a list of one for each. Default ``None``: all.
    qk_norm
        As for :class:`posedu.torch.attention.Attention`: one for all layers, or a list
        of one for each. Default ``None``: no norm.
    kv_heads, bias, qk_norm_eps, route
        As for :class:`posedu.torch.attention.Attention`, in every layer.
    expansion
        Ratio of the MLP's hidden width to d_model. Default 4 (arXiv 1706.03762 §3.3).

    Raises
    ------
    TypeError, ValueError
        As :class:`posedu.torch.attention.Attention`; encodings, windows or norms that
        are not as many as the layers; encodings whose positions have different shapes;
        an encoding of a layer that uses ``locate`` or ``embed``, or an ``input`` that
        uses neither.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        layers: int,
        *,
        encoding: Encoding | Sequence[Encoding | None] | nn.ModuleList | None = None,
        input: Encoding | None = None,
        mixers: Sequence[Attention | None] | nn.ModuleList | None = None,
        causal: bool = True,
        window: int | Sequence[int | None] | None = None,
        kv_heads: int | None = None,
        bias: bool = False,
        qk_norm: QKNorm | Sequence[QKNorm | None] | None = None,
        qk_norm_eps: float = 1e-6,
        route: Route | None = None,
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
        if isinstance(qk_norm, str | None):
            qk_norm = [qk_norm] * layers
        norms = _one_for_each("qk_norms", qk_norm, layers)
        if mixers is None:
            mixers = [None] * layers
        given = _one_for_each("mixers", mixers, layers)
        encodings = [
            own if mixer is None else _encoding_of(mixer, d_model, causal)
            for own, mixer in zip(encodings, given, strict=True)
        ]
        _require_places(input, encodings)
        self.d_model = d_model
        self.positions_of, self.position_shape = _kind_of_positions(input, encodings)
        self.input = Encoding() if input is None else input
        self.blocks = nn.ModuleList()
        for own, width, norm, mixer in zip(
            *(encodings, windows, norms, given), strict=True
        ):
            is_inner = any(map(own.uses, LAYER_HOOKS))
            if mixer is None:
                attention = Attention(
                    d_model,
                    heads,
                    kv_heads=kv_heads,
                    encoding=own if is_inner else None,
                    causal=causal,
                    window=width,
                    bias=bias,
                    qk_norm=norm,
                    qk_norm_eps=qk_norm_eps,
                    route=choose_route(own, route),
                )
                own.require(attention.sizes)
            else:
                attention = mixer
            is_outer = not is_inner and (own.uses("enter") or own.uses("update"))
            outer = own if is_outer else None
            self.blocks.append(Block(attention, expansion=expansion, outer=outer))
        self.norm = nn.LayerNorm(d_model)
        self.input.require(attention.sizes)

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        positions: Positions | None = None,
        *,
        key_padding_mask: Bool[Tensor, "batch keys"] | None = None,
        segments: Int[Tensor, "batch tokens"] | None = None,
        caches: Sequence[KVCache] | None = None,
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Return the normalized output of the layers for the input ``x``.

        Parameters
        ----------
        x
            One vector for each token.
        positions, key_padding_mask, segments
            As :meth:`posedu.torch.attention.Attention.forward`.
        caches
            One cache of earlier tokens for each layer, as :meth:`caches` makes them. A
            call that raises leaves all caches unchanged.

        Raises
        ------
        TypeError, ValueError
            As :meth:`posedu.torch.attention.Attention.forward`; caches that are not as
            many as the layers, one for two layers, or of different numbers of tokens;
            caches for an ``input`` that needs a sequence's tokens in one call.
        """
        first = cast(Block, self.blocks[0])
        require_input(x, self.d_model, first.attention.o.weight)
        layers = len(self.blocks)
        given = [] if caches is None else _require_caches(caches, layers)
        if given and self.input.needs_whole_sequence:
            raise ValueError(
                f"{type(self.input).__name__} makes the positions of a sequence from "
                "all its tokens, got caches, with which a call has only some: make all "
                f"positions once, for a model without this module: {self.input}"
            )
        extended = [cache.shared() for cache in given]
        start = given[0].count if given else 0
        cache_of_layer: Sequence[KVCache | None] = extended or [None] * layers
        for cache in cache_of_layer:
            require_masks(x, key_padding_mask, segments, None, cache)
        counted = positions is None and not self.input.uses("locate")
        x, positions = self._embedded(x, positions, start)
        is_embedded = self.input.uses("embed")
        input_encoding = type(self.input).__name__ if is_embedded else None
        shared = Shared()
        for module, cache in zip(self.blocks, cache_of_layer, strict=True):
            block = cast(Block, module)
            x, positions = block(
                x,
                positions,
                counted=counted,
                key_padding_mask=key_padding_mask,
                segments=segments,
                cache=cache,
                shared=shared,
            )
            counted = counted and not block.encoding.uses("update")
            if block.encoding.uses("enter"):
                input_encoding = type(block.encoding).__name__
            if cache is not None:
                cache.input_encoding = input_encoding
        for new, old in zip(extended, given, strict=True):
            old.copy_from(new)
        return self.norm(x)

    def _embedded(
        self, x: Tensor, positions: Positions | None, start: int
    ) -> tuple[Tensor, Tensor]:
        """Return the first layer's input and positions; default ones from ``start``."""
        reader = self.positions_of
        positions = as_positions(
            positions, self.position_shape, x, start=start, reader=reader
        )
        if self.input.uses("locate"):
            located = self._located(positions, x, start)
            shape = self.input.position_shape
            positions = as_positions(located, shape, x, start=0, reader=reader)
        return self.input.embed(x, positions), positions

    def _located(self, positions: Tensor, x: Tensor, start: int) -> Tensor:
        """Return the positions that ``input`` makes, of a cut text from all tokens.

        ``start`` is the number of earlier tokens in the caches.
        """
        cut = current_cut()
        if cut is None or start:  # all ranks have the new tokens
            return self.agreed(self.input.locate(positions, x))
        of_text = self.input.locate(cut.whole(positions, 1), cut.whole(x, 1))
        return cut.own(self.agreed(of_text), 1)

    def agreed(self, t: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
        """Return what is sampled: ``t``, or that of one rank, if ranks share the model.

        Ranks share a model if its text or its heads are cut over them.
        """
        cut = current_cut()
        t = t if cut is None else cut.agreed(t)
        for block in self.blocks:
            heads = cast(Block, block).attention.sharded_heads
            if heads is not None:
                return heads.agreed(t)
        return t

    def require_positions(
        self, x: Float[Tensor, "batch tokens d_model"], positions: Positions | None
    ) -> None:
        """Raise if an encoding that changes input or hidden states refuses a position.

        A compiled model cannot do so itself. ``x`` has the shape of the input, and its
        numbers do not matter. Other encodings serve every position.
        """
        x, at = self._embedded(x, positions, 0)
        for block in self.blocks:
            cast(Block, block).encoding.enter(x, at)

    def caches(
        self, capacity: int | None = None, *, states: bool = True, keep: int = 0
    ) -> list[KVCache]:
        """Return a list of empty caches, one for each layer.

        ``capacity`` is the number of tokens for which each key-value cache reserves
        memory. Default ``None``: twice as many as the first call has. The layers of a
        recurrence, unless they have a window, get a state in place of keys and values
        (:class:`~posedu.torch.state_cache.StateCache`), unless ``states`` is false.
        ``keep`` is the number of calls that ``crop`` can take back from a state.
        Default 0. Inside :func:`~posedu.torch.parallel.context_parallel` the caches are
        for the keys of this rank, and ``capacity`` is the number of its tokens.
        """
        cut = current_cut()
        make = KVCache if cut is None else cut.cache

        def cache_of(attention: Attention) -> KVCache:
            carries = attention.encoding.uses("carry") and attention.window is None
            return StateCache(keep) if states and carries else make(capacity)

        return [cache_of(cast(Block, block).attention) for block in self.blocks]


def _encoding_of(mixer: object, d_model: int, causal: bool) -> Encoding:
    """Return the encoding of a layer that is given; raise unless the layer fits.

    It must be an attention layer of the model's width and causality.
    """
    if not isinstance(mixer, Attention):
        raise TypeError(f"a mixer must be an Attention layer or None, got {mixer!r}")
    if (mixer.d_model, mixer.causal) != (d_model, causal):
        raise ValueError(
            f"a mixer must have d_model = {d_model} and causal = {causal}, got "
            f"{mixer.d_model} and {mixer.causal}"
        )
    return mixer.encoding


def _acts_on_input(encoding: Encoding) -> bool:
    """Return whether an encoding acts on the input of a model.

    Such an encoding uses the hook ``embed`` (changes input vectors) or ``locate``
    (changes positions).
    """
    return encoding.uses("embed") or encoding.uses("locate")


def _require_places(input: Encoding | None, encodings: list[Encoding]) -> None:
    """Raise unless ``input`` acts on a model's input and the layers' encodings do not.

    A layer's encoding may act on the input if it is ``input``, or if it has the class
    of ``input`` and uses the hook ``update``, which makes the positions of the next
    layer.
    """
    for own in (*encodings, input):
        if not isinstance(own, Encoding | None):
            raise TypeError(f"an encoding must be an Encoding module, got {own!r}")
    if input is not None and not _acts_on_input(input):
        raise ValueError(
            f"{type(input).__name__} does not act on the input of a model: give it as "
            "encoding="
        )
    for own in encodings:
        is_later = type(own) is type(input) and own.uses("update")
        if own is not input and _acts_on_input(own) and not is_later:
            raise ValueError(
                f"{type(own).__name__} of a layer acts on the input of the model: give "
                "it as input="
            )


def _kind_of_positions(
    input: Encoding | None, encodings: list[Encoding]
) -> tuple[str, tuple[int, ...] | None]:
    """Return the class name of the first encoding to read positions, and their shape.

    ``input`` is the encoding of the model's input or ``None``; it comes first.
    ``encodings`` are those of the layers. The shape is that of one position as a caller
    gives it, ``None`` if no encoding reads positions; the name is then ``"Encoding"``.
    All encodings must agree on the shape of a position in the layers.
    """
    readers = [e for e in encodings if e.needs_positions or e.uses("enter")]
    if input is not None:
        readers.insert(0, input)
    if not readers:
        return Encoding.__name__, None
    first = readers[0]
    for other in readers:
        if other.position_shape != first.position_shape:
            raise ValueError(
                "the encodings of a model must agree on the shape of a position: that "
                f"of {type(first).__name__} is {list(first.position_shape)}, that of "
                f"{type(other).__name__} {list(other.position_shape)}"
            )
    return type(first).__name__, first.given_shape


def _require_caches(caches: Sequence[KVCache], layers: int) -> list[KVCache]:
    """Return key-value caches as a list; raise unless each layer has one of its own.

    ``layers`` is the number of layers. All caches must hold equally many tokens.
    """
    caches = _one_for_each("caches", caches, layers)
    for cache in caches:
        if not isinstance(cache, KVCache):
            raise TypeError(f"a cache must be a KVCache, got {type(cache).__name__}")
    if len({id(cache) for cache in caches}) < layers:
        raise ValueError("each layer needs a cache of its own, got one for two layers")
    counts = [cache.count for cache in caches]
    if any(count != counts[0] for count in counts):
        raise ValueError(
            f"the caches of a model must hold equally many tokens, got {counts}"
        )
    return caches


def _one_for_each(name: str, given: object, layers: int) -> list[Any]:
    """Return ``given`` as a list; raise unless it has one element for each layer.

    ``layers`` is the number of layers; ``name`` names the elements in error messages.
    """
    if not isinstance(given, Sequence | nn.ModuleList) or isinstance(given, str):
        raise TypeError(f"{name} must be a list, one for each layer, got {given!r}")
    if len(given) != layers:
        raise ValueError(f"{layers} layers need as many {name}, got {len(given)}")
    return list(given)
