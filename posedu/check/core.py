"""The exercise checker; the exercises stand in the folders beside it."""

import copy
import functools
import html
import importlib
import inspect
import os
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import sympy as sp
import torch

STRICT = "POSEDU_STRICT"  # where this is "1" an answer that is not correct raises

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
    """Something a right answer has: ``holds(answer, *case)``."""

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
    """What :func:`check` found."""

    status: Literal["correct", "open", "wrong"]
    exercise: str
    message: str

    def __repr__(self) -> str:
        sign = {"correct": "✓", "open": "○", "wrong": "✗"}[self.status]
        return f"{sign} {self.exercise}: {self.message}"

    def _repr_html_(self) -> str:
        return f'<p class="posedu-{self.status}">{html.escape(repr(self))}</p>'


@functools.cache
def sheets() -> Mapping[str, str]:
    """The module that holds each sheet: chapter ``fope`` has the one named ``fope``."""
    folders = importlib.import_module("posedu.check").__path__
    found = pkgutil.walk_packages(folders, "posedu.check.")
    inside = [module.name for module in found if module.name.count(".") == 3]
    return {name.rpartition(".")[2]: name for name in inside}


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


def check(name: str, answer: Answer) -> Result:
    """Check a learner's function.

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
    known = {e.name: e for e in sheet(name.rpartition("-")[0]).exercises}
    if name not in known:
        raise KeyError(f"there is no exercise {name!r}; there are {', '.join(known)}")
    exercise = known[name]
    status, message = _judge(exercise, answer)
    result = Result(status, f"{name} ({exercise.title})", message)
    if os.environ.get(STRICT) == "1" and status != "correct":
        raise AssertionError(repr(result))
    return result


def _judge(exercise: Exercise, answer: Answer) -> tuple[str, str]:
    given = []
    for case in exercise.cases:
        arguments = copy.deepcopy(case)
        try:
            given.append(answer(*arguments))
        except NotImplementedError:
            return "open", "open, not answered yet"
        except Exception as error:
            shown = _show_case(exercise, case)
            return "wrong", f"raises {type(error).__name__}: {error} — for {shown}"
        if not _equal(arguments, case, 0.0):
            shown = _show_case(exercise, case)
            return "wrong", f"changes its input in place — for {shown}"
    wanted = [exercise.solution(*copy.deepcopy(case)) for case in exercise.cases]
    for case, got, want in zip(exercise.cases, given, wanted, strict=True):
        complaint = _wrong_form(got, want)
        if complaint:
            return "wrong", f"{complaint} — for {_show_case(exercise, case)}"
    tolerance = exercise.tolerance
    verdicts = [_equal(g, w, tolerance) for g, w in zip(given, wanted, strict=True)]
    if all(verdicts):
        return "correct", "correct"
    for misconception in exercise.misconceptions:
        if _makes(misconception, exercise, given):
            return "wrong", f"{misconception.name}. {misconception.message}"
    for rule in exercise.properties:
        for case in exercise.cases:
            if not rule.holds(answer, *copy.deepcopy(case)):
                shown = _show_case(exercise, case)
                return "wrong", f"{rule.says}, but not for {shown}"
    first = verdicts.index(False)
    shown = _show_case(exercise, exercise.cases[first])
    where = _first_wrong(given[first], wanted[first], tolerance)
    yours = f"{_show(given[first])}{where}"
    return "wrong", f"not the right value for {shown}: yours is {yours}"


def _makes(misconception: Misconception, exercise: Exercise, given: list) -> bool:
    """Whether the learner's results are this misconception's on every case."""
    for case, got in zip(exercise.cases, given, strict=True):
        expected = misconception.answer(*copy.deepcopy(case))
        if _wrong_form(got, expected) or not _equal(got, expected, exercise.tolerance):
            return False
    return True


def _wrong_form(got: Any, want: Any) -> str:
    """What is wrong with the type, length, shape or dtype of a result, or nothing."""
    if got is None:
        return "returns nothing: is there a `return`?"
    if isinstance(want, tuple | list):
        if not isinstance(got, tuple | list):
            return f"returns {_article(got)}; a tuple or list of {len(want)} is wanted"
        if len(got) != len(want):
            return f"returns {len(got)} results; {len(want)} are wanted"
        complaints = map(_wrong_form, got, want)
        return next((c for c in complaints if c), "")
    if isinstance(want, sp.MatrixBase):
        if not isinstance(got, sp.MatrixBase):
            return f"returns {_article(got)}; a SymPy matrix is wanted"
        if got.shape != want.shape:
            return f"returns shape {got.shape}; {want.shape} is wanted"
    elif isinstance(want, torch.Tensor):
        if not isinstance(got, torch.Tensor):
            return f"returns {_article(got)}; a torch.Tensor is wanted"
        if got.shape != want.shape:
            return f"returns shape {list(got.shape)}; {list(want.shape)} is wanted"
        if got.dtype != want.dtype:
            return f"returns {got.dtype}; {want.dtype} is wanted"
    elif isinstance(want, np.ndarray):
        if not isinstance(got, np.ndarray):
            return f"returns {_article(got)}; a NumPy array is wanted"
        if got.shape != want.shape:
            return f"returns shape {list(got.shape)}; {list(want.shape)} is wanted"
        exact = want.dtype.kind in "fc"  # the size of an integer does not matter
        if got.dtype.kind != want.dtype.kind or (exact and got.dtype != want.dtype):
            return f"returns dtype {got.dtype}; {want.dtype} is wanted"
    elif isinstance(want, bool | np.bool_):
        if not isinstance(got, bool | np.bool_):
            return f"returns {_article(got)}; True or False is wanted"
    elif isinstance(want, str):
        if not isinstance(got, str):
            return f"returns {_article(got)}; a string is wanted"
    elif np.ndim(got) != 0 or isinstance(got, str | bool):
        return f"returns {_article(got)}; one number or expression is wanted"
    return ""


def _equal(got: Any, want: Any, tolerance: float) -> bool:
    """Whether two results of the same form agree; NaN agrees with nothing."""
    if isinstance(want, tuple | list):
        return all(_equal(g, w, tolerance) for g, w in zip(got, want, strict=True))
    if isinstance(want, sp.Basic | sp.MatrixBase):
        difference = sp.Matrix([got]) - sp.Matrix([want])
        return all(_vanishes(entry) for entry in difference)
    if isinstance(want, torch.Tensor):
        return _equal(_to_numpy(got), _to_numpy(want), tolerance)
    if isinstance(want, np.ndarray) and want.dtype.kind in "fc":
        return bool(np.all(_close(got, want, tolerance)))
    if isinstance(want, np.ndarray):
        return bool(np.array_equal(got, want))
    if isinstance(want, float | np.floating):
        return bool(_close(float(got), want, tolerance))
    return bool(got == want)


def _close(got: Any, want: Any, tolerance: float) -> Any:
    """Where numbers agree; the difference of equal infinities is NaN."""
    with np.errstate(invalid="ignore"):
        return (got == want) | (abs(got - want) <= tolerance)


def _first_wrong(got: Any, want: Any, tolerance: float) -> str:
    """Where an array or a tensor is wrong first, or nothing."""
    if isinstance(want, torch.Tensor):
        got, want = _to_numpy(got), _to_numpy(want)
    if not isinstance(want, np.ndarray):
        return ""
    index = np.argwhere(~np.isclose(got, want, rtol=0, atol=tolerance))[0]
    return f", wrong first at index {index.tolist()}"


def _to_numpy(x: torch.Tensor) -> np.ndarray:
    x = x.detach().cpu()
    return (x.double() if x.is_floating_point() else x).numpy()


def _vanishes(expression: sp.Expr) -> bool:
    attempts = (sp.expand, sp.trigsimp, sp.simplify)
    return any(attempt(expression) == 0 for attempt in attempts)


def _article(value: Any) -> str:
    if isinstance(value, sp.Expr):
        return "a SymPy expression"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' or name == 'ndarray' else 'a'} {name}"


def _show_case(exercise: Exercise, case: Iterable[Any]) -> str:
    names = inspect.signature(exercise.solution).parameters
    shown = [f"{n} = {_show(v)}" for n, v in zip(names, case, strict=True)]
    return ", ".join(shown) if shown else "this call"


def _show(value: Any) -> str:
    if isinstance(value, torch.Tensor) and value.numel() > 12:
        return f"a tensor of shape {list(value.shape)}"
    if isinstance(value, np.ndarray) and value.size > 12:
        return f"an array of shape {list(value.shape)}"
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=4, separator=", ")
    if callable(value):
        return getattr(value, "__name__", "a function")
    return str(value)
