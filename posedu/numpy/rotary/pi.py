"""Position interpolation: every pair slower by one factor."""

import math

import numpy as np
from jaxtyping import Float

from posedu.numpy._arrays import require_floats

Array = np.ndarray


def pi(frequencies: Float[Array, "pairs"], *, factor: float) -> Float[Array, "pairs"]:
    """RoPE's frequencies divided by ``factor`` (arXiv 2306.15595).

    A model trained on L positions then meets at s·L positions the angles that it knows:
    ω/s at position m is ω at position m/s.

    Parameters
    ----------
    frequencies
        Those of the pairs, for example :func:`posedu.numpy.frequencies.frequencies`.
    factor
        s, by how much longer texts are to be than in training; a finite number above 0.

    Returns
    -------
    float64 array of the shape of ``frequencies``, for RoPE's argument of that name.

    Raises
    ------
    TypeError, ValueError
        Frequencies that are not floating; a ``factor`` that is not above 0 or not
        finite.
    """
    if not 0 < factor < math.inf:
        raise ValueError(f"factor must be a finite number above 0, got {factor}")
    return require_floats("frequencies", frequencies) / factor
