"""Selective RoPE: rotations by angles that each token adds, as its content says."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    Layout,
    PhaseTemperature,
    require_base,
    require_bool,
    require_choice,
    require_dimension,
    require_positive,
)
from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks, Tokens, require_input
from posedu.numpy.frequencies import frequencies
from posedu.numpy.gated.fox import sigmoid
from posedu.numpy.path.product import short_convolution, unit_vectors
from posedu.numpy.path.rotation import rotate_along

Array = np.ndarray


def selective_phases(
    x: Float[Array, "tokens d_model"],
    *,
    heads: int,
    phase_weight: Float[Array, "heads pairs rank"],
    phase_down: Float[Array, "rank d_model"] | None = None,
    phase_scale: Float[Array, "heads"] | None = None,
    taps: Float[Array, "heads pairs width"] | None = None,
    activation: bool = False,
    phase_bias: Float[Array, "heads pairs"] | None = None,
    gate_weight: Float[Array, "heads d_model"] | None = None,
    gate_bias: Float[Array, "heads"] | None = None,
) -> Float[Array, "tokens heads pairs"]:
    """The number that each token adds to the positions of a head's pairs.

    Each head's part of the layer's input ``x`` is divided by its length (ε = 1e−6),
    projected, convolved over the tokens, increased by e^b and multiplied by a gate
    σ(w · x + c), where the arrays for it are given (arXiv 2511.17388 and the authors'
    code). Equation ``def-selective-phase``.

    Parameters
    ----------
    x
        The layer's input.
    heads
        Query heads.
    phase_weight, phase_down, phase_scale
        The projection: ``phase_down`` and then ``phase_weight``; or, without
        ``phase_down``, a matrix of each head for its own part of x, whose rows are
        divided by their lengths and multiplied by ``phase_scale``.
    taps, activation
        Weights of the convolution, the last one for the token itself; whether SiLU
        follows.
    phase_bias
        b, of which e^b is added.
    gate_weight, gate_bias
        w and c.
    """
    parts = unit_vectors(x.reshape(len(x), heads, x.shape[-1] // heads))
    whole = parts.reshape(x.shape)
    if phase_down is None:
        if phase_scale is None:
            raise ValueError("phase_scale must be given without phase_down, got none")
        length = np.sqrt(np.sum(phase_weight**2, axis=-1, keepdims=True))
        own = phase_scale[:, None, None] * phase_weight / length
        phases = np.einsum("hpc,thc->thp", own, parts)
    else:
        phases = np.einsum("hpr,tr->thp", phase_weight, whole @ phase_down.T)
    if taps is not None:
        phases = short_convolution(phases, taps)
    if activation:
        phases = phases * sigmoid(phases)
    if phase_bias is not None:
        phases = phases + np.exp(phase_bias)
    if gate_weight is not None:
        phases = phases * sigmoid(whole @ gate_weight.T + gate_bias)[..., None]
    return phases


def selective_temperatures(
    d: int,
    *,
    temperature: PhaseTemperature = "rope",
    base: float = 500000.0,
    largest: float = 1.0,
) -> Float[Array, "pairs"]:
    """Selective RoPE's factor τ of each pair's angle.

    ``"rope"``: base^(−2p/d); ``"rfa"``: tan(θ_p/2) divided by its largest value, for θ
    from 0 to .9999 π in equal steps; ``"one"``: 1 (all in the authors' code). All are
    multiplied by ``largest``. Equation ``def-selective-temperature``.

    Raises
    ------
    TypeError, ValueError
        ``d`` not even, or no multiple of 4 for ``"rfa"``; an unknown ``temperature``.
    """
    require_choice("temperature", temperature, PhaseTemperature)
    largest = require_positive("largest", largest)
    if temperature == "rope":
        return largest * frequencies(d, base=base)
    if temperature == "one":
        return np.full(require_dimension("d", d) // 2, largest)
    half_angles = np.linspace(0, 0.9999 * np.pi / 2, require_dimension("d", d, 4) // 2)
    return largest * np.tan(half_angles) / np.tan(half_angles[-1])


def selective_rope(
    *,
    heads: int,
    layout: Layout,
    temperature: PhaseTemperature = "rope",
    base: float = 500000.0,
    largest: float = 1.0,
    activation: bool = False,
    **weights: Float[Array, "..."],
) -> Hooks:
    """Return the attention hooks of Selective RoPE (arXiv 2511.17388).

    Pair p of token t's query and key is rotated by τ_p Σ a_l over the tokens l ≤ t,
    with :func:`selective_temperatures` τ and :func:`selective_phases` a. Positions are
    not used. Equation ``def-selective-rope``.

    Parameters
    ----------
    heads
        Query heads.
    layout
        ``"interleaved"`` or ``"half"``; see :func:`posedu.numpy.rotary.pairs`.
    temperature, base, largest
        As :func:`selective_temperatures`.
    activation, weights
        Further keyword arguments of :func:`selective_phases`.

    Returns
    -------
    Hooks (functions that attention calls) with ``transport``, for causal attention.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, an unknown ``layout`` or ``temperature``.
    """
    require_dimension("heads", heads, 1)
    require_choice("layout", layout, Layout)
    require_choice("temperature", temperature, PhaseTemperature)
    require_bool("activation", activation)
    base, largest = require_base(base), require_positive("largest", largest)
    weights = {name: require_floats(name, w) for name, w in weights.items()}

    def transport(tokens: Tokens) -> tuple[Array, Array]:
        x = require_input("selective_rope", tokens)
        phases = selective_phases(x, heads=heads, activation=activation, **weights)
        tau = selective_temperatures(
            tokens.d, temperature=temperature, base=base, largest=largest
        )
        return rotate_along(tokens, tau * phases, layout=layout)

    return Hooks(transport=transport, needs_causal=True)
