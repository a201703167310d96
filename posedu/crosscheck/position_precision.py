"""Errors of a position's features, such as cosines and sines, by position."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int

from posedu._argument_types import check_types
from posedu._arguments import require_dimension
from posedu.crosscheck.common import to_numpy

Array = np.ndarray


@check_types
def error_by_position(
    tables: Mapping[str, Callable[[Int[torch.Tensor, "at"]], torch.Tensor]],
    exact: Callable[[Int[Array, "at"]], Float[Array, "at features"]],
    limits: Sequence[int] | Int[Array, "limits"],
    *,
    window: int = 512,
) -> dict[str, Float[Array, "limits"]]:
    """Return the largest error of each table of position features before each limit.

    A table has a row for each position, such as cosines and sines of the position's
    angles. The result has for each table's name an array with the error in a window of
    positions before each limit.

    Parameters
    ----------
    tables
        Functions by name, each from integer positions to a table
        ``[positions, features]``.
    exact
        Function from NumPy positions to the right table, in float64.
    limits
        Ends of the windows. Each window holds the positions from ``limit - window`` (at
        least 0) to ``limit - 1``.
    window
        Number of positions in a window.

    Raises
    ------
    TypeError, ValueError
        A limit or the window is not a positive integer.
    """
    require_dimension("window", window, 1)
    errors: dict[str, list[float]] = {name: [] for name in tables}
    for limit in limits:
        end = require_dimension("limit", limit, 1)
        at = torch.arange(max(0, end - window), end)
        truth = exact(at.numpy())
        for name, table in tables.items():
            errors[name].append(np.abs(to_numpy(table(at)) - truth).max())
    return {name: np.array(by_limit) for name, by_limit in errors.items()}
