"""PoPE: polar coordinates, with lengths from content and angles from position."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_base
from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks
from posedu.numpy.frequencies import frequencies

Array = np.ndarray


def pope(*, delta: Float[Array, "heads d"], base: float = 10000.0) -> Hooks:
    """Return the attention hooks of polar coordinate position embedding.

    arXiv 2509.10534.

    Each feature c of a query or key gives a length, its softplus, and the position
    gives an angle: the score is Σ_c softplus(q_c) softplus(k_c) cos((i − j) ω_c − δ_c).
    In RoPE the angle also depends on the phases of the contents.

    Parameters
    ----------
    delta
        δ for each head and each feature; numbers outside [−2π, 0] count as the nearer
        end. δ rotates the query back; with one query head per key head this equals
        a rotation of the key.
    base
        Base of the frequencies ω_c = base^(−c/d), one for each feature. Default 10000
        (the paper).

    Returns
    -------
    Hooks (functions that attention calls) with a ``rotate`` that makes 2d features of
    d. Equation ``def-pope``.

    Raises
    ------
    TypeError, ValueError
        ``delta`` that holds no floats or is not one row for each head; a ``base`` that
        is not above 1.
    """
    delta = require_floats("delta", delta)
    if delta.ndim != 2:
        raise ValueError(f"delta must be [heads, d], got shape {list(delta.shape)}")
    phase = np.clip(delta, -2 * np.pi, 0)
    omega = frequencies(2 * delta.shape[-1], base=require_base(base))

    def rotate(q: Array, k: Array, positions: Array) -> tuple[Array, Array]:
        if positions.ndim != 1 or q.shape[::2] != delta.shape:
            raise ValueError(
                f"pope with delta of shape {list(delta.shape)} needs queries [heads, "
                "tokens, d] that match and one number for each position, got "
                f"{list(q.shape)} and {list(positions.shape)}"
            )
        angle = positions[:, None] * omega
        return _polar(q, angle - phase[:, None]), _polar(k, angle)

    return Hooks(rotate=rotate)


def _polar(
    x: Float[Array, "heads tokens d"], angle: Float[Array, "*heads tokens d"]
) -> Float[Array, "heads tokens 2*d"]:
    length = np.logaddexp(0.0, x)  # softplus
    return np.concatenate((length * np.cos(angle), length * np.sin(angle)), -1)
