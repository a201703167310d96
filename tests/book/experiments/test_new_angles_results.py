"""The table and figure of what RoPE loses, for runs with known bits."""

import pytest

from posedu.book.experiments import new_angles_results as results
from posedu.book.experiments.new_angles import (
    CHANGES,
    FACTORS,
    METHOD,
    MODELS,
    Result,
    Run,
    Settings,
    label,
)
from support import ROOT
from support.known_runs import MADE

COST = {"window": 0.0, "all pairs": 0.25, "unturned pairs": 0.75, "none": 2.0}


def run_of(model, seed):
    """Seeds scatter by a tenth, alike with every change; at × 2 nothing is lost."""
    start = 2.0 + 0.1 * seed
    bits = {
        label(change, f): start + COST[change] * (f > 2)
        for change in CHANGES
        for f in FACTORS
    }
    return Run(
        encoding=model,
        seed=seed,
        accuracy={"128": 0.5},
        loss=2.0,
        seconds=1.0,
        bits={"128": start, **bits},
        made=MADE,
    )


@pytest.fixture(scope="module")
def result():
    return Result(METHOD, Settings(), [run_of(m, s) for s in (1, 2, 3) for m in MODELS])


def test_a_part_is_the_step_from_one_change_to_the_next(result):
    head, *rows = results.costs(result, 8).rows()
    assert head[2:] == results.PARTS
    assert {row[2:] for row in rows} == {
        ("0.250 ± 0.000", "0.500 ± 0.000", "1.250 ± 0.000")
    }
    assert rows[0][1] == "2.200 ± 0.248"
    assert rows[0][0] == "base 10,000, 10 of 16 unturned"
    assert rows[-1][0] == "base 24.7, 0 of 16 unturned"
    assert results.lost(result, "rope", 4) == pytest.approx([2.0] * 3)


def test_the_figure_says_what_is_lost(result):
    figure = results.overview(result)
    assert "0.25, new combinations of angles 0.50, new angles" in figure.alt
    assert (
        "it loses 2.0 bits per character with base 10,000, 10 of 16" in figure.caption
    )
    for part in results.PARTS:
        assert f"<!-- {part} -->" in figure.svg
    (origins,) = [*results.origins(result).rows()][1:]
    assert origins[0] == "12"


def test_the_committed_result_is_whole():
    result = Result.load(ROOT / "book/data/new-angles-cpu.json")
    assert result.settings == Settings() and result.method == METHOD
    assert result.complete and result.encodings() == list(MODELS)
    assert {run.seed for run in result.runs} == {1, 2, 3, 4, 5}
    assert all(made["commit"].isalnum() for made in result.made())
