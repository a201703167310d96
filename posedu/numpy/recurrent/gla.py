"""Gated linear attention (GLA): each row of the state decays by its own gate."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_positive
from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks, Tokens, require_input
from posedu.numpy.recurrent.state import hooks_of_weights, plain_writes, state_weights

Array = np.ndarray


def low_rank(
    x: Float[Array, "tokens d_model"],
    gate_down: Float[Array, "rank d_model"],
    gate_up: Float[Array, "heads d rank"],
    gate_bias: Float[Array, "heads d"],
) -> Float[Array, "heads tokens d"]:
    """The numbers W₂ W₁ x + b of every head, token and feature of its keys."""
    inner = x @ gate_down.T
    return np.einsum("hdr,tr->htd", gate_up, inner) + gate_bias[:, None]


def require_low_rank(
    gate_down: Float[Array, "rank d_model"],
    gate_up: Float[Array, "heads d rank"],
    gate_bias: Float[Array, "heads d"],
) -> tuple[Array, Array, Array]:
    """Return the weights of :func:`low_rank` as float64; raise unless they fit."""
    down, up, bias = (
        require_floats(name, t)
        for name, t in (
            ("gate_down", gate_down),
            ("gate_up", gate_up),
            ("gate_bias", gate_bias),
        )
    )
    if (
        down.ndim != 2
        or up.ndim != 3
        or up.shape[2] != len(down)
        or bias.shape != up.shape[:2]
    ):
        raise ValueError(
            "gate_down must be [rank, d_model], gate_up [heads, d, rank] and gate_bias "
            f"[heads, d], got shapes {list(down.shape)}, {list(up.shape)} and "
            f"{list(bias.shape)}"
        )
    return down, up, bias


def gla(
    *,
    gate_down: Float[Array, "rank d_model"],
    gate_up: Float[Array, "heads d rank"],
    gate_bias: Float[Array, "heads d"],
    temperature: float = 16.0,
) -> Hooks:
    """Return the attention hooks of gated linear attention (arXiv 2312.06635).

    The gates of a token are α = σ(W₂ W₁ x + b)^(1/τ), one for each head and feature of
    its keys. The weight of key j for query i is Σ_n q_in k_jn Π_l α_ln / √d, the
    product over the tokens l = j + 1 … i, without a softmax. Positions are not used.
    Equation ``def-gla``.

    Parameters
    ----------
    gate_down, gate_up, gate_bias
        W₁, W₂ and b.
    temperature
        τ. Default 16 (the paper).

    Returns
    -------
    Hooks (functions that attention calls) with ``logits`` and ``weigh``, for causal
    attention.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, shapes that do not match, a ``temperature`` that is
        not above 0.
    """
    given = require_low_rank(gate_down, gate_up, gate_bias)
    temperature = require_positive("temperature", temperature)

    def weights(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        x = require_input("gla", tokens)
        log_decay = -np.logaddexp(0.0, -low_rank(x, *given)) / temperature
        q, beta = tokens.q / np.sqrt(tokens.d), plain_writes(tokens.k)
        return state_weights(q, tokens.k, log_decay, beta, delta=False)

    return hooks_of_weights(weights)
