"""NTK-aware RoPE scaling: a larger base, which slows slow pairs more than fast ones."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_dimension, require_positive
from posedu.numpy.frequencies import require_frequencies, require_scaled

Array = np.ndarray


def ntk(frequencies: Float[Array, "pairs"], *, factor: float) -> Float[Array, "pairs"]:
    """RoPE's frequencies with the base b·s^{d/(d−2)} in place of b (NTK-aware scaling).

    arXiv 2309.00071 §3.1.

    With n = d/2 pairs this is ω_p s^{−p/(n − 1)}: the fastest pair stays, the slowest
    is divided by s.

    Parameters
    ----------
    frequencies
        RoPE's frequencies b^{−2p/d} of the pairs, fastest first. The frequency of a
        single pair stays as it is.
    factor
        s, a finite number above 0. HunYuan's ``alpha`` is this number.

    Returns
    -------
    float64 array ``[pairs]``, for RoPE's argument ``frequencies``. Equation
    ``def-ntk``.

    Raises
    ------
    TypeError, ValueError
        Frequencies that are not floating, not finite or not in a row; a ``factor`` that
        is not above 0 or not finite.
    """
    omega = require_frequencies(frequencies)
    factor = require_positive("factor", factor)
    p, last = np.arange(len(omega)), max(len(omega) - 1, 1)
    return require_scaled(omega * factor ** (-p / last))


def ntk_dynamic(
    frequencies: Float[Array, "pairs"], *, factor: float, trained: int, length: int
) -> Float[Array, "pairs"]:
    """RoPE's frequencies scaled by :func:`ntk`, more the longer the text is so far.

    The factor s of :func:`ntk` is f·max(l, L)/L − (f − 1), for l tokens so far and L
    tokens in training.

    Parameters
    ----------
    frequencies
        RoPE's frequencies of the pairs, fastest first, as for :func:`ntk`.
    factor
        f. 1 gives the paper's s = max(1, l/L) (arXiv 2309.00071 §3.3); transformers
        takes the configuration's ``factor``, with which s grows f times as fast.
    trained, length
        L and l, positive integers.

    Returns
    -------
    float64 array ``[pairs]``. Keys that were rotated when the text was shorter were
    rotated by other frequencies. Equation ``def-ntk-dynamic``.

    Raises
    ------
    TypeError, ValueError
        As :func:`ntk`; lengths that are not positive integers.
    """
    factor = require_positive("factor", factor)
    require_dimension("trained", trained, 1)
    require_dimension("length", length, 1)
    longer = max(length, trained) / trained
    return ntk(frequencies, factor=factor * longer - (factor - 1))
