"""ALiBi, FoX and stick-breaking as sums over the path from key to query."""

import numpy as np

from posedu.book.explorables import decay
from posedu.numpy.bias import alibi_slopes
from posedu.numpy.gated import forget_bias
from posedu.numpy.stickbreaking import break_stick_log
from support.explorables import FRAGMENTS, close, numbers, read, set_slider


def check_paths(shown):
    key, differ = shown["inputs"]
    t, n = differ / 100, len(decay.WORDS)
    common = alibi_slopes(8, slopes="geometric")[1]
    steps = t * decay.STEPS + (1 - t) * common
    logits = t * decay.LOGITS + (1 - t) * np.log(np.expm1(common))
    weights, _ = break_stick_log(np.tile(logits, (n, 1)), attend_current=True)
    spent = np.logaddexp(0, logits)
    expected = {
        "alibi": common * np.arange(n)[::-1],
        "fox": -forget_bias(-steps)[-1],
        "stick": logits - np.log(weights[-1]) - spent,  # but the key's own step
    }
    for name, path in expected.items():
        drawn = np.reshape(numbers(shown["paths"][f"path-{name}"]), (n, 2))
        close(drawn[:, 1], path, 4, 1e-9)
        close(float(shown["outputs"][name]), path[int(key)], 2, 1e-9)
    close(
        numbers(shown["summary"]),
        [path[int(key)] for path in expected.values()],
        2,
        1e-9,
    )
    return expected


def test_paths_are_the_reference_s_and_one_where_tokens_are_equal(open_page):
    page = open_page(FRAGMENTS["decay"])
    check_paths(read(page))
    for key, differ in ((0, 100), (3, 55), (12, 5), (2, 0)):
        set_slider(page, "key", key)
        set_slider(page, "differ", differ)
        expected = check_paths(read(page))
    for path in expected.values():
        np.testing.assert_allclose(path, expected["alibi"], rtol=0, atol=1e-13)
    page.locator("input >> nth=0").press("Home")
    assert read(page)["outputs"]["key"] == "Rome"
