"""The exercise checker, and every exercise: solution, stub, each misconception."""

import re

import nbformat
import numpy as np
import pytest
import sympy as sp
import torch

from posedu.check import core
from posedu_book.notebooks import EXERCISES, SOLVED

ALL = [e for family in core.FAMILIES for e in core.exercises(family).values()]
MISTAKES = [(e, m) for e in ALL for m in e.misconceptions]


def ids(value):
    return getattr(value, "name", None)


@pytest.mark.parametrize("exercise", ALL, ids=ids)
def test_the_solution_is_correct(exercise):
    result = core.check(exercise.name, exercise.solution)
    assert result.status == "correct", result


@pytest.mark.parametrize("exercise", ALL, ids=ids)
def test_a_stub_is_open(exercise):
    def stub(*arguments):
        raise NotImplementedError

    assert core.check(exercise.name, stub).status == "open"


@pytest.mark.parametrize(("exercise", "mistake"), MISTAKES, ids=ids)
def test_each_misconception_gets_its_own_message(exercise, mistake):
    result = core.check(exercise.name, mistake.answer)
    assert result.status == "wrong"
    assert mistake.name in result.message
    assert mistake.message in result.message


@pytest.mark.parametrize("exercise", ALL, ids=ids)
def test_misconceptions_are_at_least_three_with_names_of_their_own(exercise):
    names = {m.name for m in exercise.misconceptions}
    assert len(names) == len(exercise.misconceptions) >= 3


@pytest.mark.parametrize("family", core.FAMILIES)
def test_each_family_has_six_exercises_of_several_kinds(family):
    exercises = core.exercises(family).values()
    assert len(exercises) >= 6
    kinds = {e.kind for e in exercises}
    assert kinds >= {"by hand", "NumPy", "PyTorch", "experiment"}


def parts(family):
    notebook = nbformat.read(SOLVED / f"{family}.ipynb", as_version=4)
    found = {}
    for cell in notebook.cells:
        tag = cell.metadata.get("posedu", {})
        if tag:
            found.setdefault(tag["exercise"], {})[tag["role"]] = cell
    return found


@pytest.mark.parametrize("family", core.FAMILIES)
def test_the_notebook_has_each_exercise_with_the_record_s_heading(family):
    exercises = core.exercises(family)
    found = parts(family)
    assert list(found) == list(exercises)
    for name, exercise in exercises.items():
        roles = found[name]
        assert set(roles) == {"statement", "hint", "solution", "check"}
        heading = f"## {name} · {exercise.title}\n"
        assert roles["statement"].source.startswith(heading)
        plural = "line" if exercise.lines == 1 else "lines"
        effort = (
            f"*{exercise.kind} · {exercise.minutes} minutes · "
            f"about {exercise.lines} {plural}*"
        )
        assert effort in roles["statement"].source
        assert f'check("{name}"' in roles["check"].source


@pytest.mark.parametrize("family", core.FAMILIES)
def test_the_student_copy_shows_no_solution(family):
    solved = parts(family)
    student = (EXERCISES / f"{family}.ipynb").read_text(encoding="utf-8")
    assert "SOLUTION" not in student
    assert student.count("raise NotImplementedError") >= len(solved)
    for roles in solved.values():
        body = re.search(
            r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", roles["solution"].source, re.S
        )
        lines = [line.strip() for line in body[1].splitlines() if len(line) > 30]
        assert not [line for line in lines if line and line in student]


SQUARE = core.Exercise(
    name="toy-1",
    title="Square",
    kind="NumPy",
    minutes=1,
    lines=1,
    cases=((np.array([2.0]),), (np.array([1.0, -3.0]),)),
    solution=lambda x: x**2,
    misconceptions=(
        core.Misconception("Doubled", "Two times is not squared.", lambda x: 2 * x),
    ),
    properties=(
        core.Property("no square is negative", lambda f, x: bool((f(x) >= 0).all())),
    ),
)


def overwrite(x):
    x *= x
    return x


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda x: None, "returns nothing"),
        (lambda x: (x**2)[None], r"returns shape \[1, 1\]; \[1\] is wanted"),
        (lambda x: (x**2).astype(int), "returns dtype int64"),
        (lambda x: list(x**2), "returns a list; a NumPy array"),
        (lambda x: torch.tensor(x**2), "returns a Tensor; a NumPy array"),
        (lambda x: 2 * x, "Doubled. Two times is not squared."),
        (lambda x: -(x**2), r"no square is negative, but not for x = \[2\.\]"),
        (lambda x: x**2 + 1, r"not the right value for x = \[2\.\]: yours is \[5\.\]"),
        (lambda x: x**2 + 1, r"yours is \[5\.\], wrong first at index \[0\]$"),
        (lambda x: x**2 * np.nan, "no square is negative"),
        (lambda x: 1 / 0, "raises ZeroDivisionError"),
        (overwrite, "changes its input in place"),
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong(answer, said):
    status, message = core._judge(SQUARE, answer)
    assert status == "wrong"
    assert re.search(said, message)


@pytest.mark.parametrize(
    ("got", "want", "equal"),
    [
        (sp.sin(1) ** 2 + sp.cos(1) ** 2, sp.Integer(1), True),
        (sp.Symbol("x"), sp.Integer(1), False),
        (torch.tensor([1.0], dtype=torch.bfloat16),) * 2 + (True,),
        (torch.tensor([2]), torch.tensor([3]), False),
        (1.0 + 1e-12, 1.0, True),
        (float("nan"), 1.0, False),
        (np.inf, np.inf, True),
        (-np.inf, np.inf, False),
        (np.inf, 1.0, False),
        (np.array([np.inf, -np.inf, 0]), np.array([np.inf, -np.inf, 0]), True),
        (np.array([np.inf, 0]), np.array([-np.inf, 0]), False),
        (torch.tensor([-np.inf, 1]), torch.tensor([-np.inf, 1]), True),
        (np.array([complex(np.inf, 0)]), np.array([complex(np.inf, 0)]), True),
        (np.float64(1.0), np.float64(1.0), True),
        ([1.0, True], [1.0, False], False),
        (np.array([1, 2]), np.array([1, 2]), True),
        ("half", "half", True),
    ],
)
def test_equality_by_kind(got, want, equal):
    assert core._equal(got, want, 1e-9) is equal


@pytest.mark.parametrize(
    ("got", "want", "said"),
    [
        (1.0, (1.0, 2.0), "returns a float; a tuple or list of 2 is wanted"),
        ((1.0,), (1.0, 2.0), "returns 1 results; 2 are wanted"),
        ((1.0, None), (1.0, 2.0), "returns nothing"),
        (sp.Integer(1), (1.0, 2.0), "returns a SymPy expression; a tuple or list"),
        (np.eye(2), (1.0, 2.0), "returns an ndarray; a tuple or list of 2"),
        (np.eye(2, dtype="f4"), np.eye(2), "returns dtype float32; float64 is wanted"),
        (sp.Integer(1), sp.eye(2), "a SymPy matrix is wanted"),
        (sp.eye(3), sp.eye(2), r"returns shape \(3, 3\)"),
        (np.eye(2), torch.eye(2), "a torch.Tensor is wanted"),
        (torch.eye(3), torch.eye(2), r"returns shape \[3, 3\]"),
        (torch.eye(2).double(), torch.eye(2), "returns torch.float64"),
        (1, True, "True or False is wanted"),
        (1, "half", "a string is wanted"),
        (np.eye(2), 1.0, "one number or expression is wanted"),
        ("1", 1.0, "one number or expression is wanted"),
    ],
)
def test_form_is_compared_before_values(got, want, said):
    assert re.search(said, core._wrong_form(got, want))


def test_unknown_exercises_are_named():
    with pytest.raises(KeyError, match="no exercises on 'alibi'"):
        core.check("alibi-1", print)
    with pytest.raises(KeyError, match="there is no exercise 'rotary-99'"):
        core.check("rotary-99", print)


def test_strict_mode_raises_on_what_is_not_correct(monkeypatch):
    monkeypatch.setenv(core.STRICT, "1")
    name = ALL[0].name
    with pytest.raises(AssertionError, match=name):
        core.check(name, lambda *arguments: None)
    assert core.check(name, ALL[0].solution).status == "correct"


def test_the_result_is_escaped_for_html():
    result = core.Result("wrong", "a-1 (x < y)", "2 < 3")
    assert "x &lt; y" in result._repr_html_()
    assert repr(result) == "✗ a-1 (x < y): 2 < 3"


def test_large_inputs_are_shown_by_their_shape():
    assert core._show(np.zeros((4, 4))) == "an array of shape [4, 4]"
    assert core._show(torch.zeros(4, 4)) == "a tensor of shape [4, 4]"
    assert core._show(overwrite) == "overwrite"
