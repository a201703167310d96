"""The paths experiment: its tasks, encodings and runs."""

import re
from dataclasses import replace
from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posedu.book.experiments import paths, sequences
from posedu.book.experiments.paths import (
    CONDITIONS,
    MODULUS,
    MULTIPLES,
    PERMUTATIONS,
    SWAPS,
    TASKS,
    ForgettingSelectiveRoPE,
    Result,
    Run,
    Settings,
)
from posedu.book.experiments.sequences import IGNORED, Model
from posedu.torch import (
    Encoding,
    FoX,
    PaTH,
    PaTHFoX,
    Retention,
    RoPE,
    SelectiveRoPE,
    Wall,
)
from posedu.torch.attention import steps

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = Settings(steps=2, batch=3, length=24, heads=2, d=4, tested=3)
EPS = torch.finfo(torch.float64).eps
SHORTEST = dict.fromkeys(TASKS, 2) | {"repeat": 16, "recall": 17}


def batch_of(task, batch, length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return TASKS[task].make(batch, length, 64, generator)


def model_of(name, task, seed=0):
    with torch.random.fork_rng(devices=[]):
        return Model(CONDITIONS[name], TASKS[task], SMALL, seed)


# --- The tasks: answers from this token and those before it alone


def in_words(answer):
    """Return an answer that asks nothing of the first token."""
    return lambda seen: answer(seen) if len(seen) > 1 else IGNORED


def permutation_so_far(seen, letters=range(6)):
    """Move three objects, one permutation a token but the first."""
    places = [0, 1, 2]
    for token in seen[1:]:
        move = PERMUTATIONS[letters[token - 1]]
        places = [move[place] for place in places]
    return PERMUTATIONS.index(tuple(places))


def next_of_string(seen):
    if 0 not in seen:
        return IGNORED
    return seen[len(seen) - (seen.index(0) + 1)]


def value_of_key(seen):
    if len(seen) <= 16:
        return IGNORED
    return dict(zip(seen[:16:2], seen[1:16:2], strict=True))[seen[-1]] - 16


ANSWERS = {
    "parity": in_words(lambda seen: seen.count(2) % 2),
    "modular": in_words(lambda seen: sum(n - 1 for n in seen[1:]) % MODULUS),
    "swaps": in_words(lambda seen: permutation_so_far(seen, SWAPS)),
    "permutations": in_words(permutation_so_far),
    "repeat": next_of_string,
    "recall": value_of_key,
}


@pytest.mark.parametrize("task", TASKS)
@given(data=st.data(), seed=st.integers(0, 2**63 - 1))
def test_every_label_is_the_answer_that_the_tokens_so_far_give(task, data, seed):
    length = data.draw(st.integers(SHORTEST[task], 96))
    tokens, labels = batch_of(task, 2, length, seed)
    assert tokens.shape == labels.shape == (2, length)
    for row, asked in zip(tokens.tolist(), labels.tolist(), strict=True):
        assert asked == [ANSWERS[task](row[: i + 1]) for i in range(length)]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("times", MULTIPLES)
def test_every_token_and_label_occurs_and_no_other(task, times):
    tokens, labels = batch_of(task, 128, 64 * times)
    assert tokens.unique().tolist() == [*range(TASKS[task].tokens)]
    assert labels[labels != IGNORED].unique().tolist() == [*range(TASKS[task].labels)]


def test_swaps_are_the_identity_and_the_three_that_leave_one_object():
    fixed = [sum(a == b for a, b in enumerate(PERMUTATIONS[n])) for n in SWAPS]
    assert sorted(fixed) == [1, 1, 1, 3]
    assert tuple(permutations(range(3))) == PERMUTATIONS


@pytest.mark.parametrize("length", [64, 65, 512])
def test_strings_have_eight_letters_up_to_half_of_the_sequence(length):
    tokens, _ = batch_of("repeat", 4000, length)
    sizes = (tokens == 0).int().argmax(1)
    assert sizes.min() == 8 and length // 2 - 3 <= sizes.max() <= length // 2


@pytest.mark.parametrize("task", TASKS)
def test_sequences_are_those_of_their_generator_alone(task):
    state = torch.random.get_rng_state()
    first, again, other = (batch_of(task, 3, 64, seed) for seed in (7, 7, 8))
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(map(torch.equal, first, again))
    assert not torch.equal(first[0], other[0])


@pytest.mark.parametrize("task", TASKS)
def test_sizes_that_make_no_task_are_refused(unchecked, task):
    with pytest.raises(ValueError, match=r"batch must be a positive .*, got 0"):
        batch_of(task, 0, 64)
    short = SHORTEST[task] - 1
    with pytest.raises(ValueError, match=f"length .*got {short}"):
        batch_of(task, 2, short)


# --- The encodings

KINDS = {
    "none": Encoding,
    "rope": RoPE,
    "retention": Retention,
    "fox": FoX,
    "wall": Wall,
    "selective-rope": SelectiveRoPE,
    "selective-rope-gate": SelectiveRoPE,
    "selective-rope-fox": ForgettingSelectiveRoPE,
    "path": PaTH,
    "path-fox": PaTHFoX,
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_state_has_one_layer_and_content_two(name):
    for task, layers in {"parity": 1, "swaps": 1, "recall": 2, "repeat": 2}.items():
        model = model_of(name, task)
        kinds = [type(block.attention.encoding) for block in model.trunk.blocks]
        assert kinds == [KINDS[name]] * layers


@pytest.mark.parametrize("name", CONDITIONS)
def test_the_route_changes_no_answer_and_later_tokens_change_none(name):
    tokens, _ = batch_of("permutations", 2, 24)
    model = model_of(name, "permutations").double()
    answers = model(tokens)
    other = tokens.clone()
    other[:, 12:] = other[:, 12:] % 6 + 1
    change = (model(other) - answers).abs().amax((0, 2))
    assert change[:12].max() <= 1e4 * EPS < 1e-3 < change[12:].min()
    for block in model.trunk.blocks:
        block.attention.route = "eager"
    assert torch.allclose(model(tokens), answers, rtol=0, atol=1e4 * EPS)


def test_selective_rope_is_as_in_the_configurations_for_state_tracking():
    plain, gated, forgetting = (
        CONDITIONS[name].make(SMALL)
        for name in ("selective-rope", "selective-rope-gate", "selective-rope-fox")
    )
    assert gated.gate_weight is not None
    assert plain.gate_weight is None and forgetting.gate_weight is None
    for encoding in (plain, gated, forgetting):
        assert encoding.temperatures().unique().tolist() == [1.0]
        assert encoding.phase_bias is not None


def test_selective_rope_and_fox_together_multiply_their_weights():
    torch.manual_seed(0)
    both, alone = (
        CONDITIONS[name].make(SMALL).double()
        for name in ("selective-rope-fox", "selective-rope")
    )
    alone.load_state_dict(
        {key: w for key, w in both.state_dict().items() if "fox" not in key}
    )
    x = torch.randn(2, 9, 8, dtype=torch.float64)
    q, k, v = torch.randn(3, 2, 2, 9, 4, dtype=torch.float64)
    weights, rotated, decayed = (
        steps(queries, k, v, encoding, x=x).weights
        for queries, encoding in ((q, both), (q, alone), (0 * q, both.fox))
    )
    product = rotated * decayed
    product = product / product.sum(-1, keepdim=True)
    assert torch.allclose(weights, product, rtol=0, atol=100 * EPS)
    assert (weights - rotated).abs().max() > 0.1 < (weights - decayed).abs().max()


def test_all_conditions_of_a_seed_start_from_the_same_weights():
    def shared(name):
        weights = model_of(name, "recall").state_dict()
        return {key: w for key, w in weights.items() if "encoding" not in key}

    first = shared("none")
    for name in CONDITIONS:
        other = shared(name)
        assert other.keys() == first.keys()
        assert all(torch.equal(other[key], first[key]) for key in first), name


# --- Runs


def test_a_run_repeats_exactly_and_has_every_length():
    first, again = (paths.run("swaps", "path", 1, SMALL) for _ in range(2))
    assert first.accuracy == again.accuracy and first.loss == again.loss
    assert [*first.accuracy] == [str(24 * m) for m in MULTIPLES]
    assert first.key == ("swaps", "path", 1)


def test_a_result_is_saved_and_shows_its_table(tmp_path):
    out = tmp_path / "paths.json"
    small = replace(SMALL, steps=1)
    result = paths.experiment(
        seeds=2,
        settings=small,
        tasks=("parity",),
        encodings=("none", "rope"),
        save_to=out,
    )
    assert result.complete and len(result.runs) == 4
    loaded = Result.load(out)
    assert loaded.encodings("parity") == ["none", "rope"]
    table = re.sub(r"\s+", " ", str(loaded))
    assert "Parity" in table and "no encoding" in table and "L = 384" in table


def test_names_of_other_experiments_are_refused():
    how = dict(seed=1, accuracy={}, loss=0.0, seconds=0.0)
    with pytest.raises(ValueError, match="task"):
        Run(task="count", encoding="rope", **how)
    with pytest.raises(ValueError, match="encoding"):
        Run(task="parity", encoding="cope", **how)
    sequences.Run(task="count", encoding="cope", **how)
