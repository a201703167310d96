"""Golden gate RoPE: frequency vectors whose directions follow the golden ratio."""

from statistics import NormalDist

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    GoldenRecipe,
    Layout,
    require_dimension,
    require_order,
    require_recipe,
)
from posedu.numpy._arrays import Positions, require_vectors
from posedu.numpy.rotary.mixed import mixed

Array = np.ndarray


def golden_directions(
    count: int, *, recipe: GoldenRecipe, axes: int = 2
) -> Float[Array, "count axes"]:
    """Unit vectors i = 1 … ``count`` that are spread over all directions.

    Parameters
    ----------
    count
        Number of directions. More of them leave the first ones as they are.
    recipe
        ``"angles"``: the angle πi/φ with the golden ratio φ, in the plane alone.
        ``"quantiles"``: the normal quantiles of the points i g^(−a) mod 1, a = 1 …
        ``axes``, divided by their length; g is the root of x^(axes + 1) = x + 1 above
        1.
    axes
        Number of coordinates. Default 2.

    Returns
    -------
    float64 array ``[count, axes]``. Equations ``def-golden-angle`` and
    ``def-golden-quantiles``.

    Raises
    ------
    TypeError, ValueError
        ``count`` or ``axes`` not positive integers; an unknown ``recipe``; angles for
        another number of axes than 2.
    """
    axes = require_dimension("axes", axes, 1)
    i = np.arange(1, require_dimension("count", count, 1) + 1)
    if require_recipe(recipe, axes) == "angles":
        angle = np.pi * (i / ((1 + np.sqrt(5)) / 2) % 1)
        return np.stack((np.cos(angle), np.sin(angle)), -1)
    g = golden_root(axes)
    # Powers of floats: those of NumPy's arrays are rounded otherwise on some CPUs.
    points = np.outer(i, [g**-a for a in range(1, axes + 1)]) % 1
    quantiles = np.vectorize(NormalDist().inv_cdf)(points)
    return quantiles / np.linalg.norm(quantiles, axis=1, keepdims=True)


def golden_root(axes: int) -> float:
    """Root g above 1 of g^(axes + 1) = g + 1, by Newton's method from above.

    For one axis it is the golden ratio. As g is below 2, it is below 3^(1/(axes + 1)).
    """
    g = 3.0 ** (1 / (axes + 1))
    while (step := (g ** (axes + 1) - g - 1) / ((axes + 1) * g**axes - 1)) > 1e-16:
        g -= step
    return g


def golden_gate_frequencies(
    d: int,
    *,
    recipe: GoldenRecipe,
    slowest: float,
    fastest: float,
    axes: int = 2,
    heads: int | None = None,
) -> Float[Array, "*heads pairs axes"]:
    """The frequency vector of each pair of features in golden gate RoPE.

    Pair p has the length slowest^(1 − t) fastest^t with t = p / (d/2 − 1), and head h
    the directions i = h·d/2 + p + 1. Equation ``def-golden-gate``.

    Parameters
    ----------
    d
        Head dimension, even.
    recipe, axes
        See :func:`golden_directions`.
    slowest, fastest
        Length of the first and of the last vector, in radians for each unit of the
        coordinates. A single pair has the slowest.
    heads
        Number of heads with directions of their own. Default: all heads share one set.

    Raises
    ------
    TypeError, ValueError
        As :func:`golden_directions`; an odd ``d``; not 0 < ``slowest`` ≤ ``fastest``;
        ``heads`` not a positive integer.
    """
    pairs = require_dimension("d", d) // 2
    own = () if heads is None else (require_dimension("heads", heads, 1),)
    require_order("slowest", slowest, "fastest", fastest)
    t = np.arange(pairs) / max(pairs - 1, 1)
    length = float(slowest) ** (1 - t) * float(fastest) ** t
    u = golden_directions(pairs * (heads or 1), recipe=recipe, axes=axes)
    return length[:, None] * u.reshape(*own, pairs, axes)


def golden_gate(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    recipe: GoldenRecipe,
    slowest: float,
    fastest: float,
    layout: Layout,
    axes: int = 2,
    heads: int | None = None,
) -> Float[Array, "*batch tokens d"]:
    """Rotate pair p of features of a token at x by f_p · x, f_p in golden directions.

    J. Xiong, "On N-dimensional Rotary Positional Embeddings" (2025):
    :func:`posedu.numpy.rotary.mixed` with :func:`golden_gate_frequencies`. For
    arguments and errors see these two functions. Equation ``def-golden-gate``.
    """
    d = require_vectors("x", x).shape[-1]
    f = golden_gate_frequencies(
        d, recipe=recipe, slowest=slowest, fastest=fastest, axes=axes, heads=heads
    )
    return mixed(x, positions, frequencies=f, layout=layout)
