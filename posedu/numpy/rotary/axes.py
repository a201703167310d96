"""RoPE for positions with several coordinates: axial and mixed."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    COORDINATES,
    LAYOUTS,
    ORDERS,
    require_choice,
    require_dimension,
)
from posedu.numpy._arrays import Positions, align_positions, require_floats
from posedu.numpy.absolute import frequencies
from posedu.numpy.rotary.line import pairs

Array = np.ndarray


def grid(*counts: int, coordinates: str) -> Float[Array, "tokens axes"]:
    """Positions of the cells of a grid; the first coordinate varies fastest.

    ``grid(width, height)`` are the (x, y) of an image's patches, row by row.

    Parameters
    ----------
    counts
        Cells along each axis, x first.
    coordinates
        ``"index"``: 0, 1, 2, … (RoPE-ViT, arXiv 2403.13298). ``"centres"``:
        (index + ½) / count, in (0, 1) (ComRoPE, arXiv 2506.03737). ``"ends"``:
        index / (count − 1), in [0, 1] (LieRE's code, arXiv 2406.10322).

    Raises
    ------
    TypeError, ValueError
        Counts that are not positive integers, none at all, unknown ``coordinates``.
    """
    require_choice("coordinates", coordinates, COORDINATES)
    if not counts:
        raise ValueError("grid needs at least one count, got none")
    steps = []
    for count in counts:
        index = np.arange(require_dimension("count", count, 1), dtype=np.float64)
        if coordinates == "centres":
            index = (index + 0.5) / count
        elif coordinates == "ends":
            index = index / max(count - 1, 1)
        steps.append(index)
    last_first = np.meshgrid(*reversed(steps), indexing="ij")
    return np.stack([axis.ravel() for axis in reversed(last_first)], axis=-1)


def axial_frequencies(
    d: int, *, order: str, base: float = 100.0, axes: int = 2
) -> Float[Array, "pairs axes"]:
    """The frequency vectors of axial RoPE: each pair looks at one axis.

    θ_t = base^(−2·axes·t/d) for t = 0 … d/(2·axes) − 1, once for every axis (arXiv
    2403.13298 Eq. 12–13, whose range of t has one element too many). Equation
    ``def-axial``.

    Parameters
    ----------
    d
        Head dimension, a multiple of 2·axes.
    order
        ``"concatenated"``: the pairs of the first axis, then those of the next (the
        authors' code). ``"alternating"``: pair axes·t + k looks at axis k (the paper).
    base
        Default 100 (the paper); Qwen2-VL's image encoder uses 10000.
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
    if require_choice("order", order, ORDERS) == "concatenated":
        return np.kron(np.eye(axes), theta[:, None])
    return np.kron(theta[:, None], np.eye(axes))


def mixed(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    frequencies: Float[Array, "*heads pairs axes"],
    layout: str,
) -> Float[Array, "*batch tokens d"]:
    """Turn pair p of a token at position x by the angle f_p · x: the door ``rotate``.

    RoPE-Mixed (arXiv 2403.13298 Eq. 14). Equation ``def-mixed``.

    Parameters
    ----------
    x
        Queries or keys, any float dtype; computed in float64.
    positions
        Integers or finite reals, ``[tokens, axes]`` or ``[batch, tokens, axes]``. A
        token at the origin is not turned.
    frequencies
        A vector for each pair, and for each head where ``x`` is
        ``[…, heads, tokens, d]``; of more heads, neighbours share them.
    layout
        See :func:`posedu.numpy.rotary.pairs`.

    Returns
    -------
    float64 array of the shape of ``x``.

    Raises
    ------
    TypeError, ValueError
        Shapes that do not match; ``x`` or ``frequencies`` not floating; unknown
        ``layout``; positions not finite.
    """
    x = require_floats("x", x)
    f = require_floats("frequencies", frequencies)
    a, b = pairs(x.shape[-1], layout=require_choice("layout", layout, LAYOUTS))
    if f.ndim not in (2, 3) or f.shape[-2] != len(a):
        raise ValueError(
            f"frequencies must be [pairs, axes] or [heads, pairs, axes] with "
            f"{len(a)} pairs, got shape {list(f.shape)}"
        )
    f = for_heads_of(x, f, 2)
    angle = align_positions(positions, x, f.shape[-1]) @ f.swapaxes(-1, -2)
    y = np.empty_like(x)
    y[..., a] = x[..., a] * np.cos(angle) - x[..., b] * np.sin(angle)
    y[..., b] = x[..., a] * np.sin(angle) + x[..., b] * np.cos(angle)
    return y


def axial(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    order: str,
    layout: str,
    base: float = 100.0,
    axes: int = 2,
) -> Float[Array, "*batch tokens d"]:
    """Axial RoPE (arXiv 2403.13298 Eq. 12–13): :func:`mixed` with one axis a pair.

    Arguments and errors as :func:`axial_frequencies` and :func:`mixed`. Equation
    ``def-axial``.
    """
    x = require_floats("x", x)
    f = axial_frequencies(x.shape[-1], order=order, base=base, axes=axes)
    return mixed(x, positions, frequencies=f, layout=layout)


def for_heads_of(
    x: Float[Array, "*shape"], parameters: Float[Array, "*parameters"], axes: int
) -> Float[Array, "*repeated"]:
    """Repeat the parameters of a head, their last ``axes``, for all that share them.

    Those of each head go with ``[…, heads, tokens, d]``. Where ``x`` has a multiple of
    their heads, neighbours share them (grouped queries).
    """
    own = parameters.shape[:-axes]
    if not own:
        return parameters
    if x.ndim < 3 or not own[0] or x.shape[-3] % own[0]:
        raise ValueError(
            f"x must be [..., heads, tokens, d] with a multiple of {own[0]} heads for "
            f"parameters of {own[0]} heads, got shape {list(x.shape)}"
        )
    return parameters.repeat(x.shape[-3] // own[0], axis=0)
