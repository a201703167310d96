"""Positions of a grid's cells, and repetition of parameters that heads share."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import GridCoordinates, require_choice, require_dimension

Array = np.ndarray


def grid(*counts: int, coordinates: GridCoordinates) -> Float[Array, "tokens axes"]:
    """Positions of all cells of a grid; the first coordinate runs fastest.

    ``grid(width, height)`` are the (x, y) of an image's patches, row by row.

    Parameters
    ----------
    counts
        Cells along each axis, x first.
    coordinates
        ``"index"``: 0, 1, 2, … (RoPE-ViT, arXiv 2403.13298). ``"centers"``:
        (index + ½) / count, in (0, 1) (ComRoPE, arXiv 2506.03737). ``"ends"``:
        index / (count − 1), in [0, 1] (LieRE's code, arXiv 2406.10322).

    Raises
    ------
    TypeError, ValueError
        Counts that are not positive integers, none at all, unknown ``coordinates``.
    """
    require_choice("coordinates", coordinates, GridCoordinates)
    if not counts:
        raise ValueError("grid needs at least one count, got none")
    steps = []
    for count in counts:
        index = np.arange(require_dimension("count", count, 1), dtype=np.float64)
        if coordinates == "centers":
            index = (index + 0.5) / count
        elif coordinates == "ends":
            index = index / max(count - 1, 1)
        steps.append(index)
    last_first = np.meshgrid(*reversed(steps), indexing="ij")
    return np.stack([axis.ravel() for axis in reversed(last_first)], axis=-1)


def for_heads_of(
    x: Float[Array, "*shape"], parameters: Float[Array, "*parameters"], axes: int
) -> Float[Array, "*repeated"]:
    """Repeat the parameters of each head for all heads of ``x`` that share them.

    The last ``axes`` axes of ``parameters`` are those of one head. An axis of heads may
    come before them; without such an axis ``parameters`` are returned unchanged. ``x``
    is ``[…, heads, tokens, d]``; where it has a multiple of the parameters' heads,
    neighboring heads share parameters (grouped queries).
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
