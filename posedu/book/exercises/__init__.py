"""Exercises of the book, and a checker of answers that works offline.

``check("rope-1", rotate)`` replies whether the function ``rotate`` solves the exercise
rope-1, is still to be written, or is wrong. The reply to a wrong answer names the
well-known mistake that the answer makes or the property that it breaks, with the
smallest failing input. No reply shows the solution.
"""

from posedu.book.exercises.checker import check, predict, progress, sheet, sheets
from posedu.book.exercises.learner import Entry, Progress
from posedu.book.exercises.records import (
    Exercise,
    Hunt,
    Misconception,
    Prediction,
    Property,
    Repair,
    Result,
    Sheet,
)

__all__ = [
    "Entry",
    "Exercise",
    "Hunt",
    "Misconception",
    "Prediction",
    "Progress",
    "Property",
    "Repair",
    "Result",
    "Sheet",
    "check",
    "predict",
    "progress",
    "sheet",
    "sheets",
]
