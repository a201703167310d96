"""Node features as positions: a learned linear map adds them to the input vectors."""

import numpy as np
from jaxtyping import Float

from posedu.numpy._arrays import Positions, align_positions, require_floats

Array = np.ndarray


def embed_features(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    projection_weight: Float[Array, "d features"],
    projection_bias: Float[Array, "d"],
) -> Float[Array, "*batch tokens d"]:
    """Add C p + c to each input vector, where p are the features of its node.

    C and c are ``projection_weight`` and ``projection_bias``; ``positions`` holds p,
    ``[tokens, features]`` with or without a batch axis in front.

    Raises
    ------
    TypeError, ValueError
        Positions not finite or of another shape; parameters that do not fit.
    """
    x = require_floats("x", x)
    weight = require_floats("projection_weight", projection_weight)
    bias = require_floats("projection_bias", projection_bias)
    if weight.ndim != 2 or {x.shape[-1:], bias.shape} != {weight.shape[:1]}:
        shapes = [list(t.shape) for t in (x, weight, bias)]
        raise ValueError(
            "x, projection_weight and projection_bias must be [..., tokens, d], "
            f"[d, features] and [d], got shapes {shapes}"
        )
    p = align_positions(positions, x, weight.shape[1])
    return x + p @ weight.T + bias
