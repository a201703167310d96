"""Re-rotation: cached keys, already rotated by RoPE, moved to other positions."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from posedu._arguments import Layout
from posedu.numpy._arrays import Positions
from posedu.numpy.rotary.rope import rope

Array = np.ndarray


def rerotation(
    keys: Float[Array, "*batch tokens d"],
    shifts: Positions,
    *,
    layout: Layout,
    base: float = 10000.0,
    rotary_dim: int | None = None,
    frequencies: Float[Array, "pairs"] | Sequence[float] | None = None,
) -> Float[Array, "*batch tokens d"]:
    """Move keys that RoPE has rotated to other positions, by one more rotation R_Δ.

    Each key k with the shift Δ (new position minus old position) becomes R_Δ k, where
    R_Δ is RoPE's rotation for position Δ. Equation ``def-cache-rerotation``. An
    attention factor is in the keys already and is not applied again.

    Parameters
    ----------
    keys
        Keys rotated by RoPE, any float dtype; computed in float64.
    shifts
        Shift of each key, ``[tokens]`` or ``[batch, tokens]``: the new position minus
        the old one. Integers or finite reals.
    layout, base, rotary_dim, frequencies
        RoPE's arguments with which the keys were rotated; see
        :func:`posedu.numpy.rotary.rope`.

    Returns
    -------
    float64 array of the shape of ``keys``.

    Raises
    ------
    TypeError, ValueError
        As :func:`posedu.numpy.rotary.rope`.
    """
    return rope(
        keys,
        shifts,
        layout=layout,
        base=base,
        rotary_dim=rotary_dim,
        frequencies=frequencies,
    )
