"""The exercise checker, and every exercise: solution, stub, each misconception."""

import ast
import re
import sys

import numpy as np
import pytest
import sympy as sp
import torch
from nbformat.v4 import new_code_cell

from posedu import check
from posedu.check import core
from posedu.numpy import absolute, attention, gated, rotary, stickbreaking
from posedu.numpy.frequencies import frequencies as geometric
from posedu.torch import RoPE, convert_layout
from posedu_book import exercises
from posedu_book.exercises import Source
from posedu_book.notebooks import ROOT

SHEETS = {name: check.sheet(name) for name in check.sheets()}
ALL = [exercise for sheet in SHEETS.values() for exercise in sheet.exercises]
MISTAKES = [(e, m) for e in ALL for m in e.misconceptions]
SETUP = new_code_cell("")

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without")
EACH_SHEET = pytest.mark.parametrize("name", SHEETS)


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


@EACH_SHEET
def test_each_sheet_belongs_to_a_chapter_and_numbers_its_exercises(name):
    folder, chapter = check.sheets()[name].split(".")[2:]
    assert (ROOT / "book" / folder / f"{chapter}.md").exists()
    names = [exercise.name for exercise in SHEETS[name].exercises]
    assert names == [f"{name}-{number}" for number in range(1, len(names) + 1)]


@EACH_SHEET
def test_each_sheet_has_six_exercises_of_several_kinds(name):
    found = SHEETS[name].exercises
    assert len(found) >= 6
    assert {e.kind for e in found} >= {"by hand", "NumPy", "PyTorch", "experiment"}


@EACH_SHEET
def test_a_learner_is_told_what_to_do_and_not_how(name):
    source = Source(name)
    asked = "".join(cell.source for cell in exercises.student(name, SETUP).cells)
    for exercise, given, function in source.exercises():
        assert exercise.statement.strip() in asked
        assert exercise.hint.strip() in asked
        assert all(part in asked for part in given)
        stub = source.stub(function)
        assert stub in asked
        answer = source.code(function).splitlines()[len(stub.splitlines()) - 1 :]
        long = [line.strip() for line in answer if len(line.strip()) > 30]
        assert not [line for line in long if line in asked]


@EACH_SHEET
def test_each_solution_runs_on_what_the_notebook_shows_before_it(name):
    source, scope = Source(name), {}
    exec(source.header(), scope)
    for exercise, given, function in source.exercises():
        exec("\n\n".join([*given, source.code(function)]), scope)
        assert check.check(exercise.name, scope[function]).status == "correct"


@EACH_SHEET
def test_cases_do_not_depend_on_what_is_drawn_before(name):
    """A module-wide generator would deal other numbers to whoever stands later."""
    generators = (np.random.Generator, np.random.RandomState, torch.Generator)
    module = sys.modules[check.sheets()[name]]
    assert not [n for n, v in vars(module).items() if isinstance(v, generators)]


def _rope_half(x, position):
    return rotary.rope(x, np.full(len(x), position), layout="half")


def _interleaved(x):
    return x[..., np.argsort(rotary.layout_permutation(x.shape[-1]))]


def _off_relative(generators, x, y):
    at = np.stack((x, y, y - x))
    first, second, moved = rotary.rotations(at, generators[:, None])[:, 0]
    return abs(first.T @ second - moved).max()


def _cope(q, k, table):
    q, k, table = (x.numpy() for x in (q, k, table))
    doors, mask = gated.cope(table=table, scaling="code"), attention.causal_mask(len(q))
    return attention.steps(q[None], k[None], k[None], doors, mask=mask).weights[0]


def _fox(q, k, log_f):
    logits = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5 + gated.forget_bias(log_f)
    mask = np.broadcast_to(attention.causal_mask(q.shape[-2]), logits.shape)
    return attention.softmax(logits, mask)


def _fox_outputs(q, k, v, log_f):
    return _fox(q.numpy(), k.numpy(), log_f.numpy()) @ v.numpy()


def _row(z):
    rows = np.broadcast_to(np.asarray(z, dtype=float), (1, len(z)))
    return stickbreaking.break_stick_log(rows, attend_current=True)


def _sticks(q, k, v, attend_current):
    logits = (q @ k.T / q.shape[-1] ** 0.5).numpy()
    weights, _ = stickbreaking.break_stick(logits, attend_current=attend_current)
    return weights @ v.numpy()


# What posedu itself says where it has a function for what an exercise asks.
OURS = {
    "order-5": lambda queries, keys: attention.causal_mask(keys)[-queries:],
    "order-7": attention.softmax,
    "sinusoidal-2": lambda d, rule: geometric(d, spacing=rule),
    "sinusoidal-4": lambda n, d, layout: absolute.sinusoidal(
        range(n), d, layout=layout
    ),
    "sinusoidal-5": _interleaved,
    "sinusoidal-6": lambda x, d: absolute.sinusoidal(
        x.numpy(), d, layout="interleaved"
    ),
    "rope-3": lambda x, at, layout: rotary.rope(x, at, layout=layout),
    "rope-5": lambda x, at, dim: rotary.rope(x, at, layout="half", rotary_dim=dim),
    "rope-6": lambda w, h: convert_layout(w, h, source="interleaved", target="half"),
    "rope-7": lambda positions, d: RoPE(d, layout="half").table(positions)[0],
    "rope-9": lambda q, offset: _rope_half(q[None], offset)[0],
    "rope-10": lambda q, k, offset: (_rope_half(q, offset) * k).sum(axis=1).std(),
    "axes-2": lambda w, h: rotary.grid(w, h, coordinates="index"),
    "axes-4": lambda at, d, order: at @ rotary.axial_frequencies(d, order=order).T,
    "liere-3": lambda entries, x: rotary.exponential(rotary.skew(x @ entries)),
    "liere-4": rotary.exponential,
    "liere-7": lambda x, turns: rotary.turn_blocks(x.numpy(), turns.numpy()),
    "liere-8": _off_relative,
    "comrope-3": rotary.ld_generators,
    "comrope-4": lambda w, h: [[0.5, 0.5], *rotary.grid(w, h, coordinates="centres")],
    "fope-1": lambda d, length: len(rotary.kept_frequencies(d, length=length)),
    "cope-2": lambda z, npos: gated.contextual_positions(z, largest=npos - 1),
    "cope-4": _cope,
    "fox-3": _fox,
    "fox-5": _fox_outputs,
    "decay-5": _fox_outputs,
    "stickbreaking-3": lambda z: stickbreaking.break_stick(z, attend_current=False)[0],
    "stickbreaking-4": lambda z: np.exp(_row(z)[1][0]),
    "stickbreaking-5": lambda z: _row(z)[0][0],
    "stickbreaking-6": _sticks,
}


@pytest.mark.parametrize("name", OURS)
def test_a_solution_says_what_posedu_says(name):
    exercise = next(exercise for exercise in ALL if exercise.name == name)
    for case in exercise.cases:
        want, got = OURS[name](*case), exercise.solution(*case)
        np.testing.assert_allclose(got, want, rtol=0, atol=exercise.tolerance)


def test_what_a_solution_is_made_of_is_found():
    assert "softmax" not in Source("decay").needs("changes")  # a function inside
    assert "import torch" in Source("commuting").header()
    source = Source("rope")
    assert source.needs("decode") == ["torch", "RoPE", "rope"]
    with pytest.raises(ValueError, match="_empty needs a docstring and a body"):
        source.parts["_empty"] = ast.parse("def _empty():\n    return 1").body[0]
        source.stub("_empty")


SQUARE = core.Exercise(
    name="toy-1",
    title="Square",
    kind="NumPy",
    minutes=1,
    lines=1,
    statement="Square every number.",
    hint="Multiply each by itself.",
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
    with pytest.raises(KeyError, match="there is no exercise 'rope-99'"):
        core.check("rope-99", print)


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
