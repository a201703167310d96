"""FoPE's explorable: angle and score of a pair's series."""

import numpy as np
import pytest

from posedu.numpy import rotary
from support.explorables import FRAGMENTS, close, numbers, points_of, summary_of


@pytest.mark.parametrize(
    ("own", "other", "back"),
    [
        (1.0, 0.3, 0.0),
        (1.0, 0.0, 0.0),
        (0.0, 1.0, 0.0),
        (0.9, 0.0, 0.1),
        (0.0, 0.0, 1.0),
    ],
)
def test_waves_show_pair_and_score_of_the_series(open_page, own, other, back):
    page = open_page(FRAGMENTS["fope"])
    for name, weight in (("own", own), ("other", other), ("back", back)):
        slider = page.locator(f"input[name={name}]")
        if weight not in (0, 1):
            slider.evaluate(
                "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')) }", weight
            )
        else:
            slider.press("End" if weight else "Home")
    at = np.arange(0, 40.01, 0.25)
    options = dict(
        cos_coefficients=np.array([[own + back], [other]]) / (own + other + back),
        sin_coefficients=np.array([[own - back], [other]]) / (own + other + back),
        length=40,
        base=10,
        padding="identity",
    )
    table = rotary.fope_table(at, 4, **options)
    shown = points_of(page, ".curve")
    close(shown, np.stack(table, -1)[:, 0], 3, 1e-12)
    x = np.tile([1.0, 0, 0, 0], (len(at), 1))  # the first pair alone
    here, there = (
        rotary.fope(x, at + moved, layout="interleaved", **options) for moved in (0, 1)
    )
    scores = (here * there).sum(-1)
    close(points_of(page, ".scores"), np.stack([at, scores], -1), 3, 1e-12)
    waves = np.count_nonzero([own, other, back])
    assert (
        (np.ptp(scores) < 1e-12)
        == (waves == 1)
        == ("It is relative" in summary_of(page))
    )
    ends = [scores.min(), scores.max()] if waves > 1 else [scores[0]]
    close(numbers(summary_of(page)), [waves, *ends], 2, 1e-12)
