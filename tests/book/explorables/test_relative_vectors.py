"""Weights of a query under the sliders, compared with the reference."""

import numpy as np

from posedu.book.explorables import relative_vectors
from support.explorables import FRAGMENTS, close, numbers

READ = """(figure) => ({
  bars: [...figure.querySelectorAll(".weights path")].map((p) => p.getAttribute("d")),
  rows: [...figure.querySelectorAll(".rows path")].map((p) => p.getAttribute("d")),
  inputs: [...figure.querySelectorAll("input")].map((i) => i.valueAsNumber),
  summary: figure.querySelector(".summary").textContent,
})"""


def check(page):
    shown = page.locator("figure").evaluate(READ)
    weights = relative_vectors.weights_of(*shown["inputs"])
    close([numbers(d)[2] for d in shown["bars"]], weights, 4, 1e-9)
    tips = [numbers(d)[2:] for d in shown["rows"]]
    close(
        tips,
        relative_vectors.ROWS + shown["inputs"][1] * relative_vectors.SHIFT,
        3,
        1e-6,
    )
    assert shown["summary"] == relative_vectors.summary_text(weights)
    return weights, shown["summary"]


def test_a_query_weighs_offsets_as_the_reference_does(open_page):
    page = open_page(FRAGMENTS["relative_vectors"])
    weights, _ = check(page)
    assert weights.argmax() == 1
    moved = page.locator('input[name="moved"]')
    for _ in range(3):
        moved.press("ArrowRight")
    np.testing.assert_allclose(check(page)[0], weights, rtol=0, atol=1e-15)
    moved.press("End")
    np.testing.assert_allclose(check(page)[0], weights, rtol=0, atol=1e-15)
    angle = page.locator('input[name="angle"]')
    angle.press("Home")
    check(page)
    angle.evaluate(
        "(e) => { e.value = 160; e.dispatchEvent(new Event('input', {bubbles: true})) }"
    )
    weights, summary = check(page)
    assert weights.argmax() == 4 and summary.startswith("The keys at offsets 4 to 8")
