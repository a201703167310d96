"""LieRE: rotations by matrix exponentials of skew generators with free entries."""

import numpy as np
from jaxtyping import Float

from posedu.numpy._arrays import Positions
from posedu.numpy.rotary.generators import (
    require_block_size,
    rotate_by_generators,
    skew,
)

Array = np.ndarray


def liere(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    entries: Float[Array, "*heads axes blocks entries"],
    block: int,
) -> Float[Array, "*batch tokens d"]:
    """Rotate queries or keys by LieRE, whose skew generators have free entries.

    arXiv 2406.10322 §3. For the hook ``rotate``, a function that attention calls.

    Parameters
    ----------
    x, positions
        As :func:`rotate_by_generators`.
    entries
        The b(b − 1)/2 free numbers of each generator; see :func:`skew`.
    block
        Block size b; d for the dense form.

    Returns
    -------
    float64 array of the shape of ``x``. Equation ``def-liere``.

    Raises
    ------
    TypeError, ValueError
        As :func:`rotate_by_generators` and :func:`skew`; blocks of another size than
        ``block``.
    """
    generators = skew(entries)
    require_block_size(block, generators)
    return rotate_by_generators(x, positions, generators)
