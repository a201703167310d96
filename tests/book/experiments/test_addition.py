"""The addition experiment: its numbers, positions, encodings and runs."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posedu.book.experiments import addition
from posedu.book.experiments.addition import (
    CONDITIONS,
    TESTED,
    Model,
    Result,
    Run,
    Settings,
    couplings,
    fit,
    indices,
    sums,
)
from posedu.torch import FIRE, Abacus, PositionCoupling, Randomized, RoPE

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = Settings(steps=2, batch=3, digits=10, heads=2, d=4, tested=5)
EPS = torch.finfo(torch.float64).eps


def numbers_of(batch, digits, seed=0):
    return sums(batch, digits, torch.Generator().manual_seed(seed))


def model_of(name, seed=0):
    with torch.random.fork_rng(devices=[]):
        return Model(CONDITIONS[name], SMALL, seed)


# --- The task


@given(st.integers(1, 30), st.integers(0, 2**63 - 1))
def test_answers_are_sums_and_texts_lack_the_last_digit(digits, seed):
    tokens, answers = numbers_of(4, digits, seed)
    for row, answer in zip(tokens.tolist(), answers.tolist(), strict=True):
        text = "".join("0123456789+=$"[token] for token in row)
        a, b, c = re.fullmatch(r"\$(\d+)\+(\d+)=(\d*)", text).groups()
        assert len(a) == len(b) == len(c) == digits
        total = int(a[::-1]) + int(b[::-1])
        assert f"{total:0{digits + 1}d}" == "".join(map(str, answer))[::-1]
        assert c == "".join(map(str, answer[:-1]))


def test_every_digit_occurs_in_every_place():
    tokens, answers = numbers_of(400, 3)
    for column in (*tokens[:, 1:4].T, *tokens[:, 5:8].T, *answers[:, :3].T):
        assert column.unique().tolist() == [*range(10)]
    assert answers[:, 3].unique().tolist() == [0, 1]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("sizes", [(0, 3), (3, 0)])
def test_sizes_that_make_no_sum_are_refused(sizes):
    with pytest.raises(ValueError, match=r"must be a positive .*, got 0"):
        numbers_of(*sizes)


@pytest.mark.parametrize("digits", [1, 2, 30])
def test_digits_of_equal_significance_have_one_position(digits):
    tokens, _ = numbers_of(2, digits)
    power = np.arange(digits)
    for positions, expected in (
        (indices(tokens), power + 1),
        (couplings(tokens), digits - power),
    ):
        for start in (1, digits + 2, 2 * digits + 3):
            part = positions[:, start : start + digits]
            assert part.tolist() == [expected.tolist()] * 2


def test_the_next_digit_is_predicted_from_ids_of_its_own_token_and_one_less():
    tokens, _ = numbers_of(1, 4)
    at = couplings(tokens)[0].tolist()
    summand = {power: at[1 + power] for power in range(4)}
    for power, i in enumerate(range(10, 14)):  # =, and the digits after it
        assert at[i] - 1 == summand[power]


# --- The encodings


def test_conditions_are_the_encodings_that_they_name():
    encodings = {name: c.make(SMALL) for name, c in CONDITIONS.items()}
    kinds = dict(
        rope=RoPE,
        fire=FIRE,
        randomized=Randomized,
        abacus=Abacus,
        coupling=PositionCoupling,
    )
    assert all(isinstance(encodings[name], kind) for name, kind in kinds.items())
    assert not encodings["none"].hooks


@pytest.mark.parametrize("name", ["abacus", "coupling"])
def test_every_position_of_a_test_is_one_that_training_has(name):
    """And none is beyond the table, in the book's settings."""
    settings = Settings()
    module = CONDITIONS[name].make(settings)
    of = CONDITIONS[name].positions

    def seen(digits, times):
        tokens, _ = numbers_of(1, digits)
        at, x = of(tokens), torch.zeros(times, tokens.shape[1], 1)
        return {*module.locate(at, x).unique().tolist()}

    torch.manual_seed(0)
    trained = set()
    for _ in range(500):
        trained |= seen(settings.digits, 1)
    assert max(trained) == settings.largest
    module.eval()
    assert seen(max(TESTED), 1) <= trained


@pytest.mark.parametrize("name", CONDITIONS)
def test_the_route_changes_no_answer_and_later_digits_change_none(name):
    tokens, _ = numbers_of(2, 3)
    model = model_of(name).double().eval()
    torch.manual_seed(0)
    answers = model(tokens)
    assert answers.shape == (2, 4, 10)
    other = tokens.clone()
    other[:, 10:] = (other[:, 10:] + 1) % 10
    torch.manual_seed(0)
    change = (model(other) - answers).abs().amax((0, 2))
    assert change[:2].max() <= 1e4 * EPS < 1e-6 < change[2:].min()
    for block in model.trunk.blocks:
        block.attention.route = "eager"
    torch.manual_seed(0)
    assert torch.allclose(model(tokens), answers, rtol=0, atol=1e4 * EPS)


def test_all_conditions_of_a_seed_start_from_the_same_weights():
    def shared(name):
        weights = model_of(name).state_dict()
        own = ("encoding", "input")
        return {k: w for k, w in weights.items() if not any(part in k for part in own)}

    first = shared("none")
    for name in CONDITIONS:
        other = shared(name)
        assert other.keys() == first.keys()
        assert all(torch.equal(other[key], first[key]) for key in first), name


# --- Runs


@pytest.mark.parametrize("name", ["rope", "abacus", "randomized"])
def test_a_run_repeats_exactly_and_has_every_score(name):
    first, again = (addition.run(name, 1, SMALL) for _ in range(2))
    assert first.accuracy == again.accuracy and first.loss == again.loss
    scores = [f"{score} {n}" for score in ("exact", "digits") for n in TESTED]
    assert [*first.accuracy] == scores
    assert first.key == (name, 1)
    for n in TESTED:
        assert first.accuracy[f"exact {n}"] <= first.accuracy[f"digits {n}"]


def test_a_sum_is_right_where_all_of_its_digits_are():
    class Guess(torch.nn.Module):
        """Every digit right, but the last one of the first sum in each part."""

        def forward(self, tokens):
            _, answer = numbers_of(5, 3, 10**6 + 1)
            answer[0, 3] = 9
            return torch.nn.functional.one_hot(answer, 10).float()

    exact, right = addition.test(Guess(), 3, SMALL, 1)
    assert (exact, right) == (4 / 5, 19 / 20)


def test_training_lowers_the_loss():
    model, longer = model_of("coupling"), replace(SMALL, steps=60, rate=1e-2)
    before = fit(model_of("coupling"), replace(SMALL, steps=1), 0)
    assert fit(model, longer, 0) < 0.97 * before


def test_a_result_is_saved_and_shows_its_table(tmp_path):
    out = tmp_path / "addition.json"
    small = replace(SMALL, steps=1)
    result = addition.experiment(
        seeds=2, settings=small, encodings=("none", "coupling"), save_to=out
    )
    assert result.complete and len(result.runs) == 4
    loaded = Result.load(out)
    assert loaded.settings == small
    assert loaded.encodings() == ["none", "coupling"]
    table = re.sub(r"\s+", " ", str(loaded))
    assert "position coupling digits" in table and "30 digits" in table


def test_other_encodings_are_refused():
    with pytest.raises(ValueError, match="encoding"):
        Run(encoding="cope", seed=1, accuracy={}, loss=0.0, seconds=0.0)
