"""xPos: RoPE with an exponential decay of each pair."""

import math

import numpy as np
from jaxtyping import Float

from posedu._arguments import Layout, require_base, require_choice, require_decay
from posedu.numpy._arrays import require_numbers
from posedu.numpy.attention import Hooks
from posedu.numpy.rotary.rope import pairs, rope

Array = np.ndarray


def xpos_scales(d: int, *, gamma: float = 0.4) -> Float[Array, "pairs"]:
    """The decay ζ_p < 1 of each pair p in xPos, by which scores fall every B positions.

    ζ_p = (2p/d + γ)/(1 + γ), arXiv 2212.10554; B is ``scale_base`` of :func:`xpos`.
    Equation ``def-xpos-scale``.

    Raises
    ------
    TypeError, ValueError
        ``d`` odd or not positive, ``gamma`` not finite or not above 0.
    """
    require_decay(gamma, 1.0, 0.0)
    first, _ = pairs(d, layout="interleaved")
    return (first / d + gamma) / (1 + gamma)


def xpos(
    *,
    layout: Layout,
    center: float,
    base: float = 10000.0,
    gamma: float = 0.4,
    scale_base: float = 512.0,
) -> Hooks:
    """Return the attention hooks of xPos: RoPE with an exponential decay in each pair.

    arXiv 2212.10554.

    Parameters
    ----------
    layout, base
        As :func:`posedu.numpy.rotary.rope`; the authors' code is interleaved.
    center
        The position at which nothing shrinks or grows. Scores do not depend on it,
        queries and keys do: 0 in the paper; for T tokens ⌈T/2⌉ in torchscale, ⌊T/2⌋ in
        rotary-embedding-torch. Keys of one cache need one center.
    gamma, scale_base
        γ of :func:`xpos_scales`, and B, the number of positions in which a pair decays
        by ζ_p. Defaults 0.4 and 512.

    Returns
    -------
    Hooks (functions that attention calls) with ``rotate``. Equation ``def-xpos``.

    Raises
    ------
    TypeError, ValueError
        As :func:`posedu.numpy.rotary.rope`; ``gamma`` or ``scale_base`` not above 0, a
        ``center`` that is not finite; positions so far from it that a power is no
        float64 or has lost digits.
    """
    require_choice("layout", layout, Layout)
    require_base(base)
    require_decay(gamma, scale_base, center)

    def rotate(q: Array, k: Array, positions: Array) -> tuple[Array, Array]:
        at = require_numbers(positions)
        scales = xpos_scales(q.shape[-1], gamma=gamma)
        exponents = (at - center) / scale_base
        farthest = -math.log(np.finfo(np.float64).tiny) / math.log1p(1 / gamma)
        if (np.abs(exponents) > farthest).any():
            raise ValueError(
                f"positions must be within {farthest * scale_base:.0f} of the center "
                f"{center:g}, where powers are float64, got "
                f"{at[np.abs(exponents) > farthest][0]:g}"
            )
        power = np.empty((len(at), q.shape[-1]))
        for members in pairs(q.shape[-1], layout=layout):
            power[:, members] = scales ** exponents[:, None]
        rotated = (rope(x, at, layout=layout, base=base) for x in (q, k))
        return next(rotated) * power, next(rotated) / power

    return Hooks(rotate=rotate)
