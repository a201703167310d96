"""Project "extension": what it refuses, and what the plan and frequencies change."""

from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
import torch

from posedu.book.projects import Report, expected, extension, project
from posedu.book.projects.extension import measure
from posedu.book.projects.solutions.extension import ANSWERS
from posedu.numpy.frequencies import frequencies
from posedu_sphinx import ROOT


@pytest.fixture
def tiny(monkeypatch):
    settings = replace(extension.SETTINGS, steps=4, batch=2, length=16, tested=2)
    kinds = {name: replace(kind, steps=4) for name, kind in extension.KINDS.items()}
    monkeypatch.setattr(extension, "SETTINGS", settings)
    monkeypatch.setattr(extension, "KINDS", MappingProxyType(kinds))
    monkeypatch.setattr(extension, "NOTES", 4)
    monkeypatch.setattr(extension, "ASKED", 4)
    monkeypatch.setattr(extension, "STEPS", 2)
    monkeypatch.setattr(extension, "TOKENS", 128)


def unchanged(omega, trained, factor):
    return omega


def constant(keys, trained):
    return np.ones_like(keys)


def near(steps, trained, longest):
    return [(trained, 0.001)] * steps


def test_one_seed_gives_one_result(tiny):
    extension._trained_model.cache_clear()
    first = measure(unchanged, constant, near, seed=1)
    assert first == measure(unchanged, constant, near, seed=1)
    extension._trained_model.cache_clear()
    assert first == measure(unchanged, constant, near, seed=1)


def test_without_a_change_nothing_changes_at_the_training_length(tiny):
    def idle(steps, trained, longest):
        return [(trained, 0.0)] * steps

    found = measure(unchanged, constant, idle, seed=1)
    assert found["more bits at 128"] == found["more forgotten at 128"] == 0


def test_frequencies_temperature_and_plan_each_matter(tiny):
    base = measure(unchanged, constant, near, seed=1)
    changed = (
        (lambda omega, trained, factor: omega / factor, constant, near),
        (unchanged, lambda keys, trained: 2 + 0 * keys, near),
        (unchanged, constant, lambda steps, *_: [(64, 0.01)] * steps),
    )
    for answers in changed:
        other = measure(*answers, seed=1)
        assert other["bits before"] == base["bits before"]
        assert other["more bits at 1024"] != base["more bits at 1024"]


@pytest.mark.parametrize(
    ("answer", "error", "expected"),
    [
        (lambda w, L, s: None, TypeError, "NumPy array of numbers, got None"),
        (lambda w, L, s: w[1:], ValueError, r"\[16\], a number for each pair, got"),
        (lambda w, L, s: w * np.nan, ValueError, "finite numbers of at least 0"),
        (lambda w, L, s: -w, ValueError, "finite numbers of at least 0, got -1"),
    ],
)
def test_what_are_no_frequencies_is_refused(tiny, answer, error, expected):
    with pytest.raises(error, match=expected):
        measure(answer, constant, near, seed=1)


def test_a_temperature_is_needed_for_each_number_of_keys(tiny):
    with pytest.raises(ValueError, match=r"temperature must return \[128\]"):
        measure(unchanged, lambda keys, trained: np.ones(3), near, seed=1)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (None, "2 pairs .length, rate., got None"),
        ([(16, 0.1)] * 3, "2 pairs .length, rate., got 3"),
        ([(16, 0.1), 16], "step 1 must be a pair"),
        ([(16, 0.1), (16.0, 0.1)], "length of step 1 must be an integer from 2 to 128"),
        ([(129, 0.1), (16, 0.1)], "length of step 0 must be .* got 129"),
        ([(16, 0.1), (16, 0.4)], "rate of step 1 must be from 0 to 0.3, got 0.4"),
        ([(16, 0.1), (16, float("nan"))], "rate of step 1"),
    ],
)
def test_what_is_no_plan_is_refused(tiny, steps, expected):
    with pytest.raises(ValueError, match=expected):
        measure(unchanged, constant, lambda *_: steps, seed=1)


def test_nothing_is_trained_before_all_answers_are_written(monkeypatch):
    def unwritten(steps, trained, longest):
        raise NotImplementedError

    monkeypatch.setattr(extension, "fit", lambda *args: pytest.fail("trained"))
    with pytest.raises(NotImplementedError):
        measure(unchanged, constant, unwritten, seed=1)


def test_an_answer_cannot_change_the_trained_frequencies(tiny):
    def overwrite(omega, trained, factor):
        omega[:] = 0
        return omega

    before = measure(unchanged, constant, near, seed=1)["bits before"]
    assert measure(overwrite, constant, near, seed=1)["bits before"] == before


def test_a_step_has_the_same_number_of_tokens_at_every_length(tiny):
    seen = []
    for kind in extension.KINDS:
        model = extension.language_model(kind, frequencies(32), np.ones(128), 1)
        model.register_forward_hook(lambda _, args, out: seen.append(args[0].numel()))
        extension.tune(kind, model, [(16, 0.001), (128, 0.001)], 1)
    assert seen == [128, 128, 128, 128]


@pytest.mark.parametrize("length", [128, 1024])
def test_the_right_answer_is_the_last_note_of_a_key_and_far_away_at_1024(length):
    generator = torch.Generator().manual_seed(0)
    for tokens, labels in zip(*extension.notes(20, length, generator), strict=True):
        written = [(n, *divmod(t, 8)) for n, t in enumerate(tokens.tolist()) if t < 32]
        assert len(written) == 16
        for n in range(length):
            if n < length - 32:
                assert labels[n] == extension.IGNORED
                continue
            *_, (at, _, value) = (w for w in written if w[1] == tokens[n] - 32)
            assert labels[n] == value
            assert n - at > length // 4 - 32


@pytest.mark.parametrize("kind", ["poems", "Notes"])
def test_an_unknown_kind_is_refused(kind):
    with pytest.raises(ValueError, match="kind must be"):
        extension.trained_model(kind, 1)


def test_training_at_128_alone_is_enough_for_source_and_forgets_notes():
    near = Report.load(ROOT / "book/data/project-extension-near.json")
    for short, both in zip(near.measured, expected("extension").measured, strict=True):
        assert max(short["more bits at 1024"], short["more bits at 128"]) < 0.05
        name = "more forgotten at 1024"
        assert short[name] > max(both[name] + 0.1, short[f"{name}, untuned"])


def test_the_reference_solution_causes_no_new_angles():
    omega = frequencies(32)
    slower = ANSWERS[0](omega.copy(), 128, 8)
    seen = np.minimum(128 * omega, 2 * np.pi)
    assert (np.minimum(1024 * slower, 2 * np.pi) <= seen * (1 + 1e-9)).all()
    assert torch.isfinite(torch.from_numpy(slower)).all()
    assert slower[0] == omega[0]


def test_goals_are_at_both_lengths():
    quantities = [goal.quantity for goal in project("extension").goals]
    assert quantities == [
        *("more bits at 1024", "more bits at 128"),
        *("more forgotten at 1024", "more forgotten at 128"),
    ]
