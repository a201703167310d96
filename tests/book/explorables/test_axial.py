"""The explorable of patches shows the scores of axial and mixed RoPE."""

import numpy as np
import pytest

from posedu.book.figures import INKS
from posedu.numpy import rotary
from support.explorables import FRAGMENTS, close, numbers, summary_of

IMAGE = rotary.grid(12, 8, coordinates="index")


def expected_scores(kind, key):
    """Return the scores of all patches with a key, from frequency vectors."""
    s = 10.0 ** -(np.arange(4) / 4)
    f = {
        "axial": [(a, 0) for a in s] + [(0, a) for a in s],
        "one": [(a, -a) for a in s],
        "two": [(a, sign * a) for a in s for sign in (1, -1)],
    }[kind]
    places = np.vstack([IMAGE, key]).astype(float)
    x = np.tile([1.0, 0.0], (len(places), len(f)))
    rotated = rotary.mixed(x, places, frequencies=np.array(f), layout="interleaved")
    return rotated[:-1] @ rotated[-1] / len(f)


@pytest.mark.parametrize("kind", ["axial", "one", "two"])
def test_patches_show_the_scores_with_the_key(open_page, kind):
    page = open_page(FRAGMENTS["axial"])
    page.locator("select").select_option(kind)
    for keys, key in (
        ((), (4, 3)),
        (("End", "Home"), (10, 0)),
        (("Home", "End"), (0, 6)),
    ):
        for name, press in zip(("column", "row"), keys, strict=False):
            page.locator(f"input[name={name}]").press(press)
        shown = page.locator("svg").evaluate(
            """(svg) => [...svg.querySelectorAll(".patch")].map((patch) => [
              patch.getAttribute("fill"), patch.getAttribute("fill-opacity")])"""
        )
        s = expected_scores(kind, key)
        close([float(opacity) for _, opacity in shown], np.abs(s), 2, 1e-12)
        fills = [INKS[int(score > 0)] for score in s]
        assert [fill for fill, _ in shown] == fills
        at = {
            tuple(place): score for place, score in zip(IMAGE.tolist(), s, strict=True)
        }
        column, row = key
        diagonal = at[column, row] + at[column + 1, row + 1]
        others = at[column + 1, row] + at[column, row + 1]
        close(numbers(summary_of(page)), [*key, diagonal, others], 2, 1e-12)
        assert (diagonal > others + 0.1) == (kind == "one")


def test_a_click_on_a_patch_moves_the_key(open_page):
    page = open_page(FRAGMENTS["axial"], width=390)
    for place, key in ((12 * 2 + 7, (7, 2)), (95, (10, 6))):
        page.locator(".patch").nth(place).click(force=True)
        assert numbers(summary_of(page))[:2] == list(key)
