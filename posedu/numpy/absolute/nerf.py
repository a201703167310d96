"""NeRF's encoding: sines and cosines of each coordinate at powers of two."""

import math

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    NeRFLayout,
    NeRFUnit,
    require_bool,
    require_choice,
    require_dimension,
)
from posedu.numpy._arrays import (
    Positions,
    align_positions,
    as_array,
    require_exact_angles,
    require_floats,
    require_positions,
)

Array = np.ndarray

# Axes of the waves [axes, octaves, functions] in the order of each layout.
_ORDERS = {"axes": (-3, -2, -1), "octaves": (-2, -1, -3), "half": (-1, -2, -3)}


def nerf_features(
    positions: Positions,
    *,
    octaves: int,
    unit: NeRFUnit,
    layout: NeRFLayout,
    append_input: bool,
) -> Float[Array, "*rows features"]:
    """NeRF's code γ of each point x: sin and cos of 2^ℓ π x_a, for each coordinate x_a.

    arXiv 2003.08934 Eq. 4 has the factor π and no input; its code has no π and appends
    the input.

    Parameters
    ----------
    positions
        Points, whose coordinates are the last axis; the paper's are in [−1, 1].
    octaves
        L, the number of frequencies: ℓ = 0 … L − 1. The paper: 10 for points, 4 for
        directions.
    unit
        Unit of a frequency. ``"half turns"``: the angle is 2^ℓ π x_a (the paper).
        ``"radians"``: it is 2^ℓ x_a (the code, and mip-NeRF).
    layout
        Order of the features. ``"axes"``: coordinate by coordinate, each by octaves,
        sine and cosine in turn (the paper). ``"octaves"``: octave by octave, sines of
        all coordinates, then cosines (the code). ``"half"``: all sines, then all
        cosines, each by octaves (mip-NeRF's code).
    append_input
        True puts the coordinates themselves in front of the features (the code).

    Returns
    -------
    float64 array with a last axis of 2 · octaves · axes numbers, or axes more with the
    input. Equation ``def-nerf-features``.

    Raises
    ------
    TypeError, ValueError
        Positions not finite, in half precision or without coordinates; angles above
        2²⁹; ``octaves`` no positive integer; unknown keywords.
    """
    at = require_points(positions)
    frequencies = octave_frequencies(octaves, unit=unit)
    angle = require_exact_angles("angles", at[..., None] * frequencies)
    features = arrange(np.stack((np.sin(angle), np.cos(angle)), -1), layout)
    if require_bool("append_input", append_input):
        features = np.concatenate((at, features), -1)
    return features


def embed_nerf(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    octaves: int,
    unit: NeRFUnit,
    layout: NeRFLayout,
    append_input: bool,
) -> Float[Array, "*batch tokens d"]:
    """Add NeRF's code of its position to the first features of each input vector.

    For the hook ``embed``, a function that a model calls before its layers.
    ``positions`` is ``[tokens, axes]``, with or without a batch axis in front. The
    width d is at least that of the code; other features stay. Other arguments and
    errors as :func:`nerf_features`. Equation ``def-nerf-embed``.
    """
    x = require_floats("x", x)
    at = align_positions(positions, x, require_points(positions).shape[-1])
    code = nerf_features(
        at, octaves=octaves, unit=unit, layout=layout, append_input=append_input
    )
    return add_code(x, code)


def nerf_kernel(
    offsets: Positions, *, octaves: int, unit: NeRFUnit
) -> Float[Array, "*shape"]:
    """The inner product of two NeRF codes on one axis: k(t) = Σ_ℓ cos 2^ℓ π t.

    Parameters
    ----------
    offsets
        Offsets t of the two coordinates, any shape.
    octaves, unit
        See :func:`nerf_features`. In radians the angle is 2^ℓ t.

    Returns
    -------
    float64 array of the shape of ``offsets``. Equation ``def-nerf-kernel``.

    Raises
    ------
    TypeError, ValueError
        As :func:`nerf_features`.
    """
    t = require_positions(offsets, "offsets")
    angle = t[..., None] * octave_frequencies(octaves, unit=unit)
    return np.asarray(np.cos(require_exact_angles("angles", angle)).sum(-1))


def octave_frequencies(octaves: int, *, unit: NeRFUnit) -> Float[Array, "octaves"]:
    """Return the frequencies 2^ℓ, times π if they count half turns, ℓ = 0 … L − 1."""
    require_dimension("octaves", octaves, 1)
    half_turn = np.pi if require_choice("unit", unit, NeRFUnit) == "half turns" else 1.0
    return half_turn * 2.0 ** np.arange(octaves)


def arrange(
    waves: Float[Array, "*rows axes octaves functions"], layout: NeRFLayout
) -> Float[Array, "*rows features"]:
    """Return sines and cosines in one axis, in the order of ``layout``."""
    order = _ORDERS[require_choice("layout", layout, NeRFLayout)]
    ordered = np.moveaxis(waves, order, (-3, -2, -1))
    return ordered.reshape(*waves.shape[:-3], math.prod(waves.shape[-3:]))


def add_code(
    x: Float[Array, "*batch tokens d"], code: Float[Array, "*rows tokens width"]
) -> Float[Array, "*batch tokens d"]:
    """Add ``code`` to the first features of ``x``; raise if it has more than ``x``."""
    width = code.shape[-1]
    if x.shape[-1] < width:
        raise ValueError(
            f"x must have at least {width} features, the width of the code, got shape "
            f"{list(x.shape)}"
        )
    sums = x.copy()
    sums[..., :width] += code
    return sums


def require_points(positions: Positions) -> Float[Array, "*rows axes"]:
    """Return ``positions`` as float64 if each has coordinates, in the last axis."""
    at = require_positions(as_array("positions", positions))
    if at.ndim < 1 or at.shape[-1] < 1:
        raise ValueError(
            f"positions must be points, [..., axes], got shape {list(at.shape)}"
        )
    return at
