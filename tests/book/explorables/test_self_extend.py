"""The explorable of offsets shows the reference implementation's numbers."""

import numpy as np
import pytest
import torch

from posedu.book.explorables import self_extend
from posedu.torch import Attention, KVCache, NoPE
from support.explorables import FRAGMENTS, close, numbers

READ = """(figure) => ({
  offsets: figure.querySelector("path.offsets").getAttribute("d"),
  method: figure.querySelector("select").value,
  values: [...figure.querySelectorAll("input")].map((i) => i.valueAsNumber),
  summary: figure.querySelector(".summary").textContent,
})"""


def check(page):
    """The dashes and the sentence, for what is chosen."""
    shown = page.locator("figure").evaluate(READ)
    values = map(int, shown["values"])
    given = (shown["method"], *values)
    close(numbers(shown["offsets"]), numbers(self_extend.path(*given)), 9)
    assert shown["summary"] == self_extend.summary_text(*given)


@pytest.mark.parametrize("method", self_extend.METHODS)
def test_the_offsets_are_those_of_the_reference(open_page, method):
    page = open_page(FRAGMENTS["self_extend"])
    check(page)
    page.locator("select").select_option(method)
    check(page)
    for place, key in (0, "End"), (1, "Home"), (2, "End"), (1, "End"), (0, "Home"):
        page.locator("input").nth(place).press(key)
        check(page)


@pytest.mark.parametrize("tokens", [3, 12, 13, 40])
def test_sinks_and_a_window_are_a_cache_s(tokens):
    """Offsets of what a cache keeps, counted from the last token that it keeps."""
    layer, cache = Attention(4, 1, encoding=NoPE()), KVCache()
    layer(torch.zeros(1, tokens, 4), cache=cache)
    cache.drop(layer.encoding, 4, max(4, tokens - 8))
    at = cache.positions[0].numpy()
    found = [t for t in self_extend.offsets("sinks", tokens, 8, 4) if t is not None]
    np.testing.assert_array_equal(found, at[-1] - at)
