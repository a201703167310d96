"""Where precision goes: errors of tables of cosines and sines, by position."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int

from posedu._arguments import require_dimension
from posedu.crosscheck.common import to_numpy

Array = np.ndarray


def error_by_position(
    ways: Mapping[str, Callable[[Int[torch.Tensor, "at"]], torch.Tensor]],
    exact: Callable[[Int[Array, "at"]], Float[Array, "at features"]],
    limits: Sequence[int] | Int[Array, "limits"],
    *,
    window: int = 512,
) -> dict[str, Float[Array, "limits"]]:
    """The largest error of each way over the ``window`` positions before each limit.

    Parameters
    ----------
    ways
        By name, what makes a table ``[positions, features]`` of integer positions.
    exact
        The same table in float64, from NumPy's positions.
    limits
        Where to look: positions from ``limit - window`` (at least 0) to ``limit - 1``.
    window
        Positions at each place.

    Raises
    ------
    TypeError, ValueError
        Limits or a window that are not positive integers.
    """
    require_dimension("window", window, 1)
    errors: dict[str, list[float]] = {name: [] for name in ways}
    for limit in limits:
        end = require_dimension("limit", limit, 1)
        at = torch.arange(max(0, end - window), end)
        truth = exact(at.numpy())
        for name, way in ways.items():
            errors[name].append(np.abs(to_numpy(way(at)) - truth).max())
    return {name: np.array(found) for name, found in errors.items()}
