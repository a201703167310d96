"""Figure and verdicts of the hybrids experiment, for runs with known accuracies."""

import pytest

from posedu.book.experiments import hybrid_characters, sequences_results
from posedu.book.experiments import hybrids_results as results
from posedu.book.experiments.hybrids import CONDITIONS, METHOD, TASKS, Result
from support.known_runs import MADE, result_of


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
    assert figure.alt.count("L = 1024") == len(TASKS)
    ends = "from 6 % (Gated DeltaNet) to 97 % (3 : 1 with attention)"
    for task in results.STATES:
        assert f"{TASKS[task].title}, L = 1024: {ends}" in figure.alt


def test_bits_of_characters_are_drawn_and_listed_for_each_model():
    def bits(name, multiple):
        return (0.5 if name == "three-none" else 2.5) + multiple / 128

    runs = [
        hybrid_characters.Run(
            encoding=name,
            seed=seed,
            seconds=1.0,
            bits={str(64 * m): bits(name, m) for m in hybrid_characters.MULTIPLES},
            accuracy={},
            loss=1.0,
            made=MADE,
        )
        for name in CONDITIONS
        for seed in (1, 2)
    ]
    settings = hybrid_characters.Settings()
    known = hybrid_characters.Result("bits", settings, runs)
    figure = results.overview_of_characters(known)
    assert "At L = 4096, 3 : 1 with attention needs 1.00 bits" in figure.caption
    assert "2 seeds" in figure.caption
    assert "Gated DeltaNet: from 2.51 bits to 3.00." in figure.alt
    assert "attention with RoPE: from 2.51 bits to 3.00." in figure.alt
    assert figure.alt.count("from") == len(CONDITIONS)
    head, *rows = results.bits(known).rows()
    assert head == ("model", "L = 64", "L = 256", "L = 1024", "L = 4096")
    assert [row[0] for row in rows] == [c.title for c in CONDITIONS.values()]
    assert rows[0][-1] == "3.000 ± 0.000"


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
