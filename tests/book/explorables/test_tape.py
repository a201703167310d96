"""TAPE's explorable shows the reference implementation's positions of each layer."""

import numpy as np

from posedu.book.explorables import tape
from support.explorables import FRAGMENTS, close, numbers

READ = """(figure) => ({
  curves: [...figure.querySelectorAll(".trajectory")].map((p) => p.getAttribute("d")),
  ends: [...figure.querySelectorAll(".token")].map((c) =>
    ["cx", "cy"].map((name) => Number(c.getAttribute(name)))),
  weights: figure.querySelector("output.weights").textContent,
  inputs: [...figure.querySelectorAll("input")].map((i) => i.valueAsNumber),
  outputs: [...figure.querySelectorAll(".control output")].map((o) => o.textContent),
  summary: figure.querySelector(".summary").textContent,
})"""


def check(page):
    """Ways, ends and weights, for the controls as they are; returns the weights."""
    shown = page.locator("figure").evaluate(READ)
    layers, attended, key, shift = shown["inputs"]
    at = tape.positions_by_layer(int(layers), attended, key, shift)
    pairs = at.points.transpose(2, 1, 0, 3)  # [pairs, tokens, layers, 2]
    for way, end, points in zip(
        shown["curves"], shown["ends"], pairs.reshape(8, -1, 2), strict=True
    ):
        close(
            np.reshape(numbers(way.replace("L", " ").replace(",", " ")), (-1, 2)),
            points,
            3,
            1e-9,
        )
        close(end, points[-1], 3, 1e-9)
    close(numbers(shown["weights"]), 100 * at.weights, 1, 1e-9)
    assert [float(numbers(text)[0]) for text in shown["outputs"]] == [
        layers,
        attended,
        key,
        shift,
    ]
    said = numbers(shown["summary"])
    close(said[:3], [layers, attended, shift], 1)
    close(said[3], np.linalg.norm(at.points[-1], axis=-1).max(), 3, 1e-9)
    close(said[-4:], 100 * at.weights, 1, 1e-9)
    return at


def test_positions_move_as_the_reference_says(open_page):
    page = open_page(FRAGMENTS["tape"])
    control = {
        n: page.locator(f'input[name="{n}"]')
        for n in ("layers", "attended", "key", "shift")
    }
    before = check(page)
    control["shift"].press("End")
    shifted = check(page)
    close(shifted.weights, before.weights, 12)
    assert abs(shifted.points[-1] - before.points[-1]).max() > 0.5
    control["key"].press("Home")
    assert abs(check(page).weights - before.weights).max() > 0.1
    control["attended"].press("Home")
    check(page)
    control["layers"].press("End")
    control["attended"].press("End")
    grown = np.linalg.norm(check(page).points[-1, 0], axis=-1)
    close(grown, 1.3**3, 9)
    control["layers"].press("Home")
    close(np.linalg.norm(check(page).points[-1], axis=-1), np.ones((4, 2)), 12)


def test_nothing_leaves_the_picture():
    """The farthest that a point goes is (1 + c)³."""
    farthest = max(
        abs(tape.positions_by_layer(3, 0.3, key, shift).points).max()
        for key in (0.0, 4.0)
        for shift in np.arange(0, 12.5, 0.5)
    )
    assert 2.1 < farthest < tape.WIDE - 0.1
