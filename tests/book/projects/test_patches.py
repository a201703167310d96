"""Project "patches": what the conditions find, what is refused, and the questions."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from posedu.book.projects import patches as project
from posedu.book.projects.patches import (
    BASE,
    BELOW,
    EXCHANGE,
    LARGEST,
    LETTERS,
    MERGE,
    NEIGHBORS,
    PAIRS,
    RIGHT,
    START,
    TEXT,
    UNIQUE,
    D,
    accuracy,
    axes_of,
    draw_batch,
    draw_segments,
    encoding_with,
    measure,
    score_errors,
    tokens_of,
    violations,
)
from posedu.book.projects.solutions.patches import (
    assign,
    number,
    raster,
    sectioned,
)
from posedu.numpy.rotary import m_rope_positions
from posedu.torch import MRoPE


def drawn(count):
    rng = np.random.default_rng(0)
    return [draw_segments(rng) for _ in range(count)]


def parts_of(segments, merge):
    return [
        s if isinstance(s, int) else (s[0], s[1] // merge, s[2] // merge)
        for s in segments
    ]


def by_library(segments, merge):
    return m_rope_positions(parts_of(segments, merge), after="largest")


def test_the_reference_solution_is_the_definition():
    for segments in drawn(50):
        assert np.array_equal(number(segments, MERGE), by_library(segments, MERGE))
        assert violations(number, segments) == []


def test_what_satisfies_the_conditions_is_the_definition():
    """Change one coordinate: some condition is violated, wherever it is."""
    segments = [2, (2, 4, 6), 1]
    right = by_library(segments, MERGE)
    for place in np.ndindex(right.shape):
        wrong = right.copy()
        wrong[place] += 1
        assert violations(lambda s, merge, wrong=wrong: wrong, segments)


def shifted(segments, merge):
    return number(segments, merge) + 1


def after_grids(segments, merge):
    return m_rope_positions(parts_of(segments, merge), after="grid")


def at_one_place(segments, merge):
    parts = [s if isinstance(s, int) else (1, 1, 1) for s in segments]
    positions = m_rope_positions(parts, after="largest")
    times = [
        1 if isinstance(s, int) else int(np.prod(tokens_of(s, merge)))
        for s in segments
        for _ in range(s if isinstance(s, int) else 1)
    ]
    return np.repeat(positions, times, axis=0)


def columns_first(segments, merge):
    return number(segments, merge)[:, [0, 2, 1]]


def in_time_alone(segments, merge):
    return number(segments, merge) * np.array([1, 0, 0])


@pytest.mark.parametrize(
    ("wrong", "segments", "expected"),
    [
        (shifted, [3], {START, LARGEST}),
        (after_grids, [2, (5, 2, 2), 1], {START, LARGEST}),
        (at_one_place, [2, (1, 4, 6), 1], {UNIQUE, LARGEST, NEIGHBORS}),
        (columns_first, [2, (1, 4, 6), 1], {NEIGHBORS}),
        (in_time_alone, [3], {TEXT}),
        (raster, [2, (1, 4, 6), 1], {LARGEST, NEIGHBORS, EXCHANGE}),
    ],
)
def test_a_mistake_violates_these_conditions(wrong, segments, expected):
    assert set(violations(wrong, segments)) == expected


@pytest.mark.parametrize(
    ("found", "error", "message"),
    [
        ([[0, 0, 0]] * 5, TypeError, "a tensor or a NumPy array, got list"),
        (np.zeros((5, 3)), TypeError, "must be integers, got torch.float64"),
        (torch.zeros(5, 3, dtype=torch.bool), TypeError, "got torch.bool"),
        (np.zeros((26, 3), dtype=int), ValueError, r"have 8 tokens with merge = 2"),
        (np.zeros(8, dtype=int), ValueError, r"must be \[8, 3\], got \[8\]"),
    ],
)
def test_what_are_no_positions_is_refused(found, error, message):
    with pytest.raises(error, match=message):
        violations(lambda segments, merge: found, [2, (1, 4, 6)])


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([0, 1, 2], "a list of 8 axes"),
        (None, "a list of 8 axes, got None"),
        ([0, 1, 2, 3, 0, 1, 2, 0], "an axis is 0, 1 or 2"),
        ([0.5] * 8, "an axis is 0, 1 or 2"),
    ],
)
def test_what_are_no_axes_is_refused(found, message):
    with pytest.raises(ValueError, match=message):
        axes_of(lambda pairs: found)


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_axes_may_be_any_sequence(kind):
    assert axes_of(lambda pairs: kind(assign(pairs))) == assign(PAIRS)


@pytest.mark.parametrize(
    ("axes", "sections", "order"),
    [
        (assign(PAIRS), (2, 3, 3), "alternating"),
        (sectioned(PAIRS), (2, 3, 3), "sectioned"),
    ],
)
def test_the_encoding_is_m_rope(axes, sections, order):
    given = {"sections": sections, "order": order, "layout": "half", "base": BASE}
    positions = torch.from_numpy(number([3, (2, 8, 12), 4], MERGE))
    x = torch.randn(len(positions), D, dtype=torch.float64)
    found, right = encoding_with(axes)(x, positions), MRoPE(D, **given)(x, positions)
    assert torch.allclose(found, right, rtol=0, atol=1e-12)


def test_positions_that_depend_on_the_text_before_are_measured():
    def stretched(segments, merge):
        return number(segments, merge) * len(number(segments[:1], merge))

    errors = score_errors(stretched, assign, seed=3)
    assert min(errors.values()) > 0.1
    assert max(score_errors(number, assign, seed=3).values()) < 1e-12


def test_the_answers_stand_in_the_picture():
    generator = torch.Generator().manual_seed(0)
    batch = draw_batch(16, 4, 7, 3, generator)
    pictures = batch.tokens[:, 3 : 3 + 28].reshape(-1, 4, 7)
    questions = batch.tokens[:, 31:].reshape(16, -1, 2)
    assert (torch.where(batch.is_below == 1, BELOW, RIGHT) == questions[..., 0]).all()
    for picture, asked, answers in zip(pictures, questions, batch.answers, strict=True):
        assert len({tuple(question) for question in asked.tolist()}) == 2 * LETTERS
        for (side, letter), answer in zip(
            asked.tolist(), answers.tolist(), strict=True
        ):
            ((row, column),) = (picture == letter).nonzero().tolist()
            below = side == BELOW
            assert picture[row + below, column + (not below)] == answer


@pytest.mark.parametrize("known", [0, 1])
def test_the_accuracy_is_that_of_each_direction(known, monkeypatch):
    def answer(model, batch, positions):
        is_known = batch.is_below == known
        return functional.one_hot(torch.where(is_known, batch.answers, 0), 16).float()

    monkeypatch.setattr(project, "STEPS", 1)
    model = project.train(number, assign(PAIRS), seed=3)
    monkeypatch.setattr(project, "answers_of", answer)
    shares = accuracy(model, number, project.OTHERS, seed=3)
    assert shares[known] == 1
    assert shares[1 - known] < 0.2


def test_a_measurement_is_repeatable_and_leaves_no_trace(monkeypatch):
    monkeypatch.setattr(project, "STEPS", 3)
    monkeypatch.setattr(project, "SEQUENCES", 3)
    state = torch.random.get_rng_state()
    first = measure(number, assign, seed=5)
    assert torch.equal(state, torch.random.get_rng_state())
    torch.rand(3)
    assert measure(number, assign, seed=5) == first
    assert first["violations"] == 0
    assert measure(number, assign, seed=6) != first
