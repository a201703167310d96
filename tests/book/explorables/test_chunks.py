"""The explorable of chunks: drawn pairs, states and operations are the real ones."""

import numpy as np
import pytest

from posedu.book.explorables.chunks import TOKENS, costs
from support.explorables import FRAGMENTS, close, numbers, read, set_slider

NUMBERS = """() => [...document.querySelectorAll(".number")].map(t => t.textContent)"""
FILLED = """(name) => {
  const path = document.querySelector(name), filled = [];
  for (let i = 0; i < 32; i++) for (let j = 0; j < 32; j++)
    if (path.isPointInFill(new DOMPoint(j + 0.5, i + 0.5))) filled.push([i, j]);
  return filled;
}"""


def counted(chunk, d, delta):
    """Multiply-adds of one whole chunk, per token, product by product."""
    products = [(chunk, d, chunk), (chunk, chunk, d), (chunk, d, d), (d, chunk, d)]
    if delta:
        rows = [(1, r, r) for r in range(chunk)]
        corrections = [(chunk, d, chunk), (chunk, chunk, d), (chunk, chunk, d)]
        products += [*rows, *corrections, (chunk, d, d)]
    return sum(a * b * c for a, b, c in products) / chunk


def check_chunks(page):
    """Compare the filled cells and the numbers with the pairs of the chunks."""
    shown = read(page)
    chunk, features = map(int, shown["inputs"])
    delta = shown["chosen"] == ["delta"]
    of_chunk = np.arange(TOKENS) // chunk
    causal = np.tri(TOKENS, dtype=bool)
    same = of_chunk[:, None] == of_chunk
    for name, pairs in ((".within", causal & same), (".between", causal & ~same)):
        assert page.evaluate(FILLED, name) == np.argwhere(pairs).tolist()
    starts = np.flatnonzero(np.diff(of_chunk)) + 1
    dots = page.locator(".dots").get_attribute("d") or ""
    middles = np.array(numbers(dots.replace("h", " "))).reshape(-1, 3)
    close(middles[:, 0] + middles[:, 2] / 2, starts, 9)
    assert middles[:, 1].tolist() == starts.tolist()
    found = [numbers(text)[0] for text in page.evaluate(NUMBERS)]
    assert found[:3] == [(causal & same).sum(), len(starts), len(starts) + 1]
    close(found[3], counted(chunk, features, delta), 0, 1e-9)
    said = numbers(shown["summary"])
    assert said[:3] == [len(starts) + 1, (causal & same).sum(), causal.sum()]
    if len(starts):
        assert said[3:-1] == [len(starts), features, features]
    assert said[-1] == found[3]
    return found


@pytest.mark.parametrize("rule", ["additive", "delta"])
def test_pairs_and_numbers_are_those_of_the_chunks(open_page, rule):
    page = open_page(FRAGMENTS["chunks"])
    check_chunks(page)
    page.locator("select").select_option(value=rule)
    for chunk in (1, 5, 16, 31, 32):
        set_slider(page, "chunk", chunk)
        check_chunks(page)
    set_slider(page, "features", 64)
    check_chunks(page)


def test_larger_chunks_have_fewer_steps_and_more_operations(open_page):
    page, before = open_page(FRAGMENTS["chunks"]), None
    for chunk in (2, 8, 32):
        set_slider(page, "chunk", chunk)
        found = check_chunks(page)
        if before:
            assert found[2] < before[2] and found[3] > before[3]
        before = found


def test_the_last_chunk_may_be_shorter():
    assert costs(5, 4, delta=False).pairs == 6 * 15 + 3
    assert costs(TOKENS, 4, delta=True)[:3] == (TOKENS * (TOKENS + 1) // 2, 0, 1)
