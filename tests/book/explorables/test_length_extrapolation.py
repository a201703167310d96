"""Bars of RoPE's pairs under the controls, compared with the reference."""

import re

import numpy as np

from posedu.book.explorables import length_extrapolation
from support.explorables import FRAGMENTS, close, numbers, read


def bars(path):
    """Places, lower and upper ends."""
    found = re.findall(r"M([\d.]+),([\d.]+)V([\d.]+)", path)
    return np.array(found, dtype=float).reshape(-1, 3).T


def check(page):
    """Both kinds of bars, and the words, for what is chosen; how many pairs are new."""
    shown = read(page)
    trained, factor = map(int, shown["inputs"])
    lengths = 2**trained, 2 ** (trained + factor)
    covered, reached = length_extrapolation.turn_shares(
        float(*shown["chosen"]), *lengths
    )
    new = reached > covered
    for name, low, high in (
        ("covered", 0 * covered, covered),
        ("new", covered, reached),
    ):
        at, bottom, top = bars(shown["paths"][name])
        close(at, np.flatnonzero(high > low) + 0.5, 1)
        close(bottom, low[high > low], 4, 1e-9)
        close(top, high[high > low], 4, 1e-9)
    said = numbers(shown["summary"])
    assert said == [(covered == 1).sum(), 32, lengths[0], new.sum(), lengths[1]]
    return int(new.sum())


def test_the_bars_are_of_the_reference_s_frequencies(open_page):
    page = open_page(FRAGMENTS["length_extrapolation"])
    still = check(page)
    trained, factor = (
        page.locator(f'input[name="{n}"]') for n in ("trained", "factor")
    )
    page.locator("select").select_option("500000")
    assert check(page) > still
    trained.press("End")
    check(page)
    factor.press("Home")
    assert check(page) == 0
    trained.press("Home")
    factor.press("End")
    assert check(page) > still
