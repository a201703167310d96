"""RIFLEx: a lower frequency for the pair whose period a video repeats."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_pair, require_positive
from posedu.numpy.frequencies import require_frequencies, require_scaled

Array = np.ndarray


def riflex(
    frequencies: Float[Array, "pairs"], *, pair: int, tested: float, turns: float
) -> Float[Array, "pairs"]:
    """RoPE's frequencies with the frequency of one pair lowered (arXiv 2502.15894).

    A video model repeats its pictures after the period of one of the pairs; with the
    new frequency this pair makes at most one turn in the wanted length.

    Parameters
    ----------
    frequencies
        RoPE's frequencies of the pairs that rotate by time.
    pair
        Index of the pair to lower, from 0; the published code counts from 1.
    tested
        The wanted length L·s, above 0.
    turns
        Number of full turns of the pair within ``tested``: 1 in the paper, 0.9 in the
        published code.

    Returns
    -------
    float64 array ``[pairs]``: 2π·turns/tested for the pair, the given frequency for
    every other pair. Equation ``def-riflex``.

    Raises
    ------
    TypeError, ValueError
        Frequencies that are not floating, not finite or not in a row; a ``pair`` that
        is no index of a frequency; numbers that are not above 0.
    """
    omega = require_frequencies(frequencies).copy()
    require_pair("pair", pair, len(omega))
    tested = require_positive("tested", tested)
    omega[pair] = 2 * np.pi * require_positive("turns", turns) / tested
    return require_scaled(omega)
