"""A small transformer: attention and perceptrons, with a model's doors open."""

from collections.abc import Sequence

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from posedu._arguments import require_dimension
from posedu.torch._tensors import Positions, as_positions, require_floats
from posedu.torch.attention import Attention
from posedu.torch.cache import KVCache
from posedu.torch.encoding import LAYER_DOORS, Encoding


class Block(nn.Module):
    """Attention, then a perceptron, each on the normalised stream and added to it."""

    def __init__(
        self, attention: Attention, *, expansion: int, entering: Encoding | None
    ):
        super().__init__()
        self.entering = entering
        width = attention.d_model
        self.before_attention = nn.LayerNorm(width)
        self.attention = attention
        self.perceptron = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, expansion * width),
            nn.GELU(),
            nn.Linear(expansion * width, width),
        )

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        positions: Tensor | None = None,
        **masks,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], Tensor | None]:
        """Add what the layer has to say; also the positions for the next one."""
        attention = self.attention
        entering = attention.encoding if self.entering is None else self.entering
        x = entering.enter(x, positions)
        heard, taken = attention.steps(self.before_attention(x), positions, **masks)
        x = x + heard
        fed = self.perceptron(x)
        if attention.encoding.opens("update"):
            positions = attention.encoding.update(taken.weights, taken.tokens, fed)
        return x + fed, positions


class Transformer(nn.Module):
    """Layers of attention and perceptron (pre-norm), with a positional encoding.

    Parameters
    ----------
    d_model, heads
        As :class:`posedu.torch.Attention`.
    layers
        How many.
    encoding
        One for all layers, which then share its parameters, or one for each, ``None``
        for a layer without. Default none.
    input
        The encoding whose doors ``locate`` and ``embed`` act once, on positions and
        vectors as they come in. Default: ``encoding``, if it is one for all.
    causal
        A decoder, where a token sees only itself and earlier ones (default), or an
        encoder.
    window
        How many of the newest keys a query may look at: one number for all layers, or
        one for each. Default ``None``: all.
    kv_heads, bias, route
        As :class:`posedu.torch.Attention`, for every layer.
    expansion
        Width of the perceptron over d_model. Default 4 (arXiv 1706.03762 §3.3).

    Raises
    ------
    TypeError, ValueError
        As :class:`posedu.torch.Attention`; encodings or windows that are not as many as
        the layers; encodings of layers that would act on the input of the model.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        layers: int,
        *,
        encoding: Encoding | Sequence[Encoding | None] | None = None,
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
        if isinstance(encoding, Encoding | None):
            input = encoding if input is None else input
            encoding = [encoding] * layers
        encoding = _one_for_each("encodings", encoding, layers)
        for own in encoding:
            if own is not None and own is not input and _acts_on_input(own):
                raise ValueError(
                    f"{type(own).__name__} of a layer acts on the input of the model: "
                    "give it as input="
                )
        if isinstance(window, int | None):
            window = [window] * layers
        windows = _one_for_each("windows", window, layers)
        self.input = Encoding() if input is None else input
        self.blocks = nn.ModuleList(
            Block(
                Attention(
                    d_model,
                    heads,
                    kv_heads=kv_heads,
                    encoding=own if own is None or _acts_in_layers(own) else None,
                    causal=causal,
                    window=width,
                    bias=bias,
                    route=route,
                ),
                expansion=require_dimension("expansion", expansion, 1),
                entering=None if own is None or _acts_in_layers(own) else own,
            )
            for own, width in zip(encoding, windows, strict=True)
        )
        self.norm = nn.LayerNorm(d_model)

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        positions: Positions | None = None,
        *,
        key_padding_mask: Bool[Tensor, "batch keys"] | None = None,
        segments: Int[Tensor, "batch tokens"] | None = None,
        caches: Sequence[KVCache] | None = None,
    ) -> Float[Tensor, "batch tokens d_model"]:
        """What the layers make of ``x``, normalised.

        Parameters
        ----------
        x
            One vector a token.
        positions, key_padding_mask, segments
            As :meth:`posedu.torch.Attention.forward`.
        caches
            What each layer has already seen, one for each: :meth:`caches`.

        Raises
        ------
        TypeError, ValueError
            As :meth:`posedu.torch.Attention.forward`; caches that are not as many as
            the layers.
        """
        require_floats("x", x)
        if x.ndim != 3:
            raise ValueError(f"x must be [batch, tokens, d_model], got {list(x.shape)}")
        past = [None] * len(self.blocks) if caches is None else caches
        past = _one_for_each("caches", past, len(self.blocks))
        acts = _acts_on_input(self.input) or self.input.needs_positions
        shape = self.input.given_shape if acts else None
        if positions is None and not shape:
            seen = 0 if caches is None else caches[0].count
            positions = range(seen, seen + x.shape[1])
        if positions is None:
            last = ", ".join(map(str, shape))
            raise ValueError(
                f"{type(self.input).__name__} needs positions [{x.shape[1]}, {last}] "
                f"or [{len(x)}, {x.shape[1]}, {last}], got none"
            )
        positions = self.input.locate(as_positions(positions, shape, x))
        x = self.input.embed(x, positions)
        for block, cache in zip(self.blocks, past, strict=True):
            x, positions = block(
                x,
                positions,
                key_padding_mask=key_padding_mask,
                segments=segments,
                cache=cache,
            )
        return self.norm(x)

    def caches(self) -> list[KVCache]:
        """Empty caches, one for each layer."""
        return [KVCache() for _ in self.blocks]


def _acts_on_input(encoding: Encoding) -> bool:
    return encoding.opens("embed") or encoding.opens("locate")


def _acts_in_layers(encoding: Encoding) -> bool:
    return encoding.opens("update") or any(map(encoding.opens, LAYER_DOORS))


def _one_for_each(name: str, given: Sequence, layers: int) -> list:
    """``given`` as a list, if it has one for each layer, else raise."""
    if len(given) != layers:
        raise ValueError(f"{layers} layers need as many {name}, got {len(given)}")
    return list(given)
