"""Records of exercises and of verdicts, and random inputs for the cases."""

import html
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Answer = Callable[..., Any]
Kind = Literal["by hand", "SymPy", "NumPy", "PyTorch", "experiment"]


@dataclass(frozen=True)
class Misconception:
    """A wrong answer that people give, as code, and the reply to it.

    The reply begins "name. message": ``name`` says in plain words what the learner
    believes or has done, ``message`` why that is wrong.
    """

    name: str
    message: str
    answer: Answer


@dataclass(frozen=True)
class Property:
    """A property of every right answer: ``holds(answer, *case)`` is true.

    ``holds`` may call the answer with other inputs than the case's. The reply shows the
    inputs with which it was called.
    """

    says: str
    holds: Callable[..., bool]


@dataclass(frozen=True)
class Exercise:
    """One exercise, from which its page and both its notebooks are made.

    ``statement`` and ``hint`` are Markdown. ``solution`` is a function of its module;
    the learner starts from its signature and docstring. ``cases`` are tuples of
    arguments, smallest first, since the reply shows the first failing one.
    ``tolerance`` is the largest absolute difference accepted between floats.
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
    """Exercises of a chapter, in order; ``conventions`` are Markdown."""

    title: str
    conventions: str
    exercises: tuple[Exercise, ...]


@dataclass(frozen=True)
class Result:
    """Verdict of :func:`check` on an answer.

    ``shown`` is the execution count of the notebook cell that has displayed it.
    """

    status: Literal["correct", "open", "wrong"]
    exercise: str
    message: str
    shown: int | None = None

    def __repr__(self) -> str:
        sign = {"correct": "✓", "open": "○", "wrong": "✗"}[self.status]
        return f"{sign} {self.exercise}: {self.message}"

    def mimebundle(self) -> dict[str, str]:
        """Return the verdict as a notebook displays it, in text and in HTML."""
        text = html.escape(repr(self)).replace("\n", "<br>")
        paragraph = f'<p class="posedu-{self.status}">{text}</p>'
        return {"text/html": paragraph, "text/plain": repr(self)}

    def _ipython_display_(self) -> None:
        """Display the verdict, but only once if a cell ends with its check."""
        from IPython.display import display

        if self.shown is None or self.shown != running_ipython().execution_count:
            display(self.mimebundle(), raw=True)


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    """Draw standard normal numbers that depend on shape and seed alone."""
    return np.random.default_rng((seed, *shape)).normal(size=shape)


def running_ipython() -> Any:
    """Return the running IPython, or None."""
    ipython = sys.modules.get("IPython")
    return ipython and ipython.get_ipython()
