"""FLOATER's explorable shows the reference implementation's solver steps."""

import numpy as np

from posedu.book.explorables import floater
from support.explorables import FRAGMENTS, close, numbers, read


def points(path):
    return np.reshape(numbers(path.replace("h.001", " ").replace("L", " ")), (-1, 2))


def check(page):
    """Path, dots and what is said, for the rate and the steps that are chosen."""
    shown = read(page)
    rate, steps = shown["inputs"][0], int(shown["inputs"][1])
    solved = floater.nodes(rate, steps)
    close(points(shown["paths"]["solved"]), solved, 3, 1e-9)
    close(points(shown["paths"]["found"]), solved[::steps], 3, 1e-9)
    close(points(shown["paths"]["exact"]), floater.exact(rate), 3, 1e-9)
    radius = np.linalg.norm(solved[-1])
    close(numbers(shown["outputs"]["radius"]), [radius], 3, 1e-9)
    assert f"radius {shown['outputs']['radius']} after" in shown["summary"]
    lag = floater.behind(rate, steps)
    verb = "leads" if lag < 0 else "lags"
    assert f"{verb} by {abs(lag):.1f}°" in shown["summary"]
    return radius


def test_the_path_is_that_of_the_reference(open_page):
    page = open_page(FRAGMENTS["floater"])
    rate, steps = (page.locator(f'input[name="{n}"]') for n in ("rate", "steps"))
    first = check(page)
    assert first < 0.5
    steps.press("End")
    assert 0.999 < check(page) < 1
    rate.press("End")
    assert 0.95 < check(page) < 1
    steps.press("Home")
    assert check(page) > 1
    rate.press("Home")
    check(page)


def test_how_far_behind_the_solver_is_follows_from_its_nodes():
    for rate, steps in ((0.2, 1), (1.5, 1), (2.9, 1), (2.9, 3)):
        x, y = floater.nodes(rate, steps)[-1]
        angle = rate * floater.LAST - np.radians(floater.behind(rate, steps))
        direction = np.array([np.cos(angle), np.sin(angle)])
        np.testing.assert_allclose([x, y] / np.hypot(x, y), direction, atol=1e-9)
