"""Projects: what is measured, what is handed in, and what the goals refuse."""

import importlib
import inspect
import math
from functools import cache

import pytest
from grimp import build_graph

from posedu.book.exercises import sheet, sheets
from posedu.book.projects import (
    Goal,
    Project,
    Report,
    Rubric,
    expected,
    hand_in,
    measuring,
    project,
    projects,
)
from posedu.book.projects.__main__ import digest, report_without_code
from posedu.book.projects.helpers import helpers_of
from posedu_sphinx import ROOT
from posedu_sphinx.navigation.contents import documents

LONGEST = 600  # CPU-seconds of one measurement with all seeds


def twice(x):
    return 2 * x


def inner():
    return 2


def factor():
    return inner()


@cache
def wrapped(x):
    return x


def calling(x):
    """Call helpers, one in a generator expression; name one as an attribute does."""
    return sum(factor() * wrapped(part) for part in (x,))


def importing(x):
    return project, 2 * x


def unwritten(x):
    raise NotImplementedError


TOY = Project(
    name="toy",
    title="Toy",
    part="Practice",
    minutes=5,
    cpu_minutes=1,
    uses=(),
    answers=("twice",),
    measure=lambda answer, seed: {"ratio": answer(seed) / seed, "seed": seed},
    goals=(Goal("ratio", least=2, most=2.5),),
    plot=lambda report: report.measured,
)


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(measuring, "project", lambda name: TOY)


def test_an_answer_is_measured_with_new_seeds(toy, tmp_path):
    path = tmp_path / "toy.json"
    first, second = hand_in("toy", twice, path=path), hand_in("toy", twice)
    assert first.is_reached() and second.is_reached()
    assert len(set(first.seeds + second.seeds)) == 6
    assert Report.load(path) == first
    assert first.sources == ["def twice(x):\n    return 2 * x\n"]
    assert "3 of 3 seeds (ratio: at least 2, at most 2.5)" in first.caption()


@pytest.mark.parametrize("factor", [1.9, 2.6])
def test_a_missed_goal_is_said(toy, factor):
    report = hand_in("toy", lambda x: factor * x)
    assert not report.is_reached()
    assert str(report).startswith("✗ toy: goals reached with 0 of 3 seeds")
    head, *rows = report.rows()
    assert head == ("seed", "ratio", "seed", "CPU s")
    assert all(ratio == f"{factor} ✗ missed by 0.1" for _, ratio, *_ in rows)


def test_a_missed_goal_is_marked_where_it_is_missed():
    goals = (Goal("low", least=0.9), Goal("high", most=1), Goal("gone", most=1))
    found = {
        **{"low": 0.893, "high": math.inf, "other": 2.0},
    }
    missed = {goal.quantity: goal.missed_by(found) for goal in goals}
    report = Report(
        *("toy", []),
        seeds=[1],
        measured=[found],
        missed=[missed],
        reached=[False],
        seconds=[1.0],
    )
    head, row = report.rows()
    assert dict(zip(head, row, strict=True)) == {
        "seed": "1",
        "low": "0.893 ✗ missed by 0.007",
        "high": "inf ✗ missed",
        "other": "2",
        "gone": "not measured",
        "CPU s": "1",
    }
    assert report.caption() == "○ toy: open, not measured: gone"


@pytest.mark.parametrize("value", [0.95, 0.9, 1.0])
def test_a_goal_that_is_reached_is_missed_by_nothing(value):
    assert Goal("share", least=0.9, most=1.0).missed_by({"share": value}) == 0


def test_what_is_no_number_misses_every_goal():
    for goal in (Goal("share", least=0.9), Goal("share", most=1.0)):
        assert not goal.is_reached({"share": math.nan})
        assert not goal.is_reached({})


def test_functions_that_answers_call_are_handed_in_too(toy):
    report = hand_in("toy", calling)
    assert list(report.helpers) == ["factor", "inner", "wrapped"]
    assert report.helpers["factor"] == "def factor():\n    return inner()\n"
    assert report.helpers["wrapped"].startswith("@cache\ndef wrapped")
    assert report.sources == [inspect.getsource(calling)]


def test_functions_of_an_enclosing_function_are_helpers(toy):
    def double(x):
        return 2 * x

    assert list(hand_in("toy", lambda x: double(x)).helpers) == ["double"]


def test_functions_of_other_modules_and_answers_are_no_helpers():
    assert helpers_of([twice, twice]) == {}
    assert helpers_of([importing]) == {}


def test_stored_reports_on_known_answers_have_no_code(monkeypatch):
    report = report_without_code(TOY, [calling])
    assert report.sources == [digest(calling)]
    assert report.helpers == {}


def test_one_missed_seed_is_enough_to_miss():
    report = Report("toy", [], reached=[True, False, True], seeds=[1, 2, 3])
    assert not report.is_reached()


def test_an_answer_that_is_not_written_is_open(toy, capsys):
    report = hand_in("toy", unwritten)
    assert report.seeds == []
    assert report.caption() == "○ toy: open, nothing measured"
    assert "open, not answered yet" in capsys.readouterr().out


def test_an_error_of_the_learner_is_not_hidden(toy):
    def broken(x):
        raise NotImplementedError("this branch")

    with pytest.raises(NotImplementedError, match="this branch"):
        hand_in("toy", broken)


def test_an_interrupt_keeps_what_was_measured(toy, capsys):
    left = [twice, twice]

    def interrupted(x):
        if not left:
            raise KeyboardInterrupt
        return left.pop()(x)

    report = hand_in("toy", interrupted)
    assert len(report.seeds) == len(report.measured) == 2
    assert "interrupted after 2 of 3 seeds" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((), "needs 1 functions, twice; got 0"),
        ((twice, twice), "got 2"),
        ((3,), r"answers\[0\] must be a function, got 3"),
    ],
)
def test_what_is_no_answer_is_refused(toy, answers, expected):
    with pytest.raises(TypeError, match=expected):
        hand_in("toy", *answers)


def test_an_unknown_project_is_refused():
    with pytest.raises(ValueError, match="name must be"):
        hand_in("unknown")


def test_a_goal_needs_a_bound():
    with pytest.raises(ValueError, match="least or most"):
        Goal("ratio")


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"project": "toy", "goals": [], "seeds": [1]}']
)
def test_a_file_that_is_no_report_is_refused(tmp_path, text):
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="is not a report on a project"):
        Report.load(path)


@pytest.mark.parametrize("name", projects())
class TestEach:
    def test_it_has_a_notebook_in_the_book(self, name):
        assert f"notebooks/projects/{name}" in documents()
        assert project(name).name == name

    def test_its_parts_are_exercises(self, name):
        assert project(name).uses
        for used in project(name).uses:
            chapter = used.rpartition("-")[0]
            assert chapter in sheets()
            assert used in {e.name for e in sheet(chapter).exercises}

    def test_the_reference_solution_reaches_the_goals_in_time(self, name):
        report = expected(name)
        assert report.is_reached()
        assert len(report.seeds) == project(name).seeds
        assert sum(report.seconds) <= LONGEST
        assert 2 * sum(report.seconds) <= 60 * project(name).cpu_minutes
        assert report.goals == list(map(str, project(name).goals))

    def test_what_does_not_suffice_misses_a_goal(self, name):
        known = solutions(name)
        assert known.INSUFFICIENT
        for label in known.INSUFFICIENT:
            path = ROOT / f"book/data/project-{name}-{label}.json"
            report = Report.load(path)
            assert not any(report.reached)
            assert report.goals == list(map(str, project(name).goals))
            assert report.sources == list(map(digest, known.INSUFFICIENT[label]))

    def test_the_reports_are_on_the_committed_answers(self, name):
        known = solutions(name)
        assert isinstance(known.RUBRIC, Rubric)
        assert expected(name).sources == list(map(digest, known.ANSWERS))

    def test_its_plot_draws(self, name):
        assert "<svg" in project(name).plot(expected(name)).svg

    def test_no_stored_report_holds_the_solution(self, name):
        carried = ROOT / f"posedu/book/projects/{name.replace('-', '_')}.json"
        shown = (ROOT / "book/data").glob(f"project-{name}-*.json")
        for path in (carried, *shown):
            assert "def " not in path.read_text("utf-8")

    def test_the_notebook_says_how_long_the_computer_takes(self, name):
        text = (ROOT / f"notebooks/projects/{name}.ipynb").read_text("utf-8")
        minutes = project(name).cpu_minutes
        unit = "minute" if minutes == 1 else "minutes"
        assert f"handing in takes at most {minutes} {unit} of a CPU." in text

    def test_the_notebook_does_not_hold_the_solution(self, name):
        text = (ROOT / f"notebooks/projects/{name}.ipynb").read_text("utf-8")
        assert "solutions" not in text
        assert text.count("raise NotImplementedError") >= len(project(name).answers)


def solutions(name):
    module = name.replace("-", "_")
    return importlib.import_module(f"posedu.book.projects.solutions.{module}")


@pytest.mark.parametrize("name", projects())
def test_the_project_does_not_import_its_solution(name):
    module = f"posedu.book.projects.{name.replace('-', '_')}"
    upstream = build_graph("posedu").find_upstream_modules(module)
    assert not {m for m in upstream if ".solutions" in m}
