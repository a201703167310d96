"""Axial RoPE: each pair of features is rotated by one coordinate of the position."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import AxisOrder, Layout, require_choice, require_dimension
from posedu.numpy._arrays import Positions, require_vectors
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary.mixed import mixed

Array = np.ndarray


def axial_frequencies(
    d: int, *, order: AxisOrder, base: float = 100.0, axes: int = 2
) -> Float[Array, "pairs axes"]:
    """The frequency vectors of axial RoPE: each pair belongs to one axis.

    θ_t = base^(−2·axes·t/d) for t = 0 … d/(2·axes) − 1, once for every axis (arXiv
    2403.13298 Eq. 12–13, whose range of t has one element too many). Equation
    ``def-axial``.

    Parameters
    ----------
    d
        Head dimension, a multiple of 2·axes.
    order
        ``"concatenated"``: the pairs of the first axis, then those of the next (the
        authors' code). ``"alternating"``: pair axes·t + k has axis k (the paper).
    base
        Base of the frequencies. Default 100 (the paper); Qwen2-VL's image encoder uses
        10000.
    axes
        Number of coordinates. Default 2.

    Raises
    ------
    TypeError, ValueError
        ``d`` not a multiple of 2·axes, unknown ``order``, ``base`` not above 1.
    """
    axes = require_dimension("axes", axes, 1)
    d = require_dimension("d", d, 2 * axes)
    theta = frequencies(d // axes, base=base)
    if require_choice("order", order, AxisOrder) == "concatenated":
        return np.kron(np.eye(axes), theta[:, None])
    return np.kron(theta[:, None], np.eye(axes))


def axial(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    order: AxisOrder,
    layout: Layout,
    base: float = 100.0,
    axes: int = 2,
) -> Float[Array, "*batch tokens d"]:
    """Rotate each pair of queries' or keys' features by its coordinate, as axial RoPE.

    arXiv 2403.13298 Eq. 12–13: :func:`mixed` with :func:`axial_frequencies`, so that
    each pair depends on one axis. For arguments and errors see these two
    functions. Equation ``def-axial``.
    """
    x = require_vectors("x", x)
    f = axial_frequencies(x.shape[-1], order=order, base=base, axes=axes)
    return mixed(x, positions, frequencies=f, layout=layout)
