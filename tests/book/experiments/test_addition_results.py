"""Figure and verdicts of the addition experiment, for runs with known accuracies."""

import pytest

from posedu.book.experiments import addition_results as results
from posedu.book.experiments.addition import (
    CONDITIONS,
    METHOD,
    TESTED,
    Result,
    Run,
    Settings,
)
from support.known_runs import MADE


def result_of(accuracy, names=tuple(CONDITIONS)):
    """A result whose accuracies are ``accuracy(encoding, score, digits, seed)``."""
    runs = [
        Run(
            encoding=name,
            seed=seed,
            accuracy={
                f"{score} {n}": accuracy(name, score, n, seed)
                for score in ("exact", "digits")
                for n in TESTED
            },
            loss=0.0,
            seconds=1.0,
            made=MADE,
        )
        for name in names
        for seed in (1, 2, 3)
    ]
    return Result(METHOD, Settings(), runs)


@pytest.fixture(scope="module")
def known():
    """Coupled positions add, Abacus does up to 10 digits, all others nowhere."""

    def accuracy(name, score, digits, seed):
        if name == "coupling" or (name == "abacus" and digits <= 10):
            return 0.99 - 0.001 * seed
        return 0.1 + 0.01 * (seed * len(name) % 3)

    return result_of(accuracy)


def test_the_figure_has_a_line_for_each_encoding_and_score(known):
    figure = results.overview(known)
    assert "99 % right at 10 digits and 99 % at 30" in figure.caption
    assert "the best of the others 11 % and 11 %" in figure.caption
    assert "3 seeds" in figure.caption


def test_verdicts_are_those_of_the_known_accuracies(known):
    found = {key[:4]: key[5] for key in results.verdicts(known)}
    assert len(found) == 2 * 4 * len(results.MEASURED)
    assert found["coupling", "rope", "exact", 15] == "reproduced"
    assert found["abacus", "rope", "exact", 10] == "reproduced"
    assert found["abacus", "rope", "exact", 15] != "reproduced"
    text = str(results.expectations(known))
    assert "position coupling > RoPE" in text and "sums, n = 10" in text


def test_encodings_that_were_not_trained_are_left_out():
    few = result_of(lambda *_: 0.5, ("none", "coupling"))
    assert {key[:2] for key in results.verdicts(few)} == {("coupling", "none")}


def test_origins_name_the_encodings(known):
    assert "Abacus; position coupling" in str(results.origins(known))
