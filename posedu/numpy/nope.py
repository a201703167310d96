"""No position at all: attention as it is, sharpened by a factor of each head."""

import numpy as np
from jaxtyping import Float

from posedu.numpy._arrays import Number, Positions, require_positions
from posedu.numpy.attention import Doors

Array = np.ndarray


def nope(*, factor: Float[Array, "heads"] | Number = 1.0) -> Doors:
    """Attention without positions (NoPE, arXiv 2203.16634) as doors.

    Parameters
    ----------
    factor
        What logits are multiplied by besides 1/√d: λ √d of arXiv 2404.12224. 1 is
        plain attention, more is sharper, 0 looks at all keys alike. One number is the
        paper's uniform scale, ``[heads]`` its scale of each head. Default 1.

    Returns
    -------
    Equation ``def-nope``.

    Raises
    ------
    TypeError, ValueError
        A factor that is not finite or neither a number nor ``[heads]``; another number
        of heads.
    """
    factor = require_positions(factor, "factor")
    if factor.ndim > 1 or not factor.size:
        raise ValueError(
            f"factor must be one number or [heads], got shape {list(factor.shape)}"
        )

    def sharpened(
        q: Float[Array, "heads tokens d"],
        k: Float[Array, "kv_heads tokens d"],
        positions: Positions,
    ) -> tuple[Array, Array]:
        if factor.ndim and len(factor) != len(q):
            raise ValueError(f"factor has {len(factor)} heads, q has {len(q)}")
        return factor.reshape(-1, 1, 1) * q, k

    return Doors(rotate=sharpened)
