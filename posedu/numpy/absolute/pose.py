"""PoSE: two chunks of positions with a skip between them."""

import numpy as np
from jaxtyping import Float, Int

from posedu._arguments import require_count, require_dimension, require_room
from posedu.numpy._arrays import Number, Positions, require_positions
from posedu.numpy.absolute.cape import require_rng, require_rows
from posedu.numpy.absolute.randomized import require_integers

Array = np.ndarray


def pose(
    positions: Positions,
    *,
    cut: Number | Int[Array, "rows 1"],
    skip: Number | Int[Array, "rows 1"],
) -> Float[Array, "*rows tokens"]:
    """Positions with a skip: those from the cut on are shifted by ``skip``.

    arXiv 2309.10400, with the two chunks of its released code. It is for training:
    without draws the skip is 0.

    Parameters
    ----------
    positions
        ``[tokens]``, or ``[rows, tokens]``, finite.
    cut, skip
        b and u: integers, u not negative; one for all, or one of each sequence,
        ``[rows, 1]``.

    Returns
    -------
    float64 array. Equation ``def-pose``.

    Raises
    ------
    TypeError, ValueError
        Positions not finite or in half precision, a cut or skip that is no integer, a
        negative skip; shapes that do not fit.
    """
    at = require_positions(positions)
    b, u = require_integers("cut", cut), require_integers("skip", skip)
    if (u < 0).any():
        raise ValueError(f"skip must not be negative, got {u[u < 0][0]}")
    require_rows(at, {"cut": b, "skip": u}, {})
    return np.asarray(at + u * (at >= b))


def draw_pose(
    rng: np.random.Generator, rows: int, tokens: int, *, window: int
) -> dict[str, Int[Array, "rows 1"]]:
    """Draw ``cut`` and ``skip`` of each row, as the paper's released code does.

    For n tokens and a window W, b is uniform in 1 … ⌈n/2⌉ and u in 0 … W − n, so that
    no position reaches W. Equation ``def-pose``.

    Raises
    ------
    TypeError, ValueError
        A window below the number of tokens, sizes that are no counts.
    """
    require_rng(rng)
    rows, tokens = require_count("rows", rows), require_count("tokens", tokens)
    require_room(tokens, "window", require_dimension("window", window, 1))
    half = max(1, (tokens + 1) // 2)
    return {
        "cut": rng.integers(1, half + 1, (rows, 1)),
        "skip": rng.integers(0, window - tokens + 1, (rows, 1)),
    }
