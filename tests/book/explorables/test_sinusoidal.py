"""The sinusoidal explorable shows the reference implementation's table."""

import re

import numpy as np

from posedu.book.explorables.sinusoidal import LENGTH, LEVELS, D
from posedu.numpy.absolute.sinusoidal import sinusoidal
from posedu.numpy.frequencies import frequencies, wavelengths
from support.explorables import FRAGMENTS, close, numbers

READ = """(figure) => {
  const all = (s) => [...figure.querySelectorAll(s)];
  const text = (s) => all(s).map((e) => e.textContent);
  return {
    shades: all(".shade").map((path) => [
      Number(path.dataset.shade), Number(path.getAttribute("stroke-opacity")),
      path.getAttribute("stroke"), path.getAttribute("d")]),
    rotations: all(".rotation").map((path) => path.getAttribute("d")),
    guide: figure.querySelector(".guide").getAttribute("d"),
    waves: text(".wave"), outputs: text("output"),
    summary: figure.querySelector(".summary").textContent,
  }
}"""


def check_against_reference(shown):
    """Every shade, rotation and number, for the position and the base that it says."""
    (position,), (base,) = map(numbers, shown["outputs"])
    drawn = np.zeros((LENGTH, D))
    for shade, opacity, _, path in shown["shades"]:
        assert opacity == abs(shade) / LEVELS
        for x, y, run in re.findall(r"M(\d+),(\d+)h(\d+)", path):
            feature = 2 * (int(y) // 5) + int(y) % 5 // 2
            cells = drawn[int(x) : int(x) + int(run), feature]
            assert not cells.any()
            cells[:] = shade / LEVELS
    positive, negative = (
        {c for s, _, c, _ in shown["shades"] if s * sign > 0} for sign in (1, -1)
    )
    assert len(positive) == len(negative) == 1 and positive != negative
    table = sinusoidal(range(LENGTH), D, layout="interleaved", base=base)
    np.testing.assert_allclose(drawn, table, rtol=0, atol=0.5 / LEVELS + 1e-12)

    sine, cosine = table[int(position)].reshape(-1, 2).T
    close(
        [numbers(path)[2:] for path in shown["rotations"]],
        np.c_[cosine, sine],
        3,
        1e-12,
    )
    assert shown["guide"].startswith(f"M{position:g},-1h1v")
    waves = wavelengths(D, base=base)
    (written,) = zip(*map(numbers, shown["waves"]), strict=True)
    np.testing.assert_allclose(written, waves, rtol=0.005)  # three digits
    turning = np.count_nonzero(waves <= LENGTH)
    degrees = np.degrees(position * frequencies(D, base=base))[[0, -1]] % 360
    said = numbers(shown["summary"])
    assert said[:-2] == [
        base,
        0,
        written[0],
        D // 2 - 1,
        written[-1],
        LENGTH,
        turning,
        D // 2,
        position,
    ]
    close(said[-2:], degrees, 1, 1e-9)


def test_position_and_base_move_by_keyboard_and_show_the_reference(open_page):
    page = open_page(FRAGMENTS["sinusoidal"])
    figure = page.locator("figure")
    check_against_reference(figure.evaluate(READ))
    for name, key, value in (
        ("position", "End", "63"),
        ("base", "Home", "10"),
        ("position", "Home", "0"),
        ("position", "ArrowRight", "1"),
        ("base", "End", "1,000,000"),
        ("base", "ArrowLeft", "891,000"),
    ):
        page.locator(f"[name={name}]").press(key)
        shown = figure.evaluate(READ)
        assert value in shown["outputs"]
        check_against_reference(shown)
