"""Mamba-2: a state that decays by a step size, which also scales what is written."""

import numpy as np
from jaxtyping import Float

from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks, Tokens, require_input
from posedu.numpy.gated.log_linear import mamba_log_gates
from posedu.numpy.recurrent.state import hooks_of_weights, state_weights

Array = np.ndarray


def require_of_heads(
    weight_name: str, weight: Float[Array, "heads d_model"], **of_heads: Array
) -> tuple[Array, ...]:
    """Return the arrays as float64; raise unless each has a number for every head.

    ``weight``, of the name ``weight_name``, has a row for every head.
    """
    weight = require_floats(weight_name, weight)
    if weight.ndim != 2:
        raise ValueError(
            f"{weight_name} must be [heads, d_model], got shape {list(weight.shape)}"
        )
    given = [require_floats(name, t) for name, t in of_heads.items()]
    for name, t in zip(of_heads, given, strict=True):
        if t.shape != weight.shape[:1]:
            raise ValueError(
                f"{name} must be [heads], here {[len(weight)]}, got shape "
                f"{list(t.shape)}"
            )
    return weight, *given


def mamba_2(
    *,
    gate_weight: Float[Array, "heads d_model"],
    gate_bias: Float[Array, "heads"],
    gate_rate: Float[Array, "heads"],
    skip: Float[Array, "heads"],
) -> Hooks:
    """Return the attention hooks of Mamba-2's state (arXiv 2405.21060).

    The step of a token and head is Δ = softplus(w · x + b). The token multiplies the
    state by e^(−e^r Δ) and writes with the strength Δ: the weight of key j for query i
    is q_i · k_j e^D Δ_j, where D is the sum of the log decays of the tokens j + 1 … i,
    and that of the token's own key is larger by the head's ``skip``. There is no
    softmax, and nothing is divided by √d. The paper writes C for q, B for k and x for
    v. Positions are not used. Equation ``def-mamba-2``.

    Parameters
    ----------
    gate_weight, gate_bias
        w and b of each head's step.
    gate_rate
        r of each head; the paper's A is −e^r.
    skip
        D of the paper, which multiplies a token's own value.

    Returns
    -------
    Hooks (functions that attention calls) with ``logits`` and ``weigh``, for causal
    attention.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, shapes that do not match.
    """
    gate_weight, gate_bias, gate_rate, skip = require_of_heads(
        *("gate_weight", gate_weight),
        gate_bias=gate_bias,
        gate_rate=gate_rate,
        skip=skip,
    )

    def weights(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        x = require_input("mamba_2", tokens)
        steps = np.logaddexp(
            0.0, np.einsum("hc,tc->ht", gate_weight, x) + gate_bias[:, None]
        )
        log_decay = mamba_log_gates(x, gate_weight, gate_bias, gate_rate)
        found = state_weights(tokens.q, tokens.k, log_decay, steps, delta=False)
        return found + skip[:, None, None] * np.eye(len(x))

    return hooks_of_weights(weights)
