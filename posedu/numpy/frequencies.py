"""Angular frequencies of pairs of features, for sinusoidal and rotary encodings."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from posedu._arguments import Spacing, require_base, require_choice, require_dimension
from posedu._renamed import renamed_names
from posedu.numpy._arrays import require_floats

Array = np.ndarray


def frequencies(
    d: int, *, base: float = 10000.0, spacing: Spacing = "paper"
) -> Float[Array, "pairs"]:
    """Angular frequencies ω_p of the d/2 pairs of features, fastest first.

    Parameters
    ----------
    d
        Number of features, even.
    base
        Ratio that sets the slowest frequency, above 1. Default 10000 (arXiv
        1706.03762 §3.5).
    spacing
        ``"paper"``: base^(−2p/d), as the paper prints. ``"tensor2tensor"``:
        base^(−p/(d/2 − 1)), as the authors' code, fairseq and Whisper compute.

    Returns
    -------
    float64 array ``[d/2]``, in radians per position. Equation ``def-frequencies``.

    Raises
    ------
    TypeError, ValueError
        ``d`` odd or not positive, ``base`` not above 1, unknown ``spacing``.
    """
    d = require_dimension("d", d)
    base = require_base(base)
    p = np.arange(d // 2)
    if require_choice("spacing", spacing, Spacing) == "paper":
        return base ** (-2 * p / d)
    return base ** (-p / max(d // 2 - 1, 1))


def wavelengths(
    d: int, *, base: float = 10000.0, spacing: Spacing = "paper"
) -> Float[Array, "pairs"]:
    """The wavelength 2π/ω_p of each pair of features, in positions, shortest first.

    Arguments and errors as :func:`frequencies`. Equation ``def-wavelength``.
    """
    return 2 * np.pi / frequencies(d, base=base, spacing=spacing)


def require_frequencies(frequencies: Float[Array, "pairs"]) -> Float[Array, "pairs"]:
    """Return ``frequencies`` as float64 if they are a finite vector, else raise.

    A vector is an array with one axis, here with at least one number.
    """
    omega = require_floats("frequencies", frequencies)
    if omega.ndim != 1 or not len(omega):
        raise ValueError(f"frequencies must be [pairs], got shape {list(omega.shape)}")
    if not np.isfinite(omega).all():
        raise ValueError(f"frequencies must be finite, got {omega}")
    return omega


def require_grid(frequencies: Float[Array, "pairs"]) -> Float[Array, "pairs"]:
    """Return ``frequencies`` as float64 if they fall by a constant ratio, else raise.

    At least two frequencies are needed, all above 0.
    """
    omega = require_frequencies(frequencies)
    if len(omega) < 2 or not (omega > 0).all() or omega[0] <= omega[1]:
        raise ValueError(f"frequencies must be two or more that fall, got {omega}")
    steps = np.diff(np.log(omega))
    if not np.allclose(steps, steps[0], rtol=1e-6, atol=0):
        raise ValueError(f"frequencies must fall by one ratio, got {omega}")
    return omega


def require_scaled(frequencies: Float[Array, "pairs"]) -> Float[Array, "pairs"]:
    """Return ``frequencies`` if all are finite, else raise.

    Context extension methods such as YaRN have multiplied these frequencies by factors
    that may make them overflow.
    """
    if not np.isfinite(frequencies).all():
        raise ValueError(
            f"these frequencies and arguments are out of reach: {frequencies}"
        )
    return frequencies


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
