"""DAPE: a network that adapts biases to the logits of all heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, pad
from torch.utils.checkpoint import checkpoint

from posedu._arguments import (
    LEAK,
    DAPEBias,
    DAPEEdges,
    require_bool,
    require_choice,
    require_dimension,
    require_edges,
)
from posedu.torch.bias.alibi import ALiBi
from posedu.torch.bias.fire import FIRE
from posedu.torch.bias.t5 import T5
from posedu.torch.encoding import LAYER_HOOKS, MODEL_HOOKS, Encoding, Sizes, Tokens

_BIASES: dict[str, Callable[..., Encoding]] = dict(alibi=ALiBi, t5=T5, fire=FIRE)
_SERVED = ("scale", "fold", "bias")
_ENTRIES = 2**16  # queries × keys of a tile


class DAPE(Encoding):
    """DAPE: logits S + f(S, B), or S + B + f(S, B) (arXiv 2405.14722, 2410.04798).

    S are the scaled products of all heads, B their biases. f has one hidden layer of
    leaky ReLUs (0.01). For each query both layers of f read as many neighboring keys as
    the kernel is wide: one in the first version, three in the second. Neighbors are
    counted among the keys that the query may attend to: with padding between tokens, or
    segments that alternate, the keys are gathered first. Except under a compiler,
    hidden units are computed for a tile of queries at a time and, if there are several
    tiles, again for the gradient. Attention takes O(L²) memory. Equation ``def-dape``.

    Parameters
    ----------
    heads
        Query heads.
    over
        The bias B: an encoding that uses no other hooks (methods that attention calls)
        than ``scale``, ``fold`` and ``bias``, such as
        :class:`posedu.torch.bias.KERPLELog` and :class:`posedu.torch.bias.Sandwich`; or
        its name, ``"alibi"``, ``"t5"`` or ``"fire"``, and its keywords, each with
        ``over_`` before it. ``None``: no bias, so that f reads S alone.
    kernel
        Number of keys that each layer of f reads, odd: 1 in the first version, 3 in the
        second.
    residual
        Whether B is added, too: true in the authors' code, false in the first
        formula of 2405.14722.
    edges
        For a kernel wider than 1: the input of the second layer at masked keys, where
        the first layer reads 0. ``"masked"``: 0. ``"published"``: the hidden units that
        the first layer computes at later keys, and 0 past the last key, as in the
        authors' code, for causal attention; the newest tokens then see that none
        follows, so that a text read in pieces has other outputs than in one.
        ``"code"``: the same, but past the last key as if the sequence went on.
    width
        Hidden units. Default 32 (the authors).

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, an even ``kernel``, ``edges`` missing, or
        given for a kernel of 1, an ``over`` that is no bias or made for other heads.
    """

    heads: int
    mixes_heads = True

    def __init__(
        self,
        heads: int,
        *,
        over: Encoding | DAPEBias | None,
        kernel: int,
        residual: bool,
        edges: DAPEEdges | None = None,
        width: int = 32,
        **over_options: Any,
    ):
        super().__init__()
        self.heads = require_dimension("heads", heads, 1)
        self.over = _bias_encoding(over, heads, over_options)
        require_dimension("kernel", kernel, 1)
        self.edges = require_edges(edges, kernel)
        self.residual = require_bool("residual", residual)
        require_dimension("width", width, 1)
        channels = heads if self.over is None else 2 * heads
        self.hidden = nn.Conv1d(channels, width, kernel)
        self.out = nn.Conv1d(width, heads, kernel)
        inner = self.over or Encoding()
        reads_later = edges in ("code", "published")
        self.needs_causal = inner.needs_causal or reads_later
        self.needs_x = inner.needs_x
        self.needs_own_key_last = reads_later or inner.needs_own_key_last
        self.position_shape = inner.position_shape
        self.accumulated = inner.accumulated

    @property
    def needs_positions(self) -> bool:
        """True if DAPE has a bias ``over``, and that bias depends on positions."""
        return self.over is not None and self.over.needs_positions

    def require(self, layer: Sizes) -> None:
        """Raise unless a layer has the sizes that DAPE and the bias ``over`` need."""
        super().require(layer)
        if self.over is not None:
            self.over.require(layer)

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Shaped[Tensor, "batch tokens *features"]]:
        """Return the per-token state that the bias ``over`` needs in the cache.

        It is a dictionary of tensors by name, empty if there is no bias.
        """
        return {} if self.over is None else self.over.remember(x)

    def accumulate(self, tokens: Tokens) -> Mapping[str, Float[Tensor, "batch keys"]]:
        """Return the cached numbers that the bias ``over`` changes, as they become."""
        return {} if self.over is None else self.over.accumulate(tokens)

    def scale(self, d: int) -> float:
        """Return the factor of products q · k: that of the bias ``over``, or 1/√d.

        1/√d is returned if there is no bias (``over`` is ``None``).
        """
        return super().scale(d) if self.over is None else self.over.scale(d)

    def logits(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return products S = q · k, plus the bias B if ``residual``, plus f(S, B)."""
        s = tokens.q @ tokens.k.mT * self.scale(tokens.d)
        s = s.to(torch.promote_types(s.dtype, torch.float32))
        b = None if self.over is None else self.over.bias(tokens)
        visible = tokens.mask.expand(len(s), -1, -1, -1)
        read, base = s, s
        if b is not None:
            b = b.to(s.dtype).expand_as(s)
            hidden = b == -torch.inf
            read = torch.cat((s, b.masked_fill(hidden, 0.0)), 1)
            base = s + b if self.residual else s.masked_fill(hidden, -torch.inf)
        if self.edges is None or not tokens.limits.by_token:
            return base + self._network(read, visible, tokens.causal)
        order = _visible_together(visible)
        read = read.gather(-1, order.expand(-1, read.shape[1], -1, -1))
        f = self._network(read, visible.gather(-1, order), tokens.causal)
        return base + f.gather(-1, order.argsort(-1).expand_as(f))

    def _network(
        self,
        read: Float[Tensor, "batch channels queries keys"],
        visible: Bool[Tensor, "batch 1 queries keys"],
        causal: bool,
    ) -> Float[Tensor, "batch heads queries keys"]:
        """Compute the output of DAPE's network f, for one block of queries at a time.

        ``read`` holds the input channels of f: logits of all heads, and biases if there
        are any. ``visible`` is the attention mask; ``causal`` is true if attention is.
        """
        queries, keys = read.shape[2:]
        kept = self._kept(visible)
        size = max(1, _ENTRIES // max(1, keys * len(read)))
        if torch.compiler.is_compiling() or queries <= size:
            return self._tile(read, visible, kept)
        tiles = zip(*(t.split(size, 2) for t in (read, visible, kept)), strict=True)
        return torch.cat(
            [checkpoint(self._tile, *tile, use_reentrant=False) for tile in tiles], 2
        )

    def _tile(self, read: Tensor, visible: Tensor, kept: Tensor) -> Tensor:
        margin = self.hidden.kernel_size[0] - 1
        read = pad(read.masked_fill(~visible, 0.0), (margin, margin))
        hidden = leaky_relu(_convolve(read, self.hidden), LEAK)
        return _convolve(hidden.masked_fill(~kept, 0.0), self.out)

    def _kept(
        self, visible: Bool[Tensor, "batch 1 queries keys"]
    ) -> Bool[Tensor, "batch 1 queries wider"]:
        """Boolean mask of f's hidden units that are kept; all other units become 0.

        f is DAPE's network; ``visible`` is the attention mask. The mask returned is
        kernel // 2 keys wider on both sides. Units at visible keys are kept and, unless
        ``edges`` is ``"masked"``, units at later keys, too.
        """
        margin = self.hidden.kernel_size[0] // 2
        kept = pad(visible, (margin, margin), value=False)
        if self.edges in ("code", "published"):
            queries, keys = visible.shape[2:]
            later = torch.ones_like(kept[:1]).triu(keys - queries + 1 + margin)
            if self.edges == "published":
                later[..., margin + keys :] = False
            kept = kept | later
        return kept

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.heads}, kernel={self.hidden.kernel_size[0]}, "
            f"residual={self.residual}, edges={self.edges!r}"
        )


def _visible_together(
    visible: Bool[Tensor, "batch 1 queries keys"],
) -> Int[Tensor, "batch 1 queries keys"]:
    """Order the keys of each query so that those it may attend to are neighbors.

    These are the keys where ``visible``, the attention mask, is true. Before them come
    the hidden keys up to the query's own, after them the hidden keys that are later.
    """
    queries, keys = visible.shape[2:]
    later = torch.ones_like(visible).triu(keys - queries + 1)
    return torch.where(visible, 1, 2 * later.int()).argsort(dim=-1, stable=True)


def _bias_encoding(
    over: Encoding | DAPEBias | None, heads: int, options: dict[str, Any]
) -> Encoding | None:
    """Return the encoding of the bias B: ``over``, or the encoding that ``over`` names.

    ``None`` if ``over`` is ``None``: there is no bias then. ``heads`` is the number of
    query heads; ``options`` are the keywords ``over_…`` for a named encoding.
    """
    if isinstance(over, str):
        given = {name.removeprefix("over_"): v for name, v in options.items()}
        return _BIASES[require_choice("over", over, DAPEBias)](heads, **given)
    if options:
        raise TypeError(f"{', '.join(options)}: over must be a name, got {over!r}")
    if over is None:
        return None
    if not isinstance(over, Encoding):
        raise TypeError(f"over must be an Encoding, a name or None, got {over!r}")
    hooks = [d for d in (*MODEL_HOOKS, *LAYER_HOOKS) if over.uses(d)]
    if not hooks or {*hooks} - {*_SERVED}:
        raise ValueError(
            f"over must be a bias, with the hooks {', '.join(_SERVED)} alone, got "
            f"{type(over).__name__} with {', '.join(hooks) or 'none'}"
        )
    if over.heads not in (None, heads):
        raise ValueError(f"over was made for {over.heads} heads, DAPE for {heads}")
    return over


def _convolve(
    x: Float[Tensor, "batch channels queries wider"], layer: nn.Conv1d
) -> Float[Tensor, "batch features queries keys"]:
    """Convolve ``x`` along its key axis by ``layer``, in the dtype of ``x``.

    Nothing is padded: of the ``wider`` keys of ``x``, kernel − 1 are lost.
    """
    weight, bias = layer.weight.to(x.dtype), layer.bias
    kernel = weight.shape[-1]
    keys = x.shape[-1] - kernel + 1
    taps = [
        torch.einsum("fc,bcqk->bfqk", weight[..., t], x[..., t : t + keys])
        for t in range(kernel)
    ]
    assert bias is not None
    return sum(taps[1:], taps[0]) + bias.to(x.dtype)[:, None, None]
