"""The verdicts of the needles lab, for runs with known accuracies."""

from dataclasses import replace

import pytest

from posedu.book.experiments import needles_results as results
from posedu.book.experiments.context_extension import FACTORS
from posedu.book.experiments.needles import (
    METHOD,
    MODELS,
    TRIED,
    Result,
    Run,
    Settings,
    factors,
    label,
)
from support.known_runs import MADE

RIGHT = {  # by factor; what is not listed is right half of the time
    ("rope", "none"): (0.4, 0.3, 0.2),
    ("rope", "pi"): (0.45, 0.4, 0.3),
    ("rope", "ntk"): (0.5, 0.2, 0.3),
    ("windows", "log-n"): (0.5, 0.5, 0.6, 0.6),
    ("windows", "beam"): (0.5, 0.5, 0.5, 0.4),
}


def run_of(model, seed):
    """Seeds scatter by a tenth, each alike in all conditions."""
    found = {
        label(method, factor): right + 0.1 * seed
        for method in TRIED[model]
        for factor, right in zip(
            factors(model),
            RIGHT.get((model, method), (0.5,) * len(factors(model))),
            strict=True,
        )
    }
    return Run(
        encoding=model,
        seed=seed,
        accuracy={"trained": 0.96 + 0.01 * seed, **found},
        loss=0.1,
        seconds=1.0,
        made=MADE,
    )


@pytest.fixture(scope="module")
def result():
    return Result(METHOD, Settings(), [run_of(m, s) for s in (1, 2, 3) for m in MODELS])


def rows_of(table):
    head, *rows = table.rows()
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_a_verdict_is_of_differences_within_seeds(result):
    """Seeds differ by more than the conditions, and nothing is lost for it."""
    first, *rest = rows_of(results.expectations(result))
    assert first["expected"] == "NTK better than PI"
    assert first["× 2"] == "+5.0 ± 0.0 ✓" and first["× 4"] == "-20.0 ± 0.0 ✗"
    untuned = [e for e in results.expected("rope") if e.how == "plain"]
    assert len(rest) + 1 == len(untuned) < len(results.expected("rope"))


def test_the_caption_counts_all_verdicts(result):
    verdicts = [verdict for *_, verdict in results.verdicts(result)]
    assert len(verdicts) == 6 * len(FACTORS)
    caption = results.expectations(result).caption()
    for name, sign in results.SIGNS.items():
        assert f"{sign} {name} ({verdicts.count(name)})" in caption


def test_every_shown_condition_is_a_line(result):
    figure = results.overview(result)
    for condition in results.shown_conditions("rope"):
        assert figure.svg.count(f"<!-- {results.title(condition)} -->") == 1
    windows = results.MODEL_TITLES["windows"]
    assert f"{windows}, log-n temperature has 80 %" in figure.caption
    assert "RoPE, unchanged 40 %" in figure.caption
    assert (
        f"there, 3 of 3 seeds of RoPE and 3 of 3 seeds of {windows};" in figure.caption
        and "PI 50 percent" in figure.alt
    )


def test_where_runs_come_from(result):
    (row,) = rows_of(results.origins(result))
    assert row["runs"] == "15" and row["made"] == "2026-01-01"


def test_methods_by_base(result):
    rows = rows_of(results.by_base(result, 8))
    heads = [*rows[0]][1:]
    assert heads[0] == "base 10,000: 10 of 16; 3 of 3 seeds" and len(heads) == 3
    by_method = {row["method"]: row[heads[0]] for row in rows}
    assert by_method["PI"] == "50.0 ± 24.8" and by_method["YaRN"] == "70.0 ± 24.8"


def test_a_temperature_is_compared_with_none(result):
    rows = {row["temperature"]: row for row in rows_of(results.temperatures(result))}
    assert rows["no temperature"]["more at × 32"] == ""
    assert rows["log-n temperature"]["more at × 32"] == "+10.0 ± 0.0 ✓"
    assert rows["Beam's temperature"]["more at × 32"] == "-10.0 ± 0.0 ✗"
    assert rows["Llama 4's temperature"]["more at × 32"] == "+0.0 ± 0.0 ?"
    assert rows["log-n temperature"]["× 1"] == rows["no temperature"]["× 1"]


def test_seeds_that_have_not_learned_the_task_do_not_count(result):
    runs = [
        replace(run, accuracy={**run.accuracy, "trained": 0.9})
        if (run.encoding, run.seed) in {("rope", 3), ("windows", 1), ("rope-500", 2)}
        else run
        for run in result.runs
    ]
    less = replace(result, runs=runs)
    assert less.learned("rope").tolist() == [True, True, False]
    rows = rows_of(results.by_base(less, 8))
    assert [*rows[0]][1:3] == [
        "base 10,000: 10 of 16; 2 of 3 seeds",
        "base 500: 8 of 16; 2 of 3 seeds",
    ]
    assert rows[0]["base 10,000: 10 of 16; 2 of 3 seeds"] == "35.0 ± 63.5"
    found = {e.source: verdict for e, f, _, verdict in results.verdicts(less) if f == 2}
    assert found.keys() == {e.source for e in results.expected("rope")} - {
        e.source for e in results.expected("rope") if e.better[0] != e.worse[0]
    } | {"SWAN"}
    figure = results.overview(less)
    assert "there, 2 of 3 seeds of RoPE and 2 of 3 seeds of" in figure.caption
    assert "RoPE, unchanged 35 %" in figure.caption
