"""Rotated values: RoPE rotates values, too, and its inverse the attention output."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    Layout,
    RotatedEnd,
    require_base,
    require_choice,
    require_dimension,
    require_rotary_dim,
)
from posedu.numpy._arrays import require_numbers
from posedu.numpy.attention import Hooks
from posedu.numpy.rotary.rope import rope

Array = np.ndarray


def value_rotation(
    *,
    layout: Layout,
    rotated: RotatedEnd,
    rotary_dim: int | None = None,
    base: float = 10000.0,
) -> Hooks:
    """Return the attention hooks of rotated values.

    RoPE rotates queries, keys and values, and RoPE's inverse rotates the attention
    output.

    o_i = R_iᵀ Σ_j a_ij R_j v_j = Σ_j a_ij R_{j−i} v_j, with RoPE's weights a_ij
    (DeepSeek-V4, whose keys are its values, as transformers 5.23.0 has it).

    Parameters
    ----------
    layout, base
        As :func:`posedu.numpy.rotary.rope`; DeepSeek-V4 is interleaved.
    rotated
        The rotated features if ``rotary_dim`` is less than d: the ``"leading"`` ones,
        as in :func:`posedu.numpy.rotary.rope`, or the ``"trailing"`` ones
        (DeepSeek-V4).
    rotary_dim
        Number of rotated features; ``None``: all. DeepSeek-V4 rotates 64 of 512.
        Frequencies are base^(−2p/rotary_dim).

    Returns
    -------
    Hooks (functions that attention calls) with ``rotate``, ``values`` and ``output``.
    Equation ``def-rotated-values``.

    Raises
    ------
    TypeError, ValueError
        As :func:`posedu.numpy.rotary.rope`; unknown ``rotated``.
    """
    require_choice("rotated", rotated, RotatedEnd)
    require_choice("layout", layout, Layout)
    require_base(base)
    if rotary_dim is not None:
        require_dimension("rotary_dim", rotary_dim)

    def rotate(x: Array, positions: Array) -> Float[Array, "heads tokens d"]:
        at = require_numbers(positions)
        r = require_rotary_dim(rotary_dim, x.shape[-1])
        start = 0 if rotated == "leading" else x.shape[-1] - r
        y = x.copy()
        y[..., start : start + r] = rope(
            x[..., start : start + r], at, layout=layout, base=base
        )
        return y

    return Hooks(
        rotate=lambda q, k, positions: (rotate(q, positions), rotate(k, positions)),
        values=rotate,
        output=lambda out, positions: rotate(out, -positions),
    )
