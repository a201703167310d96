"""How fast each pair of features turns."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import SPACINGS, require_base, require_choice, require_dimension

Array = np.ndarray


def frequencies(
    d: int, *, base: float = 10000.0, spacing: str = "paper"
) -> Float[Array, "pairs"]:
    """Angular frequencies ω_p of the d/2 pairs, fastest first.

    Parameters
    ----------
    d
        Number of features, even.
    base
        Ratio that sets the slowest frequency, above 1. Default 10000 (arXiv
        1706.03762 §3.5).
    spacing
        ``"paper"``: base^(−2p/d), as printed there. ``"tensor2tensor"``:
        base^(−p/(d/2 − 1)), as its authors' code, fairseq and Whisper compute.

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
    if require_choice("spacing", spacing, SPACINGS) == "paper":
        return base ** (-2 * p / d)
    return base ** (-p / max(d // 2 - 1, 1))


def wavelengths(
    d: int, *, base: float = 10000.0, spacing: str = "paper"
) -> Float[Array, "pairs"]:
    """Positions that each pair takes for one full turn, 2π/ω_p, shortest first.

    Arguments and errors as :func:`frequencies`. Equation ``def-wavelength``.
    """
    return 2 * np.pi / frequencies(d, base=base, spacing=spacing)
