"""p-RoPE: RoPE without rotation of the slow pairs."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_share
from posedu.numpy.frequencies import require_frequencies

Array = np.ndarray


def p_rope(
    frequencies: Float[Array, "pairs"], *, share: float
) -> Float[Array, "pairs"]:
    """RoPE's frequencies with all but the fastest ``share`` of them set to 0.

    arXiv 2410.06205; transformers calls p-RoPE ``proportional``. p-RoPE is not partial
    rotation: the frequencies that stay are base^(−2p/d), with the dimension d of the
    whole head, not with the number of features that are rotated.

    Parameters
    ----------
    frequencies
        RoPE's frequencies of the pairs of features, fastest first.
    share
        p, from 0 (no position) to 1 (RoPE); ⌊p·d/2⌋ pairs are rotated.

    Returns
    -------
    float64 array ``[pairs]`` that ends with zeros. Equation ``def-p-rope``.

    Raises
    ------
    TypeError, ValueError
        Frequencies that are not floating, not finite or not in a row; a ``share`` that
        is not from 0 to 1.
    """
    omega = require_frequencies(frequencies).copy()
    omega[int(require_share("share", share) * len(omega)) :] = 0
    return omega
