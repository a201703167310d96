"""Swaps of cups, the product of their transitions, and the weights of a query."""

import numpy as np

from posedu.book.explorables import state_tracking
from posedu.numpy.attention import softmax
from posedu.numpy.path import path_scores
from support.explorables import FRAGMENTS, close, numbers, set_slider, summary_of

READ = """(figure) => {
  const all = (selector) => [...figure.querySelectorAll(selector)];
  const shown = (one) => one.getAttribute("visibility") === "visible";
  return {
    letters: all(".letters text").map((t) => t.textContent),
    balls: all(".boxes g").filter(shown).map(
      (g) => +g.querySelector(".ball").textContent),
    sizes: all(".cells rect").map((r) => +r.getAttribute("fill-opacity")),
    fills: all(".cells rect").map((r) => r.getAttribute("fill")),
    heights: all(".bars g").filter(shown).map(
      (g) => +g.querySelector("rect").getAttribute("height")),
    asked: +figure.querySelector(".asked").getAttribute("x"),
  };
}"""


def matrix(encoding, swap, b):
    """The transition of a swap, written out."""
    first, second = swap
    letter = first + 2 * second + 1
    if encoding in ("path", "beta"):
        beta = 2 if encoding == "path" else 1 + np.tanh(b / 2)
        unit = np.eye(6)[first] - np.eye(6)[second]
        return np.eye(6) - beta / 2 * np.outer(unit, unit)
    if encoding == "gate":
        return np.diag([0.9 - 0.1 * ((letter - 1 + c) % 4) for c in range(6)])
    angles = np.array([1, 0.4, 0.15]) * (letter if encoding == "selective" else 1)
    complex_turns = np.repeat(np.exp(1j * angles), 2)
    swapped = np.kron(np.eye(3), [[0, -1], [1, 0]])
    return np.diag(complex_turns.real) + swapped * complex_turns.imag


def check(page, encoding, cups, step, cup, b, exchanged=False):
    stream = [*state_tracking.STREAMS[str(cups)]]
    if exchanged:
        stream[:2] = stream[1::-1]
    shown = page.locator("figure").evaluate(READ)
    assert shown["letters"] == [f"{a}↔{c}" for a, c in stream]
    state = [*range(cups)]
    for a, c in stream[:step]:
        state[a], state[c] = state[c], state[a]
    assert shown["balls"] == state
    assert shown["asked"] == 22 + 74 * cup

    # One head for each feature reads the product's rows from the reference.
    heads = np.eye(6)
    k = np.concatenate((heads, np.zeros((step, 6))))
    k = np.broadcast_to(k, (6, *k.shape))
    q = np.zeros_like(k)
    q[:, -1] = heads
    turns = {6 + n: matrix(encoding, swap, b) for n, swap in enumerate(stream)}
    scores = path_scores(q, k, lambda t, x: x @ turns[t].T if t > 5 else x)
    product = scores[:, -1, :6]
    close(shown["sizes"], np.abs(product).clip(max=1).ravel(), 3, 1e-9)
    blue = shown["fills"][0] if product[0, 0] > 0 else None
    if blue and (product < -1e-9).any():
        signs = [fill == blue for fill in shown["fills"]]
        large = np.abs(product.ravel()) > 1e-9
        assert (np.array(signs) == (product.ravel() > 0))[large].all()
    weights = softmax(state_tracking.KAPPA * product[cup, :cups])
    close(shown["heights"], 120 * weights, 1, 1e-6)
    after, asked, largest, answer, *right = numbers(summary_of(page))
    assert (after, asked, answer) == (step, cup, weights.argmax())
    close(largest, weights.max(), 2, 1e-9)
    assert (right or [answer]) == [state[cup]]
    assert (": right." in summary_of(page)) == (answer == state[cup])
    return product, state


def test_product_weights_and_answer_are_the_reference_s(open_page):
    page = open_page(FRAGMENTS["state_tracking"])
    check(page, "path", 5, state_tracking.STEP, 0, state_tracking.B)
    for encoding in state_tracking.ENCODINGS:
        page.locator('select[name="encoding"]').select_option(encoding)
        for cups, step, cup, b in ((5, 12, 4, 3.5), (3, 7, 2, 0), (5, 0, 1, 8)):
            page.locator('select[name="cups"]').select_option(str(cups))
            set_slider(page, "step", step)
            set_slider(page, "cup", cup)
            set_slider(page, "b", b)
            check(page, encoding, cups, step, cup, b)


def test_an_exchange_of_swaps_changes_the_product_of_reflections_alone(open_page):
    page = open_page(FRAGMENTS["state_tracking"])
    button = page.locator('button[name="exchanged"]')
    for encoding in state_tracking.ENCODINGS:
        page.locator('select[name="encoding"]').select_option(encoding)
        before, state = check(page, encoding, 5, 2, 0, state_tracking.B)
        button.press("Enter")
        after, other = check(page, encoding, 5, 2, 0, state_tracking.B, exchanged=True)
        button.press("Enter")
        assert state != other
        assert np.allclose(before, after) == (encoding not in ("path", "beta"))


def test_path_is_always_right_and_static_without_scripts(open_page):
    page = open_page(FRAGMENTS["state_tracking"], java_script_enabled=False)
    check(page, "path", 5, state_tracking.STEP, 0, state_tracking.B)
    assert page.locator(".static").is_visible()
    page = open_page(FRAGMENTS["state_tracking"])
    for cup in range(5):
        set_slider(page, "cup", cup)
        set_slider(page, "step", 12)
        assert ": right." in summary_of(page)
