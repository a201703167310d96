"""Cosines of a row with all others, compared with the reference."""

import numpy as np

from posedu.book.explorables import learned_embeddings
from support.explorables import FRAGMENTS, close, numbers, read


def check(page):
    """Stems, band and what is said; returns the cosines."""
    shown = read(page)
    row, power = map(int, shown["inputs"])
    shuffled = page.locator("button").get_attribute("aria-pressed") == "true"
    found = learned_embeddings.cosines(
        *shown["chosen"], 2**power, row, shuffled=shuffled
    )
    limit = learned_embeddings.bound(2**power)
    drawn = np.reshape(numbers(shown["paths"]["stems"].replace("V", " ")), (-1, 3))
    close(drawn, np.stack((range(48), np.zeros(48), found), -1), 4, 1e-9)
    close(
        numbers(shown["paths"]["band"].replace("H", " "))[1:4], [-limit, 47.5, limit], 4
    )
    assert list(shown["outputs"].values()) == [str(row), str(2**power)]
    assert shown["summary"] == learned_embeddings.summary_text(found, row, limit)
    return found


def neighbor_cosines(found, row):
    """Return the mean cosine of both neighbors, and of all other rows."""
    near = np.isin(np.arange(len(found)), (row - 1, row + 1))
    return found[near].mean(), np.abs(found[~near]).mean()


def test_stems_follow_the_reference_and_only_sinusoids_know_neighbors(open_page):
    page = open_page(FRAGMENTS["learned_embeddings"])
    row, power = (page.locator(f'input[name="{n}"]') for n in ("row", "power"))
    few = np.abs(check(page)).mean()
    power.press("End")
    assert np.abs(check(page)).mean() < few
    page.locator("button").click()
    check(page)
    page.locator("select").select_option("sinusoidal")
    assert neighbor_cosines(check(page), 20)[0] < 0.95
    page.locator("button").click()
    assert neighbor_cosines(check(page), 20)[0] > 0.95
    row.press("Home")
    power.press("Home")
    check(page)
