"""Projects: what is measured, what is handed in, and what the goals refuse."""

import importlib

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
from posedu.book.projects.__main__ import digest
from posedu_sphinx import ROOT
from posedu_sphinx.navigation.contents import documents

LONGEST = 600  # CPU-seconds of one measurement with all seeds


def twice(x):
    return 2 * x


def unwritten(x):
    raise NotImplementedError


TOY = Project(
    name="toy",
    title="Toy",
    part="Practice",
    minutes=5,
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
        assert report.goals == list(map(str, project(name).goals))

    def test_what_does_not_suffice_misses_a_goal(self, name):
        labels = solutions(name).INSUFFICIENT
        assert labels
        for label in labels:
            path = ROOT / f"book/data/project-{name}-{label}.json"
            report = Report.load(path)
            assert not any(report.reached)
            assert report.goals == list(map(str, project(name).goals))

    def test_the_reports_are_on_the_committed_answers(self, name):
        known = solutions(name)
        assert isinstance(known.RUBRIC, Rubric)
        assert expected(name).sources == list(map(digest, known.ANSWERS))

    def test_its_plot_draws(self, name):
        assert "<svg" in project(name).plot(expected(name)).svg

    def test_what_is_carried_does_not_hold_the_solution(self, name):
        carried = ROOT / f"posedu/book/projects/{name.replace('-', '_')}.json"
        assert "def " not in carried.read_text("utf-8")

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
