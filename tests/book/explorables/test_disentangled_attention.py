"""The explorable of four terms shows the reference implementations' numbers."""

import numpy as np
import pytest

from posedu.book.explorables import disentangled_attention
from support.explorables import FRAGMENTS, numbers

READ = """(figure) => ({
  panels: [...figure.querySelectorAll(".panel")].map((panel) => [...panel.children]
    .slice(0, -1).map((c) => [c.getAttribute("fill") || panel.getAttribute("fill"),
      Number(c.getAttribute("opacity"))])),
  framed: [...figure.querySelectorAll(".frame")].map(
    (f) => f.getAttribute("stroke-opacity") === "1"),
  start: figure.querySelector("output").textContent,
  summary: figure.querySelector(".summary").textContent,
})"""


def check(shown, method, start):
    """Every cell, which panels are framed, and what is said."""
    now, before = (disentangled_attention.terms_of(method, at) for at in (start, 0))
    zero = np.zeros((5, 5))
    panels = [
        [zero if term is None else np.rint(100 * term) for term in maps]
        for maps in (now, before)
    ]
    for maps in panels:
        maps.append(sum(maps))
    moved = [bool((a != b).any()) for a, b in zip(*panels, strict=True)]
    assert shown["framed"] == moved
    for drawn, map_ in zip(shown["panels"], panels[0], strict=True):
        for (fill, opacity), value in zip(drawn, map_.ravel(), strict=True):
            assert (
                abs(opacity - min(abs(value) / disentangled_attention.FULL, 1))
                <= 0.005 + 1e-12
            )
            if value:
                assert fill == (
                    disentangled_attention.MORE
                    if value > 0
                    else disentangled_attention.LESS
                )
    assert shown["start"] == str(start)
    change = np.abs(panels[0][-1] - panels[1][-1]).max() / 100
    said = numbers(shown["summary"])
    assert said == ([start, change] if any(moved) else [start])
    for name, term, is_moved in zip(
        disentangled_attention.TERMS, now, moved, strict=False
    ):
        assert (f"no {name} term" in shown["summary"]) == (term is None)
        assert is_moved <= (name in shown["summary"])
    return moved


def test_maps_are_the_reference_s_and_those_that_move_are_framed(open_page):
    page = open_page(FRAGMENTS["disentangled_attention"])
    read = lambda: page.locator("figure").evaluate(READ)  # noqa: E731
    assert not any(check(read(), "added", 0))
    expected = {
        "added": [False, True, True, True, True],
        "xl": [False] * 5,
        "tupe": [False, False, False, True, True],
        "deberta": [False] * 5,
    }
    for method, moved in expected.items():
        page.locator("select").select_option(value=method)
        page.locator("input").press("Home")
        assert not any(check(read(), method, 0))
        page.locator("input").press("End")
        assert check(read(), method, disentangled_attention.STARTS - 1) == moved
        page.locator("input").press("ArrowLeft")
        assert check(read(), method, disentangled_attention.STARTS - 2) == moved


@pytest.mark.parametrize("method", disentangled_attention.METHODS)
def test_terms_add_up_to_the_encoding_s_logits(method):
    """The terms, drawn one by one, sum to the logits, also for late positions."""
    parts = [t for t in disentangled_attention.terms_of(method, 3) if t is not None]
    assert len(parts) == {"added": 4, "xl": 4, "tupe": 2, "deberta": 3}[method]
    assert all(np.abs(t).max() > 0.3 for t in parts)
