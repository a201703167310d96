"""NTK-aware scaling: a larger base, which interpolates the slowest pair alone."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_dimension, require_positive
from posedu.numpy.frequencies import require_frequencies, require_scaled

Array = np.ndarray


def ntk(frequencies: Float[Array, "pairs"], *, factor: float) -> Float[Array, "pairs"]:
    """RoPE's frequencies with the base b·s^{d/(d−2)} (arXiv 2309.00071 §3.1).

    With n = d/2 pairs this is ω_p s^{−p/(n − 1)}: the fastest pair stays, the slowest
    is divided by s.

    Parameters
    ----------
    frequencies
        Those of the pairs, fastest first: b^{−2p/d}. A single pair stays as it is.
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
    require_positive("factor", factor)
    p, last = np.arange(len(omega)), max(len(omega) - 1, 1)
    return require_scaled(omega * factor ** (-p / last))


def ntk_dynamic(
    frequencies: Float[Array, "pairs"], *, factor: float, trained: int, length: int
) -> Float[Array, "pairs"]:
    """:func:`ntk` with a factor that follows the text's length so far.

    The factor is f·max(l, L)/L − (f − 1), for l tokens so far and L in training.

    Parameters
    ----------
    frequencies
        As of :func:`ntk`.
    factor
        f. 1 is the paper's max(1, l/L) (arXiv 2309.00071 §3.3); transformers takes the
        configuration's ``factor``, with which the factor grows f times as fast.
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
    require_positive("factor", factor)
    require_dimension("trained", trained, 1)
    require_dimension("length", length, 1)
    longer = max(length, trained) / trained
    return ntk(frequencies, factor=factor * longer - (factor - 1))
