"""Assignments that run through a state: weights, answers and present values."""

import numpy as np
import pytest

from posedu.book.explorables import states as example
from posedu.numpy.recurrent import read_states
from support.explorables import FRAGMENTS, close, numbers, read, set_slider

KEYS = np.stack([example._key(letter) for letter, _ in example.TOKENS])
VALUES = np.array([[float(value)] for _, value in example.TOKENS])


def walked(name, letter):
    """The answers after every token, by the recurrence itself."""
    state, answers = np.zeros((example.D, 1)), []
    for t, T in enumerate(example._transitions(name)):
        beta = example.BETAS.get(name, 1.0)
        state = T @ state + beta * np.outer(KEYS[t], VALUES[t])
        answers.append(example._key(letter) @ state)
    return np.array(answers)[:, 0]


@pytest.mark.parametrize("name", example.NAMES)
def test_weights_and_answers_are_those_of_the_recurrence(open_page, name):
    page = open_page(FRAGMENTS["states"])
    page.locator('select[name="transition"]').select_option(name)
    for letter in example.LETTERS:
        page.locator('select[name="letter"]').select_option(letter)
        answers = walked(name, letter)
        for reader in (0, 3, example.LAST):
            set_slider(page, "reader", reader)
            shown = read(page)["summary"].replace("−", "-")
            said = shown.partition("the state answers ")[2]
            close(numbers(said)[0], answers[reader], 2, 1e-3)
            present = example._present(letter, reader)
            frame = page.locator(".present")
            if present is None:
                assert "nothing was assigned yet" in shown
                assert frame.get_attribute("visibility") == "hidden"
                continue
            value = example.TOKENS[present][1]
            assert ("right" in said) == (abs(answers[reader] - value) < 0.005)
            place = 18 + example.PLACE * present
            assert float(frame.get_attribute("x")) == place
            weights = page.locator(".weight").all_text_contents()
            assert [bool(w) for w in weights] == [
                t <= reader for t in range(len(example.TOKENS))
            ]
            found = [numbers(w)[0] for w in weights if w]
            heights = [
                float(bar.get_attribute("height")) / example.UNIT
                for bar in page.locator(".bar").all()
            ]
            close(np.abs(found), heights[: len(found)], 2, 2e-3)
            close(found @ VALUES[: len(found), 0], answers[reader], 1)


def test_delta_rules_are_those_of_the_reference():
    """The explorable's matrices, and posedu's loop with β and one gate."""
    n = len(example.TOKENS)
    for name, beta in example.BETAS.items():
        gate = example.GATE if name == "gated" else 1.0
        for letter in example.LETTERS:
            outputs, _ = read_states(
                np.tile(example._key(letter), (1, n, 1)),
                KEYS[None],
                VALUES[None],
                np.full((1, n), np.log(gate)),
                np.full((1, n), beta),
                delta=True,
            )
            np.testing.assert_allclose(outputs[0, :, 0], walked(name, letter))


def test_which_layers_give_the_present_value():
    """Replacing does for every letter and token; nothing else does at the end."""
    right = {
        name: all(
            abs(walked(name, letter)[-1] - example.TOKENS[t][1]) < 0.005
            for letter in example.LETTERS
            if (t := example._present(letter, example.LAST)) is not None
        )
        for name in example.NAMES
    }
    assert [name for name, holds in right.items() if holds] == ["delta"]
    for letter in example.LETTERS:
        for t, answer in enumerate(walked("delta", letter)):
            if (present := example._present(letter, t)) is not None:
                assert answer == example.TOKENS[present][1]
