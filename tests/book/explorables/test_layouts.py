"""The explorable of layouts shows the conversion's order of rows."""

from itertools import product

import numpy as np
import pytest

from posedu.book.explorables import layouts
from posedu.numpy.rotary import rope
from support.explorables import FRAGMENTS, read


@pytest.fixture
def page(open_page):
    return open_page(FRAGMENTS["layouts"])


def test_it_opens_on_what_its_page_converts(page):
    """Meta's code turns neighbors, that of transformers halves."""
    assert read(page)["chosen"] == ["interleaved", "half", "16"]


@pytest.mark.parametrize("width", layouts.WIDTHS)
def test_every_choice_draws_what_the_conversion_says(page, width):
    page.locator("select[name=width]").select_option(width)
    for source, target in product(layouts.ORDERS, repeat=2):
        page.locator("select[name=source]").select_option(source)
        page.locator("select[name=target]").select_option(target)
        shown = read(page)
        order = layouts.rows(source, target, int(width))
        named = [page.locator(f".to{n}").text_content() for n in range(layouts.HEAD)]
        assert [*map(int, named)] == order
        for n in range(layouts.HEAD // 2):
            drawn = layouts.lines(order, n, source, target, int(width))
            assert (shown["paths"][f"pair{n}"] or "") == drawn
        assert shown["summary"] == layouts.summary_text(source, target, int(width))


@pytest.mark.parametrize("wrong", [None, "inverse", "none"])
def test_products_stay_as_they_were(wrong):
    """Scores stay equal after the reordering, but not after its inverse."""
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 5, layouts.HEAD))
    order = np.array(layouts.rows("half", "interleaved", layouts.HEAD))
    order = {None: order, "inverse": np.argsort(order), "none": np.arange(16)}[wrong]
    at = np.arange(5)
    turned = [rope(x, at, layout="half") for x in (q, k)]
    again = [rope(x[:, order], at, layout="interleaved") for x in (q, k)]
    one, other = (a @ b.T for a, b in (turned, again))
    assert np.allclose(one, other, atol=1e-12) == (wrong is None)
