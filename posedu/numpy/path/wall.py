"""Wall attention: each channel of the product of query and key has its own gates."""

import numpy as np
from jaxtyping import Float

from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks, Tokens, causal_mask, require_input
from posedu.numpy.gated.fox import forget_bias, log_gates

Array = np.ndarray


def channel_log_gates(
    x: Float[Array, "tokens d_model"],
    gate_weight: Float[Array, "heads d d_model"],
    gate_bias: Float[Array, "heads d"],
) -> Float[Array, "heads tokens d"]:
    """The logarithm of the gate σ(w · x + b) of every token, head and channel.

    w and b are those of the head and channel. Equation ``def-wall-gate``.
    """
    heads, d, d_model = gate_weight.shape
    gates = log_gates(x, gate_weight.reshape(heads * d, d_model), gate_bias.reshape(-1))
    return np.moveaxis(gates.reshape(heads, d, len(x)), 1, 2)


def gated_products(
    q: Float[Array, "heads tokens d"],
    k: Float[Array, "heads tokens d"],
    log_gates: Float[Array, "heads tokens d"],
) -> Float[Array, "heads tokens tokens"]:
    """The sums Σ_n q_in k_jn e^(P_in − P_jn) over the channels n, for keys j ≤ i.

    P_in is the sum of the log gates of channel n over the tokens up to i, so that the
    exponent is the sum over the tokens j + 1 … i. Products with later keys are 0.
    Equation ``def-wall``.
    """
    sums = np.cumsum(log_gates, axis=1)
    is_earlier = causal_mask(q.shape[1])[..., None]
    differences = sums[:, :, None] - sums[:, None]
    decays = np.exp(np.where(is_earlier, differences, -np.inf))
    return np.einsum("hid,hjd,hijd->hij", q, k, decays)


def wall(
    *,
    gate_weight: Float[Array, "heads d d_model"],
    gate_bias: Float[Array, "heads d"],
    scalar_weight: Float[Array, "heads d_model"] | None = None,
    scalar_bias: Float[Array, "heads"] | None = None,
) -> Hooks:
    """Return the attention hooks of Wall attention.

    Logits are :func:`gated_products` over √d. Positions are not used. Equation
    ``def-wall``.

    Parameters
    ----------
    gate_weight, gate_bias
        w and b of the gate σ(w · x + b) of each head and channel.
    scalar_weight, scalar_bias
        w and b of a further gate of each head, whose logarithms are added to the
        logits, as :func:`posedu.numpy.gated.forget_bias`. Default: no such gate.

    Returns
    -------
    Hooks (functions that attention calls) with ``logits``, for causal attention.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, shapes that do not match, one of ``scalar_weight``
        and ``scalar_bias`` without the other.
    """
    weight = require_floats("gate_weight", gate_weight)
    bias = require_floats("gate_bias", gate_bias)
    if weight.ndim != 3 or bias.shape != weight.shape[:2]:
        raise ValueError(
            "gate_weight must be [heads, d, d_model] and gate_bias [heads, d], got "
            f"shapes {list(weight.shape)} and {list(bias.shape)}"
        )
    if (scalar_weight is None) != (scalar_bias is None):
        raise ValueError("scalar_weight and scalar_bias go together, got one of them")
    scalar = None
    if scalar_weight is not None and scalar_bias is not None:
        scalar = (
            require_floats("scalar_weight", scalar_weight),
            require_floats("scalar_bias", scalar_bias),
        )
        if scalar[0].shape != weight.shape[::2] or scalar[1].shape != weight.shape[:1]:
            raise ValueError(
                f"scalar_weight must be {list(weight.shape[::2])} and scalar_bias "
                f"{list(weight.shape[:1])} for a gate_weight of shape "
                f"{list(weight.shape)}, got shapes {list(scalar[0].shape)} and "
                f"{list(scalar[1].shape)}"
            )

    def logits(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        x = require_input("wall", tokens)
        gates = channel_log_gates(x, weight, bias)
        scores = gated_products(tokens.q, tokens.k, gates) / np.sqrt(tokens.d)
        if scalar is None:
            return scores
        return scores + forget_bias(log_gates(x, *scalar))

    return Hooks(logits=logits, needs_causal=True)
