"""GRAPE: phases, gated slopes and path integrals that read the text."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import (
    ALiBiSlopes,
    GRAPEGates,
    GRAPENorms,
    GRAPEPhase,
    Layout,
    require_bool,
    require_choice,
    require_dimension,
)
from posedu.torch._autograd import without_autocast
from posedu.torch._tensors import cos_sin, wide_dtype
from posedu.torch.bias.alibi import alibi_slopes
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.frequencies import frequencies
from posedu.torch.path.rotation import PathRotation
from posedu.torch.rotary.rotation import rotate_pairs

_PHASE_SCALE = 16.0  # of the authors' code, for σ(z/16)
_FIRST_PHASE = 1e-3  # the authors' start, by softplus
_LEAST_LENGTH = 1e-6  # lengths below count as this one, as in the authors' code
_EPS = 2.0**-23  # of the norm of probes: float32's, PyTorch's default


class GRAPEM(PathRotation):
    """Contextual GRAPE-M (arXiv 2512.07805): RoPE whose positions are sums of phases.

    Pair p of every head is rotated clockwise by θ_p Φ_t, where Φ_t is the sum of the
    phases ω of the tokens before t, its own excluded. The frequencies θ are trained,
    from RoPE's on. Equation ``def-grape-m``.

    The authors' code applies RMS norm to queries and keys after this rotation; an
    attention layer here applies it before, which keeps the score a function of the
    tokens between key and query.

    Parameters
    ----------
    d_model
        Width of the layer's input.
    heads
        Query heads.
    d
        Head dimension, even.
    layout
        ``"interleaved"`` or ``"half"`` (the authors' code).
    phase
        ``"sigmoid"``: ω = σ(z/16), z = w · x + b, as the authors' code computes it.
        ``"softplus"``: ω = softplus(z), as the code's comments say. w starts as 0 and b
        so that softplus(b) = 0.001; then σ(b/16) = 0.39.
    per_head
        Whether each head has a phase of its own. Default false (the authors' code).
    base
        Base of the frequencies at the start. Default 10000.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, ``d`` odd, an unknown ``layout`` or
        ``phase``, a ``base`` that is not above 1.
    """

    head_rows = ("phase_weight", "phase_bias")

    def __init__(
        self,
        d_model: int,
        heads: int,
        d: int,
        *,
        layout: Layout,
        phase: GRAPEPhase,
        per_head: bool = False,
        base: float = 10000.0,
    ):
        super().__init__(d_model, heads, d, layout=layout)
        self.phase = require_choice("phase", phase, GRAPEPhase)
        phases = heads if require_bool("per_head", per_head) else 1
        start = math.log(math.expm1(_FIRST_PHASE))
        self.phase_weight = nn.Parameter(torch.zeros(phases, d_model))
        self.phase_bias = nn.Parameter(torch.full((phases,), start))
        log_frequencies = frequencies(d, base=base).log()
        self.log_frequencies = nn.Parameter(
            log_frequencies.to(torch.get_default_dtype())
        )

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Float[Tensor, "batch tokens phases"]]:
        """Return the phases of each token, in float32 or wider."""
        wide = wide_dtype(x, self.phase_weight)
        with without_autocast(x):
            z = x.to(wide) @ self.phase_weight.to(wide).mT + self.phase_bias.to(wide)
        if self.phase == "sigmoid":
            return {"phases": (z / _PHASE_SCALE).sigmoid()}
        return {"phases": functional.softplus(z)}

    def transport(
        self, tokens: Tokens
    ) -> tuple[
        Float[Tensor, "batch heads queries d"], Float[Tensor, "batch key_heads keys d"]
    ]:
        """Rotate queries and keys clockwise, by the phases of the tokens before each.

        A query's own phase is computed anew, since hidden keys may stand behind its own
        in a cache of fixed size.
        """
        assert tokens.x is not None
        phases, own = tokens.memory["phases"], self.remember(tokens.x)["phases"]
        sums = tokens.running_sum(phases)
        of_queries = sums[..., tokens.keys - tokens.q.shape[2] :] - own.mT
        theta = self.log_frequencies.to(torch.float64).exp()
        return self.rotated(
            tokens,
            -of_queries[..., None] * theta,
            -(sums - phases.mT)[..., None] * theta,
        )

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        own = "" if len(self.phase_weight) == 1 else ", per_head=True"
        return f"{super().extra_repr()}, phase={self.phase!r}{own}"


class GRAPEA(Encoding):
    """GRAPE-A (arXiv 2512.07805): ALiBi whose slope reads query and key.

    The bias of query i and key j is −(i − j) m softplus(ω) λ_ij, where λ_ij is the sum
    of the gates softplus(v · q_i/√d) and softplus(u · k_j/√d), and m ALiBi's slope of
    the head. v and u start normal with deviation 1/√d. Attention takes O(L²) memory.
    Equation ``def-grape-a``.

    Parameters
    ----------
    heads
        Query heads.
    d
        Head dimension.
    slopes
        Rule of :func:`posedu.numpy.bias.alibi_slopes`; the authors' code has
        ``"authors"``.
    gates
        The gates in λ: that of the ``"query"``, that of the ``"key"``, or ``"both"``.
    unit_vectors
        Whether v and u are divided by their lengths (the authors' code), or taken as
        they are (the paper).

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, unknown ``slopes`` or ``gates``.
    """

    needs_causal = True
    heads: int
    d: int
    head_rows = ("omega", "query_weight", "key_weight")

    def __init__(
        self,
        heads: int,
        d: int,
        *,
        slopes: ALiBiSlopes,
        gates: GRAPEGates,
        unit_vectors: bool,
    ):
        super().__init__()
        self.heads = require_dimension("heads", heads, 1)
        self.d = require_dimension("d", d, 1)
        self.slopes = require_choice("slopes", slopes, ALiBiSlopes)
        self.gates = require_choice("gates", gates, GRAPEGates)
        self.unit_vectors = require_bool("unit_vectors", unit_vectors)
        self.omega = nn.Parameter(torch.full((heads,), math.log(math.e - 1)))
        self.query_weight = self.key_weight = None
        if gates != "key":
            self.query_weight = nn.Parameter(d**-0.5 * torch.randn(heads, d))
        if gates != "query":
            self.key_weight = nn.Parameter(d**-0.5 * torch.randn(heads, d))

    def bias(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return −(i − j) times the slopes of each query and key."""
        wide = wide_dtype(tokens.q, self.omega)
        heads = self.layer_heads
        m = alibi_slopes(heads, slopes=self.slopes, device=tokens.q.device)
        m = self.own_heads(m)
        size = m.to(wide) * functional.softplus(self.omega.to(wide))
        rate = tokens.q.new_zeros((), dtype=wide)
        if self.query_weight is not None:
            rate = rate + self._gate(tokens.q, self.query_weight, wide)[..., None]
        if self.key_weight is not None:
            rate = rate + self._gate(tokens.k, self.key_weight, wide)[..., None, :]
        return tokens.offsets.to(wide) * -size[:, None, None] * rate

    def _gate(
        self,
        vectors: Float[Tensor, "batch heads tokens d"],
        weight: Float[Tensor, "heads d"],
        dtype: torch.dtype,
    ) -> Float[Tensor, "batch heads tokens"]:
        weight = weight.to(dtype)
        if self.unit_vectors:
            weight = functional.normalize(weight, dim=-1, eps=_LEAST_LENGTH)
        with without_autocast(vectors):
            logits = (vectors.to(dtype) @ weight[..., None])[..., 0]
        return functional.softplus(logits * self.d**-0.5)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.heads}, {self.d}, slopes={self.slopes!r}, gates={self.gates!r}, "
            f"unit_vectors={self.unit_vectors}"
        )


class GRAPEAP(Encoding):
    """GRAPE-AP (arXiv 2512.07805): a path integral that the query scales.

    The bias of query i and key j is b_ij = Σ ψ_il over the tokens l = j + 1 … i, with
    ψ_il = m log σ(p_i · R_l p̂_l/n): p are n numbers projected from the layer's input
    (probes), p̂ is p divided by its root mean square, R_l rotates all pairs clockwise by
    the position of l, in radians, and m is ALiBi's slope of the head. Since p_i is not
    rotated, the bias changes if all positions are shifted. The projection starts normal
    with deviation 0.5/√d_model (the authors' code). Attention takes O(L²) memory.
    Equation ``def-grape-ap``.

    Parameters
    ----------
    d_model
        Width of the layer's input.
    heads
        Query heads.
    slopes
        Rule of :func:`posedu.numpy.bias.alibi_slopes`; the authors' code has
        ``"authors"``.
    layout
        Where the two numbers of a probe's pair are: ``"interleaved"``, or ``"half"``
        (the authors' code).
    normalized
        The probes divided by their root mean square: ``"both"`` p_i and p_l (the
        paper), or the ``"key"`` side's p_l alone (the authors' code).
    probe_d
        Numbers of a probe, even. Default 8 (the authors' configurations).

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, ``probe_d`` odd; unknown ``slopes``,
        ``layout`` or ``normalized``.
    """

    needs_causal = needs_x = True
    heads: int
    head_rows = ("probe_weight",)

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        slopes: ALiBiSlopes,
        layout: Layout,
        normalized: GRAPENorms,
        probe_d: int = 8,
    ):
        super().__init__()
        self.d_model = require_dimension("d_model", d_model, 1)
        self.heads = require_dimension("heads", heads, 1)
        self.slopes = require_choice("slopes", slopes, ALiBiSlopes)
        self.layout = require_choice("layout", layout, Layout)
        self.normalized = require_choice("normalized", normalized, GRAPENorms)
        probe_d = require_dimension("probe_d", probe_d)
        deviation = 0.5 * d_model**-0.5  # the authors' start of all matrices
        self.probe_weight = nn.Parameter(
            deviation * torch.randn(heads, probe_d, d_model)
        )

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Float[Tensor, "batch tokens heads probe_d"]]:
        """Return the probes of each token, in float32 or wider."""
        wide = wide_dtype(x, self.probe_weight)
        weight = self.probe_weight.to(wide)
        with without_autocast(x):
            probes = x.to(wide) @ weight.flatten(0, 1).mT
        return {"probes": probes.unflatten(-1, weight.shape[:2])}

    def bias(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return the sums of ψ_il over the tokens after the key, up to the query's."""
        assert tokens.x is not None
        of_queries = self.remember(tokens.x)["probes"].transpose(1, 2)
        of_keys = tokens.memory["probes"].transpose(1, 2)
        n, dtype = of_keys.shape[-1], of_keys.dtype
        of_keys = _scaled(of_keys)
        if self.normalized == "both":
            of_queries = _scaled(of_queries)
        angles = -tokens.key_positions[:, None, :, None].to(torch.float64)
        cos, sin = cos_sin(angles.expand(-1, -1, -1, n // 2), dtype)
        turned = rotate_pairs(of_keys, cos, sin, layout=self.layout)
        with without_autocast(turned):
            logits = of_queries.to(dtype) @ turned.mT / n
        heads = self.layer_heads
        m = alibi_slopes(heads, slopes=self.slopes, device=logits.device)
        m = self.own_heads(m)
        psi = m.to(dtype)[:, None, None] * functional.logsigmoid(logits)
        psi = psi.masked_fill(~tokens.mask, 0.0)
        # Sums begin at the query, so that those of near keys are rounded least.
        from_key = functional.pad(psi, (0, 1)).flip(-1).cumsum(-1).flip(-1)
        return from_key[..., 1:]

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d_model}, {self.heads}, slopes={self.slopes!r}, "
            f"layout={self.layout!r}, normalized={self.normalized!r}, "
            f"probe_d={self.probe_weight.shape[1]}"
        )


def _scaled(
    probes: Float[Tensor, "batch heads tokens probe_d"],
) -> Float[Tensor, "batch heads tokens probe_d"]:
    """Return the probes divided by their root mean squares."""
    return probes * (probes.square().mean(-1, keepdim=True) + _EPS).rsqrt()
