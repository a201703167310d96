"""PoSE: training positions in two chunks, with positions skipped between them."""

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
    """Positions with a skip: positions from ``cut`` on are shifted by ``skip``.

    arXiv 2309.10400, with the two chunks of its released code. The skip is for
    training; in evaluation ``skip`` is 0.

    Parameters
    ----------
    positions
        ``[tokens]``, or ``[rows, tokens]``, finite.
    cut, skip
        The integers b and u, u not negative: one for all sequences, or one for each
        sequence, ``[rows, 1]``.

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
    """Draw random ``cut`` and ``skip`` of :func:`pose` for each sequence of a batch.

    As in the released code of arXiv 2309.10400: for n tokens and a window W, the cut b
    is uniform in 1 … ⌈n/2⌉ and the skip u in 0 … W − n, so that no position reaches W.
    Returned is a dictionary of ``cut`` and ``skip``, integers ``[rows, 1]``. Equation
    ``def-pose``. ``rng`` is the source of randomness.

    Raises
    ------
    TypeError, ValueError
        A window below the number of tokens, ``rows`` or ``tokens`` that are no counts.
    """
    require_rng(rng)
    rows, tokens = require_count("rows", rows), require_count("tokens", tokens)
    require_room(tokens, "window", require_dimension("window", window, 1))
    half = max(1, (tokens + 1) // 2)
    return {
        "cut": rng.integers(1, half + 1, (rows, 1)),
        "skip": rng.integers(0, window - tokens + 1, (rows, 1)),
    }
