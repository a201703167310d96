"""Llama 3's RoPE scaling: YaRN's formula by full turns, without attention factor."""

import numpy as np
from jaxtyping import Float

from posedu.numpy.rotary.yarn import yarn

Array = np.ndarray


def llama3(
    frequencies: Float[Array, "pairs"],
    *,
    factor: float,
    trained: float,
    low: float = 1.0,
    high: float = 4.0,
) -> Float[Array, "pairs"]:
    """RoPE's frequencies as Llama 3.1 and later scale them (meta-llama's model.py).

    Parameters
    ----------
    frequencies
        RoPE's frequencies of the pairs of features.
    factor
        s: 8 in Llama 3.1, 32 in 3.2, 16 in Llama 4 Scout.
    trained
        L, the original training length: 8192 in all of these models.
    low, high
        ``low_freq_factor`` and ``high_freq_factor``, the full turns within L up to
        which a pair is interpolated and from which it is unchanged. Defaults 1 and 4
        (Llama 3.1); Llama 4 Scout has 1 and 1, a step.

    Returns
    -------
    float64 array ``[pairs]``: :func:`yarn` with the ramp by full turns. Equation
    ``eq-llama3``.

    Raises
    ------
    TypeError, ValueError
        As :func:`yarn`.
    """
    return yarn(
        frequencies, factor=factor, trained=trained, ramp="turns", fast=high, slow=low
    )
