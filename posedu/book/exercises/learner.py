"""A learner's predictions and progress, to see and to hand in."""

import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import posedu
from posedu._argument_types import check_types
from posedu._result_table import SavedTable, reading
from posedu.book.exercises.records import Exercise


@check_types
@dataclass
class Entry:
    """Record of what a learner has done in one exercise.

    ``status`` is that of the last check, ``prediction`` the predicted number, and
    ``source`` the code of the last checked function; each may be missing.
    """

    status: str | None = None
    prediction: float | None = None
    source: str | None = None


ENTRIES: dict[str, Entry] = {}
"""Entries of this Python process, by the exercise's name."""


@check_types
@dataclass
class Progress(SavedTable):
    """A learner's progress in the exercises of one chapter.

    ``chapter`` is its name, ``exercises`` maps the exercises' names to what has been
    done, and ``minutes`` to the time that each is meant to take.
    """

    chapter: str
    exercises: dict[str, Entry]
    minutes: dict[str, int]
    version: str = field(default=posedu.__version__)

    def solved(self) -> list[str]:
        """Return the names of the solved exercises."""
        return [n for n, entry in self.exercises.items() if entry.status == "correct"]

    def caption(self) -> str:
        """Return how many exercises are solved, and their minutes."""
        solved = self.solved()
        spent = sum(self.minutes[name] for name in solved)
        return (
            f"{self.chapter}: {len(solved)} of {len(self.exercises)} exercises solved, "
            f"{spent} of {sum(self.minutes.values())} minutes"
        )

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the table's head, then a row for each exercise."""
        yield "exercise", "minutes", "status", "predicted"
        for name, entry in self.exercises.items():
            predicted = "" if entry.prediction is None else f"{entry.prediction:g}"
            status = entry.status or "not checked"
            yield name, str(self.minutes[name]), status, predicted

    @classmethod
    def load(cls, path: str | Path) -> "Progress":
        """Return the progress in a file that :meth:`save` has written.

        Raises
        ------
        ValueError
            If the file holds something else, or minutes of other exercises.
        """
        with reading(path, "a learner's progress"):
            stored = json.loads(Path(path).read_text("utf-8"))
            entries = {n: Entry(**entry) for n, entry in stored["exercises"].items()}
            if entries.keys() != stored["minutes"].keys():
                raise ValueError("minutes and exercises have different names")
            return cls(**{**stored, "exercises": entries})


def entry(name: str) -> Entry:
    """Return what has been done in an exercise, to read or to change."""
    return ENTRIES.setdefault(name, Entry())


def source_of(answer: Any) -> str | None:
    """Return a learner's function as code; None if there is none to be found."""
    try:
        return inspect.getsource(answer)
    except Exception:  # of inspect, which reads the file as it is now
        return None


def compared(exercise: Exercise) -> str:
    """Return a sentence that compares a prediction with the right number, or ''."""
    prediction, predicted = exercise.prediction, entry(exercise.name).prediction
    if prediction is None or predicted is None:
        return ""
    right = prediction.value()
    is_near = abs(predicted - right) <= prediction.near * abs(right)
    verdict = "as you predicted" if is_near else f"you predicted {predicted:g}"
    return f"It is {right:g}, {verdict}."
