"""FoX's explorable: the product of gates for each key."""

import numpy as np

from posedu.numpy.attention import causal_mask
from posedu.numpy.gated import forget_bias
from support.explorables import FRAGMENTS, close, numbers, read


def check_gates(shown):
    token, gate, others = shown["inputs"]
    gates = np.full(12, others)
    gates[int(token)] = gate
    share = np.exp(forget_bias(np.log(gates)))
    close([float(x) for x in shown["shares"]], share[causal_mask(12)], 3, 1e-12)
    close(numbers(shown["paths"]["chosen"])[2], gate, 2, 1e-12)
    said = [100 * share[-1, int(token)], 100 * share[-1, int(token) - 1]]
    close(numbers(shown["summary"]), said[: 2 if token else 1], 1, 1e-9)
    return share


def test_gates_leave_what_the_reference_says(open_page):
    page = open_page(FRAGMENTS["fox"])
    check_gates(read(page))
    page.locator("input >> nth=0").press("ArrowRight")
    assert read(page)["outputs"]["token"] == "we"
    check_gates(read(page))
    for name, key, value in (("gate", "End", 1), ("others", "Home", 0.5)):
        page.locator(f'input[name="{name}"]').press(key)
        assert value in read(page)["inputs"]
        check_gates(read(page))
    page.locator("input >> nth=0").press("Home")
    shown = read(page)
    share = check_gates(shown)
    assert "no key is multiplied" in shown["summary"]
    alike = np.exp(forget_bias(np.full(12, np.log(0.5))))
    close(share, alike, 12)  # the first gate acts on nothing
    page.locator("input >> nth=0").press("End")
    framed = numbers(read(page)["paths"]["crossing"])
    assert framed == [0, 11, 11, 12, 0]  # rows from 11 to 12, columns from 0 to 11
