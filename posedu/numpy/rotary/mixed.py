"""RoPE-Mixed: RoPE for several coordinates, with a frequency vector for each pair."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import Layout, require_choice
from posedu.numpy._arrays import (
    Positions,
    align_positions,
    require_exact_angles,
    require_floats,
    require_vectors,
)
from posedu.numpy.rotary.grid import for_heads_of
from posedu.numpy.rotary.rope import pairs

Array = np.ndarray


def mixed(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    frequencies: Float[Array, "*heads pairs axes"],
    layout: Layout,
) -> Float[Array, "*batch tokens d"]:
    """Rotate pair p of features of a token at position x by the angle f_p · x.

    f_p is the frequency vector of pair p: RoPE-Mixed (arXiv 2403.13298 Eq. 14). For the
    hook ``rotate``, a function that attention calls. Equation ``def-mixed``.

    Parameters
    ----------
    x
        Queries or keys, any float dtype; computed in float64.
    positions
        Integers or finite reals, ``[tokens, axes]`` or ``[batch, tokens, axes]``. A
        token at the origin is not rotated.
    frequencies
        A vector for each pair, and for each head where ``x`` is
        ``[…, heads, tokens, d]``; if ``x`` has more heads, neighbors share them.
    layout
        See :func:`posedu.numpy.rotary.pairs`.

    Returns
    -------
    float64 array of the shape of ``x``.

    Raises
    ------
    TypeError, ValueError
        Shapes that do not match; ``x`` or ``frequencies`` not floating; unknown
        ``layout``; positions not finite; angles above 2²⁹.
    """
    x = require_vectors("x", x)
    f = require_floats("frequencies", frequencies)
    a, b = pairs(x.shape[-1], layout=require_choice("layout", layout, Layout))
    if f.ndim not in (2, 3) or f.shape[-2] != len(a):
        raise ValueError(
            f"frequencies must be [pairs, axes] or [heads, pairs, axes] with "
            f"{len(a)} pairs, got shape {list(f.shape)}"
        )
    f = for_heads_of(x, f, 2)
    angle = align_positions(positions, x, f.shape[-1]) @ f.swapaxes(-1, -2)
    require_exact_angles("angles", angle)
    y = np.empty_like(x)
    y[..., a] = x[..., a] * np.cos(angle) - x[..., b] * np.sin(angle)
    y[..., b] = x[..., a] * np.sin(angle) + x[..., b] * np.cos(angle)
    return y
