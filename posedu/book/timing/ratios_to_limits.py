"""Summaries of timings: ratios to a limit's time, and growth of the time with a size.

The limit is another function, such as a copy, to whose time a function's time is
compared.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from posedu._argument_types import check_types
from posedu.book.timing.clock import Run, alternate
from posedu.book.timing.results import Spread


@check_types
def ratios(
    runs: Mapping[Any, Run],
    limit: Run,
    *,
    device: str | torch.device = "cpu",
    repeats: int = 5,
) -> dict[Any, Spread]:
    """Return quartiles of each function's time over the limit's, by function's name.

    ``runs`` maps names, of any kind, to the functions, which run without gradients;
    ``limit`` is the function to whose time theirs are compared.
    """
    with torch.no_grad():
        seconds = alternate(runs, limit, device=torch.device(device), repeats=repeats)
    return {name: Spread.of(s[:, 0] / s[:, 1]) for name, s in seconds.items()}


@check_types
def time_exponent(
    run_at: Callable[[int], Run],
    sizes: Sequence[int],
    *,
    device: str | torch.device = "cpu",
    repeats: int = 3,
) -> tuple[float, float]:
    """Return the exponent of a size in a function's time, and its standard error.

    The exponent is the slope of a line through the median times over ``sizes``, on
    logarithmic axes. ``run_at(size)`` makes the function for a size; it runs without
    gradients.

    Raises
    ------
    ValueError
        Fewer than three sizes, whose line has no standard error.
    """
    if len(sizes) < 3:
        raise ValueError(f"a slope's error needs three sizes or more, got {[*sizes]}")
    times = []
    with torch.no_grad():
        for size in sizes:
            run = {"run": run_at(size)}
            seconds = alternate(
                run, lambda: None, device=torch.device(device), repeats=repeats
            )
            times.append(np.median(seconds["run"][:, 0]))
    line, covariance = np.polyfit(np.log(sizes), np.log(times), 1, cov=True)
    return float(line[0]), float(covariance[0, 0] ** 0.5)
