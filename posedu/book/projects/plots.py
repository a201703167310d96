"""Plots of the reports on projects."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from posedu.book.figures import COLORS
from posedu.book.projects.records import Goal, Report


def draw_shares_of_bounds(axes: Any, report: Report, goals: Sequence[Goal]) -> None:
    """Draw each measured quantity over its upper bound, a point for each seed.

    ``goals`` must have upper bounds. What is 1 or less, left of the line, reaches the
    goal; what is not finite is drawn at the right edge, what was not measured not at
    all.
    """
    for row, goal in enumerate(goals):
        if goal.most is None:
            raise ValueError(f"{goal.quantity!r} has no upper bound")
        values = np.array(
            [
                found[goal.quantity]
                for found in report.measured
                if goal.quantity in found
            ]
        )
        shares = np.nan_to_num(values / goal.most, nan=1e9, posinf=1e9)
        axes.plot(
            np.clip(shares, 1e-5, 1e3),
            np.full(len(shares), row),
            "o",
            color=COLORS[0],
            alpha=0.7,
        )
    axes.axvline(1, color=COLORS[1], linestyle="--")
    axes.set(xscale="log", xlabel="measured / bound of the goal", xlim=(5e-6, 2e3))
    axes.set_yticks(range(len(goals)), [goal.quantity for goal in goals])
    axes.invert_yaxis()
