"""Selective RoPE: rotations by angles that each token adds, as its content says."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.types import Device

from posedu._arguments import (
    Layout,
    PhaseTemperature,
    require_base,
    require_bool,
    require_choice,
    require_dimension,
    require_positive,
)
from posedu.torch._autograd import without_autocast
from posedu.torch._sequences import short_convolution
from posedu.torch._tensors import wide_dtype
from posedu.torch.encoding import Tokens
from posedu.torch.frequencies import frequencies
from posedu.torch.path.rotation import PathRotation

_EPS = 1e-6  # the authors' ε of the norm of the input
_WIDEST = 0.9999  # the largest angle of the temperatures "rfa", in half turns


class SelectiveRoPE(PathRotation):
    """Selective RoPE (arXiv 2511.17388): RoPE whose positions are sums over the text.

    Pair p of a head is rotated by τ_p Σ a_l over the tokens l up to the token's own.
    The phases a are made from the layer's input, each head's part of which is first
    divided by its length: a projection, a short convolution over the tokens, an added
    e^b and a factor σ(w · x + c), in this order. Equation ``def-selective-rope``.

    A cached token's phase contains those of the ``convolution`` − 1 tokens before it:
    where :meth:`~posedu.torch.cache.KVCache.crop` or
    :meth:`~posedu.torch.cache.KVCache.drop` removes these, it is computed without them.

    The projection and w start normal with deviation 0.02 (the projection with 1 if
    ``rank`` is ``None``), the convolution uniform up to ± 1/√convolution.

    Parameters
    ----------
    d_model
        Width of the layer's input, a multiple of ``heads``.
    heads
        Query heads.
    d
        Head dimension, even.
    layout
        ``"interleaved"`` or ``"half"`` (the authors' code).
    gate
        Whether phases have the factor σ(w · x + c), one for each token and head.
    rank
        Rank of the projection. Default 16 (the class of the authors' code; its
        configurations have 32). ``None``: each head projects its own part of the input
        by a matrix whose rows have length 1, times a trained number.
    convolution
        Number of tokens, the token's own among them, over which phases are convolved.
        Default 4 (the authors' code); ``None`` for no convolution.
    activation
        Whether SiLU is applied after the convolution. Default false.
    phase_bias
        Whether e^b, one for each head and pair, is added to the phases: with no other
        phase it makes RoPE with frequencies τ e^b. Default false.
    temperature
        τ: ``"rope"``, base^(−2p/d), ``"rfa"``, proportional to tan(θ_p/2) with θ from
        0 to .9999 π in equal steps, or ``"one"``, 1 for every pair (the authors'
        configurations for state tracking); times ``largest``. None is trained.
    base
        Base of the temperatures ``"rope"``. Default 500000 (the authors' code).
    largest
        The largest temperature. Default 1.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, ``d`` odd, or no multiple of 4 for
        ``"rfa"``; ``d_model`` no multiple of ``heads``; an unknown ``layout`` or
        ``temperature``.
    """

    head_rows = (
        "phase_weight",
        "phase_scale",
        "taps",
        "phase_bias",
        "gate_weight",
        "gate_bias",
    )

    def __init__(
        self,
        d_model: int,
        heads: int,
        d: int,
        *,
        layout: Layout,
        gate: bool,
        rank: int | None = 16,
        convolution: int | None = 4,
        activation: bool = False,
        phase_bias: bool = False,
        temperature: PhaseTemperature = "rope",
        base: float = 500000.0,
        largest: float = 1.0,
    ):
        super().__init__(d_model, heads, d, layout=layout)
        if d_model % heads:
            raise ValueError(
                f"d_model must be a multiple of heads = {heads}, got {d_model}"
            )
        pairs = d // 2
        self.temperature = require_choice("temperature", temperature, PhaseTemperature)
        if temperature == "rfa":
            require_dimension("d", d, 4)
        self.base = require_base(base)
        self.largest = require_positive("largest", largest)
        self.activation = require_bool("activation", activation)
        self.phase_down = self.phase_scale = self.taps = None
        self.phase_bias = self.gate_weight = self.gate_bias = None
        if rank is None:
            weight = torch.randn(heads, pairs, d_model // heads)
            self.phase_scale = nn.Parameter(torch.ones(heads))
        else:
            rank = require_dimension("rank", rank, 1)
            self.phase_down = nn.Parameter(0.02 * torch.randn(rank, d_model))
            weight = 0.02 * torch.randn(heads, pairs, rank)
        self.phase_weight = nn.Parameter(weight)
        if convolution is not None:
            width = require_dimension("convolution", convolution, 1)
            bound = width**-0.5
            taps = torch.empty(heads, pairs, width).uniform_(-bound, bound)
            self.taps = nn.Parameter(taps)
        elif activation:
            raise ValueError("activation is for a convolution, got convolution=None")
        if require_bool("phase_bias", phase_bias):
            self.phase_bias = nn.Parameter(torch.zeros(heads, pairs))
        if require_bool("gate", gate):
            self.gate_weight = nn.Parameter(0.02 * torch.randn(heads, d_model))
            self.gate_bias = nn.Parameter(torch.zeros(heads))

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Float[Tensor, "batch tokens ..."]]:
        """Return each token's projected phases and gate, in float32 or wider."""
        wide = wide_dtype(x, self.phase_weight)
        with without_autocast(x):
            parts = x.to(wide).unflatten(-1, (self.layer_heads, -1))
            size = (parts.square().sum(-1, keepdim=True) + _EPS).rsqrt()
            parts = parts * size
            weight = self.phase_weight.to(wide)
            if self.phase_down is None:
                assert self.phase_scale is not None
                weight = functional.normalize(weight, dim=-1)
                own = self.own_heads(parts.movedim(-2, 0))
                phases = torch.einsum("hpc,hbtc->bthp", weight, own)
                phases = phases * self.phase_scale.to(wide)[:, None]
            else:
                inner = parts.flatten(2) @ self.phase_down.to(wide).mT
                phases = torch.einsum("hpr,btr->bthp", weight, inner)
            memory = {"phases": phases}
            if self.gate_weight is not None:
                assert self.gate_bias is not None
                logits = parts.flatten(2) @ self.gate_weight.to(wide).mT
                memory["gates"] = (logits + self.gate_bias.to(wide)).sigmoid()
        return memory

    def phases(self, tokens: Tokens) -> Float[Tensor, "batch keys heads pairs"]:
        """Return the number a that each token adds to the position of later tokens.

        Equation ``def-selective-phase``.
        """
        phases = tokens.memory["phases"]
        if self.taps is not None:
            taps = self.taps.to(phases.dtype)
            of_sequences = tokens.padding, tokens.segments
            phases = short_convolution(phases, taps, *of_sequences)
            if self.activation:
                phases = functional.silu(phases)
        if self.phase_bias is not None:
            phases = phases + self.phase_bias.to(phases.dtype).exp()
        if self.gate_weight is not None:
            phases = phases * tokens.memory["gates"][..., None]
        return phases

    def angles(self, tokens: Tokens) -> Float[Tensor, "batch heads keys pairs"]:
        """Return the rotation angles: temperatures times the sums of the phases."""
        sums = tokens.running_sum(self.phases(tokens)).mT
        return sums * self.temperatures(sums.device)

    def temperatures(self, device: Device = None) -> Float[Tensor, "pairs"]:
        """Return τ, the factor of each pair's angle, in float64."""
        if self.temperature == "rope":
            return self.largest * frequencies(self.d, base=self.base, device=device)
        if self.temperature == "one":
            of_pairs = (self.d // 2,)
            return torch.full(
                of_pairs, self.largest, dtype=torch.float64, device=device
            )
        steps = torch.linspace(
            0, _WIDEST, self.d // 2, dtype=torch.float64, device=device
        )
        tangents = (steps * (math.pi / 2)).tan()
        return self.largest * tangents / tangents[-1]
