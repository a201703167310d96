"""Geometric attention's explorable: the stick, broken by the nearest key first."""

import numpy as np

from posedu.numpy.stickbreaking import break_nearest_first
from support.explorables import FRAGMENTS, close, numbers, read, set_slider

N, MATCHES = 11, (1, 6, 9)
DRAWN = """() => [...document.querySelectorAll(".pieces path")].map(
  (p) => [p.getAttribute("d"), p.getAttribute("fill")])"""
SWITCHES = """() => [...document.querySelectorAll(".switch button")].map(
    (b) => b.getAttribute("aria-pressed") === "true")"""


def check_weights(page):
    """Compare pieces, bars and sentence with the reference's weights; return them."""
    shown = read(page)
    query, match, other, right = shown["inputs"]
    query = int(query)
    causal, normalize = page.evaluate(SWITCHES)
    share = np.full(N, other)
    share[[*MATCHES]] = match
    logits = np.log(share / (1 - share)) + right * (np.arange(N) > query)
    mask = np.ones((N, N), dtype=bool)
    mask = np.tril(mask) if causal else mask
    rows = np.broadcast_to(logits, (N, N))
    weights = break_nearest_first(rows, mask, normalize=normalize)[query]
    bars = [
        numbers(bar)[-1]
        for side in ("earlier", "later")
        for bar in shown["paths"][side].split("M")[1:]
        if "V" in bar
    ]
    close(bars, weights, 4, 1e-12)
    order = sorted(range(N), key=lambda j: (abs(j - query), j < query))[1:]
    drawn = page.evaluate(DRAWN)
    ends = np.cumsum(weights[order])
    for j, end, (path, fill) in zip(order, ends, drawn, strict=True):
        start, *_, until, _ = numbers(path)
        close([start, until], [end - weights[j], end], 4, 1e-12)
        assert ("-1," in fill) == (j < query)
    visited = [j for j in order if not causal or j < query]
    said = numbers(shown["summary"])
    if not visited:
        assert "sees no key" in shown["summary"]
        return weights
    assert said[: len(visited) + 1] == [query, *visited]
    most, percent, rest = said[len(visited) + 1 :]
    assert most == weights.argmax()
    close([percent, rest], 100 * np.array([weights.max(), 1 - weights.sum()]), 1, 1e-9)
    return weights


def test_the_nearest_match_gets_the_most_on_either_side(open_page):
    page = open_page(FRAGMENTS["geometric"])
    assert check_weights(page).argmax() == 6  # of 1, 6 and 9 the nearest to 4
    for query, nearest in ((0, 1), (2, 1), (3, 1), (10, 9), (8, 9)):
        set_slider(page, "query", query)
        assert check_weights(page).argmax() == nearest


def test_direction_mask_and_sum_are_the_references(open_page):
    page = open_page(FRAGMENTS["geometric"])
    for name, value in (("right", -5), ("match", 0.5), ("other", 0.6), ("right", 3)):
        set_slider(page, name, value)
        check_weights(page)
    causal, divided = page.locator(".switch button").all()
    divided.press("Space")
    assert abs(check_weights(page).sum() - 1) < 1e-12
    causal.press("Space")
    assert (check_weights(page)[4:] == 0).all()
    set_slider(page, "query", 0)
    assert (check_weights(page) == 0).all()  # divided by the floor, not by 0
