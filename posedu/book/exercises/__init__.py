"""Check exercise answers, offline, naming the misconception behind a wrong one.

``check("rope-1", turn)`` says that the answer is correct, still open, or what is
wrong with it: the property it breaks with the smallest counter-example, or the
well-known mistake that it makes. It never shows the solution.
"""

from posedu.book.exercises.checker import (
    Exercise,
    Misconception,
    Property,
    Result,
    Sheet,
    check,
    sheet,
    sheets,
)

__all__ = [
    "Exercise",
    "Misconception",
    "Property",
    "Result",
    "Sheet",
    "check",
    "sheet",
    "sheets",
]
