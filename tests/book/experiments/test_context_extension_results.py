"""The verdicts of the context-extension lab, for runs with known bits."""

import pytest

from posedu.book.experiments import context_extension_results as results
from posedu.book.experiments import needles
from posedu.book.experiments.context_extension import (
    FACTORS,
    METHOD,
    TRIED,
    Result,
    Run,
    Settings,
    label,
    labels,
)
from support import ROOT
from support.known_runs import MADE

DATA = ROOT / "book/data"
WORSE = {  # bits more than at the training length, by factor, as they are
    ("rope", "none"): (1.0, 2.0, 3.0),
    ("rope", "pi"): (0.5, 2.1, 2.0),
    ("rope", "ntk"): (0.4, 1.0, 2.5),
    ("windows", "none"): (0.1, 0.2, 0.3),
    ("windows", "log-n"): (0.1, 0.1, 0.0),
}


def bits_of(model, seed):
    """Near 2 bits; what is not listed adds half a bit, tuning takes half of it away.

    Seeds scatter by a tenth, each alike in all conditions.
    """
    base = 2.0 + 0.1 * seed
    found = {name: base + 0.25 for name in labels(model)}
    for method in TRIED[model]:
        for factor, more in zip(
            FACTORS, WORSE.get((model, method), (0.5,) * 3), strict=True
        ):
            found[label(method, factor, "plain")] = base + more
            found[label(method, factor, "tuned")] = base + more / 2
    for method in {"none", "ntk-dynamic", "log-n"} & {*TRIED[model]}:
        found[label(method, FACTORS[-1], "near")] = base
    return {str(Settings.length): base, **found}


def run_of(model, seed, rate=1e-2, bits=None):
    near = str(Settings.length)
    return Run(
        rate=rate,
        encoding=model,
        seed=seed,
        bits=bits_of(model, seed) if bits is None else {near: bits},
        accuracy={near: 0.5},
        loss=2.0,
        seconds=1.0,
        made=MADE,
    )


@pytest.fixture(scope="module")
def result():
    choosing = [
        run_of("rope", seed, rate, bits=2 + abs(rate - 1e-2))
        for seed in (1, 2)
        for rate in (3e-3, 1e-2, 3e-2, 1e-1)
    ]
    reported = [run_of(m, s) for s in (3, 4, 5) for m in TRIED]
    return Result(METHOD, Settings(text="made up"), choosing + reported)


def rows_of(table):
    head, *rows = table.rows()
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_a_verdict_is_of_differences_within_seeds(result):
    """Seeds differ by more than the conditions, and nothing is lost for it."""
    seen = {
        (e.source, e.how, f): (gap, verdict)
        for e, f, gap, verdict in results.verdicts(result)
    }
    gap, verdict = seen["YaRN, §3.1", "plain", 4]
    assert gap.mean == pytest.approx(1.1) and gap.half < 1e-9
    assert verdict == "reproduced"
    assert seen["YaRN, §3.1", "plain", 8][1] == "contradicted"
    first, *_ = rows_of(results.expectations(result))
    assert first["expected"] == "NTK better than PI" and first[""] == "untuned"
    assert [first[f"× {f}"][-1] for f in FACTORS] == [*"✓✓✗"]
    assert first["× 4"] == "+1.100 ± 0.000 ✓"


def test_the_caption_counts_all_verdicts(result):
    verdicts = [verdict for *_, verdict in results.verdicts(result)]
    assert len(verdicts) == len(results.expected("rope")) * len(FACTORS)
    caption = results.expectations(result).caption()
    for name, sign in results.SIGNS.items():
        assert f"{sign} {name} ({verdicts.count(name)})" in caption


def test_methods_that_add_no_bits_are_marked_as_exactly_zero(result):
    rows = {
        row["condition"]: row["added"] for row in rows_of(results.near_cost(result))
    }
    rows = {at: added for at, added in rows.items() if ", base" not in at}
    rows = {at: added for at, added in rows.items() if "matched base" not in at}
    free = {condition for condition, added in rows.items() if added == "0, exactly"}
    windows = results.MODEL_TITLES["windows"]
    assert free == {
        "RoPE, unchanged",
        "dynamic NTK",
        "log-n temperature",
        *(windows, f"{windows}, log-n temperature"),
    }
    assert rows["PI"] == "+0.250 ± 0.000"
    assert "11 of 26 add none" in results.near_cost(result).caption()


def test_every_shown_condition_is_a_line_of_both_panels(result):
    figure = results.overview(result)
    shown = results.shown_conditions("rope")
    titles = {results.title(condition) for condition in shown}
    assert len(titles) == len(shown)
    for title in titles:
        assert figure.svg.count(f"<!-- {title} -->") == 1
        assert f"{title}: " in figure.alt
    windows = results.MODEL_TITLES["windows"]
    assert f"2.40 of {windows}, log-n temperature, untuned" in figure.caption
    assert "RoPE, unchanged: 5.40 bits at the end, 3.90 after tuning" in figure.alt


def test_where_runs_come_from(result):
    (row,) = rows_of(results.origins(result))
    assert row["runs"] == "20" and row["made"] == "2026-01-01"


def test_what_the_summaries_of_the_chapters_say_of_the_runs():
    runs = Result.load(DATA / "context-extension-cpu.json")
    seen = {
        (e.better, e.worse, e.how, factor): (gap, verdict)
        for e, factor, gap, verdict in results.verdicts(runs)
    }
    cold, warm = ("windows", "none"), ("windows", "log-n")
    by_temperature, verdict = seen[warm, cold, "plain", 8]
    assert verdict == "undecided" and by_temperature.is_significant()
    assert 0.005 < -by_temperature.mean < 0.015
    lost = {
        condition: runs.values(condition[0], label(condition[1], 8, "plain")).mean()
        - runs.values(condition[0], "128").mean()
        for condition in [*(("rope", method) for method in TRIED["rope"]), cold]
    }
    assert min(lost, key=lost.get) == cold and 0.04 < lost[cold] < 0.06


def test_what_the_summaries_of_the_chapters_say_of_the_needles():
    hidden = needles.Result.load(DATA / "needles-cpu.json")
    assert hidden.learned("rope").all() and not hidden.learned("windows-learned").any()
    unchanged = hidden.accuracy("rope", "none", 8)
    assert unchanged.max() < 1 / 3
    learned = hidden.learned("windows")
    assert 2 <= learned.sum() < len(learned)
    home, far = (hidden.accuracy("windows", "none", f)[learned] for f in (1, 32))
    assert abs(far - home).max() < 0.02
