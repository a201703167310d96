"""Figure and verdicts of the hybrids experiment, for runs with known accuracies."""

import pytest

from posedu.book.experiments import hybrids_results as results
from posedu.book.experiments import sequences_results
from posedu.book.experiments.hybrids import CONDITIONS, METHOD, TASKS, Result
from support.known_runs import result_of


@pytest.fixture(scope="module")
def known():
    """Attention above a recurrence is right everywhere, attention at no state."""

    def accuracy(task, name, multiple, seed):
        if name in results.MIXTURES:
            return 0.97 if name.endswith("none") else 0.97 / multiple
        is_right = (name == "recurrent") == (task in results.STATES)
        return 0.9 / multiple if is_right else 0.2 + 0.001 * seed * (len(name) % 3)

    return result_of(Result, METHOD, accuracy)


def test_the_figure_has_a_line_for_each_model_and_a_legend_of_its_own(known):
    figure = results.overview(known)
    assert "3 : 1 with attention has 97 % or more at every task" in figure.caption
    assert "at most 20 % at one" in figure.caption and "3 seeds" in figure.caption


def test_verdicts_are_those_of_the_known_accuracies(known):
    found = {
        (e.better, e.worse, e.task, length): verdict
        for e, length, _, verdict in sequences_results.verdicts(known, results.EXPECTED)
    }
    assert len(found) == sum(len(e.multiples) for e in results.EXPECTED)
    assert found["recurrent", "rope", "swaps", 64] == "reproduced"
    assert found["one-none", "one-rope", "recall", 1024] == "reproduced"
    assert found["one-none", "one-rope", "recall", 64] == "undecided"


def test_every_expectation_is_about_models_and_tasks_of_the_experiment():
    for e in results.EXPECTED:
        assert {e.better, e.worse} <= CONDITIONS.keys() and e.task in TASKS
        assert {*e.multiples} <= {*Result.multiples}
    assert {*results.STATES, *results.CONTENTS} == {*TASKS}
