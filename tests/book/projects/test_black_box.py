"""Project "black box": what the boxes show, and what the measurement refuses."""

import pytest
import torch

from posedu.book.projects import black_box
from posedu.book.projects.black_box import KINDS, PROJECT, boxes, measure
from posedu.book.projects.solutions.black_box import INSUFFICIENT, identify

TEXT = torch.tensor([[3, 1, 4, 1, 5]])
MODELS = len(KINDS) * black_box.OF_EACH


def is_reached(measured):
    return all(goal.is_reached(measured) for goal in PROJECT.goals)


@pytest.fixture(scope="module")
def box():
    return next(boxes(seed=0))[1]


@pytest.mark.parametrize("seed", [11, 2**31 - 1])
def test_the_reference_solution_identifies_every_model(seed):
    measured = measure(identify, seed=seed)
    assert measured["models identified"] == MODELS
    assert is_reached(measured)


@pytest.mark.parametrize("label", INSUFFICIENT)
def test_few_tests_are_not_enough(label):
    measured = measure(*INSUFFICIENT[label], seed=11)
    assert measured["models identified"] < 0.7 * MODELS


@pytest.mark.parametrize(("taken_for_none", "enough"), [(0, True), (1, False)])
def test_one_model_that_is_taken_for_another_misses_the_goal(taken_for_none, enough):
    names = [kind for kind, _ in boxes(seed=5)]
    for _ in range(taken_for_none):
        names[names.index("partial-rope")] = "none"
    answers = iter(names)
    measured = measure(lambda model: next(answers), seed=5)
    assert is_reached(measured) == enough
    assert measured["partial-rope"] == 3 - taken_for_none


def test_too_many_calls_miss_the_goal():
    answers = iter([kind for kind, _ in boxes(seed=5)])

    def patient(model):
        name = next(answers)
        for _ in range(21 if name == "none" else 1):
            model(TEXT[:, :1])
        return name

    measured = measure(patient, seed=5)
    assert measured["models identified"] == MODELS
    assert not is_reached(measured)


def test_a_measurement_is_repeatable_and_leaves_no_trace():
    def random(model):
        return [*KINDS][torch.randint(len(KINDS), ()).item()]

    torch.manual_seed(3)
    first, drawn = measure(random, seed=8), torch.rand(())
    assert measure(random, seed=8) == first
    torch.manual_seed(3)
    assert torch.rand(()) == drawn


def test_all_kinds_come_equally_often_and_seeds_differ():
    orders = [[kind for kind, _ in boxes(seed)] for seed in (1, 2)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted([*KINDS] * black_box.OF_EACH)
    outputs = [
        model(TEXT) for seed in (1, 2) for kind, model in boxes(seed) if kind == "none"
    ]
    assert len({output.sum().item() for output in outputs}) == 2 * black_box.OF_EACH


def test_a_box_shows_nothing_but_its_answers(box):
    assert {name for name in dir(box) if not name.startswith("_")} == {"calls"}
    assert not hasattr(box, "__dict__")
    before = box.calls
    logits = box(TEXT)
    assert box.calls == before + 1
    assert logits.shape == (1, 5, black_box.VOCABULARY)
    assert logits.dtype == torch.float64
    with pytest.raises(AttributeError):
        box.calls = 0


def test_default_positions_count_from_0():
    for _, model in boxes(seed=3):
        change = model(TEXT) - model(TEXT, torch.arange(5))
        assert change.abs().max() < 1e-12


@pytest.mark.parametrize(
    ("arguments", "error", "expected"),
    [
        (([[1, 2]],), TypeError, "tokens must be a torch.Tensor, got list"),
        ((TEXT.double(),), TypeError, "tokens must be integers, got torch.float64"),
        ((TEXT[0],), ValueError, r"tokens must be \[batch, tokens\]"),
        ((TEXT + 12,), ValueError, "tokens must be from 0 to 15, got 16"),
        ((TEXT.repeat(65, 1),), ValueError, "at most 64 texts"),
        ((TEXT.repeat(1, 60),), ValueError, "at most 256 tokens"),
        ((TEXT, TEXT), ValueError, r"positions must be \[5\]"),
        ((TEXT, -TEXT[0]), ValueError, "positions must be from 0 to 1000000, got -3"),
        ((TEXT, TEXT[0] / 2), TypeError, "positions must be integers"),
    ],
)
def test_other_arguments_are_refused(unchecked, box, arguments, error, expected):
    before = box.calls
    with pytest.raises(error, match=expected):
        box(*arguments)
    assert box.calls == before


@pytest.mark.parametrize("name", ["RoPE", None, 3])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(ValueError, match="identify must return one of none, window"):
        measure(lambda model: name, seed=1)
