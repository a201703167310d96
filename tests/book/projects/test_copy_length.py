"""Project "copy-length": what it refuses, and that positions alone decide."""

from dataclasses import replace

import pytest
import torch

from posedu.book.projects import copy_length, project
from posedu.book.projects.copy_length import measure
from posedu.book.projects.solutions.copy_length import ANSWERS

LENGTH = copy_length.SETTINGS.length


@pytest.fixture
def tiny(monkeypatch):
    settings = replace(copy_length.SETTINGS, steps=3, batch=2, tested=4)
    monkeypatch.setattr(copy_length, "SETTINGS", settings)
    monkeypatch.setattr(copy_length, "FACTORS", (1, 4))


def unchanged(rows, length, generator):
    return torch.arange(length).expand(rows, length)


def drawn(rows, length, generator):
    return torch.rand(rows, length, generator=generator).sort(-1).values


def test_one_seed_gives_one_result(tiny):
    first = measure(drawn, drawn, seed=1)
    assert first == measure(drawn, drawn, seed=1)
    assert set(first) == {"accuracy at 64", "accuracy at 256"}


def test_positions_reach_the_model(tiny):
    generator = torch.Generator().manual_seed(0)
    tokens, _ = copy_length.texts(2, LENGTH, generator)
    model = copy_length.language_model(1)
    at = unchanged(2, LENGTH, generator).double()
    assert not torch.allclose(model(tokens, at), model(tokens, 2 * at))


def test_letters_stand_before_tokens_that_ask_for_them_in_their_order():
    tokens, labels = copy_length.texts(50, LENGTH, torch.Generator().manual_seed(0))
    for text, wanted in zip(tokens, labels, strict=True):
        before, asking = text.split([LENGTH - copy_length.COPIED, copy_length.COPIED])
        assert (asking == 1).all() and (before != 1).all()
        assert torch.equal(before[before > 1] - 2, wanted[-copy_length.COPIED :])
        assert (wanted[: -copy_length.COPIED] == copy_length.IGNORED).all()


@pytest.mark.parametrize(
    ("answer", "error", "expected"),
    [
        (lambda n, L, g: None, TypeError, "must return a torch.Tensor, got NoneType"),
        (lambda n, L, g: torch.zeros(L), ValueError, r"\[2, 64\], a position for"),
        (lambda n, L, g: torch.full((n, L), torch.nan), ValueError, "finite"),
        (lambda n, L, g: torch.full((n, L), 2e4), ValueError, "10000 to 10000, got"),
        (lambda n, L, g: torch.zeros(n, L) > 0, TypeError, "real numbers"),
    ],
)
def test_what_are_no_positions_is_refused(tiny, answer, error, expected):
    with pytest.raises(error, match=expected):
        measure(unchanged, answer, seed=1)


def test_nothing_is_trained_before_all_answers_are_written(monkeypatch):
    def unwritten(rows, length, generator):
        raise NotImplementedError

    monkeypatch.setattr(copy_length, "train", lambda *args: pytest.fail("trained"))
    with pytest.raises(NotImplementedError):
        measure(unchanged, unwritten, seed=1)


def test_an_answer_changes_no_text_and_does_not_get_the_generator_of_texts(
    tiny, monkeypatch
):
    shown, generators = [], set()
    makes = copy_length.texts

    def recorded(rows, length, generator):
        generators.add(generator)
        tokens, labels = makes(rows, length, generator)
        shown.append(tokens)
        return tokens, labels

    def own(rows, length, generator):
        assert generator not in generators
        return drawn(rows, length, generator)

    monkeypatch.setattr(copy_length, "texts", recorded)
    for answer in (own, unchanged):
        measure(answer, answer, seed=5)
    first, second = shown[: len(shown) // 2], shown[len(shown) // 2 :]
    assert all(map(torch.equal, first, second))


def test_the_reference_solution_shows_no_new_positions():
    generator = torch.Generator().manual_seed(0)
    training, test = (
        f(500, n, generator) for f, n in zip(ANSWERS, (64, 256), strict=True)
    )
    assert test.max() <= training.max() and test.min() >= training.min()
    assert (test.diff() >= 0).all() and (training.diff() >= 0).all()
    assert (test[:, -copy_length.COPIED :].diff() == 1).all()


def test_goals_are_at_the_training_length_and_four_times_it():
    quantities = [goal.quantity for goal in project("copy-length").goals]
    assert quantities == ["accuracy at 64", "accuracy at 256"]
