"""Sinusoidal encodings: sines and cosines of each position, added to the input."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import Layout, Spacing, require_choice
from posedu.numpy._arrays import (
    Number,
    Positions,
    align_positions,
    require_floats,
    require_position,
    require_positions,
)
from posedu.numpy.frequencies import frequencies

Array = np.ndarray


def sinusoidal(
    positions: Positions,
    d: int,
    *,
    layout: Layout,
    base: float = 10000.0,
    spacing: Spacing = "paper",
) -> Float[Array, "*tokens d"]:
    """The sinusoidal encoding PE of each position (arXiv 1706.03762 §3.5).

    Parameters
    ----------
    positions
        Integers or finite reals, any shape, any offset.
    d
        Number of features, even.
    layout
        ``"interleaved"``: features 2p and 2p + 1 are sin and cos of pair p, as
        printed. ``"half"``: all sines, then all cosines, as tensor2tensor.
    base, spacing
        See :func:`frequencies`.

    Returns
    -------
    float64 array with one more axis of size ``d``. Equation ``def-sinusoidal``.

    Raises
    ------
    TypeError, ValueError
        As :func:`frequencies`; positions not finite or in half precision; unknown
        ``layout``.
    """
    omega = frequencies(d, base=base, spacing=spacing)
    angle = require_positions(positions)[..., None] * omega
    pe = np.empty((*angle.shape[:-1], d))
    if require_choice("layout", layout, Layout) == "interleaved":
        pe[..., 0::2] = np.sin(angle)
        pe[..., 1::2] = np.cos(angle)
    else:
        pe[..., : d // 2] = np.sin(angle)
        pe[..., d // 2 :] = np.cos(angle)
    return pe


def embed_sinusoidal(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    layout: Layout,
    base: float = 10000.0,
    spacing: Spacing = "paper",
) -> Float[Array, "*batch tokens d"]:
    """Add to each input vector the sinusoidal encoding of its position.

    For the hook ``embed``, a function that a model calls before its layers.
    ``positions`` is ``[tokens]``, or ``[batch, tokens]`` where each sequence has its
    own positions. Other arguments and errors as :func:`sinusoidal`. Equation
    ``def-sinusoidal``.
    """
    x = require_floats("x", x)
    positions = align_positions(positions, x)
    d = x.shape[-1]
    return x + sinusoidal(positions, d, layout=layout, base=base, spacing=spacing)


def offset_matrix(
    offset: Number,
    d: int,
    *,
    layout: Layout,
    base: float = 10000.0,
    spacing: Spacing = "paper",
) -> Float[Array, "d d"]:
    """The matrix M_t that shifts sinusoidal encodings PE by an offset t.

    PE(i + t) = M_t PE(i) for every position i: M_t rotates each (sin, cos) pair by the
    angle −ω_p t. Equation ``eq-sin-offset``. ``offset`` is t, other arguments and
    errors are as :func:`sinusoidal`.
    """
    omega = frequencies(d, base=base, spacing=spacing)
    angle = require_position("offset", offset) * omega
    cos, sin = np.diag(np.cos(angle)), np.diag(np.sin(angle))
    m = np.block([[cos, sin], [-sin, cos]])
    if require_choice("layout", layout, Layout) == "half":
        return m
    order = np.arange(d).reshape(2, d // 2).T.ravel()
    return m[np.ix_(order, order)]
