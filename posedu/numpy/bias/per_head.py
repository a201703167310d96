"""Checks of bias parameters that are one number for each head."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from posedu.numpy._arrays import as_array, require_floats

Array = np.ndarray
PerHead = Float[Array, "heads"]


def finite(name: str, value: PerHead | float, t: Array | np.floating) -> Array:
    """Return ``value``, shaped to broadcast with distances ``t``, if it is finite.

    ``value`` is one number, or ``[heads]``, which gets an axis of size 1 for each axis
    of ``t``. Other values raise a ``ValueError``, in which ``name`` names them.
    """
    return _allowed(name, value, t, np.isfinite, "finite")


def positive(name: str, value: PerHead | float, t: Array | np.floating) -> Array:
    """Return ``value``, shaped to broadcast with distances ``t``, if it is positive.

    Shapes and errors are those of :func:`finite`.
    """
    return _allowed(
        name, value, t, lambda v: np.isfinite(v) & (v > 0), "positive and finite"
    )


def _allowed(
    name: str,
    value: PerHead | float,
    t: Array | np.floating,
    is_allowed: Callable[[Array], Array],
    words: str,
) -> Array:
    value = as_array(name, value)
    if value.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be real numbers, got dtype {value.dtype}")
    value = value.astype(np.float64)
    if value.ndim > 1 or not is_allowed(value).all():
        raise ValueError(
            f"{name} must be {words}, one number or one for each head, got {value}"
        )
    return value.reshape(*value.shape, *[1] * t.ndim) if value.ndim else value


def require_same_heads(**parameters: PerHead | None) -> None:
    """Raise unless all parameters that are given have one number for each head."""
    given = {n: per_head(n, p) for n, p in parameters.items() if p is not None}
    if len({len(p) for p in given.values()}) > 1:
        shapes = " and ".join(f"{n} {list(p.shape)}" for n, p in given.items())
        raise ValueError(f"parameters must have one number for each head, got {shapes}")


def exp(name: str, logarithms: PerHead) -> PerHead:
    """Return e^x of one number x for each head; results may be infinite.

    ``name`` is the argument's name in error messages.
    """
    with np.errstate(over="ignore"):
        return np.exp(per_head(name, logarithms))


def per_head(name: str, value: PerHead) -> PerHead:
    """Return ``value`` as float64 if it is ``[heads]`` and holds floats, else raise.

    ``name`` is the argument's name in error messages.
    """
    value = require_floats(name, value)
    if value.ndim != 1:
        raise ValueError(f"{name} must be [heads], got shape {list(value.shape)}")
    return value
