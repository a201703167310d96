"""Rotation of queries and keys by an angle for each token, head and pair."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import Layout
from posedu.numpy.attention import Tokens
from posedu.numpy.rotary.rope import pairs

Array = np.ndarray


def rotated(
    x: Float[Array, "heads tokens d"],
    angles: Float[Array, "#heads tokens #pairs"],
    *,
    layout: Layout,
) -> Float[Array, "heads tokens d"]:
    """Vectors whose pairs of features are rotated counter-clockwise by ``angles``.

    ``layout`` says which features form a pair; see :func:`posedu.numpy.rotary.pairs`.
    """
    a, b = pairs(x.shape[-1], layout=layout)
    y = x.copy()
    y[..., a] = x[..., a] * np.cos(angles) - x[..., b] * np.sin(angles)
    y[..., b] = x[..., a] * np.sin(angles) + x[..., b] * np.cos(angles)
    return y


def rotate_along(
    tokens: Tokens, steps: Float[Array, "tokens heads pairs"], *, layout: Layout
) -> tuple[Float[Array, "heads tokens d"], Float[Array, "heads tokens d"]]:
    """Queries and keys, each rotated by the sum of the steps up to its own token.

    ``steps`` are the angles, in radians, that each token adds. Equation
    ``thm-path-telescope``.
    """
    angles = np.moveaxis(np.cumsum(steps, axis=0), 0, 1)
    return (
        rotated(tokens.q, angles, layout=layout),
        rotated(tokens.k, angles, layout=layout),
    )
