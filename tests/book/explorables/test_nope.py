"""NoPE's explorable shows the reference implementation's weights."""

import numpy as np

from posedu.book.explorables import nope as explorable
from posedu.numpy import nope
from posedu.numpy.attention import steps
from support.explorables import FRAGMENTS, close, numbers, read


def weights_of(temperature, tokens):
    """The weights that queries give to the marked first key in NoPE's own layer."""
    q, k = np.ones((1, tokens, 1)), np.zeros((1, tokens, 1))
    k[0, 0] = explorable.GAP
    mask = np.tril(np.ones((tokens, tokens), bool))
    return steps(q, k, k, nope(temperature=temperature), mask=mask).weights[0, :, 0]


def test_the_weights_are_those_of_a_layer_without_positions():
    for temperature in (0.0, 0.35, 1.0, 2.0):
        found = [explorable.weight_of(others, temperature) for others in range(1, 33)]
        np.testing.assert_allclose(found, weights_of(temperature, 33)[1:], rtol=1e-14)


def check(page):
    """Curves, point, half and words, for the temperature and number that are chosen."""
    shown = read(page)
    temperature, at = shown["inputs"]
    for name, own in ("weight", temperature), ("equal", 0.0):
        points = np.reshape(numbers(shown["paths"][name].replace("L", " ")), (-1, 2))
        expected = explorable.weight_curve(own)
        close(points[:, 0], expected[:, 0], 3, 1e-12)
        close(points[:, 1], expected[:, 1], 4, 1e-12)
    share = explorable.weight_of(2 ** int(at), temperature)
    close(numbers(shown["paths"]["here"])[:2], [at, share], 4, 1e-12)
    half = explorable.half_at(temperature)
    close(numbers(shown["paths"]["half"])[0], half, 3, 1e-12)
    close(numbers(shown["outputs"]["unit"]), [2**half], 0, 1e-9)
    assert numbers(shown["outputs"]["temperature"]) == [round(temperature, 2)]
    assert numbers(shown["outputs"]["others"]) == [2**at]
    said = numbers(shown["summary"])
    assert (said[0], said[2]) == (round(temperature, 2), 2**at)
    close(said[1], 100 * share, 1, 1e-9)
    return share


def test_the_ruler_measures_as_the_reference_weighs(open_page):
    page = open_page(FRAGMENTS["nope"])
    still = check(page)
    temperature, others = (
        page.locator(f'input[name="{n}"]') for n in ("temperature", "others")
    )
    temperature.press("Home")
    assert check(page) == 1 / (2**explorable.AT + 1)
    temperature.press("End")
    assert check(page) > still
    others.press("End")
    check(page)
    others.press("Home")
    temperature.press("ArrowLeft")
    check(page)
