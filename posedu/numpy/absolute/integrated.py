"""The integrated positional encoding of mip-NeRF: means of waves over a Gaussian."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import NeRFLayout, NeRFUnit, require_positive
from posedu.numpy._arrays import (
    Positions,
    align_positions,
    require_exact_angles,
    require_floats,
    require_positions,
)
from posedu.numpy.absolute.nerf import (
    add_code,
    arrange,
    octave_frequencies,
    require_points,
)

Array = np.ndarray


def integrated_features(
    positions: Positions, *, octaves: int, unit: NeRFUnit, layout: NeRFLayout
) -> Float[Array, "*rows features"]:
    """The mean of NeRF's code over x ~ N(μ, diag σ²): damped waves of μ.

    arXiv 2103.13415 §3.1. The factor is e^(−θ²σ²/2) for the frequency θ of an octave,
    2^ℓ or 2^ℓ π.

    Parameters
    ----------
    positions
        Means, then standard deviations: the last axis has the N coordinates of μ and
        the N numbers of σ, of which only the squares are used.
    octaves, unit, layout
        See :func:`nerf_features`. The paper's code: 16 octaves for points,
        ``"radians"``, ``"half"``.

    Returns
    -------
    float64 array with a last axis of 2 · octaves · N numbers. Equation
    ``def-integrated``.

    Raises
    ------
    TypeError, ValueError
        An odd number of coordinates; otherwise as :func:`nerf_features`.
    """
    mean, deviation = _means_and_deviations(positions)
    frequencies = octave_frequencies(octaves, unit=unit)
    angle = require_exact_angles("angles", mean[..., None] * frequencies)
    damping = np.exp(-((deviation[..., None] * frequencies) ** 2) / 2)
    waves = damping[..., None] * np.stack((np.sin(angle), np.cos(angle)), -1)
    return arrange(waves, layout)


def embed_integrated(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    octaves: int,
    unit: NeRFUnit,
    layout: NeRFLayout,
) -> Float[Array, "*batch tokens d"]:
    """Add the mean code of its uncertain position to each vector's first features.

    For the hook ``embed``, a function that a model calls before its layers.
    ``positions`` is ``[tokens, 2 · axes]``, means and then standard deviations, with or
    without a batch axis in front. The width d is at least that of the code; other
    features stay. Other arguments and errors as :func:`integrated_features`. Equation
    ``def-integrated``.
    """
    x = require_floats("x", x)
    at = align_positions(positions, x, require_points(positions).shape[-1])
    return add_code(
        x, integrated_features(at, octaves=octaves, unit=unit, layout=layout)
    )


def cone_moments(
    near: Positions, far: Positions, *, radius: float
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Mean and variances of a point drawn evenly from a piece of a cone.

    arXiv 2103.13415 §3.1, in the stable form. The cone has its tip at 0, and its cross
    section at the distance t is a disk of the radius ``radius`` · t. The piece is
    between two distances.

    Parameters
    ----------
    near, far
        The two distances, 0 ≤ near < far, of shapes that broadcast.
    radius
        Radius of the cone at the distance 1, above 0; for a camera the width of a pixel
        times 2/√12.

    Returns
    -------
    The mean of the distance, its variance, and the variance of a coordinate across the
    axis, as float64 arrays. Equations ``def-integrated-cone`` and
    ``eq-integrated-cone``.

    Raises
    ------
    TypeError, ValueError
        Distances not finite, negative or not increasing; ``radius`` not above 0.
    """
    first, last = require_positions(near, "near"), require_positions(far, "far")
    if not ((first >= 0) & (first < last)).all():
        raise ValueError(
            f"near must be at least 0 and below far, got near = {near}, far = {far}"
        )
    require_positive("radius", radius)
    mid, half = (first + last) / 2, (last - first) / 2
    size = 3 * mid**2 + half**2
    mean = mid + 2 * mid * half**2 / size
    along = half**2 / 3 - 4 / 15 * half**4 * (12 * mid**2 - half**2) / size**2
    across = radius**2 * (mid**2 / 4 + 5 / 12 * half**2 - 4 / 15 * half**4 / size)
    return np.asarray(mean), np.asarray(along), np.asarray(across)


def _means_and_deviations(positions: Positions) -> tuple[Array, Array]:
    at = require_points(positions)
    if at.shape[-1] % 2:
        raise ValueError(
            "positions must have as many means as standard deviations, [..., 2 axes], "
            f"got shape {list(at.shape)}"
        )
    mean, deviation = np.split(at, 2, -1)
    return mean, deviation
