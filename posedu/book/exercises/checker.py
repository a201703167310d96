"""The exercise checker; the exercises stand in the folders beside it."""

import copy
import functools
import html
import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.common_mistakes import diagnose, locate
from posedu.book.exercises.values import article, equal, first_wrong, show, wrong_form

STRICT = "POSEDU_STRICT"  # where this is "1" an answer that is not correct raises
OPEN = "open, not answered yet"

Answer = Callable[..., Any]
Kind = Literal["by hand", "SymPy", "NumPy", "PyTorch", "experiment"]


@dataclass(frozen=True)
class Misconception:
    """A wrong answer that people give, as code, and what to tell them."""

    name: str
    message: str
    answer: Answer


@dataclass(frozen=True)
class Property:
    """Something a right answer has: ``holds(answer, *case)``.

    It may ask the answer for other inputs than the case's: a learner is told those for
    which it was asked.
    """

    says: str
    holds: Callable[..., bool]


@dataclass(frozen=True)
class Exercise:
    """One exercise, from which its page and both its notebooks are made.

    ``statement`` and ``hint`` are Markdown. ``solution`` is a function of its module;
    its signature and docstring are what the learner starts from. ``cases`` are tuples
    of arguments, smallest first, since the first failing one is shown. ``tolerance`` is
    the largest absolute difference accepted between floats.
    """

    name: str
    title: str
    kind: Kind
    minutes: int
    lines: int
    statement: str
    hint: str
    cases: tuple[tuple[Any, ...], ...]
    solution: Answer
    misconceptions: tuple[Misconception, ...]
    properties: tuple[Property, ...] = ()
    tolerance: float = 1e-9


@dataclass(frozen=True)
class Sheet:
    """The exercises of a chapter, in order; ``conventions`` are Markdown."""

    title: str
    conventions: str
    exercises: tuple[Exercise, ...]


@dataclass(frozen=True)
class Result:
    """What :func:`check` found; ``shown`` is the run of a cell that has printed it."""

    status: Literal["correct", "open", "wrong"]
    exercise: str
    message: str
    shown: int | None = None

    def __repr__(self) -> str:
        sign = {"correct": "✓", "open": "○", "wrong": "✗"}[self.status]
        return f"{sign} {self.exercise}: {self.message}"

    def mimebundle(self) -> dict[str, str]:
        """The verdict as a notebook shows it, in text and in HTML."""
        text = html.escape(repr(self))
        paragraph = f'<p class="posedu-{self.status}">{text}</p>'
        return {"text/html": paragraph, "text/plain": repr(self)}

    def _ipython_display_(self) -> None:
        """Show the verdict, but not twice where a cell ends with its check."""
        from IPython.display import display

        if self.shown is None or self.shown != _notebook().execution_count:
            display(self.mimebundle(), raw=True)


@functools.cache
def sheets() -> Mapping[str, str]:
    """The module that holds each sheet: chapter ``fope`` has the one named ``fope``."""
    folders = importlib.import_module("posedu.book.exercises").__path__
    found = pkgutil.walk_packages(folders, "posedu.book.exercises.")
    inside = [module.name for module in found if module.name.count(".") == 4]
    return {name.rpartition(".")[2].replace("_", "-"): name for name in inside}


def sheet(chapter: str) -> Sheet:
    """The exercises of a chapter.

    Raises
    ------
    KeyError
        For a chapter that has none.
    """
    if chapter not in sheets():
        raise KeyError(f"no exercises on {chapter!r}; there are {', '.join(sheets())}")
    return importlib.import_module(sheets()[chapter]).SHEET


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal numbers that depend on nothing but shape and seed."""
    return np.random.default_rng((seed, *shape)).normal(size=shape)


def check(name: Any, answer: Any) -> Result:
    """Check a learner's function and print the verdict.

    Parameters
    ----------
    name
        The exercise, ``"<chapter>-<number>"``.
    answer
        The learner's function. One that raises ``NotImplementedError`` is open.

    Raises
    ------
    KeyError
        For an exercise that does not exist.
    AssertionError
        If the environment variable ``POSEDU_STRICT`` is 1 and the answer is not right.
    """
    result = judge(name, answer)
    if os.environ.get(STRICT) == "1" and result.status != "correct":
        raise AssertionError(repr(result))
    notebook = _notebook()
    if notebook:
        result._ipython_display_()
        return replace(result, shown=notebook.execution_count)
    if not hasattr(sys, "ps1"):  # a prompt shows by itself what a call returns
        print(result)
    return result


def _notebook() -> Any:
    """The running IPython, or nothing."""
    ipython = sys.modules.get("IPython")
    return ipython and ipython.get_ipython()


def judge(name: Any, answer: Any) -> Result:
    """Check a learner's function as :func:`check` does, and print nothing."""
    swapped = isinstance(answer, str) and not isinstance(name, str)
    if not swapped and not isinstance(name, str):
        raise KeyError(f"an exercise has a name like 'rope-1', not {show(name)}")
    exercise = find(answer if swapped else name)
    if swapped:
        status, message = "wrong", "the name comes first, and then the function"
    else:
        status, message = verdict(exercise, answer)
    return Result(status, f"{exercise.name} ({exercise.title})", message)


def find(name: str) -> Exercise:
    """The exercise of this name.

    Raises
    ------
    KeyError
        For one that does not exist.
    """
    known = {e.name: e for e in sheet(name.rpartition("-")[0]).exercises}
    if name not in known:
        raise KeyError(f"there is no exercise {name!r}; there are {', '.join(known)}")
    return known[name]


def verdict(exercise: Exercise, answer: Any) -> tuple[str, str]:
    """The status of an answer, and what to tell who gave it."""
    complaint = _wrong_signature(exercise, answer)
    if complaint:
        return "wrong", complaint
    given = []
    for case in exercise.cases:
        result, complaint = _ask(answer, case)
        if complaint == OPEN:
            return "open", OPEN
        if complaint:
            return "wrong", f"{complaint}{_for(exercise, case)}"
        given.append(result)
    wanted = [exercise.solution(*copy.deepcopy(case)) for case in exercise.cases]
    for case, got, want in zip(exercise.cases, given, wanted, strict=True):
        complaint = wrong_form(got, want)
        if complaint:
            return "wrong", f"{complaint}{_for(exercise, case)}"
    if all(equal(g, w, exercise.tolerance) for g, w in zip(given, wanted, strict=True)):
        return "correct", "correct"
    named = diagnose(exercise, given, wanted) or _broken(exercise, answer)
    return "wrong", named or _not_right(exercise, given, wanted)


def _ask(answer: Answer, case: tuple) -> tuple[Any, str]:
    """What an answer returns for a case, or what is wrong with asking it."""
    arguments = copy.deepcopy(case)
    try:
        result = answer(*arguments)
    except (Exception, SystemExit) as error:
        if isinstance(error, NotImplementedError) and not error.args:
            return None, OPEN
        said = str(error).partition("\n")[0]
        return None, f"raises {type(error).__name__}{': ' if said else ''}{said}"
    if not all(map(_unchanged, arguments, case)):
        return None, "changes its input in place"
    return result, ""


def _not_right(exercise: Exercise, given: list, wanted: list) -> str:
    """The first case that is wrong, the result, and where that is wrong."""
    tolerance, results = exercise.tolerance, zip(given, wanted, strict=True)
    first = [equal(g, w, tolerance) for g, w in results].index(False)
    got, shown = given[first], _show_case(exercise, exercise.cases[first])
    message = (
        f"not the right value{' for ' if shown else ''}{shown}: yours is {show(got)}"
    )
    where = first_wrong(got, wanted[first], tolerance)
    return f"{message}{where}. {locate(exercise, given, wanted)}".rstrip(". ")


def _wrong_signature(exercise: Exercise, answer: Any) -> str:
    """Why an answer cannot be asked at all, or nothing."""
    if not callable(answer):
        return f"{article(answer)} is given; the function itself is wanted"
    try:
        signature = inspect.signature(answer)
    except (TypeError, ValueError):  # some built-in functions tell nothing
        return ""
    given, wanted = list(signature.parameters), _parameters(exercise)
    try:
        signature.bind(*wanted)
    except TypeError:
        return f"takes ({', '.join(given)}); it is called with ({', '.join(wanted)})"
    if given != wanted and sorted(given) == sorted(wanted):
        return f"takes ({', '.join(given)}); the order ({', '.join(wanted)}) is wanted"
    return ""


def _parameters(exercise: Exercise) -> list[str]:
    """The names of what the cases give a value."""
    names = inspect.signature(exercise.solution).parameters
    return list(names)[: len(exercise.cases[0])]


def _unchanged(after: Any, before: Any) -> bool:
    if isinstance(before, np.ndarray | torch.Tensor | sp.MatrixBase | list):
        return not wrong_form(after, before) and equal(after, before, 0.0)
    return True


def _broken(exercise: Exercise, answer: Answer) -> str:
    """The first property that does not hold, with what the answer was asked for."""
    for rule in exercise.properties:
        for case in exercise.cases:
            holds, asked = _holds(rule, answer, case)
            if not holds:
                shown = {_show_case(exercise, arguments): None for arguments in asked}
                if not exercise.cases[0]:
                    return f"this does not hold for yours: {rule.says}"
                return f"{rule.says}, but not for {' and '.join(shown)}"
    return ""


def _holds(rule: Property, answer: Answer, case: tuple) -> tuple[bool, list[tuple]]:
    """Whether an answer has a property, and the inputs that it was asked for."""
    asked = []

    def recorded(*arguments: Any) -> Any:
        asked.append(copy.deepcopy(arguments))
        return answer(*arguments)

    try:
        return bool(rule.holds(recorded, *copy.deepcopy(case))), asked
    except (Exception, SystemExit):  # off the cases, it may return or raise anything
        return False, asked or [case]


def _for(exercise: Exercise, case: Iterable[Any]) -> str:
    shown = _show_case(exercise, case)
    return f" — for {shown}" if shown else ""


def _show_case(exercise: Exercise, case: Iterable[Any]) -> str:
    names = inspect.signature(exercise.solution).parameters
    return ", ".join(f"{n} = {show(v)}" for n, v in zip(names, case, strict=False))
