"""Layers of shipped hybrid models, and the bytes that each of them caches."""

import math

from posedu.book.explorables import hybrids
from posedu.book.hybrids import load_hybrids
from support.explorables import FRAGMENTS, close, numbers, set_slider, summary_of

MODELS = {each.name: each for each in load_hybrids()}
READ = """(figure) => {
  const bars = [...figure.querySelectorAll(".bars rect")];
  const width = (name) => +figure.querySelector(name).getAttribute("width");
  return {
    heights: bars.map((b) => +b.getAttribute("height")),
    ends: bars.map((b) => +b.getAttribute("x") + +b.getAttribute("width")),
    lengths: [".recurrent", ".attention", ".alone"].map(width),
  };
}"""


def check(page, name, layer, doublings):
    model, shown = MODELS[name], page.locator("figure").evaluate(READ)
    roles, tokens = model.mixers.roles, 2**doublings
    seen = [hybrids.HEIGHTS[role] for role in roles]
    assert shown["heights"][: len(roles)] == seen
    assert not any(shown["heights"][len(roles) :])
    assert shown["ends"][len(roles) - 1] < 408
    fixed = len(model.mixers.recurrent) * (4 * model.state + 2 * model.history)
    grows = 2 * model.cached(tokens)[1]
    attention = len(model.mixers.attention)
    alone = grows * (1 + roles.count("recurrence") / attention)
    bars = [36 * max(math.log10(max(n, 1)) - 5, 0) for n in (fixed, grows, alone)]
    close(shown["lengths"], bars, 1, 1e-9)
    summary = summary_of(page)
    assert numbers(summary)[0] == layer
    role = roles[layer]
    assert (f"attention with {model.position}" in summary) == (
        role in ("attention", "both")
    )
    assert (model.mixers.order in summary) == (role in ("recurrence", "both"))
    assert summary == hybrids.summary_text(hybrids.numbers(model), layer, doublings)


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
