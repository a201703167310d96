"""The verdicts of the digits lab, for runs with known accuracies."""

from dataclasses import replace

import pytest

from posedu.book.experiments import digits_results as results
from posedu.book.experiments.digits import (
    CONDITIONS,
    FURTHER,
    METHOD,
    SHIFTS,
    VIEWS,
    Result,
    Run,
    Settings,
)
from support import ROOT

JITTER = (-0.01, 0.0, 0.01)
FAR = "16 × 16, interpolated"


def made_up(accuracies, losses=None, there=0.0):
    """Runs of three seeds; those of the first encoding scatter.

    ``accuracies`` are of each encoding everywhere but under shifts, where all lose
    ``there`` and logits change by as much.
    """
    runs = []
    for n, (name, accuracy) in enumerate(accuracies.items()):
        for seed, e in enumerate(JITTER, 1):
            here = accuracy + e * (n == 0)
            seen = dict.fromkeys(VIEWS, here) | dict.fromkeys(SHIFTS, here - there)
            run = Run(
                encoding=name,
                seed=seed,
                accuracy=seen,
                logit_change=dict.fromkeys(SHIFTS, 4 * there),
                largest_logit=4.0,
                loss=(losses or {}).get(name, 0.01),
                parameters=0,
                seconds=0.0,
            )
            runs.append(run)
    return Result(METHOD, Settings(), runs)


def rows_of(table):
    head, *rows = table.rows()
    return [dict(zip(head, row, strict=True)) for row in rows]


BOTH = {"none": 0.2, "liere": 0.5, "mixed": 0.5}


def test_significant_pairs_are_counted_in_every_view():
    table = results.significant_differences(made_up(BOTH))
    assert [row["view"] for row in rows_of(table)] == [*VIEWS]
    for row in rows_of(table):
        assert row["pairs that differ"] == "2 of 3"
        assert row["of rotations"] == "none of 1"
        assert row["their widest interval"] == "± 0.0"
    assert (
        "2 of 2 differ significantly from none at all, and 0 points" in table.caption()
    )
    result = made_up(BOTH | {"liere": 0.9})
    for run in result.runs:
        run.accuracy[FAR] = 0.5
    seen = {
        row["view"]: row["of rotations"]
        for row in rows_of(results.significant_differences(result))
    }
    assert seen[results.HERE] == "RoPE-Mixed − LieRE: -40.0 ± 0.0"
    assert seen[FAR] == "none of 1"


def test_rotations_need_two():
    with pytest.raises(ValueError, match=r"two of .*, got \['none', 'mixed'\]"):
        results.significant_differences(made_up({"none": 0.2, "mixed": 0.5}))


def test_no_verdict_rests_on_a_training_that_is_not_at_its_end():
    accuracies = {"liere": 0.5, "mixed": 0.3, "learned": 0.7, "comrope-ld": 0.9}
    result = made_up(accuracies, losses={"comrope-ld": 0.11})
    seen = {
        (claim.better, claim.worse, claim.view): verdict
        for claim, _, verdict in results.verdicts(result)
    }
    assert seen["liere", "mixed", results.HERE] == "reproduced"
    assert seen["liere", "learned", results.HERE] == "contradicted"
    unfinished = "undecided: not trained to its end"
    assert seen["comrope-ld", "liere", results.HERE] == unfinished
    assert len(seen) == 5
    table = results.claims(result)
    assert (
        "reproduced (1)" in table.caption() and f"{unfinished} (3)" in table.caption()
    )
    named = {(row["above"], row["below"]): row["points"] for row in rows_of(table)}
    assert named["LieRE", "RoPE-Mixed"].startswith("+20.0 ± ")
    assert "median above 0.1: ComRoPE-LD" in results.losses(result).caption()


def test_what_a_shift_costs():
    accuracies = {"liere": 0.5, "mixed": 0.3}
    still, moved = (
        rows_of(results.shift_cost(made_up(accuracies, there=there)))
        for there in (0.0, 0.25)
    )
    first = f"lost, {next(iter(SHIFTS))}"
    mixed, liere = still
    assert (mixed["encoding"], mixed["logits"]) == ("RoPE-Mixed", "must not change")
    assert liere["logits"] == "may change" and liere[first] == "0 ± 0"
    assert {row["change by"] for row in moved} == {"2e-01 to 2e-01"}
    assert {row[first] for row in moved} == {"25 ± 0"}


# --- The result that the book shows


@pytest.fixture(scope="module")
def committed():
    return Result.load(ROOT / "book/data/digits-cpu.json").among(CONDITIONS)


def test_what_is_relative_answers_under_a_shift_as_without(committed):
    for name in CONDITIONS:
        here = committed.accuracy(name, results.HERE)
        same = [(committed.accuracy(name, s) == here).all() for s in SHIFTS]
        assert all(same) if CONDITIONS[name].relative else not all(same)


def test_string_and_gta_do_not_differ_significantly_from_axial_and_mixed():
    every = Result.load(ROOT / "book/data/digits-cpu.json")
    table = results.significant_differences(every.among(("axial", "mixed", *FURTHER)))
    assert {row["of rotations"] for row in rows_of(table)} == {"none of 10"}
    assert "none at all" not in table.caption() and "within 10 seeds" in table.caption()


def test_every_claim_has_its_runs(committed):
    assert len([*results.verdicts(committed)]) == len(results.CLAIMS) == 10
    none = CONDITIONS["none"].title
    assert results.losses(committed).caption().endswith(f"above 0.1: {none}")


def test_pictures_say_what_the_runs_say(committed):
    views, shifts = results.views(committed), results.shift_figure(committed)
    fope = 100 * committed.accuracy("fope", FAR).mean()
    assert f"{fope:.0f} % between rows" in views.caption
    alone = replace(committed, runs=[r for r in committed.runs if r.encoding != "fope"])
    assert "FoPE" not in results.views(alone).caption
    for title in ("16 × 16", "12 × 8"):
        assert views.svg.count(f"<!-- {title} -->") == 1
    for shift in SHIFTS:
        assert f"<!-- {shift} -->" in shifts.svg
    largest = max(
        change / run.largest_logit
        for run in committed.runs
        if CONDITIONS[run.encoding].relative
        for change in run.logit_change.values()
    )
    assert f"at most {largest:.0e} of the largest" in shifts.caption
