"""Comparison of encodings by the differences of their results at each seed.

The runs of one seed are paired: all encodings had the same data in the same order and
the same initial weights, except for their own parameters. Whether the intervals of two
encodings overlap proves nothing; an interval of the paired differences does.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from posedu._argument_types import check_types
from posedu._result_table import Table
from posedu.book.experiments.runs import Interval, Runs
from posedu.book.figures import table

Seeds = Float[np.ndarray, "seeds"]
Key = TypeVar("Key", bound=Hashable)

POINT = 0.01  # one percentage point of an accuracy


@check_types
@dataclass(frozen=True)
class Gap:
    """Mean difference of two encodings over paired seeds, and half of its interval.

    The difference is one of accuracies, in percentage points, or of bits per character.
    ``p`` is the p-value of Student's t test of the mean difference 0, two-sided.
    """

    mean: float
    half: float
    p: float = 1.0

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
        """Return two encodings' mean difference, with half of its interval.

        ``one`` and ``other`` have a measured value, such as an accuracy, of either
        encoding for each seed; the difference is ``one`` minus ``other``, divided by
        ``unit``, by default a percentage point. ``interval`` is the function that
        returns the mean of values and the half-width of an interval for it, of the
        confidence ``level``.

        Raises
        ------
        ValueError
            Unequal numbers of seeds, or fewer than two.
        """
        if len(one) != len(other):
            raise ValueError(
                "both encodings must have the same seeds, got "
                f"{len(one)} and {len(other)} of them"
            )
        from scipy import stats  # half a second, which other uses of this module save

        mean, half = interval((one - other) / unit, level)
        freedom = len(one) - 1
        error = half / stats.t.ppf((1 + level) / 2, freedom)
        if error == 0:
            return cls(mean, half, float(mean == 0))
        return cls(mean, half, float(2 * stats.t.sf(abs(mean) / error, freedom)))

    def __str__(self) -> str:
        return f"{self.mean:+.1f} ± {self.half:.1f}"

    def is_significant(self, least: float = 0.0) -> bool:
        """Return whether two encodings differ significantly.

        They do if the interval of their mean difference excludes 0 and the size of the
        mean difference exceeds ``least``.
        """
        return abs(self.mean) > max(self.half, least)

    @property
    def verdict(self) -> str:
        """Verdict on the expectation that the first encoding has the larger values.

        The values are the accuracies or bits whose mean difference, first minus second,
        the gap is. "undecided" if the interval of the mean difference includes 0,
        otherwise "reproduced" if the mean difference is above 0 and "contradicted" if
        below.
        """
        if not self.is_significant():
            return "undecided"
        return "reproduced" if self.mean > 0 else "contradicted"


def verdicts_together(gaps: Mapping[Key, Gap], level: float = 0.95) -> dict[Key, str]:
    """Return the verdict on each of several gaps, so that all hold together.

    Verdicts are those of :attr:`Gap.verdict`. Of many single verdicts some are wrong by
    chance. By Holm's method the probability that any verdict but "undecided" is wrong
    is at most 1 − ``level``: the gaps are decided by rising p-value, the k-th of n as
    long as its p-value is at most (1 − level) / (n − k + 1).
    """
    verdicts = dict.fromkeys(gaps, "undecided")
    for decided, key in enumerate(sorted(gaps, key=lambda key: gaps[key].p)):
        gap = gaps[key]
        if not gap.p <= (1 - level) / (len(gaps) - decided):
            break
        verdicts[key] = "reproduced" if gap.mean > 0 else "contradicted"
    return verdicts


@check_types
def gaps(
    values: Mapping[str, Seeds],
    interval: Interval,
    level: float = 0.95,
    *,
    unit: float = POINT,
) -> dict[tuple[str, str], Gap]:
    """Return the mean difference of every pair of encodings, first minus second.

    ``values`` has, for each encoding, one measured value, such as an accuracy, for each
    seed; ``interval`` is the function that returns the mean and the half-width of its
    interval. Differences are divided by ``unit``, by default a percentage point. All
    intervals hold together with the confidence ``level``: some of many intervals miss
    by chance, so the interval of each of n pairs has the level 1 − (1 − level) / n
    (Bonferroni).

    Raises
    ------
    ValueError
        Fewer than two encodings, or values that :meth:`Gap.between` refuses.
    """
    pairs = [*combinations(values, 2)]
    if not pairs:
        raise ValueError(f"a comparison needs at least two encodings, got {[*values]}")
    each = 1 - (1 - level) / len(pairs)
    return {
        (a, b): Gap.between(values[a], values[b], interval, each, unit=unit)
        for a, b in pairs
    }


def origins(result: Runs, titles: Mapping[str, str]) -> Table:
    """Return a table of the runs' origins: date, commit, device and versions.

    Runs of the same origin share a row. ``titles`` maps the names of encodings to
    titles.
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
            "commit": (made["commit"] or "unknown")[:7],
            "on": f"{made['device']}, {made['threads']} thread(s)",
            "with": versions,
        }
        for name, cell in row.items():
            shown.setdefault(name, []).append(cell)
    hours = sum(run.seconds for run in result.runs) / 3600
    caption = f"{len(result.runs)} runs of {result.settings}, {hours:.1f} hours of one"
    return table(shown, caption=f"{caption} core. {result.method}")
