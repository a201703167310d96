"""NoPE: attention without positions, with an optional factor of the logits."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_finite
from posedu.numpy._arrays import Positions, require_floats
from posedu.numpy.attention import Hooks

Array = np.ndarray


def nope(*, factor: Float[Array, "heads"] | float = 1.0) -> Hooks:
    """Return the attention hooks of NoPE: attention without positions.

    arXiv 2203.16634.

    Parameters
    ----------
    factor
        Factor of the logits in addition to 1/√d: λ √d of arXiv 2404.12224. 1 is
        plain attention, larger factors make it sharper, 0 gives all keys equal weights.
        One number is the paper's uniform scale, ``[heads]`` its scale of each head.
        Default 1.

    Returns
    -------
    Hooks (functions that attention calls) with ``rotate``, which multiplies queries by
    the factor. Equation ``def-nope``.

    Raises
    ------
    TypeError, ValueError
        A factor that is not finite or neither a number nor ``[heads]``; a ``factor``
        for another number of heads than the layer's.
    """
    if isinstance(factor, Array):
        factor = require_floats("factor", factor)
        if factor.ndim != 1 or not factor.size or not np.isfinite(factor).all():
            raise ValueError(
                "factor must be one finite number or [heads] of them, got "
                f"{factor.tolist()} of shape {list(factor.shape)}"
            )
    else:
        factor = require_finite("factor", factor)

    def sharpened(
        q: Float[Array, "heads tokens d"],
        k: Float[Array, "kv_heads tokens d"],
        positions: Positions,
    ) -> tuple[Array, Array]:
        if isinstance(factor, Array) and len(factor) != len(q):
            raise ValueError(f"factor has {len(factor)} heads, q has {len(q)}")
        return np.reshape(factor, (-1, 1, 1)) * q, k

    return Hooks(rotate=sharpened)
