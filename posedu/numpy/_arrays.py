"""Checks of the array arguments of the reference functions."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Num

from posedu._arguments import LARGEST_ANGLE

Number = float | np.integer | np.floating
Positions = Num[np.ndarray, "*tokens"] | Sequence[object] | Number


def as_array(name: str, given: object) -> np.ndarray:
    """Convert ``given`` to a NumPy array; raise if it is masked or cannot be converted.

    ``name`` is the argument's name in error messages.
    """
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(f"{name} must have no mask of its own; give {name}.filled(…)")
    # A subclass with its own `__array_function__` decides what it becomes (NEP 35), as
    # the arrays of posedu.crosscheck.rounding do; any other becomes a plain array.
    like = given if isinstance(given, np.ndarray) else None
    try:
        return np.asarray(given, like=like)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be an array, but {error}") from None


def require_floats(name: str, array: np.ndarray) -> np.ndarray:
    """Return ``array`` as float64 if it holds real floats, else raise.

    ``name`` is the argument's name in error messages.
    """
    array = as_array(name, array)
    if not np.issubdtype(array.dtype, np.floating):
        raise TypeError(f"{name} must hold floats, got dtype {array.dtype}")
    return array.astype(np.float64)


def require_vectors(name: str, array: np.ndarray) -> np.ndarray:
    """Return ``array`` as float64 if it is ``[..., tokens, d]`` and holds floats.

    Raises otherwise; ``name`` is the argument's name in error messages.
    """
    array = require_floats(name, array)
    if array.ndim < 2:
        raise ValueError(
            f"{name} must be [..., tokens, d], got shape {list(array.shape)}"
        )
    return array


def require_exact_angles(name: str, sizes: np.ndarray) -> np.ndarray:
    """Return ``sizes``, angles or norms of exponents; raise if one is above 2²⁹.

    Float64 holds larger angles less exactly than float32 would hold their cosines.
    ``name`` says in the error message what the sizes are.
    """
    far = np.abs(sizes) > LARGEST_ANGLE
    if far.any():
        raise ValueError(
            f"{name} must be at most 2**29 in size, where float64 still has "
            f"24 bits after the point, got {sizes[far][0]:g}: positions or "
            "frequencies are too large"
        )
    return sizes


def require_positions(positions: Positions, name: str = "positions") -> np.ndarray:
    """Return ``positions`` as float64 if they are exact and finite, else raise.

    Positions are exact if they are below 2⁵³ in size (2²⁴ for float32): floats hold
    every integer below this limit. ``name`` is the argument's name in error messages.
    """
    positions = as_array(name, positions)
    if positions.dtype == np.float16:
        raise TypeError(
            f"{name} are float16, which holds integers exactly only up to 2048; "
            "give integers, float32 or float64"
        )
    if positions.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be real numbers, got dtype {positions.dtype}")
    if not np.isfinite(positions).all():
        bad = positions[~np.isfinite(positions)][0]
        raise ValueError(f"{name} must be finite, got {bad}")
    reach = 2**24 if positions.dtype == np.float32 else 2**53
    exact = (-reach < positions) & (positions < reach)
    if not exact.all():
        raise ValueError(
            f"{name} of {positions.dtype} must be below {reach} in size to be exact, "
            f"got {positions[~exact][0]}"
        )
    return positions.astype(np.float64)


def require_position(name: str, position: Number) -> float:
    """Return ``position`` as a float if it is one exact and finite number, or raise.

    Exact is a number below 2⁵³ in size (2²⁴ for float32). ``name`` is the argument's
    name in error messages.
    """
    exact = require_positions(position, name)
    if exact.ndim:
        raise ValueError(f"{name} must be one number, got shape {list(exact.shape)}")
    return float(exact)


def require_numbers(positions: np.ndarray) -> np.ndarray:
    """Return ``positions`` if they are one number for each token, else raise.

    The shape must be ``[tokens]``: one sequence, and positions without coordinates.
    """
    if positions.ndim != 1:
        raise ValueError(
            "positions must be one number for each token, got shape "
            f"{list(positions.shape)}"
        )
    return positions


def require_mask(mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return an attention mask if it is boolean and of the given shape, else raise."""
    mask = as_array("mask", mask)
    if mask.dtype != bool:
        raise TypeError(
            f"mask must be boolean, true where a key is visible, got dtype {mask.dtype}"
        )
    if mask.shape != shape:
        raise ValueError(f"mask must be {list(shape)}, got shape {list(mask.shape)}")
    return mask


def align_positions(
    positions: Positions, x: np.ndarray, axes: int | None = None
) -> np.ndarray:
    """Reshape ``positions`` to broadcast over all axes of ``x`` but the feature axis.

    Positions ``[tokens]`` serve every leading axis of ``x``; ``[batch, tokens]`` gives
    each sequence of the batch, the first axis of ``x``, its own positions. If ``axes``
    is given, each position has that many coordinates, in one more axis at the end; if
    it is ``None``, a position is one number. Positions of any other shape are refused.
    """
    if x.ndim < 2:
        raise ValueError(f"x must be [..., tokens, d], got shape {list(x.shape)}")
    positions = require_positions(positions)
    coordinates = () if axes is None else (axes,)
    tokens = (x.shape[-2], *coordinates)
    if positions.shape in (tokens, (1, *tokens)):
        return positions.reshape(tokens)
    if x.ndim > 2 and positions.shape == (x.shape[0], *tokens):
        return positions.reshape(x.shape[0], *[1] * (x.ndim - 3), *tokens)
    last = "" if axes is None else f", {axes}"
    raise ValueError(
        f"positions must be [tokens{last}] or [batch, tokens{last}] for x of shape "
        f"{list(x.shape)}, got shape {list(positions.shape)}"
    )
