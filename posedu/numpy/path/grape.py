"""GRAPE: phases, gated slopes and path integrals that read the text."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    ALiBiSlopes,
    GRAPEGates,
    GRAPENorms,
    GRAPEPhase,
    Layout,
    require_bool,
    require_choice,
)
from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks, Tokens, require_input
from posedu.numpy.bias.alibi import alibi_slopes
from posedu.numpy.gated.fox import sigmoid
from posedu.numpy.path.rotation import rotated

Array = np.ndarray

_PHASE_SCALE = 16.0  # of the authors' code, for σ(z/16)
_LEAST_LENGTH = 1e-6  # lengths below count as this one, as in the authors' code
_EPS = 2.0**-23  # of the norm of probes: float32's, PyTorch's default


def grape_phases(
    x: Float[Array, "tokens d_model"],
    phase_weight: Float[Array, "phases d_model"],
    phase_bias: Float[Array, "phases"],
    *,
    phase: GRAPEPhase,
) -> Float[Array, "tokens phases"]:
    """GRAPE-M's phase ω of each token: σ(z/16) or softplus(z), for z = w · x + b.

    Equation ``def-grape-phase``.
    """
    z = x @ phase_weight.T + phase_bias
    if phase == "sigmoid":
        return sigmoid(z / _PHASE_SCALE)
    return np.logaddexp(0, z)


def grape_m(
    *,
    layout: Layout,
    phase: GRAPEPhase,
    phase_weight: Float[Array, "phases d_model"],
    phase_bias: Float[Array, "phases"],
    log_frequencies: Float[Array, "pairs"],
) -> Hooks:
    """Return the attention hooks of contextual GRAPE-M (arXiv 2512.07805 §3).

    Pair p of token t's query and key is rotated clockwise by θ_p Φ_t, where Φ_t is the
    sum of :func:`grape_phases` over the tokens before t, its own excluded, and θ_p the
    exponential of the pair's log frequency. Positions are not used. Equation
    ``def-grape-m``.

    Parameters
    ----------
    layout
        ``"interleaved"`` or ``"half"``; see :func:`posedu.numpy.rotary.pairs`.
    phase
        ``"sigmoid"``: ω = σ(z/16), as the authors' code computes it. ``"softplus"``: ω
        = softplus(z), as the code's comments say.
    phase_weight, phase_bias
        w and b of z: one for all heads, or one for each query head.
    log_frequencies
        Logarithms of the frequencies, for all heads.

    Returns
    -------
    Hooks (functions that attention calls) with ``transport``, for causal attention.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, shapes that do not match, an unknown ``layout`` or
        ``phase``.
    """
    require_choice("layout", layout, Layout)
    require_choice("phase", phase, GRAPEPhase)
    weight = require_floats("phase_weight", phase_weight)
    bias = require_floats("phase_bias", phase_bias)
    theta = np.exp(require_floats("log_frequencies", log_frequencies))
    if weight.ndim != 2 or bias.shape != weight.shape[:1] or theta.ndim != 1:
        raise ValueError(
            "phase_weight must be [phases, d_model], phase_bias [phases] and "
            f"log_frequencies [pairs], got shapes {list(weight.shape)}, "
            f"{list(bias.shape)} and {list(theta.shape)}"
        )

    def transport(tokens: Tokens) -> tuple[Array, Array]:
        x = require_input("grape_m", tokens)
        omega = grape_phases(x, weight, bias, phase=phase)
        before = np.cumsum(omega, axis=0) - omega
        angles = -before.T[..., None] * theta
        return (
            rotated(tokens.q, angles, layout=layout),
            rotated(tokens.k, angles, layout=layout),
        )

    return Hooks(transport=transport, needs_causal=True)


def grape_a(
    *,
    slopes: ALiBiSlopes,
    gates: GRAPEGates,
    unit_vectors: bool,
    omega: Float[Array, "heads"],
    query_weight: Float[Array, "heads d"] | None = None,
    key_weight: Float[Array, "heads d"] | None = None,
) -> Hooks:
    """Return the attention hooks of GRAPE-A: ALiBi whose slope reads query and key.

    The bias of query i and key j is −(i − j) m softplus(ω) λ_ij, where λ_ij is the sum
    of the gates softplus(v · q_i/√d) and softplus(u · k_j/√d), and m ALiBi's slope of
    the head (arXiv 2512.07805 §4.1; there ω stands for m softplus(ω)). Equation
    ``def-grape-a``.

    Parameters
    ----------
    slopes
        Rule of :func:`posedu.numpy.bias.alibi_slopes`.
    gates
        The gates in λ: that of the ``"query"``, that of the ``"key"``, or ``"both"``.
    unit_vectors
        Whether v and u are divided by their lengths (the authors' code), or taken as
        they are (the paper).
    omega
        ω of each query head.
    query_weight, key_weight
        v and u of each query head, for the gates that there are.

    Returns
    -------
    Hooks (functions that attention calls) with ``bias``, for causal attention.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, shapes that do not match, a weight for no gate or a
        gate without weight; unknown ``slopes`` or ``gates``.
    """
    require_choice("gates", gates, GRAPEGates)
    require_bool("unit_vectors", unit_vectors)
    omega = require_floats("omega", omega)
    m = alibi_slopes(len(omega), slopes=slopes)
    v = _direction("query_weight", query_weight, gates != "key", len(omega))
    u = _direction("key_weight", key_weight, gates != "query", len(omega))
    if unit_vectors:
        v, u = _divided_by_length(v), _divided_by_length(u)

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        rate = np.zeros((len(omega), 1, 1))
        if v is not None:
            logits = np.einsum("hid,hd->hi", tokens.q, v) / np.sqrt(tokens.d)
            rate = rate + np.logaddexp(0, logits)[:, :, None]
        if u is not None:
            logits = np.einsum("hjd,hd->hj", tokens.k, u) / np.sqrt(tokens.d)
            rate = rate + np.logaddexp(0, logits)[:, None, :]
        return -tokens.distances * (m * np.logaddexp(0, omega))[:, None, None] * rate

    return Hooks(bias=bias, needs_causal=True)


def _direction(
    name: str, weight: Array | None, is_used: bool, heads: int
) -> Float[Array, "heads d"] | None:
    """Return a gate's vectors as floats, or ``None`` for a gate that is not used."""
    if (weight is not None) != is_used:
        raise ValueError(
            f"{name} {'is needed for' if is_used else 'has no use with'} these gates"
        )
    if weight is None:
        return None
    weight = require_floats(name, weight)
    if weight.ndim != 2 or len(weight) != heads:
        raise ValueError(
            f"{name} must be [{heads}, d] like omega, got shape {list(weight.shape)}"
        )
    return weight


def _divided_by_length(
    vectors: Float[Array, "heads d"] | None,
) -> Float[Array, "heads d"] | None:
    if vectors is None:
        return None
    lengths = np.sqrt(np.sum(vectors**2, axis=-1, keepdims=True))
    return vectors / np.maximum(lengths, _LEAST_LENGTH)


def grape_ap(
    *,
    slopes: ALiBiSlopes,
    layout: Layout,
    normalized: GRAPENorms,
    probe_weight: Float[Array, "heads probe_d d_model"],
) -> Hooks:
    """Return the attention hooks of GRAPE-AP: a path integral that the query scales.

    The bias of query i and key j is b_ij = Σ ψ_il over the tokens l = j + 1 … i, with
    ψ_il = m log σ(p_i · R_l p̂_l/n): p are n numbers projected from the layer's input
    (probes), p̂ is p divided by its root mean square, R_l rotates all pairs clockwise by
    the position of l, in radians, and m is ALiBi's slope of the head (arXiv 2512.07805
    §5 and the authors' code). Equation ``def-grape-ap``.

    Parameters
    ----------
    slopes
        Rule of :func:`posedu.numpy.bias.alibi_slopes`.
    layout
        ``"interleaved"`` or ``"half"``, where the two numbers of a probe's pair are.
    normalized
        The probes divided by their root mean square: ``"both"`` p_i and p_l (the
        paper), or the ``"key"`` side's p_l alone (the authors' code).
    probe_weight
        Matrix of each query head that makes p of the layer's input.

    Returns
    -------
    Hooks (functions that attention calls) with ``bias``, for causal attention.

    Raises
    ------
    TypeError, ValueError
        Weights that are no floats or of another shape; unknown ``slopes``, ``layout``
        or ``normalized``.
    """
    require_choice("layout", layout, Layout)
    require_choice("normalized", normalized, GRAPENorms)
    weight = require_floats("probe_weight", probe_weight)
    if weight.ndim != 3 or weight.shape[1] % 2:
        raise ValueError(
            "probe_weight must be [heads, probe_d, d_model] with probe_d even, got "
            f"shape {list(weight.shape)}"
        )
    m = alibi_slopes(len(weight), slopes=slopes)[:, None, None]

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        p = np.einsum("hnc,tc->htn", weight, require_input("grape_ap", tokens))
        size = np.sqrt(np.mean(p**2, axis=-1, keepdims=True) + _EPS)
        angles = -tokens.key_positions[None, :, None]
        of_keys = rotated(p / size, angles, layout=layout)
        of_queries = p / size if normalized == "both" else p
        logits = np.einsum("hin,hln->hil", of_queries, of_keys) / weight.shape[1]
        psi = np.tril(-m * np.logaddexp(0, -logits))
        l_is_after_j = np.tri(psi.shape[-1], k=-1)
        return psi @ l_is_after_j

    return Hooks(bias=bias, needs_causal=True)
