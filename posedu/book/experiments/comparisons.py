"""What the runs of an experiment tell apart: differences within seeds.

Encodings are paired: of a seed all had the same data in the same order and the same
initial weights but for their own. Two intervals that overlap prove nothing either way;
an interval of the differences does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float

from posedu._result_table import Table
from posedu.book.experiments.runs import Interval, Runs
from posedu.book.figures import table

Seeds = Float[np.ndarray, "seeds"]

POINT = 0.01  # of an accuracy


@dataclass(frozen=True)
class Gap:
    """Mean of the differences of two values and half its interval.

    Of accuracies in points, of others in their own unit.
    """

    mean: float
    half: float

    @classmethod
    def between(
        cls,
        one: Seeds,
        other: Seeds,
        interval: Interval,
        level: float = 0.95,
        *,
        unit: float = POINT,
    ) -> "Gap":
        """One minus the other, both by the same seeds, in units.

        Raises
        ------
        ValueError
            Unequal numbers of seeds, or fewer than two.
        """
        if len(one) != len(other):
            raise ValueError(
                "differences need the same seeds of both, got "
                f"{len(one)} and {len(other)}"
            )
        return cls(*interval((one - other) / unit, level))

    def __str__(self) -> str:
        return f"{self.mean:+.1f} ± {self.half:.1f}"

    def is_significant(self, least: float = 0.0) -> bool:
        """Whether zero is outside, and the mean more than ``least`` points from it."""
        return abs(self.mean) > max(self.half, least)

    @property
    def verdict(self) -> str:
        """Of the expectation that the first is above the second."""
        if not self.is_significant():
            return "undecided"
        return "reproduced" if self.mean > 0 else "contradicted"


def gaps(
    values: Mapping[str, Seeds],
    interval: Interval,
    level: float = 0.95,
    *,
    unit: float = POINT,
) -> dict[tuple[str, str], Gap]:
    """Of every pair, first minus second; all intervals hold together with ``level``.

    Of many intervals some miss by chance, so each of n pairs has the level
    1 − (1 − level) / n, after Bonferroni.

    Raises
    ------
    ValueError
        Fewer than two encodings, or what :meth:`Gap.between` refuses.
    """
    pairs = [*combinations(values, 2)]
    if not pairs:
        raise ValueError(f"a pair needs two encodings, got {[*values]}")
    each = 1 - (1 - level) / len(pairs)
    return {
        (a, b): Gap.between(values[a], values[b], interval, each, unit=unit)
        for a, b in pairs
    }


def origins(result: Runs, titles: Mapping[str, str]) -> Table:
    """Where the runs of a result come from: a row for each making of them.

    ``titles`` are those of the encodings.
    """
    shown: dict[str, list[object]] = {}
    for made in result.made():
        runs = [run for run in result.runs if run.made == made]
        trained = {run.encoding for run in runs}
        versions = ", ".join(f"{name} {v}" for name, v in made["versions"].items())
        row = {
            "runs": len(runs),
            "of": "; ".join(titles[name] for name in titles if name in trained),
            "made": made["date"],
            "commit": made["commit"][:7],
            "on": f"{made['device']}, {made['threads']} thread(s)",
            "with": versions,
        }
        for name, cell in row.items():
            shown.setdefault(name, []).append(cell)
    hours = sum(run.seconds for run in result.runs) / 3600
    caption = f"{len(result.runs)} runs of {result.settings}, {hours:.1f} hours of one"
    return table(shown, caption=f"{caption} core. {result.method}")
