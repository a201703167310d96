"""Log-linear attention's explorable: buckets of two queries, and factors of keys."""

from itertools import groupby

import numpy as np
import pytest

from posedu.numpy.gated import bucket_level
from support.explorables import FRAGMENTS, close, numbers, read, set_slider

DRAWN = """() => ["now", "following"].map((name) =>
  [...document.querySelectorAll(`.${name} > *`)].map(
    (e) => e.getAttribute("d") ?? e.textContent))"""


def check_buckets(page):
    """Compare both rows of bars and the columns with the reference; return levels."""
    shown = read(page)
    query, decay, slope = shown["inputs"]
    query, (buckets,) = int(query), shown["chosen"]
    rows = [
        [bucket_level(t, j, buckets=buckets) for j in range(t + 1)]
        for t in (query, query + 1)
    ]
    for levels, drawn in zip(rows, page.evaluate(DRAWN), strict=True):
        found = {}
        for path, text in zip(drawn[::2], drawn[1::2], strict=True):
            if text:
                start, _, end, *_ = numbers(path)
                found[int(text)] = [round(start - 0.08), round(end + 0.08)]
        keys = {level: np.flatnonzero(np.equal(levels, level)) for level in {*levels}}
        assert found == {n: [at[0], at[-1] + 1] for n, at in keys.items()}
    levels = np.array(rows[0])
    factors = decay ** np.arange(query, -1, -1) * np.exp(slope * levels)
    columns = [numbers(c)[-1] for c in shown["paths"]["factors"].split("M")[1:]]
    close(columns, factors / max(1, factors.max()), 4, 1e-12)
    sizes = [len(list(group)) for _, group in groupby(rows[0])]
    said = numbers(shown["summary"])
    assert said[:3] == [query, int(f"{query:b}"), len(sizes)]
    assert said[3 : 3 + len(sizes)] == sizes
    if factors.max() > 1:
        close(said[-1], factors.max(), 2, 1e-9)
    return rows, shown["summary"]


@pytest.mark.parametrize("buckets", ["weak", "strong"])
def test_buckets_and_factors_are_the_references(open_page, buckets):
    page = open_page(FRAGMENTS["log_linear"])
    page.locator("select").select_option(value=buckets)
    for query in (0, 1, 7, 8, 22, 30):
        set_slider(page, "query", query)
        check_buckets(page)
    for name, value in (("slope", 0.7), ("decay", 1), ("slope", 0)):
        set_slider(page, name, value)
        check_buckets(page)


def test_the_summary_says_which_levels_become_one(open_page):
    page = open_page(FRAGMENTS["log_linear"])
    for query, merged in ((11, "the levels 0 to 2"), (7, "0 to 3"), (15, "0 to 4")):
        set_slider(page, "query", query)
        (now, following), summary = check_buckets(page)
        into = following[query]
        joined = {n for n, after in zip(now, following, strict=False) if after == into}
        assert joined == {*range(into)} and merged in summary
        assert f"of level {into}" in summary
    set_slider(page, "query", 6)
    assert "its own bucket gets level 1" in check_buckets(page)[1]
