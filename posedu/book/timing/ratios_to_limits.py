"""Summary numbers of timings: ratios of times, and exponents of a size in a time.

A ratio is that of a function's time to a limit's; the limit is another function, such
as a copy.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from posedu.book.timing.clock import Run, alternate
from posedu.book.timing.results import Spread


def ratios(
    runs: Mapping[str, Run],
    limit: Run,
    *,
    device: str | torch.device = "cpu",
    repeats: int = 5,
) -> dict[str, Spread]:
    """Return quartiles of each function's time over the limit's, without gradients.

    ``limit`` is the function to whose time the others are compared.
    """
    with torch.no_grad():
        seconds = alternate(runs, limit, device=torch.device(device), repeats=repeats)
    return {name: Spread.of(s[:, 0] / s[:, 1]) for name, s in seconds.items()}


def time_exponent(
    run_at: Callable[[int], Run],
    sizes: Sequence[int],
    *,
    device: str | torch.device = "cpu",
    repeats: int = 3,
) -> tuple[float, float]:
    """Return the exponent of a size in a function's time, and the standard error.

    The exponent is the slope of a line through the median times, on logarithmic axes.
    ``run_at(size)`` makes the function, which runs without gradients.

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
