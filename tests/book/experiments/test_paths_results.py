"""Figure and verdicts of the paths experiment, for runs with known accuracies."""

import pytest

from posedu.book.experiments import paths_results as results
from posedu.book.experiments import sequences_results
from posedu.book.experiments.paths import CONDITIONS, METHOD, TASKS, Result, Settings
from support import ROOT
from support.known_runs import result_of


@pytest.fixture(scope="module")
def known():
    """PaTH is right at swaps and near it, all others nowhere."""

    def accuracy(task, name, multiple, seed):
        if task == "swaps" and name == "path":
            return 0.97 / multiple
        return 0.2 + 0.001 * seed * (len(name) % 3)

    return result_of(Result, METHOD, accuracy)


def test_the_figure_has_a_panel_for_each_task_and_a_line_for_each_encoding(known):
    figure = results.overview(known)
    text = figure.caption
    assert "PaTH has 97 % at L = 64" in text and "20 % at most" in text
    assert "3 seeds" in text


def test_verdicts_are_those_of_the_known_accuracies(known):
    found = {
        (e.better, e.worse, e.task, length): verdict
        for e, length, _, verdict in sequences_results.verdicts(known, results.EXPECTED)
    }
    assert len(found) == sum(len(e.multiples) for e in results.EXPECTED)
    assert found["path", "rope", "swaps", 64] == "reproduced"
    assert found["path", "selective-rope", "permutations", 64] == "undecided"
    table = results.expectations(known)
    assert "PaTH > RoPE" in str(table)


def test_every_expectation_is_about_encodings_and_tasks_of_the_experiment():
    for e in results.EXPECTED:
        assert {e.better, e.worse} <= CONDITIONS.keys() and e.task in TASKS
        assert {*e.multiples} <= {*Result.multiples}


def test_the_runs_so_far_are_valid_and_none_is_of_seed_0():
    """The result is not complete yet; a second call of the command does the rest."""
    stored = Result.load(ROOT / "book/data/paths-cpu.json")
    assert stored.settings == Settings() and stored.method == METHOD
    assert min(run.seed for run in stored.runs) == 1
