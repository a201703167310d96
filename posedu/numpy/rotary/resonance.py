"""Resonance RoPE: wavelengths rounded to whole numbers."""

import numpy as np
from jaxtyping import Float

from posedu.numpy.frequencies import require_frequencies, require_scaled

Array = np.ndarray


def resonance(frequencies: Float[Array, "pairs"]) -> Float[Array, "pairs"]:
    """RoPE's frequencies with wavelengths rounded to integers (arXiv 2403.00071).

    A pair that was trained with its rounded wavelength λ, and completed a full turn,
    meets no new angle later: positions m and m + λ have the same angle.

    Parameters
    ----------
    frequencies
        RoPE's frequencies of the pairs, above 0 and below 4π: shorter wavelengths would
        round to 0.

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
    omega = require_frequencies(frequencies)
    if not ((omega > 0) & (omega < 4 * np.pi)).all():
        raise ValueError(f"frequencies must be above 0 and below 4π, got {omega}")
    return require_scaled(2 * np.pi / np.round(2 * np.pi / omega))
