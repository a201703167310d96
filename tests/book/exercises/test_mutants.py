"""The checker refuses each automatic mutant of a solution, or a reason is given.

``surviving_mutants.toml`` lists the mutants that it takes for right, by their reasons.
"""

import ast
import re
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from posedu.book import exercises
from posedu.book.exercises import checker
from support import solution_mutants

FILE = Path(__file__).with_name("surviving_mutants.toml")
SURVIVORS = tomllib.loads(FILE.read_text("utf-8"))["survivors"]
LISTED = [tuple(mutant) for group in SURVIVORS for mutant in group["mutants"]]

pytestmark = [
    pytest.mark.usefixtures("untraced_flex"),
    pytest.mark.filterwarnings("ignore"),  # mutants may divide by zero
]


@pytest.fixture(autouse=True)
def verdict_alone(monkeypatch):
    """Judge answers without looking for the reply, which takes most of the time."""
    monkeypatch.delenv(checker.STRICT, raising=False)
    monkeypatch.setattr(checker, "LONGEST", 1)
    for name in ("diagnose", "locate", "_broken_property"):
        monkeypatch.setattr(checker, name, lambda *_: "")


@pytest.mark.parametrize("chapter", exercises.sheets())
def test_each_mutant_is_refused_or_listed(chapter, monkeypatch):
    asked = [e for e in exercises.sheet(chapter).exercises if not e.hunt]
    found = [solution_mutants.passing(exercise) for exercise in asked]
    passed = set().union(*(keys for keys, _ in found))
    listed = {key for key in LISTED if key[0].rpartition("-")[0] == chapter}
    new = sorted(passed - listed)
    assert not new, "add a case on which the mutant is wrong, or list it with a reason"
    monkeypatch.setattr(checker, "LONGEST", 60)  # a busy machine may have been slow
    slow = listed - passed
    passed |= set().union(*(passing_among(slow, e) for e in asked if slow))
    stale = sorted(listed - passed)
    assert not stale, "remove it from the list: it is refused, or there is none"
    assert all(made for _, made in found)


def passing_among(keys, exercise):
    made = [
        (k, answer) for k, answer in solution_mutants.mutants(exercise) if k in keys
    ]
    single = list(solution_mutants.single_cases(exercise)) if made else []
    return {key for key, answer in made if solution_mutants.passes(single, answer)}


def test_each_listed_mutant_is_of_an_exercise_and_has_one_reason():
    assert not [key for key, count in Counter(LISTED).items() if count > 1]
    chapters = {key[0].rpartition("-")[0] for key in LISTED}
    assert chapters <= {*exercises.sheets()}
    assert all(group["reason"].endswith(".") for group in SURVIVORS)


def test_a_mutant_passes_without_the_case_that_refuses_it():
    exercise = checker.find("fope-1")
    fewer = replace(exercise, cases=exercise.cases[:-2])
    new = solution_mutants.passing(fewer)[0] - {*LISTED}
    bases = {re.search(r"\d+ \*\* ", after)[0] for _, _, after in new}
    assert bases == {"9999 ** ", "10001 ** "}


@pytest.mark.parametrize(
    ("line", "mutants"),
    [
        ("x = a // 2", ["a / 2", "a", "2", "a // 3", "a // 1"]),
        ("x = a < b", ["a <= b"]),
        ("x = a == b", ["a != b", "abs(a - b) < 1e-08"]),
        (
            "x = np.allclose(a, b, atol=c)",
            ["np.allclose(a, b)", "np.array_equal(a, b)"],
        ),
        ("x = max(a[:n])", ["a[:n]", "min(a[:n])", "max(a[:])"]),
        ("x = a.to(b)", ["a", "b"]),
        ("x = z(a, dtype=b)", ["z(a)"]),
        ("x = a.sum(0)", ["a", "0", "a.sum(1)", "a.sum(-1)"]),
        ("x = a if b else c", ["a if not b else c"]),
        ("x = 0.5", ["0.505"]),
        ("x = 1e-06", ["0.0001", "1e-08"]),
        ("x = -a", ["a"]),
    ],
)
def test_the_mutants_of_a_line(line, mutants):
    module = ast.parse(line)
    found = list(solution_mutants.changes(module, module.body[0]))
    assert [after.removeprefix("x = ") for _, after in found] == mutants
    assert {before for before, _ in found} == {line}
    assert ast.unparse(module) == line
