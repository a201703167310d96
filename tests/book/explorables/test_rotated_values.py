"""The explorable of arrows shows the reference implementation's numbers."""

import numpy as np
import pytest

from posedu.book.explorables import rotated_values
from posedu.numpy import value_rotation
from posedu.numpy.attention import steps
from support.explorables import FRAGMENTS, close, numbers

READ = """(figure) => ({
  values: [...figure.querySelectorAll("path.value")].map((p) => p.getAttribute("d")),
  out: figure.querySelector("path.out").getAttribute("d"),
  back: figure.querySelector("button").getAttribute("aria-pressed") === "true",
  sliders: [...figure.querySelectorAll("input")].map((i) => i.valueAsNumber),
  summary: figure.querySelector(".summary").textContent,
})"""


def check(page):
    """The arrows and the sentence, for what is chosen."""
    shown = page.locator("figure").evaluate(READ)
    start, apart = shown["sliders"]
    values = [rotated_values.arrow(v) for v in rotated_values.rotated(start, apart)]
    for found, expected in zip(shown["values"], values, strict=True):
        close(numbers(found), numbers(expected), 4)
    out = rotated_values.output(start, apart, shown["back"])
    close(numbers(shown["out"]), numbers(rotated_values.arrow(out)), 4)
    assert shown["summary"] == rotated_values.summary_text(start, apart, shown["back"])
    return out


def test_the_arrows_are_those_of_the_reference(open_page):
    page = open_page(FRAGMENTS["rotated_values"])
    still = check(page)
    for key in "End", "ArrowLeft", "PageDown":
        page.locator("input").nth(0).press(key)
        np.testing.assert_allclose(check(page), still, atol=1e-12)
    page.locator("button").first.click()
    assert np.abs(check(page) - still).max() > 0.01
    page.locator("input").nth(1).press("End")
    check(page)


@pytest.mark.parametrize("start", [0.0, 3.5, 30.0])
def test_it_is_what_the_record_gathers(start):
    """Compare with the record's hooks, given the explorable's attention weights."""
    hooks = value_rotation(layout="half", rotated="leading")
    at = start + 0.7 * np.arange(4)
    logits = np.log(rotated_values.WEIGHTS)[None, None].repeat(4, 1)
    v = rotated_values.VALUES[None]
    hooks = type(hooks)(
        values=hooks.values, output=hooks.output, logits=lambda tokens: logits
    )
    out = steps(v, v, v, hooks, positions=at).out[0, -1]
    np.testing.assert_allclose(rotated_values.output(start, 0.7, True), out, atol=1e-14)
    assert np.abs(rotated_values.output(start, 0.7, False) - out).max() > 0.01
