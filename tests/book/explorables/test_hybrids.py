"""Layers of shipped hybrid models, and the bytes that each of them caches."""

import math

from posedu.book.explorables import hybrids
from posedu.book.hybrids import load_hybrids
from support.explorables import FRAGMENTS, close, numbers, set_slider, summary_of

MODELS = {each.name: each for each in load_hybrids()}
READ = """(figure) => {
  const at = (name, key) => figure.querySelector(name).getAttribute(key);
  return {
    paths: ["a", "b", "r", "m"].map((letter) => at("path." + letter, "d")),
    lengths: [".recurrent", ".attention", ".alone"].map((n) => +at(n, "width")),
  };
}"""


def check(page, name, layer, doublings):
    model, shown = MODELS[name], page.locator("figure").evaluate(READ)
    roles, tokens = model.mixers.roles, 2**doublings
    bars = {}
    for letter, path in zip("abrm", shown["paths"], strict=True):
        for bar in path.split("M")[1:]:
            x, bottom, height, width, *_ = numbers(bar.replace("v-", "v"))
            assert (bottom, height) == (60, hybrids.HEIGHTS[letter])
            assert x + width < 409
            bars[x] = letter
    step = 400 / len(roles)
    close(sorted(bars), [8 + step * n for n in range(len(roles))], 2, 1e-9)
    assert [bars[x] for x in sorted(bars)] == [hybrids.LETTERS[r] for r in roles]
    fixed = len(model.mixers.recurrent) * (4 * model.state + 2 * model.history)
    grows = 2 * model.cached(tokens)[1]
    attention = len(model.mixers.attention)
    alone = grows * (1 + roles.count("recurrence") / attention)
    lengths = [36 * max(math.log10(max(n, 1)) - 5, 0) for n in (fixed, grows, alone)]
    close(shown["lengths"], lengths, 1, 1e-9)
    summary = summary_of(page)
    assert numbers(summary)[0] == layer
    role = roles[layer]
    assert (f"attention with {model.position}" in summary) == (
        role in ("attention", "both")
    )
    assert (model.mixers.order in summary) == (role in ("recurrence", "both"))
    assert summary == hybrids.summary_text(hybrids.numbers(model), layer, doublings)


def test_the_mark_has_the_color_of_text_under_the_theme(open_page):
    # Bootstrap, which the theme contains, colors the class.
    page = open_page(FRAGMENTS["hybrids"])
    page.add_style_tag(content=".mark { color: rgb(1, 2, 3) }")
    inks = page.locator("figure").evaluate(
        """(figure) => ["path.chosen", "svg"].map(
          (name) => getComputedStyle(figure.querySelector(name)).color)"""
    )
    assert inks[0] == inks[1]


def test_layers_bytes_and_summary_are_those_of_the_configurations(open_page):
    page = open_page(FRAGMENTS["hybrids"])
    check(page, hybrids.FIRST, hybrids.LAYER, hybrids.DOUBLINGS)
    for name, layer, doublings in (
        ("Kimi K3", 92, 20),
        ("Nemotron 3 Nano", 1, 4),
        ("Falcon-H1", 31, 12),
        ("LFM3", 0, 17),
        ("MiniMax", 7, 10),
    ):
        page.locator('select[name="model"]').select_option(name)
        set_slider(page, "layer", layer)
        set_slider(page, "doublings", doublings)
        check(page, name, layer, doublings)
