"""Layers of recurrent models: convolutions, a state, a norm and a gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import (
    OutputGate,
    OutputNorm,
    require_bool,
    require_choice,
    require_dimension,
    require_heads,
    require_positive,
)
from posedu.torch._sequences import gathered, sequence_order, short_convolution
from posedu.torch.attention import Attention
from posedu.torch.cache import KVCache
from posedu.torch.heads import HeadRange
from posedu.torch.recurrent.recurrence import Recurrence
from posedu.torch.routes import Route
from posedu.torch.state_cache import HISTORY, StateCache

_ALL = "unconvolved"  # name of the cached features beside keys and values


class RecurrentLayer(Attention):
    """A layer of a recurrent model: what stands around its state, by options.

    Queries, keys and values are projected, convolved over a few tokens, and passed
    through SiLU; the encoding reads the outputs of the heads from its state; a norm and
    a gate follow before the last projection. Equation ``def-recurrent-layer``. Defaults
    are those of Gated DeltaNet (arXiv 2412.06464). Padding and other packed texts enter
    neither the state nor a convolution.

    Parameters
    ----------
    d_model, heads
        Width of the input; heads of the values and of the state.
    encoding
        A recurrence, which the layer then owns.
    qk_heads
        Heads of queries and keys, a divisor of ``heads``; each serves a group of
        neighboring heads. Default ``heads``.
    d, d_v
        Features of a head's queries and keys, and of its values. Default
        d_model / heads, and ``d``.
    convolution
        Number of tokens, the token's own among them, over which queries, keys and
        values are convolved, each feature by itself. Default 4; ``None`` for none.
    convolution_bias
        Whether the convolutions have biases (Mamba-2). Default false.
    activation
        Whether queries, keys and values pass through SiLU. Default true.
    output_norm
        RMS norm of the outputs, with gains: of each head by itself, with the same gains
        for all heads (``"head"``), of the heads together that share queries and keys
        (``"group"``, Mamba-2), or of all together (``"all"``). ``None`` for none.
        Default ``"head"``.
    norm_eps
        ε of this norm. Default 1e−6.
    output_gate
        Factor of the outputs: σ(W_g x) (``"sigmoid"``, KDA, lightning attention) or
        W_g x σ(W_g x) (``"silu"``). ``None`` for none. Default ``"silu"``.
    gate_rank
        Rank of W_g, made of two matrices (KDA). Default ``None``, full.
    gate_first
        Whether the gate comes before the norm (Mamba-2). Default false.
    route
        Code path of the state; see :class:`posedu.torch.attention.Attention`.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers or do not divide, unknown options, an
        encoding that is no recurrence; otherwise as
        :class:`posedu.torch.attention.Attention`.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        encoding: Recurrence,
        qk_heads: int | None = None,
        d: int | None = None,
        d_v: int | None = None,
        convolution: int | None = 4,
        convolution_bias: bool = False,
        activation: bool = True,
        output_norm: OutputNorm | None = "head",
        norm_eps: float = 1e-6,
        output_gate: OutputGate | None = "silu",
        gate_rank: int | None = None,
        gate_first: bool = False,
        route: Route | None = None,
    ):
        if not isinstance(encoding, Recurrence):
            raise TypeError(f"encoding must be a Recurrence, got {encoding!r}")
        super().__init__(d_model, heads, d=d, encoding=encoding, route=route)
        self.qk_heads = heads if qk_heads is None else qk_heads
        require_heads(heads, self.qk_heads)
        self.d_v = self.d if d_v is None else require_dimension("d_v", d_v, 1)
        widths = self.qk_heads * self.d, self.qk_heads * self.d, heads * self.d_v
        self.widths = widths
        self.q, self.k, self.v = (nn.Linear(d_model, n, bias=False) for n in widths)
        self.o = nn.Linear(heads * self.d_v, d_model, bias=False)
        self.taps = self.tap_bias = self.gain = None
        self.gate: nn.Module | None = None
        require_bool("convolution_bias", convolution_bias)
        if convolution is not None:
            bound = require_dimension("convolution", convolution, 1) ** -0.5
            taps = torch.empty(sum(widths), convolution).uniform_(-bound, bound)
            self.taps = nn.Parameter(taps)
            if convolution_bias:
                self.tap_bias = nn.Parameter(torch.zeros(sum(widths)))
        elif convolution_bias:
            raise ValueError("convolution_bias is for a convolution, got None")
        self.activation = require_bool("activation", activation)
        self.norm_eps = require_positive("norm_eps", norm_eps)
        self.output_norm = output_norm
        if output_norm is not None:
            require_choice("output_norm", output_norm, OutputNorm)
            features = self.d_v if output_norm == "head" else heads * self.d_v
            self.gain = nn.Parameter(torch.ones(features))
        self.output_gate = output_gate
        self.gate_first = require_bool("gate_first", gate_first)
        if output_gate is not None:
            require_choice("output_gate", output_gate, OutputGate)
            self.gate = nn.Linear(d_model, heads * self.d_v, bias=False)
            if gate_rank is not None:
                rank = require_dimension("gate_rank", gate_rank, 1)
                self.gate = nn.Sequential(
                    nn.Linear(d_model, rank, bias=False),
                    nn.Linear(rank, heads * self.d_v, bias=False),
                )
        elif gate_rank is not None or gate_first:
            raise ValueError("gate_rank and gate_first need an output_gate, got None")

    def head_axes(self) -> dict[str, tuple[int, int]]:
        """Return the axis of heads of the layer's own parameters, by name.

        Those of the convolution have three axes in one: see :meth:`of_heads`.
        """
        names = ["v.weight", "gate.weight", "gate.1.weight"]
        if self.output_norm != "head":
            names.append("gain")
        return {
            "o.weight": (1, self.heads),
            **dict.fromkeys(("q.weight", "k.weight"), (0, self.qk_heads)),
            **dict.fromkeys(names, (0, self.heads)),
        }

    def of_heads(self, heads: HeadRange) -> Attention:
        """Return a layer of some of the heads, whose parameters are views of these.

        As of :class:`posedu.torch.attention.Attention`. A norm of groups of heads
        refuses to be cut within a group.
        """
        own: Any = super().of_heads(heads)
        counts = self.qk_heads, self.qk_heads, self.heads
        own.qk_heads = heads.size(self.qk_heads)
        of_qk = own.qk_heads * self.d
        own.widths = of_qk, of_qk, own.heads * self.d_v
        if self.output_norm == "group" and own.heads * self.qk_heads < self.heads:
            raise ValueError(
                f"heads {heads.first} … {heads.last - 1} are no whole group of the "
                f"norm, which has {self.heads // self.qk_heads} heads"
            )
        for name, t in (("taps", own.taps), ("tap_bias", own.tap_bias)):
            if t is not None:
                parts = zip(t.split(self.widths), counts, strict=True)
                rows = [heads.rows(part, 0, count) for part, count in parts]
                own._parameters[name] = cast(nn.Parameter, torch.cat(rows))
        return own

    def project(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        key_padding_mask: Bool[Tensor, "batch keys"] | None,
        segments: Int[Tensor, "batch keys"] | None,
        cache: KVCache | None,
    ) -> tuple[Tensor, Tensor, Tensor, Mapping[str, Tensor]]:
        """Project x to queries, keys and values, convolved; return what to cache too.

        The arguments say which tokens come before a token in its sequence.
        """
        features = torch.cat((self.q(x), self.k(x), self.v(x)), -1)
        memory: Mapping[str, Tensor] = {}
        if self.taps is not None:
            features, memory = self._convolved(
                features, key_padding_mask, segments, cache
            )
        if self.activation:
            features = functional.silu(features)
        q, k, v = features.split(self.widths, -1)
        q, k = (
            t.unflatten(-1, (self.qk_heads, self.d))
            .transpose(1, 2)
            .repeat_interleave(self.heads // self.qk_heads, 1)
            for t in (q, k)
        )
        return q, k, v.unflatten(-1, (self.heads, self.d_v)).transpose(1, 2), memory

    def _convolved(
        self,
        new: Float[Tensor, "batch tokens channels"],
        padding: Bool[Tensor, "batch keys"] | None,
        segments: Int[Tensor, "batch keys"] | None,
        cache: KVCache | None,
    ) -> tuple[Float[Tensor, "batch tokens channels"], Mapping[str, Tensor]]:
        """Convolve the features of new tokens; return what later ones need of them."""
        assert self.taps is not None
        taps, every = self.taps.to(new.dtype), new
        memory: Mapping[str, Tensor] = {_ALL: new}
        if isinstance(cache, StateCache):
            history = cache.memory.get(HISTORY)
            if history is None:
                history = new.new_zeros(len(new), taps.shape[1] - 1, new.shape[2])
            every = torch.cat((history.to(new.dtype), new), 1)
            if padding is not None:
                own = padding[:, padding.shape[1] - new.shape[1] :]
                padding = functional.pad(own, (history.shape[1], 0))
            memory = self.history({_ALL: every}, padding)
        elif cache is not None:
            every = cache.extended(_ALL, new)
        out = short_convolution(every, taps, padding, segments)
        out = out[:, out.shape[1] - new.shape[1] :]
        return out if self.tap_bias is None else out + self.tap_bias, memory

    def history(
        self,
        memory: Mapping[str, Float[Tensor, "batch keys channels"]],
        key_padding_mask: Bool[Tensor, "batch keys"] | None,
    ) -> Mapping[str, Float[Tensor, "batch newest channels"]]:
        """Return the newest features, as many as convolutions look back."""
        if self.taps is None:
            return {}
        size = self.taps.shape[1] - 1
        every = functional.pad(memory[_ALL], (0, 0, size, 0))
        if key_padding_mask is not None:
            key_padding_mask = functional.pad(key_padding_mask, (size, 0))
        order = sequence_order(every, key_padding_mask, None)
        return {HISTORY: gathered(every, order[:, every.shape[1] - size :])}

    def finish(
        self,
        out: Float[Tensor, "batch heads tokens d_v"],
        x: Float[Tensor, "batch tokens d_model"],
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Apply norm, gate and output projection to the outputs of the heads."""
        out = out.transpose(1, 2)
        if self.gate_first:
            out = self._rms_normalized(out * self._gate(x))
        else:
            out = self._rms_normalized(out) * self._gate(x)
        return self.o(out.flatten(2))

    def _gate(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Float[Tensor, "batch tokens heads d_v"] | float:
        if self.gate is None:
            return 1.0
        act = torch.sigmoid if self.output_gate == "sigmoid" else functional.silu
        return act(self.gate(x)).unflatten(-1, (self.heads, self.d_v))

    def _rms_normalized(
        self, out: Float[Tensor, "batch tokens heads d_v"]
    ) -> Float[Tensor, "batch tokens heads d_v"]:
        if self.gain is None or self.output_norm is None:
            return out
        dtype = torch.promote_types(out.dtype, self.gain.dtype)
        of_all = out.shape[-2] * out.shape[-1]
        widths = {"head": self.d_v, "group": of_all // self.qk_heads, "all": of_all}
        vectors = out.to(dtype).flatten(2).unflatten(-1, (-1, widths[self.output_norm]))
        if self.output_norm == "all" and self.heads_of is not None:
            normalized = self.heads_of.rms_normalized(vectors, self.norm_eps)
        else:
            features = vectors.shape[-1:]
            normalized = functional.rms_norm(vectors, features, eps=self.norm_eps)
        gain = self.gain.to(dtype).reshape(-1, vectors.shape[-1])
        return (normalized * gain).view_as(out).to(out.dtype)

    def extra_repr(self) -> str:
        """Return sizes and options as text, which ``print(module)`` shows."""
        return (
            f"qk_heads={self.qk_heads}, heads={self.heads}, d={self.d}, "
            f"d_v={self.d_v}, output_norm={self.output_norm!r}, "
            f"output_gate={self.output_gate!r}, gate_first={self.gate_first}"
        )
