"""The explorable of temperatures shows the reference implementation's numbers."""

import math

import numpy as np
import pytest

from posedu.book.explorables import temperature
from posedu.numpy.attention import softmax
from support.explorables import FRAGMENTS, close, numbers, read


def check(page):
    """The curves, the mark and the sentence, for what is chosen."""
    shown = read(page)
    gap, doublings = shown["inputs"]
    (formula,) = shown["chosen"]
    weight, entropy = temperature.paths(formula, gap)
    plain, _ = temperature.paths("none", gap)
    for name, path in ("weight", weight), ("entropy", entropy), ("plain", plain):
        close(numbers(shown["paths"][name]), numbers(path), 4, 1e-9)
    close(numbers(shown["paths"]["start"]), numbers(temperature.start(formula)), 3)
    expected = temperature.summary_text(formula, gap, int(doublings))
    assert shown["summary"] == expected


@pytest.mark.parametrize("formula", temperature.FORMULAS)
def test_the_curves_are_those_of_the_reference(open_page, formula):
    page = open_page(FRAGMENTS["temperature"])
    check(page)
    page.locator("select").select_option(formula)
    check(page)
    for place, key in (0, "Home"), (1, "Home"), (0, "End"):
        page.locator("input").nth(place).press(key)
        check(page)


@pytest.mark.parametrize("formula", temperature.FORMULAS)
@pytest.mark.parametrize("keys", [16, 2**12, 2**18])
def test_weight_and_entropy_are_those_of_a_softmax(formula, keys):
    for gap in 1.0, 8.0, 16.0:
        logits = np.zeros(keys)
        logits[0] = gap * temperature.temperature(formula, keys)
        a = softmax(logits)
        weight, entropy = temperature.weight_and_entropy(formula, gap, keys)
        assert math.isclose(weight, a[0], rel_tol=1e-9)
        assert math.isclose(entropy, -(a * np.log(a)).sum(), rel_tol=1e-9)
