"""The stick-breaking explorable shows the reference implementation's pieces."""

import numpy as np

from posedu.numpy.attention import softmax
from posedu.numpy.stickbreaking import break_stick
from support.explorables import FRAGMENTS, close, numbers, read, set_slider


def check_stick(shown):
    logits = np.array(shown["inputs"], float)
    row = np.zeros((5, 5))
    row[-1, :4] = logits[::-1]
    weights, rest = break_stick(row, attend_current=False)
    stick = [*weights[-1, 3::-1], rest[-1]]
    mean = [*softmax(logits), 0.0]
    pieces = shown["cut"]
    for shares, drawn, named in ((stick, *pieces[:2]), (mean, *pieces[2:])):
        ends = np.cumsum(shares)[:4]
        for start, end, d in zip([0, *ends[:3]], ends, drawn, strict=True):
            x, _, _, until, _ = numbers(d)
            close([x, until], [start, end], 4, 1e-12)
        for share, text in zip(shares, named, strict=True):
            assert bool(text) == (share >= 0.1)
            if text:
                close(numbers(text), 100 * share, 0, 1e-9)
    return np.array(stick), np.array(mean)


def test_the_stick_is_cut_as_the_reference_cuts_it_after_a_guess(open_page):
    page = open_page(FRAGMENTS["stickbreaking"])
    stick, _ = check_stick(read(page))
    assert not page.locator(".summary, .cut >> visible=true").count()
    page.locator("select").select_option(label="4 back")
    page.locator("button").press("Enter")
    summary = read(page)["summary"]
    assert page.locator(".summary").is_visible()
    assert page.locator("g.cut >> visible=true").count() == 4
    close(numbers(summary)[-2:], 100 * np.array([stick[3], stick[0] - stick[3]]), 1)
    assert stick.argmax() == 0 and "to the key 1 back" in summary
    page.locator("select").select_option(label="1 back")
    assert read(page)["summary"].endswith("You guessed the key 1 back: right.")
    for k, value in enumerate((-4, -2.5, 0.5, -3.5)):
        set_slider(page, f"logit{k}", value)
        stick, mean = check_stick(read(page))
    assert stick.argmax() == mean.argmax() == 2
    for k in range(4):
        page.locator(f'input[name="logit{k}"]').press("Home")
    stick, _ = check_stick(read(page))
    assert stick.argmax() == 4 and "most to no key" in read(page)["summary"]
    assert read(page)["outputs"]["logit0"] == "−4"
