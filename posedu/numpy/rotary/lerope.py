"""LeRoPE: RoPE with trained frequencies."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from posedu.numpy._arrays import require_floats
from posedu.numpy.frequencies import require_frequencies, require_scaled

Array = np.ndarray


def lerope(
    frequencies: Float[Array, "pairs"],
    *,
    alpha: Float[Array, "pairs"] | Sequence[float],
) -> Float[Array, "pairs"]:
    """RoPE's frequencies times e^{α_p}, with α trained (arXiv 2607.10134).

    Parameters
    ----------
    frequencies
        RoPE's frequencies of the pairs of features.
    alpha
        α, ``[pairs]``; 0 at the start of training. Mistral-Large-4 (transformers
        5.23.0), the one model with LeRoPE, has one α for all heads and layers.

    Returns
    -------
    float64 array ``[pairs]``. Equation ``def-lerope``.

    Raises
    ------
    TypeError, ValueError
        Arrays that are not floating, not finite, not in a row or of different lengths.
    """
    omega = require_frequencies(frequencies)
    logs = require_floats("alpha", np.asarray(alpha))
    if logs.shape != omega.shape:
        raise ValueError(
            f"alpha must be [{len(omega)}], one for each frequency, got shape "
            f"{list(logs.shape)}"
        )
    with np.errstate(over="ignore"):
        return require_scaled(omega * np.exp(logs))
