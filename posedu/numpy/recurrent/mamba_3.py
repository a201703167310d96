"""Mamba-3: a state that decays and rotates, and writes a part of each token later."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import MambaRate, require_choice
from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks, Tokens, require_input
from posedu.numpy.gated.fox import sigmoid
from posedu.numpy.path.rotation import rotated
from posedu.numpy.recurrent.mamba import require_of_heads
from posedu.numpy.recurrent.state import hooks_of_weights

Array = np.ndarray
SLOWEST = 1e-4  # the authors' lower bound of −A


def rates(
    z: Float[Array, "heads tokens"], *, rate: MambaRate
) -> Float[Array, "heads tokens"]:
    """Mamba-3's −A of a number z of each head and token, at least 1e−4.

    ``"softplus"``: softplus(z) (flash-linear-attention). ``"rational"``: 1 + z above 0
    and 1/(1 − z) below (the authors' code). Equation ``def-mamba-3-rate``.
    """
    if require_choice("rate", rate, MambaRate) == "softplus":
        found = np.logaddexp(0.0, z)
    else:
        found = np.where(z > 0, 1 + z, 1 / (1 - np.minimum(z, 0)))
    return np.maximum(found, SLOWEST)


def mamba_3(
    *,
    gate_weight: Float[Array, "heads d_model"],
    gate_bias: Float[Array, "heads"],
    rate_weight: Float[Array, "heads d_model"],
    rate_bias: Float[Array, "heads"],
    share_weight: Float[Array, "heads d_model"],
    share_bias: Float[Array, "heads"],
    angle_weight: Float[Array, "pairs d_model"],
    q_bias: Float[Array, "heads d"],
    k_bias: Float[Array, "heads d"],
    skip: Float[Array, "heads"],
    rate: MambaRate,
) -> Hooks:
    """Return the attention hooks of Mamba-3's state (arXiv 2603.15569, SISO).

    With the step Δ = softplus(w · x + b), the rate A of :func:`rates` and the share
    λ = σ(u · x + c) of each token and head, the state is S_t = e^(A Δ) (S_(t−1) +
    (1 − λ) Δ k_(t−1) v_(t−1)ᵀ) + λ Δ k_t v_tᵀ. Queries and keys get a bias of each head
    and are rotated by sums of the angles π Δ tanh(ω), ω = W x; a token's own value is
    added, times ``skip``. There is no softmax, and nothing is divided by √d. Positions
    are not used. Equation ``def-mamba-3``.

    Parameters
    ----------
    gate_weight, gate_bias
        w and b of each head's step.
    rate_weight, rate_bias, rate
        Weight and bias of the number that :func:`rates` makes −A of, and its rule.
    share_weight, share_bias
        u and c of each head.
    angle_weight
        W: a row for each rotated pair of features, interleaved and leading.
    q_bias, k_bias
        Biases of queries and keys.
    skip
        Factor of a token's own value, for each head.

    Returns
    -------
    Hooks (functions that attention calls) with ``logits`` and ``weigh``, for causal
    attention.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, shapes that do not match, unknown ``rate``.
    """
    require_choice("rate", rate, MambaRate)
    of_step = require_of_heads("gate_weight", gate_weight, gate_bias=gate_bias)
    of_rate = require_of_heads("rate_weight", rate_weight, rate_bias=rate_bias)
    of_share = require_of_heads("share_weight", share_weight, share_bias=share_bias)
    (angle_weight,) = require_of_heads("angle_weight", angle_weight)
    q_bias, k_bias, skip = (
        require_floats(name, t)
        for name, t in (("q_bias", q_bias), ("k_bias", k_bias), ("skip", skip))
    )
    heads = len(of_step[0])
    if q_bias.ndim != 2 or k_bias.shape != q_bias.shape or len(q_bias) != heads:
        raise ValueError(
            f"q_bias and k_bias must be [heads, d] for {heads} heads, got shapes "
            f"{list(q_bias.shape)} and {list(k_bias.shape)}"
        )
    if skip.shape != (heads,):
        raise ValueError(
            f"skip must be [heads], here {[heads]}, got shape {list(skip.shape)}"
        )

    def weights(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        x = require_input("mamba_3", tokens)
        steps = np.logaddexp(0.0, _projected(x, *of_step))
        log_decay = -rates(_projected(x, *of_rate), rate=rate) * steps
        share = _projected(x, *of_share)
        now, later = sigmoid(share) * steps, sigmoid(-share) * steps
        turns = np.pi * steps[..., None] * np.tanh(x @ angle_weight.T)
        angles = np.cumsum(turns, axis=1)
        q = _rotated(tokens.q + q_bias[:, None], angles)
        k = _rotated(tokens.k + k_bias[:, None], angles)
        n = len(x)
        state, rows = np.zeros((heads, k.shape[2], n)), np.zeros((heads, 0, n))
        for t in range(n):  # token t has the t-th unit vector as its value
            if t > 0:
                rest = later[:, t, None] * k[:, t - 1]
                state = state + rest[..., None] * np.eye(n)[t - 1]
            state = np.exp(log_decay[:, t, None, None]) * state
            new = now[:, t, None] * k[:, t]
            state = state + new[..., None] * np.eye(n)[t]
            row = np.einsum("hk,hkv->hv", q[:, t], state)
            rows = np.concatenate((rows, row[:, None]), axis=1)
        return rows + skip[:, None, None] * np.eye(n)

    return hooks_of_weights(weights)


def _projected(
    x: Float[Array, "tokens d_model"],
    weight: Float[Array, "heads d_model"],
    bias: Float[Array, "heads"],
) -> Float[Array, "heads tokens"]:
    return np.einsum("hc,tc->ht", weight, x) + bias[:, None]


def _rotated(
    x: Float[Array, "heads tokens d"], angles: Float[Array, "heads tokens pairs"]
) -> Float[Array, "heads tokens d"]:
    """Rotate the leading pairs of features, and leave the others as they are."""
    width = 2 * angles.shape[-1]
    leading = rotated(x[..., :width], angles, layout="interleaved")
    return np.concatenate((leading, x[..., width:]), axis=-1)
