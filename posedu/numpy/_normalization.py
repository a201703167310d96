"""Layer normalization, for encodings that normalize a table of position vectors."""

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
    """Layer norm of each row v: (v − mean) / √(variance + epsilon) · weight + bias.

    The rows are those of ``x``; mean and variance are over the features of a row.

    If ``weight`` and ``bias`` are both ``None``, ``x`` is returned unchanged.

    Raises
    ------
    TypeError, ValueError
        A ``weight`` or ``bias`` that holds no floats or is not ``[d_model]``; one of
        the two without the other.
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
