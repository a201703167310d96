"""The verdicts of the sequences lab, for runs with known accuracies."""

from collections import Counter

import pytest
import torch

from posedu.book.experiments import sequences_results as results
from posedu.book.experiments.sequences import (
    CONDITIONS,
    METHOD,
    TASKS,
    Result,
    Run,
    Settings,
)
from support import ROOT

LENGTHS = (64, 128, 256, 512)
JITTER = (-0.002, 0.0, 0.002)  # of the seeds: half an interval is 0.5 points


def made_up(accuracies, jitter=JITTER):
    """Runs of three seeds around accuracies [task, encoding][length], loss their key.

    Seeds scatter apart in the first encoding of a task alone, so differences do.
    """
    runs, first = [], {}
    for (task, name), by_length in accuracies.items():
        own = jitter if first.setdefault(task, name) == name else (0, 0, 0)
        runs += [
            Run(
                task=task,
                encoding=name,
                seed=seed,
                accuracy={
                    str(n): a + e for n, a in zip(LENGTHS, by_length, strict=True)
                },
                loss=float(seed),
                seconds=0.0,
            )
            for seed, e in enumerate(own, 1)
        ]
    return Result(METHOD, Settings(), runs)


COUNTED = {
    ("count", "rope"): (0.9, 0.5, 0.4, 0.3),
    ("count", "cope"): (0.9, 0.9, 0.9, 0.895),
    ("count", "fox"): (0.908, 0.6, 0.2, 0.6),
}


def rows_of(table):
    head, *rows = table.rows()
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_a_pair_differs_by_a_point_and_by_its_interval():
    result = made_up(COUNTED)
    at = {n: results.significantly_worse(result, "count", n) for n in LENGTHS}
    assert at[64] == {"rope": [], "fox": [], "cope": []}  # 0.8 points
    assert at[256] == {"rope": ["fox"], "fox": [], "cope": ["rope", "fox"]}
    assert at[512] == {"rope": [], "fox": ["rope"], "cope": ["rope", "fox"]}
    (told,) = rows_of(results.significant_differences(result))
    assert told["L = 64"].startswith("0 of 3, ± ")
    assert told["L = 256"].startswith("3 of 3, ± ")
    assert (
        "0 at L = 64, 3 at L = 128" in results.significant_differences(result).caption()
    )
    rope, fox, cope = rows_of(results.above(result))
    assert [row["above, L = 512"] for row in (rope, fox, cope)] == ["", "2", "2 4"]
    assert cope["encoding"] == "6 CoPE"
    assert "it is CoPE: 2 times" in results.above(result).caption()


def test_the_widest_interval_is_that_of_the_pairs_that_scatter():
    still, wide = made_up(COUNTED, (0, 0, 0)), made_up(COUNTED, (-0.02, 0, 0.02))
    (none,), (some,) = (
        rows_of(results.significant_differences(r)) for r in (still, wide)
    )
    assert none["L = 512"] == "3 of 3, ± 0"
    # s = 2, and Student's quantile of 2 degrees of freedom at 1 − 0.05 / 6 is 7.65
    assert some["L = 512"] == f"3 of 3, ± {7.6488 * 2 / 3**0.5:.0f}"


def test_what_length_costs_and_who_keeps_what_it_had():
    (rope, fox, cope) = rows_of(results.length_cost(made_up(COUNTED)))
    assert rope["count"] == "60.0 ± 0.0" and cope["count"] == "0.5 ± 0.0 ✓"
    assert fox["count"] == "30.8 ± 0.0"
    assert "1 of 3 keep" in results.length_cost(made_up(COUNTED)).caption()
    unsure = made_up(COUNTED)
    for run, far in zip(unsure.runs[3:6], (0.89, 0.895, 0.9), strict=True):
        run.accuracy["512"] = far
    assert rows_of(results.length_cost(unsure))[2]["count"] == "0.5 ± 1.2"


def test_what_the_value_before_costs_within_seeds():
    result = made_up(
        {
            ("recall", "rope"): (0.9,) * 4,
            ("recall", "cope"): (0.9,) * 4,
            ("n-back", "rope"): (0.9, 0.9, 0.9, 0.8),
            ("n-back", "cope"): (0.89, 0.9, 0.9, 0.95),
        },
        (0, 0, 0),
    )
    rope, cope = rows_of(results.question_cost(result))
    assert (rope["L = 64"], rope["L = 512"]) == ("0.0 ± 0.0", "10.0 ± 0.0 loses")
    assert cope["L = 512"] == "-5.0 ± 0.0"
    assert "1 of 2 at L = 512" in results.question_cost(result).caption()


def test_verdicts_are_of_differences_within_seeds():
    result = made_up(
        COUNTED
        | {
            ("copy", "rope"): (0.995, 0.97, 0.9, 0.9),
            ("copy", "cope"): (1.0, 1.0, 1.0, 0.8),
        }
    )
    seen = {
        (e.better, e.worse, e.task, length): verdict
        for e, length, _, verdict in results.verdicts(result)
    }
    assert seen == {
        ("cope", "rope", "count", 64): "undecided",
        ("cope", "rope", "count", 128): "reproduced",
        ("cope", "rope", "count", 512): "reproduced",
        ("cope", "rope", "copy", 64): "both at the ceiling",
        ("cope", "rope", "copy", 128): "reproduced",
        ("cope", "rope", "copy", 512): "contradicted",
        ("cope", "fox", "count", 64): "contradicted",
        ("cope", "fox", "count", 512): "reproduced",
    }
    table = results.expectations(result)
    assert (
        "✓ reproduced (4)" in table.caption()
        and "✗ contradicted (2)" in table.caption()
    )
    first, *_ = rows_of(table)
    assert first["expected"] == "CoPE > RoPE" and first["L = 128"].endswith("✓")
    assert first["L = 512"].startswith("+59.5 ± 0.5")


def test_losses_are_medians_and_the_largest():
    result = made_up(COUNTED)
    result.runs[-1] = Run(**vars(result.runs[-1]) | {"loss": 8.0})
    rope, fox, _ = rows_of(results.losses(result))
    assert rope["count"] == "2.000 (3.000)" and fox["count"] == "2.000 (8.000)"
    assert "that of FoX at counting among" in results.losses(result).caption()


def test_guessing_gets_what_the_most_frequent_answer_gets():
    for task in ("count", "n-back"):
        generator = torch.Generator().manual_seed(0)
        labels = TASKS[task].make(64, 128, 64, generator)[1]
        answers = Counter(labels[labels >= 0].tolist())
        most = answers.most_common(1)[0][1] / answers.total()
        assert results.guessing(TASKS[task], 128, 64) == pytest.approx(most)


# --- The result that the book shows


@pytest.fixture(scope="module")
def committed():
    return Result.load(ROOT / "book/data/sequences-cpu.json")


def test_every_expectation_has_its_runs(committed):
    seen = [*results.verdicts(committed)]
    assert len(seen) == sum(len(e.multiples) for e in results.EXPECTED) == 38
    assert {verdict for *_, verdict in seen} <= {*results.SIGNS}
    rows = rows_of(results.expectations(committed))
    assert len(rows) == len(results.EXPECTED)
    cells = [row[f"L = {n}"] for row in rows for n in (64, 128, 512)]
    assert sum(map(bool, cells)) == len(seen)


def test_every_encoding_is_drawn_at_every_task(committed):
    overview = results.overview(committed)
    for condition in CONDITIONS.values():
        assert overview.svg.count(f"<!-- {condition.title} -->") == 1  # in the legend
    worst = {
        name: min(100 * committed.accuracy(task, name, 512).mean() for task in TASKS)
        for name in CONDITIONS
    }
    best = max(worst, key=worst.get)
    assert (
        f"{CONDITIONS[best].title} has {worst[best]:.0f} % or more" in overview.caption
    )
    figure = results.task_figure(committed, "copy")
    rope = 100 * committed.accuracy("copy", "rope", 512).mean()
    assert f"RoPE from 100 to {rope:.0f} percent" in figure.alt
    assert "over 5 seeds" in figure.caption


def test_what_the_lab_says_of_tape(committed):
    rows = [
        r
        for r in rows_of(results.tape_comparison(committed))
        if r["encoding"] == "TAPE"
    ]
    signs = {(r["task"], n): r[f"L = {n}"][-1] for r in rows for n in LENGTHS}
    assert {*signs.values()} == {"?"}


def test_what_the_lab_says_of_tape_far_beyond_training(committed):
    """Both lose at every task, most at copying, where no encoding keeps most."""

    def kept(task, name):
        near, far = (committed.accuracy(task, name, LENGTHS[n]).mean() for n in (0, -1))
        return far / near

    for name in ("rope", "tape"):
        shares = {task: kept(task, name) for task in TASKS}
        assert max(shares.values()) < 0.65 and min(shares, key=shares.get) == "copy"
    assert kept("copy", "none") > 0.9


def test_tape_is_reported_separately_and_compared_with_rope():
    """Its verdicts are of differences within seeds, and it is no row of the others."""
    flat = (0.5,) * 4
    runs = {("copy", "none"): flat, ("copy", "rope"): flat}
    result = made_up({**runs, ("copy", "tape"): (0.9, 0.5, 0.4, 0.5)})
    assert result.encodings("copy") == ["none", "rope"]
    none, rope, tape = rows_of(results.tape_comparison(result))
    assert [row["encoding"] for row in (none, rope, tape)] == [
        "no encoding",
        "RoPE",
        "TAPE",
    ]
    assert rope["L = 64"] == "50.0 ± 0.0" and tape["L = 64"] == "90.0 ± 0.0 ✓"
    assert [tape[f"L = {n}"][-1] for n in LENGTHS] == [*"✓?✗?"]
    caption = results.tape_comparison(result).caption()
    assert "(✓) 1 times of 4" in caption and "(✗) 1 times" in caption
