"""Selective attention's explorable: what selections leave of each key."""

import numpy as np

from posedu.numpy.attention import causal_mask, softmax
from posedu.numpy.gated import accumulated_selections, forget_bias
from support.explorables import FRAGMENTS, close, numbers, read, set_slider

N, SECOND = 12, 9
SWITCHES = """() => [...document.querySelectorAll(".switch button")].map(
    (b) => b.getAttribute("aria-pressed") === "true")"""


def check_factors(page):
    """Compare the factors, dots and numbers with the reference's; return the bias."""
    shown = read(page)
    token, key, amount = shown["inputs"]
    token = int(token)
    key = min(int(key), token - 1)
    second, current, spare = page.evaluate(SWITCHES)
    selected = np.zeros((N, N))
    selected[token, slice(token) if shown["chosen"] == ["all"] else key] = amount
    if second and key < SECOND:
        selected[SECOND, key] = amount
    if spare:
        selected[:, 0] = 0
    bias = -accumulated_selections(selected, include_current=current)
    close([float(x) for x in shown["shares"]], np.exp(bias)[causal_mask(N)], 3, 1e-12)
    if selected.any():
        drawn = page.locator(".dots").get_attribute("d").split("M")[1:]
        places = sorted(numbers(dot)[1::-1] for dot in drawn)
        assert places == (np.argwhere(selected) + 0.5).tolist()
    if key == 0 and spare:
        assert "cannot be deselected" in shown["summary"]
        return bias
    weight = softmax(bias, causal_mask(N))[-1, key]
    left, number, share, keys, alike = numbers(shown["summary"])
    close(
        [left, share, alike], 100 * np.array([np.exp(bias[-1, key]), weight, 1 / N]), 1
    )
    assert (number, keys) == (key, N)
    return bias


def test_selections_leave_what_the_reference_says(open_page):
    page = open_page(FRAGMENTS["selective_attention"])
    bias = check_factors(page)
    assert (bias[6] == 0).all() and bias[7, 2] == -3  # from the next query on
    for button in page.locator(".switch button").all()[:2]:
        button.press("Space")
        bias = check_factors(page)
    assert bias[6, 2] == -3 and bias[9, 2] == -6
    set_slider(page, "amount", 0)
    assert (check_factors(page) == 0).all()
    for name, value in (("amount", 1.5), ("token", 11), ("key", 10), ("token", 4)):
        set_slider(page, name, value)
        check_factors(page)
    assert read(page)["outputs"]["key"] == "."  # the key just before the token


def test_a_token_that_deselects_all_alike_is_foxs_gate(open_page):
    page = open_page(FRAGMENTS["selective_attention"])
    page.locator("select").select_option(value="all")
    check_factors(page)
    for button in page.locator(".switch button").all()[1:]:
        button.press("Space")
    bias = check_factors(page)
    log_f = np.zeros(N)
    log_f[6] = -3
    close(np.tril(bias), np.tril(forget_bias(log_f)), 12)


def test_the_first_token_is_spared(open_page):
    page = open_page(FRAGMENTS["selective_attention"])
    set_slider(page, "key", 0)
    assert (check_factors(page) == 0).all()
    page.locator(".switch button").last.press("Space")
    assert check_factors(page)[-1, 0] == -3
