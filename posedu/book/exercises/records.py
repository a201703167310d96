"""Dataclasses of exercises and of the checker's verdicts, and random test arrays."""

import html
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from posedu._argument_types import check_types
from posedu._arguments import require_count, require_seed

Answer = Callable[..., Any]
Kind = Literal["by hand", "SymPy", "NumPy", "PyTorch", "experiment", "find the input"]
Level = Literal["required", "optional", "hard"]
ROLE = re.compile(r"\{[\w:-]+\}`([^`<]*?)(?: *<[^`>]*>)?`")


@check_types
@dataclass(frozen=True)
class Misconception:
    """A typical wrong answer to an exercise, as a function, and the reply to a learner.

    The reply begins "name. message": ``name`` says in plain words what the learner
    believes or has done, ``message`` why that is wrong.
    """

    name: str
    message: str
    answer: Answer


@check_types
@dataclass(frozen=True)
class Property:
    """A property that every right answer to an exercise has, and a test of it.

    The test ``holds(answer, *case)`` is true for every right answer and every ``case``
    (a tuple of arguments) of the exercise. ``holds`` may also call the answer with
    arguments that are in no case. The reply to a wrong answer states the property,
    ``says``, and shows the last calls of the answer with their arguments.
    """

    says: str
    holds: Callable[..., bool]


@check_types
@dataclass(frozen=True)
class Prediction:
    """A number that a learner predicts before solving an exercise.

    ``question`` is Markdown; ``value`` computes the number. A prediction within
    ``near`` of it, relative to the number, counts as right.
    """

    question: str
    value: Callable[[], int | float]
    near: float = 0.0


@check_types
@dataclass(frozen=True)
class Hunt:
    """Hunt for an input on which a function is wrong, in a "find the input" exercise.

    ``wrong`` is the colleague's function, whose code the learner sees; ``right`` does
    what it should do. Both agree on ``tested``, the inputs (tuples of arguments) that
    the colleague tried. ``refusal`` takes an input's arguments and returns why they are
    not allowed, as a sentence, or an empty string. ``size`` takes them and returns the
    number that the smallest input makes least; ``size_of`` names it.
    """

    wrong: Answer
    right: Answer
    tested: tuple[tuple[Any, ...], ...]
    refusal: Callable[..., str]
    size: Callable[..., int]
    size_of: str


@check_types
@dataclass(frozen=True)
class Repair:
    """The broken function that a learner repairs in an exercise of kind "repair".

    ``broken`` is the function, with the solution's signature. ``symptom`` takes a
    repaired or broken function and returns a number that should be 0; the learner sees
    and runs its code.
    """

    broken: Answer
    symptom: Callable[[Answer], float]


@check_types
@dataclass(frozen=True)
class Exercise:
    """One exercise: its text, test inputs, solution and known wrong answers.

    The exercise's section on the book's page, in the notebook to fill in and in the
    notebook with solutions is made from this object.

    ``name`` is like "rope-1", and ``kind`` says how the exercise is solved. ``level``
    says whether it belongs to every course, may be left out, or is hard as well.
    ``statement`` (the question), ``hint`` and ``explanation`` are Markdown; the
    explanation answers every question of the statement, and is shown with the solution
    and to a learner whose answer is correct. ``solution`` is a function
    of the exercise's module. The learner starts from the solution's signature and
    docstring and needs about ``lines`` lines and ``minutes`` minutes. ``cases`` are
    tuples of arguments, smallest first, since the reply to a wrong answer shows the
    first failing one.
    ``misconceptions`` are typical wrong answers, ``properties`` are tests that every
    right answer passes, and ``tolerance`` is the largest absolute difference accepted
    between floats. ``prediction`` is asked for before the code is written.

    In an exercise of kind "find the input", ``hunt`` says on which function; the
    solution takes no arguments and returns a smallest input, as a tuple of arguments.
    In one of kind "repair" the learner starts from the broken function of ``repair``.
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
    level: Level = "required"
    explanation: str = ""
    prediction: Prediction | None = None
    hunt: Hunt | None = None
    repair: Repair | None = None


@check_types
@dataclass(frozen=True)
class Sheet:
    """The exercises of one chapter, in order, with a title.

    ``conventions``, in Markdown, states the notation that all the exercises share.
    ``example`` is code that makes one call and prints what it returns; ``figure`` is
    the name of the chapter's interactive figure in :mod:`posedu.book.explorables`,
    empty if there is none.
    """

    title: str
    conventions: str
    exercises: tuple[Exercise, ...]
    example: str = ""
    figure: str = ""


@check_types
@dataclass(frozen=True)
class Result:
    """Verdict of :func:`check` on a learner's answer, or of :func:`predict`.

    ``exercise`` is the exercise's name, ``message`` the reply to the learner. The
    status of a prediction that is kept for later is "kept". ``shown`` is the execution
    count of the notebook cell that has displayed the verdict; None if no cell has
    displayed the verdict.
    """

    status: Literal["correct", "open", "wrong", "kept"]
    exercise: str
    message: str
    shown: int | None = None

    def __repr__(self) -> str:
        sign = {"correct": "✓", "open": "○", "wrong": "✗", "kept": "●"}[self.status]
        return f"{sign} {self.exercise}: {self.message}"

    def mimebundle(self) -> dict[str, str]:
        """Return the verdict by MIME type, for a notebook: as text, and formatted.

        A correct answer's explanation is Markdown, with formulas.
        """
        if self.status == "correct":
            return {"text/markdown": repr(self), "text/plain": repr(self)}
        text = html.escape(repr(self)).replace("\n", "<br>")
        paragraph = f'<p class="posedu-{self.status}">{text}</p>'
        return {"text/html": paragraph, "text/plain": repr(self)}

    def _ipython_display_(self) -> None:
        """Display the verdict, unless the running notebook cell has displayed it."""
        from IPython.display import display

        if self.shown is None or self.shown != running_ipython().execution_count:
            display(self.mimebundle(), raw=True)


def without_roles(text: str) -> str:
    """Return Markdown of a page with its roles replaced by their text."""
    return ROLE.sub(r"\1", text)


@check_types
def draw(*shape: int, seed: int = 0) -> np.ndarray:
    """Return an array of standard normal numbers, fixed by its shape and the seed.

    ``shape`` are the lengths of the array's axes.
    """
    for size in shape:
        require_count("shape", size)
    return np.random.default_rng((require_seed(seed), *shape)).normal(size=shape)


def running_ipython() -> Any:
    """Return the running IPython shell, or None if Python runs without IPython."""
    ipython = sys.modules.get("IPython")
    return ipython and ipython.get_ipython()
