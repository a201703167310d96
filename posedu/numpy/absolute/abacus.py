"""Abacus: each digit's position is its index inside its number, plus a random shift."""

import numpy as np
from jaxtyping import Bool, Float, Int

from posedu._arguments import require_count
from posedu.numpy._arrays import Number, Positions, as_array, require_positions
from posedu.numpy.absolute.cape import require_rng, require_rows
from posedu.numpy.absolute.randomized import require_integers

Array = np.ndarray


def digit_indices(is_digit: Bool[Array, "*rows tokens"]) -> Int[Array, "*rows tokens"]:
    """Index of each digit in its run of digits, counted from 1; 0 for other tokens.

    arXiv 2405.17399. ``is_digit`` says which tokens are digits. The index is the
    significance plus 1 where numbers are written least digit first.

    Returns
    -------
    int64 array. Equation ``def-abacus-index``.

    Raises
    ------
    TypeError, ValueError
        ``is_digit`` not boolean, or a single truth value.
    """
    is_digit = as_array("is_digit", is_digit)
    if is_digit.dtype != bool:
        raise TypeError(f"is_digit must be boolean, got dtype {is_digit.dtype}")
    if is_digit.ndim == 0:
        raise ValueError("is_digit must be [..., tokens], got shape []")
    index = np.zeros(is_digit.shape, dtype=np.int64)
    for i in range(is_digit.shape[-1]):
        before = index[..., i - 1] if i else 0
        index[..., i] = np.where(is_digit[..., i], before + 1, 0)
    return index


def abacus(
    positions: Positions, *, shift: Number | Int[Array, "rows 1"]
) -> Float[Array, "*rows tokens"]:
    """Add a shift to the positions of digits; all other tokens get 0.

    arXiv 2405.17399. The shift is for training; in evaluation it is 0. A second
    encoding, in the paper a learned table, encodes the result.

    Parameters
    ----------
    positions
        Index of each digit in its number, from 1, and 0 for other tokens:
        :func:`digit_indices`. ``[tokens]``, or ``[rows, tokens]``, finite.
    shift
        The integer k, not negative: one for all sequences, or one for each,
        ``[rows, 1]``.

    Returns
    -------
    float64 array. Equation ``def-abacus``.

    Raises
    ------
    TypeError, ValueError
        Positions not finite or in half precision, a shift that is no integer or is
        negative; shapes that do not fit.
    """
    index, k = require_positions(positions), require_integers("shift", shift)
    if (k < 0).any():
        raise ValueError(f"shift must not be negative, got {k[k < 0][0]}")
    require_rows(index, {"shift": k}, {})
    return np.asarray(np.where(index > 0, index + k, 0.0))


def draw_abacus(
    rng: np.random.Generator, rows: int, tokens: int, *, max_shift: int
) -> dict[str, Int[Array, "rows 1"]]:
    """Draw a random ``shift`` of :func:`abacus` for each of ``rows`` sequences.

    It is uniform in 0 … ``max_shift``, both ends included, whatever the number of
    ``tokens``. Returned is a dictionary of ``shift``, integers ``[rows, 1]``. Equation
    ``def-abacus``. ``rng`` is the source of randomness.

    Raises
    ------
    TypeError, ValueError
        ``max_shift``, ``rows`` or ``tokens`` that are no counts.
    """
    require_rng(rng)
    rows = require_count("rows", rows)
    require_count("tokens", tokens)
    k = require_count("max_shift", max_shift)
    return {"shift": rng.integers(0, k + 1, (rows, 1))}
