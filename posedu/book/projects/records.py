"""Dataclasses of projects and of the reports on learners' answers."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posedu._argument_types import check_types
from posedu._result_table import SavedTable, reading

Answer = Callable[..., Any]


@check_types
@dataclass(frozen=True)
class Goal:
    """A result to reach: a bound of a measured quantity.

    ``quantity`` is a key of what the project measures, ``least`` and ``most`` are its
    bounds; at least one of them is given.
    """

    quantity: str
    least: float | None = None
    most: float | None = None

    def __post_init__(self) -> None:
        if self.least is None and self.most is None:
            raise ValueError(f"a bound of {self.quantity!r} is needed: least or most")

    def __str__(self) -> str:
        bounds = (("at least", self.least), ("at most", self.most))
        given = [f"{word} {bound:g}" for word, bound in bounds if bound is not None]
        return f"{self.quantity}: {', '.join(given)}"

    def missed_by(self, measured: Mapping[str, float]) -> float:
        """Return by how much the quantities measured with one seed miss the goal.

        0 says that they reach it, infinity that the quantity is infinite, not a number
        or not measured.
        """
        value = measured.get(self.quantity, math.nan)
        if math.isnan(value):
            return math.inf
        below = 0.0 if self.least is None else self.least - value
        above = 0.0 if self.most is None else value - self.most
        return max(below, above, 0.0)

    def is_reached(self, measured: Mapping[str, float]) -> bool:
        """Return whether the quantities measured with one seed reach the goal."""
        return self.missed_by(measured) == 0


@check_types
@dataclass(frozen=True)
class Rubric:
    """Looks of an answer if all, part or nothing is understood, as Markdown."""

    full: str
    partial: str
    none: str


@check_types
@dataclass(frozen=True)
class Project:
    """One project: what is measured, what is to be reached, and a plot.

    Parameters
    ----------
    name
        Name of the project, of its module and of its notebook, such as "extension".
    title
        Title of the notebook.
    part
        Caption of the part of the book that it belongs to.
    minutes
        Minutes of a learner's work, without the time that the computer takes.
    cpu_minutes
        Minutes of CPU time that are enough to measure an answer with all seeds: at
        least twice what the reference solution takes.
    uses
        Names of the exercises whose functions are parts of an answer.
    answers
        Names of the functions that a learner writes, in the order in which
        ``measure`` takes them.
    measure
        ``measure(*answers, seed=…)`` returns the measured quantities by name.
    goals
        What every seed has to reach.
    plot
        ``plot(report)`` draws the measured quantities and returns a figure.
    seeds
        Number of seeds with which an answer is measured.
    """

    name: str
    title: str
    part: str
    minutes: int
    cpu_minutes: int
    uses: tuple[str, ...]
    answers: tuple[str, ...]
    measure: Callable[..., Mapping[str, float]]
    goals: tuple[Goal, ...]
    plot: Callable[["Report"], Any]
    seeds: int = 3


@check_types
@dataclass
class Report(SavedTable):
    """Report on an answer to a project: what was measured, to see and to hand in.

    ``measured`` has the quantities for each of the ``seeds``, ``seconds`` the CPU time
    that each took, ``goals`` the goals in words. For each seed, ``missed`` has the
    quantities whose goals were missed, and by how much, and ``reached`` whether none
    was. ``sources`` is the code of the learner's functions, ``helpers`` that of the
    functions that they call, by name, and ``made`` the provenance: date, device and
    versions.
    """

    project: str
    goals: list[str]
    seeds: list[int] = field(default_factory=list)
    measured: list[dict[str, float]] = field(default_factory=list)
    missed: list[dict[str, float]] = field(default_factory=list)
    reached: list[bool] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    sources: list[str | None] = field(default_factory=list)
    helpers: dict[str, str | None] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)

    def is_reached(self) -> bool:
        """Return whether there is a measured seed, and all seeds reach the goals."""
        return bool(self.reached) and all(self.reached)

    def caption(self) -> str:
        """Return with how many of the seeds the goals are reached, and the goals."""
        if not self.seeds:
            return f"○ {self.project}: open, nothing measured"
        measured = {key for row in self.measured for key in row}
        missed = dict.fromkeys(key for row in self.missed for key in row)
        missing = [key for key in missed if key not in measured]
        if missing:
            return f"○ {self.project}: open, not measured: {', '.join(missing)}"
        sign = "✓" if self.is_reached() else "✗"
        return (
            f"{sign} {self.project}: goals reached with {sum(self.reached)} of "
            f"{len(self.seeds)} seeds ({'; '.join(self.goals)})"
        )

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the table's head, then a row for each seed.

        A quantity whose goal is missed is marked, with words for those who do not see
        the sign.
        """
        every = (*self.measured, *self.missed)
        names = list(dict.fromkeys(key for row in every for key in row))
        yield "seed", *names, "CPU s"
        for seed, row, missed, seconds in zip(
            self.seeds, self.measured, self.missed, self.seconds, strict=True
        ):
            values = (_in_words(row.get(name), missed.get(name)) for name in names)
            yield str(seed), *values, f"{seconds:.0f}"

    @classmethod
    def load(cls, path: str | Path) -> "Report":
        """Return the report in a file that :meth:`save` has written.

        Raises
        ------
        ValueError
            If the file holds something else.
        """
        with reading(path, "a report on a project"):
            report = cls(**json.loads(Path(path).read_text("utf-8")))
            of_seeds = (
                *(report.measured, report.missed),
                *(report.reached, report.seconds),
            )
            if {len(report.seeds)} != set(map(len, of_seeds)):
                raise ValueError("it has more seeds than measured rows, or fewer")
            return report


def _in_words(value: float | None, missed_by: float | None) -> str:
    if value is None:
        return "not measured"
    if missed_by is None:
        return f"{value:.4g}"
    gap = f" by {missed_by:.2g}" if math.isfinite(missed_by) else ""
    return f"{value:.4g} ✗ missed{gap}"
