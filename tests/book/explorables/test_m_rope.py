"""Wavelengths of each axis under the controls, compared with the reference."""

import numpy as np
import pytest

from posedu.book.explorables import m_rope
from posedu.numpy.frequencies import wavelengths
from support.explorables import FRAGMENTS, close, numbers

READ = """(figure) => ({
  paths: Object.fromEntries([...figure.querySelectorAll("path[class]")].map(
    (path) => [path.getAttribute("class"), path.getAttribute("d")])),
  model: figure.querySelector("select").value,
  span: figure.querySelector("input").valueAsNumber,
  summary: figure.querySelector(".summary").textContent,
})"""


def check(page):
    """The ticks, the mark and the sentence, for what is chosen."""
    shown = page.locator("figure").evaluate(READ)
    model, span = shown["model"], int(shown["span"])
    for axis in range(3):
        for name, complete in (("complete", True), ("incomplete", False)):
            expected = m_rope.ticks(model, axis, span, complete)
            found = shown["paths"][f"{name}{axis}"]
            close(numbers(found), numbers(expected), 3, 0.011)
    assert shown["paths"]["chosen"] == m_rope.mark(span)
    assert shown["summary"] == m_rope.summary_text(model, span)


@pytest.mark.parametrize("model", m_rope.MODELS)
def test_the_ticks_are_those_of_the_reference(open_page, model):
    page = open_page(FRAGMENTS["m_rope"])
    check(page)
    page.locator("select").select_option(model)
    check(page)
    for key in ("Home", "End"):
        page.locator("input").press(key)
        check(page)


@pytest.mark.parametrize("model", m_rope.MODELS)
def test_every_pair_is_drawn_once(model):
    own = np.sort(np.concatenate([m_rope.of_axis(model, a) for a in range(3)]))
    np.testing.assert_allclose(own, wavelengths(128, base=1e6))
