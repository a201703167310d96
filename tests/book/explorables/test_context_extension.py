"""Scaled frequencies under the controls, compared with the reference."""

import numpy as np
import pytest

from posedu.book.explorables import context_extension
from support.explorables import FRAGMENTS, close, numbers, read


def points(path):
    """The coordinates of a path's dots."""
    return np.reshape(numbers(path.replace("h.01", " ")), (-1, 2))


def check(page):
    """Every dot, its color and the sentence, for what is chosen."""
    shown = read(page)
    method, base, d = shown["chosen"]
    chosen = method, 2.0 ** shown["inputs"][0], float(base), int(d)
    for name, path in zip(
        ("known", "new"), context_extension.dots(*chosen), strict=True
    ):
        close(points(shown["paths"][name]), points(path), 1, 0.051)
    assert shown["summary"] == context_extension.summary_text(*chosen)
    assert numbers(shown["outputs"]["doublings"]) == [chosen[1]]


@pytest.mark.parametrize("method", context_extension.METHODS)
def test_the_dots_stand_where_the_reference_has_them(open_page, method):
    page = open_page(FRAGMENTS["context_extension"])
    check(page)
    page.locator("select[name=method]").select_option(method)
    check(page)
    page.locator("select[name=base]").select_option("500000")
    page.locator("input").press("End")
    check(page)
    page.locator("select[name=d]").select_option("64")
    page.locator("select[name=base]").select_option("1000000")
    page.locator("input").press("Home")
    check(page)


@pytest.mark.parametrize("method", context_extension.METHODS)
def test_new_angles_are_those_of_positions_drawn_closely(method):
    """Compare with brute force: a thousand marks on the trained part of the circle."""
    for base, d in (1e4, 64), (5e5, 128):
        omega, mapped = context_extension.scaled_frequencies(method, 4.0, base, d)
        said = context_extension.meets_new(omega, mapped, 4.0)
        for w, v, is_new in zip(omega, mapped, said, strict=True):
            ends = np.minimum(
                context_extension.TRAINED * np.array([w, 4 * v]), 2 * np.pi
            )
            met, asked = (
                set((np.linspace(0, end, 9000) * 1000 / ends[0]).astype(int))
                for end in ends
            )
            assert (len(asked - met) > 3) == is_new
