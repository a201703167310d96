"""Resonance RoPE: wavelengths are whole numbers."""

import numpy as np
from jaxtyping import Float

from posedu.numpy.frequencies import require_mapped, require_speeds

Array = np.ndarray


def resonance(frequencies: Float[Array, "pairs"]) -> Float[Array, "pairs"]:
    """RoPE's frequencies with wavelengths rounded to integers (arXiv 2403.00071).

    Then a pair that has completed a turn in training meets no new angle later: position
    m and m + λ have the same.

    Parameters
    ----------
    frequencies
        Those of the pairs, above 0 and at most 4π: shorter wavelengths would round to
        0.

    Returns
    -------
    float64 array ``[pairs]``: 2π/round(2π/ω_p), halves to the even. Equation
    ``def-resonance``.

    Raises
    ------
    TypeError, ValueError
        Frequencies that are not floating, not finite, not in a row or not within these
        limits.
    """
    omega = require_speeds(frequencies)
    if not ((omega > 0) & (omega < 4 * np.pi)).all():
        raise ValueError(f"frequencies must be above 0 and below 4π, got {omega}")
    return require_mapped(2 * np.pi / np.round(2 * np.pi / omega))
