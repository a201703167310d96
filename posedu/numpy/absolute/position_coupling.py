"""Position coupling: digits of equal significance share a position."""

import numpy as np
from jaxtyping import Float, Int

from posedu._arguments import require_count, require_dimension, require_room
from posedu.numpy._arrays import Number, Positions, require_positions
from posedu.numpy.absolute.abacus import digit_indices
from posedu.numpy.absolute.cape import require_rng, require_rows
from posedu.numpy.absolute.randomized import require_integers

Array = np.ndarray


def coupled_indices(roles: Int[Array, "*rows tokens"]) -> Int[Array, "*rows tokens"]:
    """Coupled index of each token of an addition, from its role in the text.

    arXiv 2405.20671, in the order of its released code. A digit of significance j (0
    for units) has n − j, where n is the length of the longest summand; an operator has
    n + 1, a token outside the equation −1. The number after the last operator is the
    sum; all others are summands.

    Parameters
    ----------
    roles
        For each token: 1 a digit of a number that is written most digit first; 2 a
        digit of a number written least digit first; 0 an operator, + or =; −1 a token
        outside the equation (start, end, padding).

    Returns
    -------
    int64 array. Equation ``def-coupling-index``.

    Raises
    ------
    TypeError, ValueError
        Roles that are not −1, 0, 1 or 2, a single role; a sum of more than n + 1
        digits.
    """
    roles = require_integers("roles", roles)
    if roles.ndim == 0:
        raise ValueError("roles must be [..., tokens], got shape []")
    if (unknown := roles[(roles < -1) | (roles > 2)]).size:
        raise ValueError(f"roles must be -1, 0, 1 or 2, got {unknown[0]}")
    from_left = digit_indices(roles == 2) - 1
    from_right = digit_indices(roles[..., ::-1] == 1)[..., ::-1] - 1
    significance = np.where(roles == 1, from_right, from_left)
    at = np.arange(roles.shape[-1])
    last = np.where(roles == 0, at, -1).max(-1, keepdims=True, initial=-1)
    summands = np.where(at < last, significance, -1)
    n = 1 + summands.max(-1, keepdims=True, initial=-1)
    if (over := significance > n).any():
        raise ValueError(
            "a sum has at most one digit more than its longest summand, got digit "
            f"{1 + significance[over][0]} at a longest summand of "
            f"{np.broadcast_to(n, over.shape)[over][0]} digits"
        )
    others = np.where(roles == 0, n + 1, -1)
    return np.where(roles > 0, n - significance, others)


def position_coupling(
    positions: Positions, *, start: Number | Int[Array, "rows 1"]
) -> Float[Array, "*rows tokens"]:
    """Add a start to coupled positions; tokens outside the equation get 0.

    arXiv 2405.20671. The start is random in training; in evaluation it is 1. A second
    encoding, in the paper a learned table, encodes the result.

    Parameters
    ----------
    positions
        Coupled index of each token, :func:`coupled_indices`; those below 0 are outside
        the equation. ``[tokens]``, or ``[rows, tokens]``, finite.
    start
        The integer s, at least 1: one for all sequences, or one for each, ``[rows,
        1]``.

    Returns
    -------
    float64 array. Equation ``def-coupling``.

    Raises
    ------
    TypeError, ValueError
        Positions not finite or in half precision, a start that is no integer or below
        1; shapes that do not fit.
    """
    index, s = require_positions(positions), require_integers("start", start)
    if (s < 1).any():
        raise ValueError(f"start must be at least 1, got {s[s < 1][0]}")
    require_rows(index, {"start": s}, {})
    return np.asarray(np.where(index >= 0, index + s, 0.0))


def draw_position_coupling(
    rng: np.random.Generator,
    rows: int,
    tokens: int,
    *,
    max_position: int,
    largest: int | None = None,
) -> dict[str, Int[Array, "rows 1"]]:
    """Draw a random ``start`` of :func:`position_coupling` for each of ``rows`` texts.

    It is uniform in 1 … ``max_position`` − ``largest``, so that no position is above
    ``max_position``; ``largest`` is the largest coupled index of a text. By default it
    is ``tokens`` − 1, which no sum of two or more numbers exceeds. Returned is a
    dictionary of ``start``, integers ``[rows, 1]``. Equation ``def-coupling``. ``rng``
    is the source of randomness.

    Raises
    ------
    TypeError, ValueError
        ``max_position`` not above ``largest``; ``rows``, ``tokens`` or ``largest`` that
        are no counts.
    """
    require_rng(rng)
    rows, tokens = require_count("rows", rows), require_count("tokens", tokens)
    most = max(tokens - 1, 0) if largest is None else require_count("largest", largest)
    limit = require_dimension("max_position", max_position, 1)
    require_room(most + 1, "max_position", limit)
    return {"start": rng.integers(1, limit - most + 1, (rows, 1))}
