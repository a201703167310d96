"""The explorable of distance biases shows the reference implementation's numbers."""

import numpy as np

from posedu.book.explorables import distance_biases
from support.explorables import FRAGMENTS, close, numbers, read


def check(page):
    """Every curve and number, for the length and r₁ that the sliders say."""
    shown = read(page)
    length, r1 = 2 ** int(shown["inputs"][0]), shown["inputs"][1]
    assert numbers(shown["outputs"]["length"]) == [length]
    half = {}
    for name, total in distance_biases.totals(np.arange(float(length)), r1).items():
        drawn = np.reshape(numbers(shown["paths"][name].replace("L", " ")), (-1, 2))
        nearest = np.round(2.0 ** drawn[:, 0]).astype(int)
        close(drawn[:, 1], total[nearest - 1] / total[-1], 4, 1e-9)
        assert nearest[0] == 1 and nearest[-1] == length
        half[name] = distance_biases.halfway(total)
        assert numbers(shown["outputs"][f"{name}-half"]) == [half[name]]
    said = numbers(shown["summary"])
    assert said == [length, half["alibi"], half["kerple"], round(r1, 1)]
    assert ("is bounded" in shown["summary"]) == (r1 > 1.05)
    return half


def test_the_reach_is_the_reference_s_at_every_length(open_page):
    page = open_page(FRAGMENTS["distance_biases"])
    check(page)
    length, r1 = (page.locator(f'input[name="{n}"]') for n in ("length", "r1"))
    length.press("Home")
    check(page)
    length.press("End")
    far = check(page)
    assert far["alibi"] == 12 and far["none"] == 2**15
    r1.press("End")
    assert check(page)["kerple"] == 1
    r1.press("Home")
    check(page)
