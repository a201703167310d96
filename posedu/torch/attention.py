"""Attention as a function and as a module, which call a positional encoding's hooks.

Hooks are methods by which an encoding acts on attention.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Protocol, cast, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from posedu._arguments import (
    require_bool,
    require_choice,
    require_dimension,
    require_heads,
    require_positive,
)
from posedu.torch import routes
from posedu.torch._autograd import lowered, without_autocast
from posedu.torch._cut import current_cut
from posedu.torch._tensors import (
    Positions,
    as_positions,
    require_floats,
    require_input,
)
from posedu.torch.cache import KVCache
from posedu.torch.encoding import LAYER_HOOKS, MODEL_HOOKS, Encoding, Sizes, Tokens
from posedu.torch.heads import HeadRange
from posedu.torch.routes import ROUTES, Route, choose_route
from posedu.torch.shared import Shared
from posedu.torch.state_cache import StateCache
from posedu.torch.tiled_attention import per_head

__all__ = [
    "QK_NORMS",
    "ROUTES",
    "Attention",
    "KVCache",
    "QKNorm",
    "Steps",
    "attend",
    "steps",
]

QKNorm = Literal["head", "projection", "after"]
QK_NORMS: tuple[QKNorm, ...] = get_args(QKNorm)


class Steps(NamedTuple):
    """Outcome of attention: the output, the hooks' arguments, the attention weights.

    Hooks are methods by which an encoding acts on attention. ``out`` is the output of
    all heads, before the output projection (of this rank's heads alone, if they are cut
    over ranks). ``weights`` is ``None`` unless the route
    (code path that computes attention) is ``"eager"``. Of a text that is cut over ranks
    (:func:`posedu.torch.parallel.context_parallel`), ``parts`` has the outcome of each
    of this rank's chunks, and ``weights`` is ``None``.
    """

    out: Float[Tensor, "batch heads queries d_v"]
    tokens: Tokens
    weights: Float[Tensor, "batch heads queries columns"] | None
    parts: "tuple[Steps, ...]" = ()


def attend(
    q: Float[Tensor, "batch heads tokens d"],
    k: Float[Tensor, "batch kv_heads tokens d"],
    v: Float[Tensor, "batch kv_heads tokens d_v"],
    encoding: Encoding | None = None,
    *,
    positions: Positions | None = None,
    x: Float[Tensor, "batch tokens d_model"] | None = None,
    causal: bool = True,
    window: int | None = None,
    key_padding_mask: Bool[Tensor, "batch keys"] | None = None,
    segments: Int[Tensor, "batch tokens"] | None = None,
    cache: KVCache | None = None,
    route: Route | None = "eager",
) -> Float[Tensor, "batch heads tokens d_v"]:
    """Return the attention output of given q, k and v, without projections.

    The encoding acts by its hooks (methods that attention calls). Equation
    ``def-hooks``. Arguments and errors as for :func:`steps`.
    """
    return steps(
        *(q, k, v, encoding),
        positions=positions,
        x=x,
        causal=causal,
        window=window,
        key_padding_mask=key_padding_mask,
        segments=segments,
        cache=cache,
        route=route,
    ).out


def steps(
    q: Float[Tensor, "batch heads tokens d"],
    k: Float[Tensor, "batch kv_heads tokens d"],
    v: Float[Tensor, "batch kv_heads tokens d_v"],
    encoding: Encoding | None = None,
    *,
    positions: Positions | None = None,
    x: Float[Tensor, "batch tokens d_model"] | None = None,
    causal: bool = True,
    window: int | None = None,
    key_padding_mask: Bool[Tensor, "batch keys"] | None = None,
    segments: Int[Tensor, "batch tokens"] | None = None,
    cache: KVCache | None = None,
    route: Route | None = "eager",
) -> Steps:
    """Return the attention output of given q, k and v, with intermediate results.

    Parameters
    ----------
    q, k, v
        Queries, keys and values of the new tokens. With fewer key-value heads than
        heads, each serves a group of neighbors (grouped queries, arXiv 2305.13245).
    encoding
        The module whose hooks (methods that attention calls) are used; default none
        (NoPE).
    x
        The layer's input, for encodings that need it.
    positions, key_padding_mask, segments, cache
        As :meth:`Attention.forward`.
    causal, window, route
        As :class:`Attention`. The default route is ``"eager"``.

    Raises
    ------
    TypeError, ValueError
        Shapes, dtypes or devices that do not match, an encoding whose needs the layer
        does not fulfil.
    """
    encoding = _require_encoding(encoding)
    require_bool("causal", causal)
    _require_projected(q, k, v, x)
    d_model = None if x is None else x.shape[-1]
    require_heads(q.shape[1], k.shape[1])
    encoding.require(Sizes(q.shape[1], k.shape[1], q.shape[3], d_model, causal))
    if encoding.needs_x and x is None:
        raise ValueError(f"{type(encoding).__name__} needs the layer's input: give x")
    require_masks(q, key_padding_mask, segments, _require_window(window, causal), cache)
    positions, consecutive = _located(positions, encoding, q, cache)
    return _steps(
        (q, k, v),
        encoding,
        positions,
        x,
        consecutive=consecutive,
        causal=causal,
        window=window,
        padding=key_padding_mask,
        segments=segments,
        cache=cache,
        route=choose_route(encoding, route),
    )


def _steps(
    projected: tuple[Tensor, Tensor, Tensor],
    encoding: Encoding,
    positions: Tensor,
    x: Tensor | None,
    *,
    consecutive: bool,
    causal: bool,
    window: int | None,
    padding: Tensor | None,
    segments: Tensor | None,
    cache: KVCache | None,
    route: Route,
    memory: Mapping[str, Tensor] | None = None,
    norm_eps: float | None = None,
    shared: Shared | None = None,
) -> Steps:
    """Compute attention of projected q, k, v (valid arguments); extend the cache last.

    Autocast applies to the projections only; later operations keep their dtypes.
    ``consecutive`` is true if each position is known to be the previous one plus 1.
    ``memory`` is further per-token state to cache, tensors by name. With ``norm_eps``,
    the ε of an RMS norm, rotated queries and keys are normalized before keys are
    cached. ``shared`` holds tables that the layers of a model share in one forward
    pass; ``None`` for a layer outside a model.
    """
    q, k, v = lowered(*projected)
    d = q.shape[-1]
    shared = Shared() if shared is None else shared
    memory = dict(memory or {})
    if x is not None:
        memory |= encoding.remember(x)
    wide = torch.promote_types(q.dtype, torch.float32)
    memory |= {
        name: q.new_zeros(len(q), q.shape[2], dtype=wide)
        for name in encoding.accumulated
    }
    with without_autocast(q):
        q, k = encoding.rotate_in_model(q, k, positions, shared)
        if norm_eps is not None:
            q, k = (
                nn.functional.rms_norm(t, t.shape[-1:], eps=norm_eps) for t in (q, k)
            )
        v = encoding.values(v, positions)
        key_positions, extended = positions, None
        if cache is not None:
            extended = cache.appended(k, v, positions, memory, encoding)
            extended.consecutive = consecutive
            (k, v, key_positions), memory = extended.entries, extended.memory
            window, padding = extended.hide(window, padding)
        tokens = Tokens(
            q=q,
            grouped_k=k,
            grouped_v=v,
            d=d,
            query_positions=positions,
            key_positions=key_positions,
            causal=causal,
            x=x,
            memory=memory,
            window=window,
            padding=padding,
            segments=segments,
            consecutive=consecutive,
            shared=shared,
        )
        cut, parts = current_cut(), ()
        if cut is None or (isinstance(cache, StateCache) and cache.count):
            out, tokens, weights, _ = attended(encoding, tokens, route, extended)
        else:
            out, tokens, weights, parts = cut.attend(encoding, tokens, route, extended)
        out = encoding.output(out, positions)
        if cut is None and extended is not None and encoding.accumulated:
            extended.memory = {**memory, **encoding.accumulate(tokens)}
    if cache is not None and extended is not None:
        cache.copy_from(extended)
    return Steps(out, tokens, weights, parts)


def attended(
    encoding: Encoding, tokens: Tokens, route: Route, cache: KVCache | None = None
) -> Steps:
    """Return the output of all heads; put the states of a recurrence into ``cache``."""
    if encoding.uses("transport"):
        q, k = encoding.transport(tokens)
        v = per_head(tokens.grouped_v, k)
        tokens = replace(tokens, q=q, grouped_k=k, grouped_v=v)
    if isinstance(cache, StateCache):
        out, states = tokens.v, cast(Mapping[str, Tensor], cache.states)
        if tokens.keys:
            out, states = encoding.carry(tokens, states)
        cache.settled(states)
        return Steps(out, tokens, None)
    if route == "eager":
        out, weights = routes.eager(encoding, tokens)
        return Steps(out, tokens, weights)
    return Steps(routes.BY_NAME[route](encoding, tokens), tokens, None)


def _located(
    positions: Positions | None,
    encoding: Encoding,
    like: Tensor,
    cache: KVCache | None,
) -> tuple[Tensor, bool]:
    """Return positions as a checked tensor, and whether they count up by one.

    The second is true if ``positions`` is ``None`` and the cache, if given, holds
    default positions alone. Default positions count on from the cache: each is the
    previous one plus 1. ``like`` is a tensor of queries, ``[batch, heads, tokens, d]``.
    """
    consecutive = positions is None and (cache is None or cache.consecutive)
    located = as_positions(
        positions,
        encoding.position_shape if encoding.needs_positions else None,
        like,
        start=0 if cache is None else cache.count,
        reader=type(encoding).__name__,
    )
    return located, consecutive


class HeadSharding(Protocol):
    """Heads over ranks: :func:`posedu.torch.parallel.tensor_parallel` sets them."""

    def steps(self, layer: Any, x: Tensor, *arguments: Any) -> tuple[Tensor, Steps]:
        """Return a layer's output, of which this rank computes some heads."""

    def agreed(self, t: Tensor) -> Tensor:
        """Return the tensor ``t`` of the first rank, on all ranks."""


class Attention(nn.Module):
    """Multi-head attention (arXiv 1706.03762 §3.2.2) with a positional encoding.

    Parameters
    ----------
    d_model
        Width of the input and output vectors.
    heads
        Query heads.
    kv_heads
        Key-value heads, a divisor of ``heads`` (grouped queries, arXiv 2305.13245).
        Default ``heads``.
    d
        Head dimension. Default d_model / heads.
    encoding
        The module whose hooks (methods that attention calls) are used; default none
        (NoPE). One that acts on a model's input alone belongs to
        :class:`posedu.torch.transformer.Transformer`.
    causal
        Whether a query attends only to itself and to earlier tokens. Default true.
        "Earlier" is the order in the sequence, whatever the positions are.
    window
        How many of the newest keys a query may attend to, its own included; for causal
        attention alone. Default all.
    bias
        Whether the projections have biases. Default false.
    qk_norm
        RMS norm of queries and keys. ``"head"``: of each head, before the rotation,
        with a gain for each of the d features (Qwen 3; Gemma 3, whose gain is 1 plus
        its weight). ``"projection"``: of all heads together, before the rotation, with
        a gain for each feature of the projection (OLMo 2). ``"after"``: of each head,
        after the hook ``rotate``, without gains (Llama 4); factors that the hook puts
        on queries and keys (an attention factor, a temperature) are lost then. A cache
        holds the normalized keys. Default ``None``: no norm.
    qk_norm_eps
        ε of this norm, x / √(mean(x²) + ε). Default 1e−6 (Qwen 3, Gemma 3); OLMo 2 and
        Llama 4 have 1e−5. All four as transformers 5.23.0 has them.
    route
        ``"folded"``: the encoding's bias as further features of queries and keys, O(L)
        memory; for encodings whose hook ``fold`` gives the bias as a query term plus a
        key term. ``"sdpa"``: ``scaled_dot_product_attention``. ``"flex"``:
        FlexAttention, which fuses a ``score_mod`` (function that changes a logit) under
        ``torch.compile``; on a CPU it has no gradient. ``"eager"``: logits, weights and
        output as separate tensors, for every encoding. ``"fused"``: the encoding's own
        kernel, for encodings that have the hook ``attend``. Default: fused for a
        recurrence, else the first of folded, sdpa and eager that can serve the
        encoding.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers or do not divide; an unknown ``qk_norm``;
        an encoding whose needs the layer does not fulfil, or that the route cannot
        serve.
    """

    qk_norm: QKNorm | None = None
    qk_norm_eps = 1e-6
    heads_of: HeadRange | None = None
    sharded_heads: HeadSharding | None = None

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        d: int | None = None,
        encoding: Encoding | None = None,
        causal: bool = True,
        window: int | None = None,
        bias: bool = False,
        qk_norm: QKNorm | None = None,
        qk_norm_eps: float = 1e-6,
        route: Route | None = None,
    ):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        self.heads = heads
        self.kv_heads = heads if kv_heads is None else kv_heads
        self.group = require_heads(heads, self.kv_heads)
        if d is None and d_model % heads:
            raise ValueError(
                f"d_model must be a multiple of heads = {heads} unless d is given, "
                f"got {d_model}"
            )
        self.d = d_model // heads if d is None else require_dimension("d", d, 1)
        self.causal = require_bool("causal", causal)
        self.window = _require_window(window, causal)
        self.encoding = _require_encoding(encoding)
        self.encoding.require(self.sizes)
        self.route = choose_route(self.encoding, route)
        require_bool("bias", bias)
        self.q = nn.Linear(d_model, heads * self.d, bias=bias)
        self.k = nn.Linear(d_model, self.kv_heads * self.d, bias=bias)
        self.v = nn.Linear(d_model, self.kv_heads * self.d, bias=bias)
        self.o = nn.Linear(heads * self.d, d_model, bias=bias)
        self.qk_norm_eps = require_positive("qk_norm_eps", qk_norm_eps)
        self.q_norm = self.k_norm = None
        if qk_norm is not None:
            self.qk_norm = require_choice("qk_norm", qk_norm, QKNorm)
        if qk_norm in ("head", "projection"):
            is_of_all = qk_norm == "projection"
            q_width, k_width = (
                count * self.d if is_of_all else self.d
                for count in (heads, self.kv_heads)
            )
            self.q_norm = nn.RMSNorm(q_width, eps=self.qk_norm_eps)
            self.k_norm = nn.RMSNorm(k_width, eps=self.qk_norm_eps)

    @property
    def sizes(self) -> Sizes:
        """Sizes of the layer that an encoding may depend on."""
        return Sizes(self.heads, self.kv_heads, self.d, self.d_model, self.causal)

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        positions: Positions | None = None,
        *,
        key_padding_mask: Bool[Tensor, "batch keys"] | None = None,
        segments: Int[Tensor, "batch tokens"] | None = None,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Return the attention output for the input ``x``. Equation ``def-attention``.

        Parameters
        ----------
        x
            One vector for each token.
        positions
            A range, a list, ``[tokens]`` or ``[batch, tokens]``; integers or reals in
            any order. Default: 0, 1, 2, … counted on from the cache. An encoding of
            several coordinates needs them: ``[tokens, axes]`` or
            ``[batch, tokens, axes]``.
        key_padding_mask
            True where a key is padding, to be ignored (PyTorch's convention), for all
            keys including the cached ones. A query without any key gives zeros before
            the output projection (under stick-breaking, what its remainder weighs).
        segments
            For packed sequences: the number of each token's sequence. A token
            attends only to tokens of the same number.
        cache
            Keys and values of this layer's earlier tokens; the new tokens are appended.
            For a recurrence a :class:`~posedu.torch.state_cache.StateCache` serves too:
            it holds a state in their place.

        Raises
        ------
        TypeError, ValueError
            Shapes, dtypes or devices that do not match; ``segments`` with a cache.
        """
        return self.steps(
            x,
            positions,
            key_padding_mask=key_padding_mask,
            segments=segments,
            cache=cache,
        )[0]

    def steps(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        positions: Positions | None = None,
        *,
        key_padding_mask: Bool[Tensor, "batch keys"] | None = None,
        segments: Int[Tensor, "batch tokens"] | None = None,
        cache: KVCache | None = None,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], Steps]:
        """Return the output of :meth:`forward` and the values on the way to it.

        The values on the way are :class:`Steps`. The arguments are those of
        :meth:`forward`.
        """
        require_input(x, self.d_model, self.q.weight)
        require_masks(x, key_padding_mask, segments, self.window, cache)
        located, consecutive = _located(positions, self.encoding, x, cache)
        return self.checked_steps(
            *(x, located, consecutive, key_padding_mask, segments, cache, Shared())
        )

    def checked_steps(
        self,
        x: Tensor,
        positions: Tensor,
        consecutive: bool,
        key_padding_mask: Tensor | None,
        segments: Tensor | None,
        cache: KVCache | None,
        shared: Shared,
    ) -> tuple[Tensor, Steps]:
        """Return the output and intermediate values; arguments are checked already.

        The arguments are those of :meth:`steps`, and two more. ``consecutive`` is true
        if each position is known to be the previous one plus 1; ``shared`` holds tables
        that the layers of a model share in one forward pass.
        """
        if self.sharded_heads is not None:
            return self.sharded_heads.steps(
                *(self, x, positions, consecutive, key_padding_mask, segments),
                *(cache, shared),
            )
        cut = current_cut()
        if cut is None or (cache is not None and cache.count):
            q, k, v, memory = self.project(x, key_padding_mask, segments, cache)
        else:
            q, k, v, memory = cut.projected(
                self, x, key_padding_mask, segments, cache, shared
            )
        steps = _steps(
            (q, k, v),
            self.encoding,
            positions,
            x,
            consecutive=consecutive,
            causal=self.causal,
            window=self.window,
            padding=key_padding_mask,
            segments=segments,
            cache=cache,
            route=self.route,
            memory=memory,
            norm_eps=self.qk_norm_eps if self.qk_norm == "after" else None,
            shared=shared,
        )
        return self.finish(steps.out, x), steps

    def head_axes(self) -> dict[str, tuple[int, int]]:
        """Return the axis of heads of the layer's own parameters, by name.

        Each has a second number: how many equal parts the axis has, one for each head
        or key-value head.
        """
        axes = {"o.weight": (1, self.heads)}
        for name in ("weight", "bias"):
            axes[f"q.{name}"] = 0, self.heads
            axes[f"k.{name}"] = axes[f"v.{name}"] = 0, self.kv_heads
        if self.qk_norm == "projection":
            axes["q_norm.weight"] = 0, self.heads
            axes["k_norm.weight"] = 0, self.kv_heads
        return axes

    def of_heads(self, heads: HeadRange) -> "Attention":
        """Return a layer of some of the heads, whose parameters are views of these.

        If ranges partition the heads, the outputs of their layers add up to the output
        of this layer. The output projection's bias is in the range that begins with
        head 0.

        Raises
        ------
        ValueError
            A range of another number of heads; groups of query heads that it would cut
            with others; an encoding that mixes heads. When the new layer is called: a
            norm over the features of all heads.
        """
        if heads.count != self.heads:
            raise ValueError(
                f"the layer has {self.heads} heads, the range is of {heads.count}"
            )
        own = heads.copied(self, self.head_axes())
        own.heads, own.kv_heads = heads.size(self.heads), heads.size(self.kv_heads)
        own.heads_of, own.sharded_heads = heads, None
        bias = own.o.bias
        if heads.first and bias is not None:
            own.o._parameters["bias"] = cast(nn.Parameter, bias * 0.0)
        return own

    def project(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        key_padding_mask: Bool[Tensor, "batch keys"] | None,
        segments: Int[Tensor, "batch keys"] | None,
        cache: KVCache | None,
    ) -> tuple[
        Float[Tensor, "batch heads tokens d"],
        Float[Tensor, "batch kv_heads tokens d"],
        Float[Tensor, "batch kv_heads tokens d"],
        Mapping[str, Tensor],
    ]:
        """Project ``x`` to queries, keys, values and other per-token state to cache.

        The state is a dictionary, here an empty one; a subclass may use
        ``key_padding_mask``, ``segments`` and ``cache`` to make it.
        """
        q, k = self.q(x), self.k(x)
        if self.qk_norm == "projection":
            q, k = self._normalized(q, k)
        tokens = x.shape[:2]
        q = q.reshape(*tokens, self.heads, self.d).transpose(1, 2)
        k = k.reshape(*tokens, self.kv_heads, self.d).transpose(1, 2)
        v = self.v(x).reshape(*tokens, self.kv_heads, self.d).transpose(1, 2)
        if self.qk_norm == "head":
            q, k = self._normalized(q, k)
        return q, k, v, {}

    def history(
        self,
        memory: Mapping[str, Float[Tensor, "batch keys *features"]],
        key_padding_mask: Bool[Tensor, "batch keys"] | None,
    ) -> Mapping[str, Float[Tensor, "batch newest *features"]]:
        """Return what a :class:`StateCache` keeps of the per-token state of all tokens.

        ``memory`` is the fourth result of :meth:`project`, of a whole text. By default
        nothing is kept.
        """
        return {}

    def _normalized(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return queries and keys after RMS norms with gains (QK norm).

        Their last axis is normalized: the features of a head, or of all heads together.
        Autocast lowers the dtype of the projections but not of the gains; the norm is
        computed in the dtype of the gains.
        """
        assert self.q_norm is not None and self.k_norm is not None
        dtype = self.q_norm.weight.dtype
        if self.heads_of is None or self.qk_norm == "head":
            return self.q_norm(q.to(dtype)), self.k_norm(k.to(dtype))
        q, k = (
            self.heads_of.rms_normalized(t.to(dtype), self.qk_norm_eps) for t in (q, k)
        )
        return q * self.q_norm.weight, k * self.k_norm.weight

    def finish(
        self,
        out: Float[Tensor, "batch heads tokens d"],
        x: Float[Tensor, "batch tokens d_model"],
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Concatenate the outputs of the heads and project them to width d_model.

        ``out`` are the outputs of the heads; ``x`` is the layer's input, which a
        subclass may use, for a gate for example.
        """
        return self.o(out.transpose(1, 2).flatten(2))


def _require_encoding(encoding: Encoding | None) -> Encoding:
    """Return ``encoding``, or raise if an attention layer cannot use it.

    For ``None`` an encoding without hooks (methods that attention calls) is returned:
    NoPE. An encoding that acts on a model's input alone is refused.
    """
    if encoding is None:
        return Encoding()
    if not isinstance(encoding, Encoding):
        raise TypeError(f"encoding must be an Encoding module, got {encoding!r}")
    model_hooks = [hook for hook in MODEL_HOOKS if encoding.uses(hook)]
    if model_hooks and not any(map(encoding.uses, LAYER_HOOKS)):
        name, hook = type(encoding).__name__, model_hooks[0]
        raise ValueError(
            f"{name} uses the hook {hook!r} of a model, not of a layer: give it to "
            f"Transformer, or call x = encoding.{hook}(x, positions) yourself"
        )
    return encoding


def _require_projected(q: Tensor, k: Tensor, v: Tensor, x: Tensor | None) -> None:
    for name, t in (("q", q), ("k", k), ("v", v)):
        require_floats(name, t)
    if (
        not q.ndim == k.ndim == v.ndim == 4
        or k.shape[:3] != v.shape[:3]
        or (q.shape[0], *q.shape[2:]) != (k.shape[0], *k.shape[2:])
    ):
        raise ValueError(
            "q, k and v must be [batch, heads, tokens, d] and agree in batch, tokens "
            f"and d, got shapes {list(q.shape)}, {list(k.shape)} and {list(v.shape)}"
        )
    if q.shape[-1] == 0:
        raise ValueError(f"q must have features, got shape {list(q.shape)}")
    if not q.device == k.device == v.device:
        raise ValueError(
            f"q, k and v are on {q.device}, {k.device} and {v.device}; move them"
        )
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(
            f"q, k and v must agree in dtype, got {q.dtype}, {k.dtype} and {v.dtype}"
        )
    if x is not None:
        require_floats("x", x)
        if x.ndim != 3 or (x.shape[0], x.shape[1]) != (q.shape[0], q.shape[2]):
            raise ValueError(
                f"x must be [{q.shape[0]}, {q.shape[2]}, d_model] like the queries, "
                f"got shape {list(x.shape)}"
            )
        if x.device != q.device:
            raise ValueError(f"x is on {x.device}, q on {q.device}; move one of them")


def _require_window(window: int | None, causal: bool) -> int | None:
    """Return ``window`` if it is ``None``, or a size and ``causal`` is true, or raise.

    ``causal`` is true if no query attends to a later key.
    """
    if window is None:
        return None
    if not causal:
        raise ValueError(
            "window counts a query's newest keys, so it needs causal=True, got "
            f"window={window} and causal=False"
        )
    return require_dimension("window", window, 1)


def require_masks(
    like: Tensor,
    key_padding_mask: Tensor | None,
    segments: Tensor | None,
    window: int | None,
    cache: KVCache | None,
) -> None:
    if not isinstance(cache, KVCache | None):
        raise TypeError(f"cache must be a KVCache, got {type(cache).__name__}")
    cut = current_cut()
    if cache is not None and cut is not None:
        cut.require_cache(cache)
    if window is not None:
        require_dimension("window", window, 1)
    batch, tokens = like.shape[0], like.shape[-2]
    keys = tokens + (0 if cache is None else len(cache))
    if key_padding_mask is not None:
        _require_rows("key_padding_mask", key_padding_mask, (batch, keys), like)
        if key_padding_mask.dtype != torch.bool:
            raise TypeError(
                "key_padding_mask must be boolean, true where a key is padding, "
                f"got {key_padding_mask.dtype}"
            )
    if segments is not None:
        if cache is not None:
            raise ValueError("segments cannot be combined with a cache")
        _require_rows("segments", segments, (batch, tokens), like)
        if segments.is_floating_point() or segments.is_complex():
            raise TypeError(f"segments must be integers, got {segments.dtype}")


def _require_rows(
    name: str, rows: Tensor, shape: tuple[int, int], like: Tensor
) -> None:
    """Raise unless ``rows``, a mask or segments, have ``shape``, ``[batch, tokens]``.

    They must be a dense tensor on the device of the tensor ``like``. ``name`` is their
    name in error messages.
    """
    if not isinstance(rows, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(rows).__name__}")
    if rows.layout != torch.strided:
        raise TypeError(f"{name} must be dense, got {rows.layout}")
    if rows.shape != shape:
        raise ValueError(
            f"{name} must be {list(shape)}, [batch, tokens], got {list(rows.shape)}"
        )
    if rows.device != like.device:
        raise ValueError(
            f"{name} is on {rows.device}, x on {like.device}; move one of them"
        )
