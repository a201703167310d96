"""Layer normalization, for encodings that normalize a table of positions."""

import numpy as np
from jaxtyping import Float

from posedu.numpy._arrays import require_floats

Array = np.ndarray


def layer_norm(
    x: Float[Array, "rows d_model"],
    weight: Float[Array, "d_model"] | None,
    bias: Float[Array, "d_model"] | None,
    epsilon: float,
) -> Float[Array, "rows d_model"]:
    """Each row less its mean, over its deviation, times a weight and plus a bias.

    Without the two, the rows as they are.

    Raises
    ------
    TypeError, ValueError
        Weights that hold no floats or have another shape; one without the other.
    """
    if (weight is None) != (bias is None):
        raise ValueError("norm_weight and norm_bias go together; give both or neither")
    if weight is None or bias is None:
        return x
    weight, bias = (
        require_floats(name, t)
        for name, t in (("norm_weight", weight), ("norm_bias", bias))
    )
    if weight.shape != x.shape[1:] or bias.shape != x.shape[1:]:
        raise ValueError(
            f"norm_weight and norm_bias must be [{x.shape[1]}] like the table's rows, "
            f"got shapes {list(weight.shape)} and {list(bias.shape)}"
        )
    centered = x - x.mean(axis=1, keepdims=True)
    variance = (centered**2).mean(axis=1, keepdims=True)
    return centered / np.sqrt(variance + epsilon) * weight + bias
