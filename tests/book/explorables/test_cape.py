"""The explorable of positions shows the reference implementation's."""

import re

import numpy as np

from posedu.book.explorables import cape
from support.explorables import FRAGMENTS, close, numbers, read


def check(page):
    """Dots, lines and words; returns how many neighbors are swapped."""
    shown = read(page)
    jitter, shift, level = shown["inputs"]
    at = cape.places(jitter, shift, level)
    x = cape.ZERO + cape.PIXELS * at
    close([float(n) for n in re.findall(r"M([\d.]+)", shown["paths"]["after"])], x, 2)
    ends = re.findall(r"L([\d.]+),([\d.]+)", shown["paths"]["lines"])
    close(np.array(ends, float)[:, 0], x, 2)
    scale = cape.scale(level)
    close(numbers(" ".join(shown["outputs"].values())), [jitter, shift, scale], 2)
    count, least = numbers(shown["summary"])
    close(least, scale * (1 - 2 * jitter), 2)
    assert count == (np.diff(at) < -1e-9).sum()
    return count


def test_places_are_the_reference_s_and_only_much_jitter_swaps(open_page):
    page = open_page(FRAGMENTS["cape"])
    sliders = {n: page.locator(f'input[name="{n}"]') for n in ("jitter", "level")}
    assert check(page) == 0
    sliders["jitter"].press("ArrowRight")
    assert check(page) > 0
    sliders["jitter"].press("End")
    assert check(page) > 0
    for end in ("Home", "End"):
        page.locator('input[name="shift"]').press(end)
        sliders["level"].press(end)
        check(page)
    sliders["jitter"].press("Home")
    assert check(page) == 0
