"""DeltaNet, Gated DeltaNet and KDA: a token corrects what the state has for its key."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_bool, require_negative
from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks, Tokens, require_input
from posedu.numpy.gated.fox import sigmoid
from posedu.numpy.gated.log_linear import mamba_log_gates
from posedu.numpy.path.product import unit_vectors
from posedu.numpy.recurrent.gla import low_rank, require_low_rank
from posedu.numpy.recurrent.mamba import require_of_heads
from posedu.numpy.recurrent.state import hooks_of_weights, no_decay, state_weights

Array = np.ndarray


def delta_net(
    *, beta_weight: Float[Array, "heads d_model"], negative_eigenvalues: bool = False
) -> Hooks:
    """Return the attention hooks of DeltaNet (arXiv 2102.11174, 2406.06484).

    With unit vectors q and k, a token writes β (v − Sᵀ k) for its key, the part of its
    value that the state does not have yet: the transition is I − β k kᵀ, and the
    weight of key j for query i is q_i · T_i ⋯ T_(j+1) k_j β_j / √d. Positions are not
    used. Equation ``def-delta-net``.

    Parameters
    ----------
    beta_weight
        u of each head's strength β = σ(u · x).
    negative_eigenvalues
        Whether β is 2 σ(u · x), so that the eigenvalue 1 − β of a transition may be
        negative (arXiv 2411.12537). Default false.

    Returns
    -------
    Hooks (functions that attention calls) with ``logits`` and ``weigh``, for causal
    attention.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, shapes that do not match.
    """
    return _corrected(
        "delta_net",
        lambda tokens, x: no_decay(tokens.k),
        beta_weight,
        negative_eigenvalues,
    )


def gated_delta_net(
    *,
    beta_weight: Float[Array, "heads d_model"],
    gate_weight: Float[Array, "heads d_model"],
    gate_bias: Float[Array, "heads"],
    gate_rate: Float[Array, "heads"],
    negative_eigenvalues: bool = False,
) -> Hooks:
    """Return the attention hooks of Gated DeltaNet (arXiv 2412.06464).

    It is :func:`delta_net` with a decay before the correction. The gate of a token and
    head is α with log α = −e^r softplus(w · x + b), the transition (I − β k kᵀ) α.
    Equation ``def-gated-delta-net``.

    Parameters
    ----------
    beta_weight, negative_eigenvalues
        As :func:`delta_net`.
    gate_weight, gate_bias, gate_rate
        w, b and r of each head's gate.

    Returns
    -------
    Hooks, like those of :func:`delta_net`.

    Raises
    ------
    TypeError, ValueError
        As :func:`delta_net`.
    """
    given = require_of_heads(
        *("gate_weight", gate_weight), gate_bias=gate_bias, gate_rate=gate_rate
    )
    return _corrected(
        "gated_delta_net",
        lambda tokens, x: mamba_log_gates(x, *given),
        beta_weight,
        negative_eigenvalues,
    )


def kda(
    *,
    beta_weight: Float[Array, "heads d_model"],
    gate_down: Float[Array, "rank d_model"],
    gate_up: Float[Array, "heads d rank"],
    gate_bias: Float[Array, "heads d"],
    gate_rate: Float[Array, "heads"],
    lowest: float | None = None,
    negative_eigenvalues: bool = False,
) -> Hooks:
    """Return the attention hooks of Kimi Delta Attention (arXiv 2510.26692).

    It is :func:`delta_net` with a decay of each feature n of a head's keys before the
    correction: log α_n = −e^r softplus(z_n) for z = W₂ W₁ x + b, and the transition is
    (I − β k kᵀ) diag(α). Equation ``def-kda``.

    Parameters
    ----------
    beta_weight, negative_eigenvalues
        As :func:`delta_net`.
    gate_down, gate_up, gate_bias, gate_rate
        W₁, W₂ and b, and r of each head.
    lowest
        A bound on the log gates: log α_n is this number times σ(e^r z_n) instead.
        Default ``None``, none; published models with a bound have −5.

    Returns
    -------
    Hooks, like those of :func:`delta_net`.

    Raises
    ------
    TypeError, ValueError
        As :func:`delta_net`; ``lowest`` not below 0, a ``gate_rate`` too large for e^r.
    """
    given = require_low_rank(gate_down, gate_up, gate_bias)
    rates = require_floats("gate_rate", gate_rate)
    if rates.shape != given[1].shape[:1]:
        raise ValueError(
            f"gate_rate must be [heads], here {[len(given[1])]}, got shape "
            f"{list(rates.shape)}"
        )
    if np.any(rates > np.log(np.finfo(float).max)):
        raise ValueError(
            f"gate_rate must be so small that e^rate is finite, got {gate_rate}"
        )
    if lowest is not None:
        lowest = require_negative("lowest", lowest)

    def log_decay(
        tokens: Tokens, x: Float[Array, "tokens d_model"]
    ) -> Float[Array, "heads tokens d"]:
        z, rate = low_rank(x, *given), np.exp(rates)[:, None, None]
        if lowest is not None:
            return lowest * sigmoid(rate * z)
        return -rate * np.logaddexp(0.0, z)

    return _corrected("kda", log_decay, beta_weight, negative_eigenvalues)


def _corrected(
    name: str,
    log_decay: Callable[[Tokens, Array], Array],
    beta_weight: Float[Array, "heads d_model"],
    negative_eigenvalues: bool,
) -> Hooks:
    """Return the hooks of the delta rule after a decay, for unit queries and keys."""
    (beta_weight,) = require_of_heads("beta_weight", beta_weight)
    require_bool("negative_eigenvalues", negative_eigenvalues)

    def weights(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        x = require_input(name, tokens)
        q, k = unit_vectors(tokens.q) / np.sqrt(tokens.d), unit_vectors(tokens.k)
        beta = (2.0 if negative_eigenvalues else 1.0) * sigmoid(beta_weight @ x.T)
        return state_weights(q, k, log_decay(tokens, x), beta, delta=True)

    return hooks_of_weights(weights)
