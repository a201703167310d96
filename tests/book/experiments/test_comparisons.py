"""Gaps, verdicts and provenance, for numbers whose differences are known."""

import numpy as np
import pytest
from scipy import stats

from posedu.book.experiments import digits, runs, sequences
from posedu.book.experiments.comparisons import Gap, gaps, origins, verdicts_together

ONE, OTHER = np.array([0.5, 0.75, 1.0]), np.array([0.25, 0.25, 0.25])


def width(values, level):
    """The mean, and an interval whose half tells the level."""
    return float(values.mean()), 1 - level


def test_a_gap_is_the_mean_of_differences_within_seeds_in_points():
    for interval in (sequences.interval, digits.interval):
        gap = Gap.between(ONE, OTHER, interval)
        assert (gap.mean, gap.half) == interval(np.array([25.0, 50.0, 75.0]), 0.95)
    assert str(Gap(-1.26, 0.5)) == "-1.3 ± 0.5"


def test_differences_need_the_same_seeds(unchecked):
    with pytest.raises(ValueError, match="the same seeds, got 3 and 2 of"):
        Gap.between(ONE, OTHER[:2], sequences.interval)


@pytest.mark.parametrize(
    ("mean", "half", "least", "is_significant", "verdict"),
    [
        (2.0, 1.0, 0.0, True, "reproduced"),
        (2.0, 1.0, 2.0, False, "reproduced"),
        (-2.0, 1.0, 1.0, True, "contradicted"),
        (1.0, 2.0, 0.0, False, "undecided"),
        (-1.0, 1.0, 0.0, False, "undecided"),
    ],
)
def test_a_gap_is_significant_beyond_its_interval_and_the_least_difference(
    mean, half, least, is_significant, verdict
):
    gap = Gap(mean, half)
    assert gap.is_significant(least) == is_significant and gap.verdict == verdict


def test_all_pairs_share_the_level():
    """Six pairs of four: each leaves out a sixth of a twentieth."""
    accuracies = {name: OTHER + n / 8 for n, name in enumerate("abcd")}
    found = gaps(accuracies, width)
    assert [*found] == [tuple(pair) for pair in ("ab", "ac", "ad", "bc", "bd", "cd")]
    assert found["a", "d"].mean == pytest.approx(-37.5)
    assert all(gap.half == pytest.approx(0.05 / 6) for gap in found.values())
    with pytest.raises(ValueError, match=r"two encodings, got \['a'\]"):
        gaps({"a": ONE}, width)


def test_a_p_value_is_that_of_a_paired_t_test():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 6))
    found = Gap.between(one, other, sequences.interval, level=0.9)
    assert found.p == pytest.approx(stats.ttest_rel(one, other).pvalue)
    assert Gap.between(one + 1, one, sequences.interval).p == pytest.approx(0)
    assert Gap.between(one, one, sequences.interval).p == 1


def test_verdicts_hold_together():
    """Three of four single verdicts; Holm's limits are 0.05 / 4, / 3, / 2 and / 1."""
    gaps = {
        "third": Gap(1.0, 0.9, 0.03),
        "first": Gap(1.0, 0.1, 0.0124),
        "last": Gap(1.0, 2.0, 0.3),
        "second": Gap(-1.0, 0.1, 0.0166),
    }
    assert verdicts_together(gaps) == {
        "third": "undecided",
        "first": "reproduced",
        "last": "undecided",
        "second": "contradicted",
    }
    gaps["first"] = Gap(1.0, 0.1, 0.0126)  # the smallest fails, so all others do
    assert {*verdicts_together(gaps).values()} == {"undecided"}
    gaps["first"] = Gap(1.0, 0.1)  # no number is no evidence
    assert verdicts_together(gaps)["first"] == "undecided"
    assert verdicts_together({}) == {}


def test_of_gaps_by_chance_few_families_have_a_verdict():
    """Single verdicts are wrong in two of three families of twenty."""
    rng = np.random.default_rng(1)
    together = single = 0
    for _ in range(300):
        family = {
            n: Gap.between(*rng.normal(size=(2, 5)), sequences.interval)
            for n in range(20)
        }
        single += any(gap.verdict != "undecided" for gap in family.values())
        found = verdicts_together(family).values()
        together += any(verdict != "undecided" for verdict in found)
    assert together <= 27 < 150 < single  # 0.05 of 300, and three deviations


def test_runs_have_a_row_for_each_making():
    def made(date, **more):
        versions = {"torch": "2"}
        where = {"device": "a CPU", "threads": 1, "commit": "0123456789"}
        return where | {"date": date, "versions": versions} | more

    def run(encoding, seed, made):
        return runs.Run(
            encoding=encoding, seed=seed, accuracy={}, loss=0, seconds=900.0, made=made
        )

    late, early = made("2"), made("1", commit="9876543210")
    given = [run("b", 1, late), run("a", 1, late), run("a", 2, late)]
    result = runs.Runs("How.", "these settings", [*given, run("c", 1, early)])
    shown = origins(result, {"a": "A", "b": "B", "c": "C"})
    _, *rows = shown.rows()
    assert rows == [
        ("1", "C", "1", "9876543", "a CPU, 1 thread(s)", "torch 2"),
        ("3", "A; B", "2", "0123456", "a CPU, 1 thread(s)", "torch 2"),
    ]
    assert shown.caption() == "4 runs of these settings, 1.0 hours of one core. How."
