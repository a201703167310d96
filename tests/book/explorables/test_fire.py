"""FIRE's curve under the sliders: the reference implementation's inputs."""

import numpy as np

from posedu.book.explorables import fire
from support.explorables import FRAGMENTS, close, numbers, read


def check(page):
    """Both curves and the middle, for the query and the threshold that are chosen."""
    shown = read(page)
    query, threshold = map(int, shown["inputs"])
    for name, at in ("fire", query), ("held", threshold):
        drawn = np.reshape(numbers(shown["paths"][name].replace("L", " ")), (-1, 2))
        close(drawn, fire.bias_curve(at, threshold), 4, 1e-9)
    middle = fire.middle_of(query, threshold)
    assert numbers(shown["outputs"]["middle-at"]) == [round(middle)]
    assert numbers(shown["summary"]) == [query, threshold, round(middle)]
    assert ("stretched" in shown["summary"]) == (query > threshold)
    return middle


def test_the_curve_is_stretched_as_the_reference_s_inputs(open_page):
    page = open_page(FRAGMENTS["fire"])
    check(page)
    query, threshold = (
        page.locator(f'input[name="{n}"]') for n in ("query", "threshold")
    )
    query.press("Home")
    still = check(page)
    query.press("End")
    assert check(page) > 2 * still
    threshold.press("End")
    check(page)
    query.press("ArrowLeft")
    check(page)
