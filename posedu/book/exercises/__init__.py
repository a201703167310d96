"""Exercises of the book, and a checker of answers that works offline.

``check("rope-1", rotate)`` replies that the function ``rotate`` is correct or still
open, or what is wrong with it: the well-known mistake that it makes or the property
that it breaks, with the smallest failing input. It never shows the solution.
"""

from posedu.book.exercises.checker import check, sheet, sheets
from posedu.book.exercises.records import (
    Exercise,
    Misconception,
    Property,
    Result,
    Sheet,
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
