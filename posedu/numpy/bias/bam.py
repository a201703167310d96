"""BAM: a bias whose exponential is a generalized Gaussian of the offset."""

import numpy as np
from jaxtyping import Float

from posedu.numpy._arrays import Positions, require_positions
from posedu.numpy.attention import Hooks, Tokens
from posedu.numpy.bias.per_head import (
    PerHead,
    exp,
    finite,
    per_head,
    positive,
    require_same_heads,
)
from posedu.numpy.scaling.log_n import log_n

Array = np.ndarray
EPSILON = 1e-5  # of the authors' code


def bam_bias(
    offsets: Positions,
    *,
    alpha: PerHead | float,
    beta: PerHead | float,
    mu: PerHead | float = 0.0,
) -> Float[Array, "*heads_and_shape"]:
    """BAM's bias −α (abs(t + μ) + ε)^β at each offset t, with ε = 10⁻⁵.

    arXiv 2505.22842, and the authors' code. For β > 0 the bias is largest where key
    position minus query position is μ, for β < 0 it is smallest there.

    Parameters
    ----------
    offsets
        Query position minus key position, finite.
    alpha
        Positive: one number, or one for each head.
    beta
        Exponent of any sign. Below 0 the bias *rises* with the distance.
    mu
        Key position minus query position at the center. Default 0.

    Returns
    -------
    float64 array ``[*shape]``, or ``[heads, *shape]``. Equation ``def-bam``.

    Raises
    ------
    TypeError, ValueError
        Offsets not finite, parameters not finite or outside their ranges, a bias that
        overflows float64.
    """
    t = require_positions(offsets, "offsets")
    alpha, beta = positive("alpha", alpha, t), finite("beta", beta, t)
    z = t + finite("mu", mu, t)
    size = np.maximum(z, -z)  # abs(z), written so that the cross-check sees its kink
    with np.errstate(over="ignore"):
        bias = np.asarray(-alpha * (size + EPSILON) ** beta)
    if not np.isfinite(bias).all():
        raise ValueError(
            "a bias −alpha · (abs(offset + mu) + 1e-5)^beta overflows float64; give "
            f"a beta nearer to 0 or nearer offsets, got beta {np.squeeze(beta)}"
        )
    return bias


def bam(
    *,
    log_alpha: PerHead,
    beta: PerHead,
    theta_mu: PerHead | None = None,
    log_n_slope: PerHead | None = None,
) -> Hooks:
    """Return the attention hooks of the Bayesian attention mechanism, BAM.

    arXiv 2505.22842. The trained parameters are unbounded, one for each head.

    Parameters
    ----------
    log_alpha, beta
        α = e^log_alpha and the exponent β of the bias −α (abs(i − j + μ) + ε)^β of
        query position i and key position j; see :func:`bam_bias`.
    theta_mu
        μ = e^theta_mu − e^−theta_mu. Default ``None``: μ = 0.
    log_n_slope
        s of the form with scalable softmax: the products of queries and keys are
        multiplied by s ln n for the n-th position, the bias is not. Default ``None``:
        they are not multiplied.

    Returns
    -------
    Hooks (functions that attention calls) with ``bias``, and with ``rotate`` if
    ``log_n_slope`` is given. Equation ``def-bam``.

    Raises
    ------
    TypeError, ValueError
        Parameters that hold no floats, are not one for each head, or not finite.
    """
    require_same_heads(
        log_alpha=log_alpha, beta=beta, theta_mu=theta_mu, log_n_slope=log_n_slope
    )
    alpha = exp("log_alpha", log_alpha)
    theta = np.zeros(len(alpha)) if theta_mu is None else per_head("theta_mu", theta_mu)
    mu = exp("theta_mu", theta) - exp("theta_mu", -theta)

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        return bam_bias(tokens.distances, alpha=alpha, beta=beta, mu=mu)

    # Raises for parameters that are out of range.
    bam_bias([0.0], alpha=alpha, beta=beta, mu=mu)
    if log_n_slope is None:
        return Hooks(bias=bias)
    scaled = log_n(
        growth="learned",
        index_from=1,
        slope=log_n_slope,
        offset=np.zeros_like(log_n_slope),
    )
    return Hooks(bias=bias, rotate=scaled.rotate)
