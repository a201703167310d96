"""FoX: forget gates, by which each token weakens the attention to what precedes it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posedu._arguments import (
    FoXForm,
    FoXGate,
    OutputGate,
    require_bool,
    require_choice,
    require_dimension,
    require_finite,
    require_times,
)
from posedu.torch._autograd import without_autocast
from posedu.torch._tensors import require_shape, wide_dtype
from posedu.torch.attention import Attention
from posedu.torch.cache import KVCache
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.routes import Route


class FoX(Encoding):
    """Forget gates (arXiv 2503.02130): logits plus D_ij = Σ log f_l, l = j + 1 … i.

    i is the query, j the key, f_l the gate of token l. Gates are numbers in (0, 1), one
    for every token and query head, computed from the layer's input in float32 or
    better, and summed in float64. D is not divided by √d. Equation ``def-fox``.

    Parameters
    ----------
    d_model
        Width of the layer's input.
    heads
        Query heads.
    gate
        ``"learned"``: σ(w · x + b), the paper's. ``"independent"``: σ(b), trained but
        the same for all tokens. ``"fixed"``: σ(b), not trained. With the last two a
        head is ALiBi (``eq-fox-alibi``).
    gate_bias
        Initial b. A number: the paper and its code have 0, so that gates are near 1/2;
        x-transformers has 5. A pair of time scales (shortest, longest): head h starts
        near f = e^(−1/T_h), T spaced evenly in log T. A tensor ``[heads]``: the biases
        themselves. Default 0.
    gate_weight
        Initial w, for learned gates. Default: normal of deviation 0.02 (the authors'
        code).
    form
        Formula of the bias. ``"difference"``: c_i − c_j, with the sums c_i = Σ log f_l,
        l = 0 … i. ``"key"``: −c_j alone, which has the same softmax (``eq-fox-key``),
        but grows with the length. The route ``"folded"``, the default, computes both
        alike; other routes round −c_j to float32 (to float64 for float64 tokens) before
        they add it.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, unknown ``gate`` or ``form``, time scales
        that are not in order or below 1e−30, gate biases of another shape.
    """

    needs_causal = needs_x = True
    needs_positions = False
    head_rows = ("gate_weight", "gate_bias")

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        gate: FoXGate = "learned",
        gate_bias: float | tuple[float, float] | Float[Tensor, "heads"] = 0.0,
        gate_weight: Float[Tensor, "heads d_model"] | None = None,
        form: FoXForm = "difference",
    ):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        self.heads = require_dimension("heads", heads, 1)
        self.gate = require_choice("gate", gate, FoXGate)
        self.form = require_choice("form", form, FoXForm)
        start = _initial_bias(heads, gate_bias)
        self.gate_bias = nn.Parameter(start, requires_grad=gate != "fixed")
        self.gate_weight = None
        if gate == "learned":
            if gate_weight is None:
                gate_weight = 0.02 * torch.randn(heads, d_model)
            require_shape("gate_weight", gate_weight, (heads, d_model))
            self.gate_weight = nn.Parameter(gate_weight.detach().clone())
        elif gate_weight is not None:
            raise ValueError(f"gate_weight is for gate='learned', got gate={gate!r}")

    def log_gates(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Float[Tensor, "batch tokens heads"]:
        """Return the logarithm of every token's gates, in float32 or wider.

        The logarithms are float64 if the tokens or the gate's parameters are.
        """
        return log_gates(x, self.gate_weight, self.gate_bias)

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Float[Tensor, "batch tokens heads"]]:
        """Return the logarithm of each token's gates, to cache besides k and v."""
        return {"log_gates": self.log_gates(x)}

    def fold(
        self, tokens: Tokens
    ) -> tuple[Float[Tensor, "batch heads queries"], Float[Tensor, "batch heads keys"]]:
        """Return the query terms c_i and key terms −c_j of D_ij = c_i − c_j.

        D_ij is the bias of query i and key j; c are the cumulative sums of log gates.
        Query terms are 0 for ``form="key"``.
        """
        c = tokens.running_sum(tokens.memory["log_gates"])
        of_queries = c[..., c.shape[-1] - tokens.q.shape[2] :]
        return (0 * of_queries if self.form == "key" else of_queries), -c

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.d_model}, {self.heads}, gate={self.gate!r}, form={self.form!r}"


def log_gates(
    x: Float[Tensor, "batch tokens d_model"],
    gate_weight: Float[Tensor, "heads d_model"] | None,
    gate_bias: Float[Tensor, "heads"],
) -> Float[Tensor, "batch tokens heads"]:
    """Return log σ(w · x + b) of each token and head, in float32 or wider.

    The result is float64 if the tokens or the parameters are. Without a weight, w is
    0. Equation ``def-gate``.
    """
    wide = wide_dtype(x, gate_bias)
    logits = gate_bias.to(wide).expand(*x.shape[:2], -1)
    if gate_weight is not None:
        with without_autocast(x):
            logits = logits + x.to(wide) @ gate_weight.to(wide).mT
    return nn.functional.logsigmoid(logits)


def _initial_bias(heads: int, start: float | tuple[float, float] | Tensor) -> Tensor:
    if isinstance(start, tuple):
        start = _bias_of_times(heads, start)
    elif not isinstance(start, Tensor):
        dtype = torch.get_default_dtype()
        if abs(require_finite("gate_bias", start)) > torch.finfo(dtype).max:
            raise ValueError(f"gate_bias must be finite in {dtype}, got {start}")
        start = torch.full((heads,), float(start), dtype=dtype)
    require_shape("gate_bias", start, (heads,))
    return start.detach().clone()


def _bias_of_times(heads: int, times: tuple[float, ...]) -> Tensor:
    if len(times) != 2:
        raise ValueError(f"gate_bias must be two time scales, got {len(times)}")
    require_times(*times)
    first, last = map(math.log, times)
    log_times = torch.linspace(first, last, heads, dtype=torch.float64)
    rate = 1 / log_times.exp()
    start = -(rate + (-torch.expm1(-rate)).log())
    return start.to(torch.get_default_dtype())


class FoXPro(Attention):
    """The FoX (Pro) attention block (arXiv 2503.02130), with optional components.

    With ``k_shift`` or ``v_shift``, a cached key or value contains its share of the
    token before, and keeps it where :meth:`~posedu.torch.cache.KVCache.crop` or
    :meth:`~posedu.torch.cache.KVCache.drop` removes that token: the output then differs
    from that of a run without the token.

    Parameters
    ----------
    d_model, heads
        Width of the input, and query heads; a head has d = d_model / heads features.
    k_shift, v_shift
        Whether keys, or values, are mixed with the keys, or values, of the token
        before, by a gate α of each token and head that weights the *previous* one. The
        mixing comes before the norm of keys.
    qk_norm
        Whether queries and keys of each head pass an RMS norm, ε = 1e−5, gains
        ``[heads, d]``.
    output_norm
        Whether each head's output passes an RMS norm, ε = 1e−6, gains ``[heads, d]``.
    output_gate
        Factor of the output: σ(W_g x) (``"sigmoid"``, the paper), or W_g x σ(W_g x)
        (``"silu"``, which the authors' code has too), before the last projection.
        ``None``: no gate.
    encoding
        The positional encoding. Default: :class:`FoX` with the paper's gate.
    route
        Code path that computes attention; see
        :class:`posedu.torch.attention.Attention`.

    Raises
    ------
    TypeError, ValueError
        As :class:`posedu.torch.attention.Attention`; unknown ``output_gate``.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        k_shift: bool = True,
        v_shift: bool = True,
        qk_norm: bool = True,
        output_norm: bool = True,
        output_gate: OutputGate | None = "sigmoid",
        encoding: Encoding | None = None,
        route: Route | None = None,
    ):
        for name, part in (
            ("k_shift", k_shift),
            ("v_shift", v_shift),
            ("qk_norm", qk_norm),
            ("output_norm", output_norm),
        ):
            require_bool(name, part)
        encoding = FoX(d_model, heads) if encoding is None else encoding
        super().__init__(d_model, heads, encoding=encoding, route=route)
        gains = heads, self.d
        self.k_shift = nn.Linear(d_model, heads, bias=False) if k_shift else None
        self.v_shift = nn.Linear(d_model, heads, bias=False) if v_shift else None
        self.q_gain = nn.Parameter(torch.ones(gains)) if qk_norm else None
        self.k_gain = nn.Parameter(torch.ones(gains)) if qk_norm else None
        self.o_gain = nn.Parameter(torch.ones(gains)) if output_norm else None
        self.out_gate = None
        if output_gate is not None:
            self.output_gate = require_choice("output_gate", output_gate, OutputGate)
            self.out_gate = nn.Linear(d_model, d_model, bias=False)

    def head_axes(self) -> dict[str, tuple[int, int]]:
        """Return the axis of heads of the layer's own parameters, by name."""
        own = "q_gain", "k_gain", "o_gain"
        weights = "k_shift.weight", "v_shift.weight", "out_gate.weight"
        return {
            **super().head_axes(),
            **dict.fromkeys((*own, *weights), (0, self.heads)),
        }

    def project(
        self,
        x: Tensor,
        key_padding_mask: Tensor | None,
        segments: Tensor | None,
        cache: KVCache | None,
    ) -> tuple[Tensor, Tensor, Tensor, Mapping[str, Tensor]]:
        """Project x to queries, keys and values; apply token shift and QK norm.

        Returns queries, keys, values and the per-token state to cache.
        ``key_padding_mask``, ``segments`` and ``cache`` decide which token is the one
        before.
        """
        q, k, v, memory = super().project(x, key_padding_mask, segments, cache)
        if self.k_shift is not None or self.v_shift is not None:
            both = torch.cat((k, v), -1).transpose(1, 2)
            before = _before(both, key_padding_mask, segments, cache)
            before_k, before_v = before.transpose(1, 2).split(self.d, -1)
            if self.k_shift is not None:
                k = _mix(self.k_shift(x), before_k, k)
            if self.v_shift is not None:
                v = _mix(self.v_shift(x), before_v, v)
            memory = {"unshifted": both}
        if self.q_gain is not None and self.k_gain is not None:
            q, k = _rms_norm(q, self.q_gain, 1e-5), _rms_norm(k, self.k_gain, 1e-5)
        return q, k, v, memory

    def finish(
        self,
        out: Float[Tensor, "batch heads tokens d"],
        x: Float[Tensor, "batch tokens d_model"],
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Apply output norm, output gate and output projection to the heads' output."""
        if self.o_gain is not None:
            out = _rms_norm(out, self.o_gain, 1e-6)
        if self.out_gate is not None:
            act = torch.sigmoid if self.output_gate == "sigmoid" else nn.functional.silu
            gate = act(self.out_gate(x)).unflatten(-1, (self.heads, self.d))
            out = out * gate.transpose(1, 2)
        return super().finish(out, x)


def _before(
    new: Float[Tensor, "batch tokens heads features"],
    padding: Tensor | None,
    segments: Tensor | None,
    cache: KVCache | None,
) -> Float[Tensor, "batch tokens heads features"]:
    """Return the features of the token before each token, in the same segment.

    ``new`` are the features of the new tokens; ``cache``, if given, holds the features
    of earlier tokens. ``padding``, a mask of all tokens, is true at tokens to skip;
    ``segments`` are the tokens' segment numbers, ``None`` for one segment. A token
    without an earlier token gets zeros.
    """
    if padding is None and segments is None:
        tokens = new if cache is None else cache.extended("unshifted", new, newest=1)
        before = nn.functional.pad(tokens, (0, 0, 0, 0, 1, 0))[:, :-1]
        return before[:, tokens.shape[1] - new.shape[1] :]
    tokens = new if cache is None else cache.extended("unshifted", new)
    place = torch.arange(tokens.shape[1], device=new.device).expand(tokens.shape[:2])
    order = place if segments is None else segments.argsort(dim=1, stable=True)
    unpadded = place
    if padding is not None:
        unpadded = place.masked_fill(padding.gather(1, order), -1)
    last = nn.functional.pad(unpadded.cummax(1).values, (1, 0), value=-1)[:, :-1]
    if segments is not None:
        own = segments.gather(1, order)
        last = last.masked_fill(own.gather(1, last.clamp(min=0)) != own, -1)
    source = order.gather(1, last.clamp(min=0)).masked_fill(last < 0, -1)
    source = torch.empty_like(source).scatter(1, order, source)[..., None, None]
    before = tokens.gather(1, source.clamp(min=0).expand_as(tokens))
    return before.masked_fill(source < 0, 0.0)[:, tokens.shape[1] - new.shape[1] :]


def _mix(gate_logits: Tensor, before: Tensor, now: Tensor) -> Tensor:
    alpha = gate_logits.sigmoid().mT[..., None]
    return alpha * before + (1 - alpha) * now


def _rms_norm(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    return nn.functional.rms_norm(x, x.shape[-1:], eps=eps) * gain[:, None]
