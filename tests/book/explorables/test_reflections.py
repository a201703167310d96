"""PaTH's explorable: a key that three words reflect, project or leave in place."""

import numpy as np

from posedu.book.explorables.reflections import FIRST_MIRROR, KEY_ANGLE
from posedu.numpy.path import path_scores
from support.explorables import FRAGMENTS, close, numbers, points_of, read, set_slider

CELLS = (
    """() => [...document.querySelectorAll(".cells text")].map(t => t.textContent)"""
)


def direction(degrees):
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])


def check_key(page, order=(0, 1, 2)):
    """Compare the drawn key after each word with the reference's product over a path.

    Token 0 is the key, the words follow; the scores of the two unit vectors are the
    moved key's coordinates.
    """
    *betas, spread = read(page)["inputs"]
    w = np.array([direction(FIRST_MIRROR + 90 + spread * n) for n in order])
    beta = np.array([betas[n] for n in order])

    def transition(t, keys):
        return keys - beta[t - 1] * (keys @ w[t - 1])[..., None] * w[t - 1]

    keys = np.tile(direction(KEY_ANGLE), (2, 4, 1))
    queries = np.tile(np.eye(2)[:, None], (1, 4, 1))
    moved = path_scores(queries, keys, transition)[:, :, 0].T
    close(points_of(page, ".trail"), 100 * moved, 1, 1e-9)
    for step in range(4):
        close(points_of(page, f".arrow{step}")[1], 100 * moved[step], 1, 1e-9)
    lengths = np.linalg.norm(moved, axis=1)
    determinants = np.cumprod([1, *(1 - beta)])
    shown = np.array([numbers(text) for text in page.evaluate(CELLS)]).reshape(4, 2)
    close(shown, np.stack((lengths, determinants), 1), 2, 1e-9)
    said = numbers(read(page)["summary"])
    close(said[0], 100 * lengths[-1], 0, 1e-9)
    close(said[1], determinants[-1], 2, 1e-9)
    return moved


def test_words_move_the_key_as_the_reference_says(open_page):
    page = open_page(FRAGMENTS["reflections"])
    check_key(page)
    for name, value in (("first", 0), ("second", 0), ("third", 0)):
        set_slider(page, name, value)
        moved = check_key(page)
    close(moved, np.tile(moved[0], (4, 1)), 9)  # nothing moves
    for name, value in (("first", 2), ("second", 1), ("third", 0.35), ("spread", 15)):
        set_slider(page, name, value)
        check_key(page)


def test_another_order_of_two_words_moves_the_key_elsewhere(open_page):
    page = open_page(FRAGMENTS["reflections"])
    moved = check_key(page)
    page.locator("button").click()
    swapped = check_key(page, (1, 0, 2))
    assert np.abs(moved[-1] - swapped[-1]).max() > 0.1
    heads = page.locator(".order text").all_text_contents()
    assert heads == ["bird", "turned", "rose", "fell"]
