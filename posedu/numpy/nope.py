"""NoPE: attention without positions, with an optional temperature of the logits."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_finite
from posedu.numpy._arrays import Positions, require_floats
from posedu.numpy.attention import Hooks

Array = np.ndarray


def nope(*, temperature: Float[Array, "heads"] | float = 1.0) -> Hooks:
    """Return the attention hooks of NoPE: attention without positions.

    arXiv 2203.16634.

    Parameters
    ----------
    temperature
        τ, an inverse temperature, by which logits are multiplied besides 1/√d: λ √d of
        arXiv 2404.12224. 1 is plain attention, larger ones make it sharper, 0 gives all
        keys equal weights. One number is the paper's uniform scale, ``[heads]`` its
        scale of each head. Default 1.

    Returns
    -------
    Hooks (functions that attention calls) with ``rotate``, which multiplies queries by
    the temperature. Equation ``def-nope``.

    Raises
    ------
    TypeError, ValueError
        A ``temperature`` that is not finite or neither a number nor ``[heads]``, or for
        another number of heads than the layer's.
    """
    tau: Array | float
    if isinstance(temperature, Array):
        tau = require_floats("temperature", temperature)
        if tau.ndim != 1 or not tau.size or not np.isfinite(tau).all():
            raise ValueError(
                "temperature must be one finite number or [heads] of them, got "
                f"{tau.tolist()} of shape {list(tau.shape)}"
            )
    else:
        tau = require_finite("temperature", temperature)

    def sharpened(
        q: Float[Array, "heads tokens d"],
        k: Float[Array, "kv_heads tokens d"],
        positions: Positions,
    ) -> tuple[Array, Array]:
        if isinstance(tau, Array) and len(tau) != len(q):
            raise ValueError(f"temperature has {len(tau)} heads, q has {len(q)}")
        return np.reshape(tau, (-1, 1, 1)) * q, k

    return Hooks(rotate=sharpened)
