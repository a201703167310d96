"""The arrows under the controls: what the reference face says."""

import numpy as np
import pytest
from explorables import FRAGMENTS, close, numbers

from posedu.explorables import turned
from posedu.numpy import value_rotation
from posedu.numpy.attention import steps

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
    values = [turned.arrow(v) for v in turned.turned(start, apart)]
    for found, expected in zip(shown["values"], values, strict=True):
        close(numbers(found), numbers(expected), 4)
    out = turned.gathered(start, apart, shown["back"])
    close(numbers(shown["out"]), numbers(turned.arrow(out)), 4)
    assert shown["summary"] == turned.said(start, apart, shown["back"])
    return out


def test_the_arrows_are_those_of_the_reference(open_page):
    page = open_page(FRAGMENTS["turned"])
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
    """With weights that are put in place of a softmax's."""
    doors = value_rotation(layout="half", turned="leading")
    at = start + 0.7 * np.arange(4)
    logits = np.log(turned.WEIGHTS)[None, None].repeat(4, 1)
    v = turned.VALUES[None]
    doors = type(doors)(
        values=doors.values, output=doors.output, logits=lambda tokens: logits
    )
    out = steps(v, v, v, doors, positions=at).out[0, -1]
    np.testing.assert_allclose(turned.gathered(start, 0.7, True), out, atol=1e-14)
    assert np.abs(turned.gathered(start, 0.7, False) - out).max() > 0.01
