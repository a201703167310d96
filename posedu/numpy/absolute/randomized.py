"""Randomized positions: a sorted random sample of a range longer than the sequence."""

import numpy as np
from jaxtyping import Int

from posedu._arguments import require_count, require_dimension, require_room
from posedu.numpy._arrays import Positions, as_array
from posedu.numpy.absolute.cape import require_rng

Array = np.ndarray


def randomized(
    positions: Positions, *, sample: Int[Array, "*rows n"]
) -> Int[Array, "*rows tokens"]:
    """Replace position i by the i-th smallest number of ``sample``, counted from 0.

    arXiv 2305.16843. The paper draws in training and at test alike, as many numbers
    as there are tokens.

    Parameters
    ----------
    positions
        Integers from 0 to n − 1: ``[tokens]``, or ``[rows, tokens]``.
    sample
        Different integers, ``[n]`` or ``[rows, n]``, in any order.

    Returns
    -------
    int64 array. Equation ``def-randomized``.

    Raises
    ------
    TypeError, ValueError
        Numbers that are no integers; a number that occurs twice in the sample of one
        sequence; positions beyond the sample; shapes that do not fit.
    """
    at, places = (
        require_integers("positions", positions),
        require_integers("sample", sample),
    )
    if at.ndim not in (1, 2) or places.ndim not in (1, 2):
        raise ValueError(
            "positions and sample must be [tokens] or [rows, tokens], got shapes "
            f"{list(at.shape)} and {list(places.shape)}"
        )
    places = np.sort(places)
    if (np.diff(places) == 0).any():
        raise ValueError("sample must not hold a number twice")
    n = places.shape[-1]
    outside = at[(at < 0) | (at >= n)]
    if outside.size:
        raise ValueError(
            f"positions must be at least 0 and below {n}, the size of the sample, got "
            f"{outside[0]}; draw once for all tokens of a sequence"
        )
    if places.ndim == 1:
        return places[at]
    if at.ndim == 2 and 1 != len(at) != len(places) != 1:
        raise ValueError(
            f"positions and sample differ in rows: {len(at)} and {len(places)}"
        )
    rows = len(places) if at.ndim == 1 or len(places) != 1 else len(at)
    at, places = (np.broadcast_to(t, (rows, t.shape[-1])) for t in (at, places))
    return np.take_along_axis(places, at, -1)


def draw_randomized(
    rng: np.random.Generator, rows: int, tokens: int, *, limit: int
) -> dict[str, Int[Array, "rows tokens"]]:
    """Draw ``tokens`` different integers below ``limit`` for each of several sequences.

    There are ``rows`` sequences. The integers are at least 0, and all sets of them are
    equally probable. Returned is a dictionary with the argument ``sample`` of
    :func:`randomized`. Equation ``def-randomized``. ``rng`` is the source of
    randomness.

    Raises
    ------
    TypeError, ValueError
        A limit below the number of tokens, ``rows`` or ``tokens`` that are no counts.
    """
    require_rng(rng)
    rows, tokens = require_count("rows", rows), require_count("tokens", tokens)
    require_room(tokens, "limit", require_dimension("limit", limit, 1))
    samples = [rng.choice(limit, tokens, replace=False) for _ in range(rows)]
    return {"sample": np.array(samples, dtype=np.int64).reshape(rows, tokens)}


def require_integers(name: str, given: object) -> Int[Array, "..."]:
    """Return ``given`` as int64 if it holds integers below 2⁵³ in size, else raise.

    ``name`` is the argument's name in error messages.
    """
    array = as_array(name, given)
    if array.size == 0 and not isinstance(given, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got dtype {array.dtype}")
    if not ((array > -(2**53)) & (array < 2**53)).all():
        raise ValueError(f"{name} must be below {2**53} in size")
    return array.astype(np.int64)
