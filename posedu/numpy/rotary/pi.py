"""Position interpolation: all frequencies divided by one factor."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_positive
from posedu.numpy.frequencies import require_frequencies, require_scaled

Array = np.ndarray


def pi(frequencies: Float[Array, "pairs"], *, factor: float) -> Float[Array, "pairs"]:
    """RoPE's frequencies divided by ``factor`` (arXiv 2306.15595).

    A text of s·L positions then has the angles of real positions below L: ω/s at
    position m gives the same angle as ω at position m/s.

    Parameters
    ----------
    frequencies
        RoPE's frequencies of the pairs of features, for example
        :func:`posedu.numpy.frequencies.frequencies`.
    factor
        s, the length of texts to read over the length of training; a finite number
        above 0.

    Returns
    -------
    float64 array of the shape of ``frequencies``, for RoPE's argument of that name.
    Equation ``def-pi``.

    Raises
    ------
    TypeError, ValueError
        Frequencies that are not floating or not finite; a ``factor`` that is not above
        0 or not finite.
    """
    factor = require_positive("factor", factor)
    return require_scaled(require_frequencies(frequencies) / factor)
