"""Verdict on the answer to a "find the input" exercise."""

import copy
import inspect
from typing import Any

import numpy as np
import torch

from posedu.book.exercises.records import Exercise, Hunt
from posedu.book.exercises.values import (
    equal,
    show_briefly,
    type_in_words,
    wrong_form,
)


def complaint(exercise: Exercise, found: Any) -> str:
    """Return why ``found`` is no smallest input on which a function is wrong, or ''.

    The function and its inputs are those of the exercise's hunt. ``found`` is what the
    learner's function returned: a tuple or list of arguments, or a single argument. A
    function is wrong on an input if it raises an exception there, or if its result has
    another form than the right one or differs by more than the exercise's tolerance.
    """
    hunt = exercise.hunt
    assert hunt is not None
    names = list(inspect.signature(hunt.wrong).parameters)
    if found is None:
        return "Your answer returns None: is a `return` missing?"
    is_case = isinstance(found, tuple) or (isinstance(found, list) and len(names) > 1)
    case = tuple(found) if is_case else (found,)
    if len(case) != len(names):
        if isinstance(found, np.ndarray | torch.Tensor):
            return (
                f"Your answer returns {type_in_words(found)}; return a tuple, "
                f"({', '.join(names)})."
            )
        number = f"{len(case)} argument{'' if len(case) == 1 else 's'}"
        return f"Your answer returns {number}; the function takes ({', '.join(names)})."
    pairs = zip(names, map(show_briefly, case), strict=True)
    shown = ", ".join(f"{name} = {value}" for name, value in pairs)
    for name, value, like in zip(names, case, hunt.tested[0], strict=True):
        is_array = isinstance(like, np.ndarray | torch.Tensor)
        if is_array and not isinstance(value, type(like)):
            kind = "NumPy array" if isinstance(like, np.ndarray) else "torch.Tensor"
            return (
                f"{shown} is not allowed: {name} must be a {kind}, got "
                f"{type_in_words(value)}."
            )
    try:
        case = tuple(map(_converted, case, hunt.tested[0]))
        refusal = hunt.refusal(*copy.deepcopy(case))
        right = None if refusal else hunt.right(*copy.deepcopy(case))
    except Exception:  # of types and sizes that the conditions do not foresee
        refusal = f"an input is like {', '.join(map(show_briefly, hunt.tested[0]))}"
    if refusal:
        return f"{shown} is not allowed: {refusal}."
    gives = _wrong_outcome(hunt, case, right, exercise.tolerance)
    if not gives:
        return f"For {shown} the function is right: it gives {show_briefly(right)}."
    if hunt.size(*case) > smallest_size(exercise):
        return (
            f"For {shown} the function is wrong indeed: it {gives}, and right is "
            f"{show_briefly(right)}. But it is wrong, too, for an input with a smaller "
            f"{hunt.size_of} than {hunt.size(*case)}."
        )
    return ""


def _converted(value: Any, like: Any) -> Any:
    """Return an argument with NumPy numbers as Python's, of the dtype that is meant.

    Arrays and tensors of integers become floating if ``like``, an argument that the
    colleague has tried, is floating. Floating arrays of whole numbers become integers
    if ``like`` has integers. Other values are returned unchanged.
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return type(value)(_converted(entry, None) for entry in value)
    if isinstance(value, np.ndarray) and isinstance(like, np.ndarray):
        is_widened = value.dtype.kind in "iu" and like.dtype.kind == "f"
        is_whole = like.dtype.kind == "i" and value.dtype.kind == "f"
        is_whole = is_whole and bool((abs(value) < 2**53).all())
        is_whole = is_whole and bool((value % 1 == 0).all())
        return value.astype(like.dtype) if is_widened or is_whole else value
    if isinstance(value, torch.Tensor) and isinstance(like, torch.Tensor):
        is_bool = value.dtype == torch.bool
        is_widened = like.is_floating_point() and not value.is_floating_point()
        return value.to(like.dtype) if is_widened and not is_bool else value
    return value


def smallest_size(exercise: Exercise) -> int:
    """Return the size of the smallest input on which the hunted function is wrong."""
    assert exercise.hunt is not None
    found = exercise.solution()
    return exercise.hunt.size(*(found if isinstance(found, tuple) else (found,)))


def _wrong_outcome(hunt: Hunt, case: tuple, right: Any, tolerance: float) -> str:
    """Return what the hunted function does wrong in a case, in words, or ''.

    ``right`` is the right result; numbers may differ from it by ``tolerance``.
    """
    try:
        with np.errstate(all="ignore"):  # the fault that is looked for
            given = hunt.wrong(*copy.deepcopy(case))
    except Exception as error:
        return f"raises {type(error).__name__}"
    if wrong_form(given, right) or not equal(given, right, tolerance):
        return f"gives {show_briefly(given)}"
    return ""
