"""Checker of the exercises: find an exercise, judge the answer, print the verdict.

The exercises on each family of encodings are in the folder with the family's name.
"""

import ast
import copy
import difflib
import functools
import importlib
import inspect
import linecache
import math
import os
import pkgutil
import re
import sys
import textwrap
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp
import torch

from posedu._argument_types import check_types
from posedu.book.exercises import hunt
from posedu.book.exercises.common_mistakes import diagnose, locate
from posedu.book.exercises.learner import Progress, compared, entry, source_of
from posedu.book.exercises.records import (
    Answer,
    Exercise,
    Property,
    Result,
    Sheet,
    running_ipython,
    without_roles,
)
from posedu.book.exercises.time_limit import TooLongError, time_limit
from posedu.book.exercises.values import (
    equal,
    first_wrong,
    float_for_int,
    has_symbols,
    is_number,
    scalar,
    show,
    show_briefly,
    type_in_words,
    wrong_form,
)

# If this environment variable is "1", check raises for an answer that is not correct.
STRICT = "POSEDU_STRICT"
OPEN = "open, not answered yet"
LONGEST = 10  # seconds of one call of an answer
CALLS_SHOWN = 3  # of those that a property makes
CASE_LENGTH = 500  # characters of a case that is shown in full
CALL_LENGTH = 120  # characters of each further input
ARGUMENT_LENGTH = 40  # characters of an argument where the case is too long


@functools.cache
def sheets() -> Mapping[str, str]:
    """Map each chapter's name to the name of the module with the chapter's exercises.

    For example, the exercises of chapter ``learned-biases`` are in the module
    ``posedu.book.exercises.bias.learned_biases``.
    """
    folders = importlib.import_module("posedu.book.exercises").__path__
    found = pkgutil.walk_packages(folders, "posedu.book.exercises.")
    inside = [module.name for module in found if module.name.count(".") == 4]
    return {name.rpartition(".")[2].replace("_", "-"): name for name in inside}


@check_types
def sheet(chapter: str) -> Sheet:
    """Return the exercises of the chapter of the given name, such as ``"rope"``.

    Raises
    ------
    KeyError
        If the chapter has no exercises.
    """
    if chapter not in sheets():
        raise KeyError(f"there are no exercises on {chapter!r}, only on {_chapters()}")
    return importlib.import_module(sheets()[chapter]).SHEET


@check_types
def check(name: Any, answer: Any) -> Result:
    """Check a learner's answer to an exercise; print and return the verdict.

    Parameters
    ----------
    name
        The name of the exercise, ``"<chapter>-<number>"``.
    answer
        The learner's function. If the function raises ``NotImplementedError``, the
        exercise is open.

    Raises
    ------
    AssertionError
        If the environment variable ``POSEDU_STRICT`` is 1 and the answer is not right.
    """
    result = judge(name, answer)
    if os.environ.get(STRICT) == "1" and result.status != "correct":
        raise AssertionError(repr(result))
    return _shown(result)


def _shown(result: Result) -> Result:
    notebook = running_ipython()
    if notebook:
        result._ipython_display_()
        return replace(result, shown=notebook.execution_count)
    if not hasattr(sys, "ps1"):  # an interactive prompt shows the returned value itself
        print(result)
    return result


def judge(name: Any, answer: Any) -> Result:
    """Return the verdict of :func:`check` on a learner's answer, and print nothing.

    ``name`` is the exercise's name, ``answer`` the learner's function. If the two
    arguments are swapped, or no exercise has the name, the verdict says so.
    """
    is_swapped = isinstance(answer, str) and not isinstance(name, str)
    asked = answer if is_swapped else name
    try:
        exercise = find(asked)
    except KeyError as error:
        return Result("wrong", show(asked), error.args[0])
    if is_swapped:
        status = "wrong"
        message = f'Call check("{exercise.name}", function): the name comes first.'
    else:
        status, message = verdict(exercise, answer)
        if status == "correct":
            parts = (compared(exercise), without_roles(exercise.explanation.strip()))
            message = " ".join(("correct.", *filter(None, parts)))
        entry(exercise.name).status = status
        entry(exercise.name).source = source_of(answer)
    return Result(status, f"{exercise.name} ({exercise.title})", message)


@check_types
def predict(name: Any, value: Any) -> Result:
    """Keep a learner's prediction; print that it is kept, or why it cannot be.

    Parameters
    ----------
    name
        The name of an exercise that asks for a prediction.
    value
        The predicted number, or ``...`` as long as there is none.
    """
    try:
        exercise = find(name)
    except KeyError as error:
        return _shown(Result("wrong", show(name), error.args[0]))
    status = "wrong"
    if exercise.prediction is None:
        message = "This exercise asks for no prediction."
    elif value is ...:
        status, message = "open", "Nothing is predicted yet."
    elif not is_number(scalar(value)) or not math.isfinite(scalar(value)):
        message = f"A prediction is one number, not {show_briefly(value)}."
    else:
        entry(exercise.name).prediction = float(scalar(value))
        status, message = "kept", f"You predict {float(scalar(value)):g}."
    return _shown(Result(status, f"{exercise.name} ({exercise.title})", message))


@check_types
def progress(chapter: str) -> Progress:
    """Return what has been solved of a chapter's exercises since Python was started.

    Its method ``save`` writes it to a file, with the code of the answers, to hand in.

    Raises
    ------
    KeyError
        If the chapter has no exercises.
    """
    found = sheet(chapter).exercises
    return Progress(
        chapter,
        exercises={e.name: replace(entry(e.name)) for e in found},
        minutes={e.name: e.minutes for e in found},
    )


def find(name: Any) -> Exercise:
    """Return the exercise of the given name, such as ``"rope-1"`` or ``"RoPE 1"``.

    Raises
    ------
    KeyError
        If there is no such exercise; the message has the names nearest to it.
    """
    if not isinstance(name, str):
        raise KeyError(
            "The first argument must be the name of an exercise, like 'rope-1'."
        )
    plain = re.sub(r"[\s_]+", "-", name.strip().lower())
    chapter, number = re.fullmatch(r"(.*?)(?:-(\d+))?", plain, re.S).groups("1")
    if chapter in sheets():
        known = {e.name: e for e in sheet(chapter).exercises}
        if plain in known:
            return known[plain]
        raise KeyError(f"There is no exercise {name!r}, only {', '.join(known)}.")
    near = difflib.get_close_matches(chapter, sheets(), n=3, cutoff=0.5)
    names = ", ".join(f"{other}-{number}" for other in near)
    raise KeyError(
        f"There is no exercise {name!r}. "
        + (f"The nearest names: {names}." if near else f"Chapters: {_chapters()}.")
    )


def _chapters() -> str:
    return ", ".join(sheets())


def verdict(exercise: Exercise, answer: Any) -> tuple[str, str]:
    """Return the status of a learner's answer, and the reply to the learner.

    The status is "correct", "open" or "wrong". The first line of a reply names what is
    wrong. Where a value is wrong, the last line shows the smallest failing input, what
    the answer gives there and what is right.
    """
    complaint = _wrong_signature(exercise, answer)
    if complaint:
        return "wrong", complaint
    if exercise.hunt is not None:
        found, complaint = _call(answer, ())
        if complaint == OPEN:
            return "open", OPEN
        try:
            with time_limit(_longest()):
                complaint = complaint or hunt.complaint(exercise, found)
        except TooLongError:
            complaint = (
                f"Your input could not be tried in {LONGEST} seconds: it is too large."
            )
        return ("wrong", complaint) if complaint else ("correct", "correct")
    given = []
    for case in exercise.cases:
        result, complaint = _call(answer, case)
        if complaint == OPEN:
            return "open", OPEN
        if complaint:
            return "wrong", f"{complaint}{_input_line(exercise, case)}"
        given.append(result)
    wanted = [exercise.solution(*copy.deepcopy(case)) for case in exercise.cases]
    for case, got, want in zip(exercise.cases, given, wanted, strict=True):
        complaint = wrong_form(got, want)
        if complaint:
            return "wrong", f"{complaint}{_input_line(exercise, case)}"
    pairs = zip(given, wanted, strict=True)
    try:
        with time_limit(_longest()):
            is_right = [equal(got, want, exercise.tolerance) for got, want in pairs]
    except TooLongError:
        return "wrong", (
            f"Your answer could not be compared with the right one in {LONGEST} "
            "seconds. Give it in a simpler form: shorten it yourself, or with "
            "`sp.simplify`."
        )
    if all(is_right):
        for case, got, want in zip(exercise.cases, given, wanted, strict=True):
            complaint = float_for_int(got, want)
            if complaint:
                return "wrong", f"{complaint}{_input_line(exercise, case)}"
        return "correct", "correct"
    first = is_right.index(False)
    failing = exercise.cases[first]
    fault = _whole_division(answer) or _changed(answer, failing, given[first])
    fault = fault or diagnose(exercise, given, wanted)
    fault = fault or _broken_property(exercise, answer, failing)
    fault = fault or f"Not the right value. {locate(exercise, given, wanted)}".rstrip()
    shown = _comparison(exercise, failing, given[first], wanted[first])
    return "wrong", f"{fault}\n{shown}"


def _whole_division(answer: Answer) -> str:
    """Return a reply on a division of whole numbers that rounds, such as 1 // 2, or ''.

    It is looked for in the code of ``answer``, the learner's function.
    """
    try:
        tree = ast.parse(textwrap.dedent(source_of(answer) or ""))
    except SyntaxError:  # the lines of a lambda function need not be whole statements
        return ""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(
                ast.Constant(int(above)), ast.FloorDiv(), ast.Constant(int(below))
            ) if below and above % below:
                return (
                    f"In your code `{above}//{below}` is {above // below}, since `//` "
                    f"rounds down. Divide by `/`, or in SymPy by `sp.Rational({above}, "
                    f"{below})`."
                )
    return ""


def _changed(answer: Answer, case: tuple, before: Any) -> str:
    """Return a reply that a learner's answer changes from call to call, or ''.

    ``before`` is what it returned in its first call with the arguments ``case``.
    """
    again, complaint = _call(answer, case)
    if complaint or show(again, 10**6) == show(before, 10**6):
        return ""
    return (
        "Your answer gives another result when it is called again. Does it draw random "
        "numbers of its own, or change something outside of the function?"
    )


def _longest() -> float:
    """Return the seconds of one call; far more in strict mode, on busy machines."""
    return 120 if os.environ.get(STRICT) == "1" else LONGEST


def _call(answer: Answer, case: tuple) -> tuple[Any, str]:
    """Call a learner's answer; return a pair of its result and a complaint.

    ``case`` is the tuple of arguments, which the answer must leave unchanged. The
    complaint says what went wrong, and the result is then None; the complaint is '' if
    the call went well.
    """
    arguments = copy.deepcopy(case)
    try:
        with time_limit(_longest()):
            result = answer(*arguments)
    except TooLongError:
        return None, (
            f"Your answer was interrupted after {LONGEST} seconds. Is there a loop "
            "without an end, one over all pairs or offsets that a formula or an "
            "operation on whole arrays can replace, or a `sp.solve` that can be done "
            "by hand?"
        )
    except (Exception, SystemExit) as error:
        if isinstance(error, NotImplementedError) and not error.args:
            return None, OPEN
        return None, (
            f"Your answer raises {_describe_error(error)}{_line_of(answer, error)}."
        )
    if not all(map(_unchanged, arguments, case)):
        return None, "Your answer changes its input in place; work on a copy of it."
    return result, ""


def _describe_error(error: BaseException) -> str:
    try:
        text = str(error).partition("\n")[0].rstrip(".")
    except Exception:  # the error is the learner's own
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _line_of(answer: Answer, error: BaseException) -> str:
    """Return where in the learner's code an exception arose: the line and its text.

    It is the last line that was running in the file or cell of ``answer``, the
    learner's function; '' if the function is not written in Python, or if it claims
    to wrap itself.
    """
    try:
        code = getattr(inspect.unwrap(answer), "__code__", None)
    except ValueError:  # the chain of `__wrapped__` has no end
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if code is not None and f.filename == code.co_filename]
    if not own:
        return ""
    line = linecache.getline(own[-1].filename, own[-1].lineno or 0).strip()
    number = (own[-1].lineno or 0) - code.co_firstlineno + 1
    place = f"line {number} of your function" if number > 0 else "your code"
    return f", in {place}: `{line}`" if line else f", in {place}"


def _comparison(exercise: Exercise, case: tuple, got: Any, want: Any) -> str:
    """Return the line of a reply with a failing input, the given and the right value.

    ``case`` is the failing tuple of arguments, ``got`` the value that the answer
    returned, ``want`` the right one. The right value is left out where it would be the
    solution: if there are no arguments, or if the arguments or the right value contain
    symbols.
    """
    shown = _show_case(exercise, case)
    subject = f"For {shown} your answer" if shown else "Your answer"
    is_solution = not case or any(map(has_symbols, (*case, want)))
    place, got, want = first_wrong(got, want, exercise.tolerance)
    given, right = show_briefly(got), show_briefly(want)
    if given == right and isinstance(got, float):  # they differ in later digits
        given, right = repr(float(got)), repr(float(want))
    return (
        f"{subject} gives {given}{place}{'' if is_solution else f'; right is {right}'}."
    )


def _wrong_signature(exercise: Exercise, answer: Any) -> str:
    """Return why an answer cannot take the exercise's arguments, or an empty string.

    Empty, too, if the signature of the answer cannot be found.
    """
    if not callable(answer):
        return (
            f"You gave {type_in_words(answer)}; give the function itself, "
            "without calling it."
        )
    try:
        signature = inspect.signature(answer)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return ""
    given, wanted = list(signature.parameters), _parameters(exercise)
    taken, needed = ", ".join(given), ", ".join(wanted)
    try:
        signature.bind(*wanted)
    except TypeError:
        return f"Your function takes ({taken}); it is called with ({needed})."
    if given != wanted and sorted(given) == sorted(wanted):
        return f"Your function takes ({taken}); it must take ({needed}), in this order."
    return ""


def _parameters(exercise: Exercise) -> list[str]:
    """Return the names of the solution's parameters to which test inputs give values.

    Parameters after these keep their defaults.
    """
    names = inspect.signature(exercise.solution).parameters
    return list(names)[: len(exercise.cases[0])]


def _unchanged(after: Any, before: Any) -> bool:
    if isinstance(before, np.ndarray | torch.Tensor | sp.MatrixBase | list):
        return not wrong_form(after, before) and equal(after, before, 0.0)
    return after == before if isinstance(before, dict) else True


def _broken_property(exercise: Exercise, answer: Answer, failing: tuple) -> str:
    """Return a reply on the first property that an answer lacks, or an empty string.

    A property is a test that every right answer to the exercise passes. The reply shows
    calls of the answer that break the property. Calls with the arguments ``failing``
    are left out, since the end of the reply shows those anyway.
    """
    for rule in exercise.properties:
        for case in exercise.cases:
            holds, calls = _holds(rule, answer, case)
            if not holds:
                shown = [
                    f"For {inputs} your answer {result}."
                    for inputs, result in _show_calls(exercise, calls)
                    if inputs != _show_case(exercise, failing, CALL_LENGTH)
                ]
                text = f"This property does not hold for your answer: {rule.says}."
                return "\n".join([text, *shown[-CALLS_SHOWN:]])
    return ""


def _holds(rule: Property, answer: Answer, case: tuple) -> tuple[bool, list[tuple]]:
    """Return whether an answer has a property, and the calls of the answer in the test.

    ``rule`` is the property (a test that every right answer passes), ``case`` the tuple
    of arguments for the test. Each call is a pair of the arguments and of what the
    answer returned or the exception that it raised.
    """
    calls: list[tuple] = []

    def recorded(*arguments: Any) -> Any:
        case = copy.deepcopy(arguments)
        try:
            result = answer(*arguments)
        except (Exception, SystemExit) as error:
            calls.append((case, error))
            raise
        calls.append((case, result))
        return result

    try:
        with time_limit(_longest()):
            return bool(rule.holds(recorded, *copy.deepcopy(case))), calls
    except (Exception, SystemExit, TooLongError):
        return False, calls  # outside the cases an answer may do anything


def _show_calls(exercise: Exercise, calls: list[tuple]) -> list[tuple[str, str]]:
    """Return the distinct inputs and the outcomes of calls of an answer, as text.

    ``calls`` are pairs of the arguments and of the returned value or the raised
    exception. Each returned pair is like ("x = 1", "gives 2"). The list is empty if the
    exercise's function takes no arguments.
    """
    if not exercise.cases[0]:
        return []
    shown = [
        (
            _show_case(exercise, case, CALL_LENGTH),
            f"raises {_describe_error(result)}"
            if isinstance(result, BaseException)
            else f"gives {show_briefly(result)}",
        )
        for case, result in calls
    ]
    return list(dict.fromkeys(shown))


def _input_line(exercise: Exercise, case: Iterable[Any]) -> str:
    shown = _show_case(exercise, case)
    return f"\nThe input was {shown}." if shown else ""


def _show_case(
    exercise: Exercise, case: Iterable[Any], longest: int = CASE_LENGTH
) -> str:
    """Return the arguments of a test case as text: ``name = value, …``.

    ``case`` is the tuple of arguments. If the text is longer than ``longest``
    characters, long arguments are shortened, and arrays are described by their shapes.
    If there are no arguments, the text is ''.
    """
    names = inspect.signature(exercise.solution).parameters
    pairs = list(zip(names, case, strict=False))
    full = ", ".join(f"{n} = {show_briefly(v, longest)}" for n, v in pairs)
    short = ", ".join(f"{n} = {show_briefly(v, ARGUMENT_LENGTH)}" for n, v in pairs)
    return full if len(full) <= longest else short
