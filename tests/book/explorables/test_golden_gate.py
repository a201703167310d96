"""The explorable of directions shows the reference implementation's directions."""

import numpy as np
import pytest

from posedu.book.explorables import golden_gate
from posedu.numpy.rotary import golden_gate_frequencies
from support.explorables import FRAGMENTS, close, numbers, read, set_slider

PHI = (1 + np.sqrt(5)) / 2


def expected_vectors(kind, count):
    """Frequency vectors of ``count`` pairs, the longest of length 1."""
    if kind in ("angles", "quantiles"):
        return golden_gate_frequencies(
            2 * count, recipe=kind, slowest=1 / 8, fastest=1.0
        )
    i = np.arange(count)
    angle = {"circle": (i + 1) * 2 * np.pi / PHI**2, "axial": i * np.pi / 2}[kind]
    size = 8.0 ** (i / max(count - 1, 1) - 1)
    return size[:, None] * np.stack((np.cos(angle), np.sin(angle)), -1)


def gaps(f):
    """Gaps between directions modulo π, over the mean gap."""
    placed = np.sort(np.arctan2(f[:, 1], f[:, 0]) % np.pi)
    placed[np.isclose(placed, np.pi)] = 0
    placed = np.sort(placed)
    return np.diff(np.append(placed, placed[0] + np.pi)) * len(f) / np.pi


def check(page, kind, count):
    """Every line, dot and number, for a recipe and a number of pairs."""
    shown = read(page)
    assert (shown["chosen"], shown["inputs"]) == ([kind], [count])
    f = expected_vectors(kind, count) * (1, -1)  # SVG's second axis points down
    path = shown["paths"]["vectors"].replace("M", " ").replace("h.001", " ")
    drawn = np.reshape(numbers(path), (count, 2, 2))
    sign = np.sign((drawn[:, 0] * f).sum(-1, keepdims=True))
    close(drawn[:, 0], sign * f, 4, 1e-9)
    close(drawn[:, 1], -sign * f, 4, 1e-9)
    path = shown["paths"]["directions"].replace("M", " ").replace("L", " ")
    ends = np.reshape(numbers(path), (count, 2, 2))
    unit = sign * f / np.linalg.norm(f, axis=1, keepdims=True)
    close(ends[:, 1], unit, 4, 1e-9)
    close(ends[:, 0], -unit, 4, 1e-9)
    found = gaps(f)
    for name, value in (("largest", found.max()), ("smallest", found.min())):
        close(numbers(shown["outputs"][name]), [value], 2, 1e-9)
    assert shown["summary"] == golden_gate.summary_text(count, shown["outputs"])


def test_vectors_and_gaps_are_the_reference_s(open_page):
    page = open_page(FRAGMENTS["golden_gate"])
    check(page, "angles", golden_gate.COUNT)
    for kind in golden_gate.NAMES:
        page.locator("select").select_option(kind)
        for count in (2, 3, 13, 64):
            set_slider(page, "count", count)
            check(page, kind, count)


@pytest.mark.parametrize("kind", golden_gate.NAMES)
def test_the_static_picture_is_the_script_s(kind):
    """Angles are those of the reference's vectors, modulo π."""
    angles = golden_gate.direction_angles(kind)
    f = expected_vectors(kind, golden_gate.MOST)
    cross = np.cos(angles) * f[:, 1] - np.sin(angles) * f[:, 0]
    assert abs(cross).max() < 1e-12
    assert ((angles >= 0) & (angles < np.pi)).all()
