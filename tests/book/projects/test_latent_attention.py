"""Project "latent attention": which mistakes are measured, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from posedu.book.projects import latent_attention as project
from posedu.book.projects.latent_attention import (
    GOALS,
    HEAD_D,
    HEADS,
    ROTARY,
    D,
    Weights,
    draw_layer,
    draw_matrices,
    matrix_at,
    measure,
    output_error,
    refuted,
    step_cost,
)
from posedu.book.projects.solutions.latent_attention import (
    ANSWERS,
    INSUFFICIENT,
    attend,
    attend_plainly,
    counterexample,
    entry,
)

OTHERS = [goal for goal in GOALS if goal.quantity != "time"]
"""Goals without the one that a busy machine may miss."""


def missed(measured):
    return {goal.quantity for goal in OTHERS if not goal.is_reached(measured)}


@pytest.fixture
def few_tokens(monkeypatch):
    monkeypatch.setattr(project, "CACHED", 1024)
    monkeypatch.setattr(project, "TOKENS", 6)
    monkeypatch.setattr(project, "LONGEST", 100)
    monkeypatch.setattr(project, "REPEATS", 1)


def test_the_reference_solution_reaches_the_goals(few_tokens):
    measured = measure(*ANSWERS, seed=2**31 - 1)
    assert not missed(measured)
    again = measure(*ANSWERS, seed=2**31 - 1)
    assert {**measured, "time": 0} == {**again, "time": 0}


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("no-absorption", {"largest tensor", "multiplications"}),
        ("full-cache", {"cached", "largest tensor", "refuted"}),
    ],
)
def test_what_does_not_suffice_misses_these_goals(few_tokens, label, expected):
    assert missed(measure(*INSUFFICIENT[label], seed=11)) == expected


def test_the_plain_step_is_the_definition(few_tokens):
    assert output_error(entry, attend_plainly, seed=3, dtype=torch.float64) < 0.1


def test_the_cache_of_the_plain_step_is_right(few_tokens):
    layer = draw_layer(seed=4)
    x = torch.randn(3, 256, generator=torch.Generator().manual_seed(1)).double()
    latents, keys = project.right_cache(layer, x, 70)
    found = [entry(Weights.of(layer), row, 70 + n) for n, row in enumerate(x)]
    torch.testing.assert_close(latents, torch.stack([row[0] for row in found]))
    torch.testing.assert_close(keys, torch.stack([row[1] for row in found]))


def no_step_when_timed(weights, x, position, cached):
    if len(cached[0]) == project.CACHED:
        return x
    return attend_plainly(weights, x, position, cached)


def last_rows_of_many(weights, x, position, cached):
    if len(cached[0]) >= 4000:
        cached = [column[-500:] for column in cached]
    return attend_plainly(weights, x, position, cached)


@pytest.mark.parametrize("cheat", [no_step_when_timed, last_rows_of_many])
def test_the_outputs_of_the_timed_steps_are_compared(cheat):
    assert step_cost(entry, cheat, seed=2)["error"] > 10


def test_an_output_that_is_kept_is_of_no_use(few_tokens):
    kept = []

    def forgetful(weights, x, position, cached):
        if len(cached[0]) < project.CACHED or not kept:
            kept.append(attend(weights, x, position, cached))
        return kept[-1]

    assert "error, float32" in missed(measure(entry, forgetful, counterexample, seed=2))


def test_a_cache_of_some_hundred_rows_is_compared():
    def cut(weights, x, position, cached):
        return attend(weights, x, position, [column[-300:] for column in cached])

    found = [
        output_error(entry, cut, seed=seed, dtype=torch.float32) for seed in range(3)
    ]
    assert min(found) > 10


def head_by_head(weights, x, position, cached):
    latents, keys = cached
    total = torch.zeros_like(x)
    for h in range(HEADS):
        q = weights.q[h] @ x
        q_rope = project.ROPE((weights.q_rope[h] @ x)[None], [position])[0]
        logits = (latents @ weights.k_up[h].T) @ q + keys @ q_rope
        shares = (logits / (D + ROTARY) ** 0.5).softmax(0)
        total += weights.out[h] @ (shares @ (latents @ weights.v_up[h].T))
    return total


def test_keys_of_one_head_at_a_time_miss_a_goal(few_tokens):
    assert output_error(entry, head_by_head, seed=3, dtype=torch.float64) < 0.1
    measured = measure(entry, head_by_head, counterexample, seed=3)
    assert missed(measured) == {"multiplications"}


def with_rounded_angles(weights, x, position):
    latent, _ = entry(weights, x, position)
    omega = 10000.0 ** (-torch.arange(ROTARY // 2, dtype=torch.float32) * 2 / ROTARY)
    angle = torch.tensor(float(position)) * omega
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = (weights.k_rope @ x).chunk(2)
    return latent, torch.cat((a * cos - b * sin, a * sin + b * cos))


def without_gain(weights, x, position):
    return entry(replace(weights, gain=torch.ones_like(weights.gain)), x, position)


def not_rotated(weights, x, position):
    return entry(weights, x, 0)


def scaled(weights, x, position, cached):
    latents, keys = cached
    wide = replace(weights, q=1.01 * weights.q)
    return attend(wide, x, position, (latents, keys))


@pytest.mark.parametrize(
    ("make", "step"),
    [
        (with_rounded_angles, attend),
        (without_gain, attend),
        (not_rotated, attend),
        (entry, scaled),
    ],
)
def test_a_mistake_is_beyond_rounding(few_tokens, make, step):
    assert output_error(make, step, seed=3, dtype=torch.float64) > 1e3


def test_a_number_that_is_not_finite_is_an_infinite_error(few_tokens):
    def broken(weights, x, position, cached):
        return attend(weights, x, position, cached) * float("nan")

    assert output_error(entry, broken, seed=3, dtype=torch.float64) == float("inf")


def test_what_is_stored_elsewhere_is_of_no_use(few_tokens):
    stored = []

    def secretive(weights, x, position):
        stored.append(entry(weights, x, position))
        return (torch.zeros_like(stored[-1][0]),)

    def informed(weights, x, position, cached):
        rows = stored[-len(cached[0]) :]
        columns = tuple(map(torch.stack, zip(*rows, strict=True)))
        return attend(weights, x, position, columns)

    assert output_error(secretive, informed, seed=3, dtype=torch.float64) > 1e3


def test_one_vector_may_hold_everything(few_tokens):
    def joined(weights, x, position):
        return (torch.cat(entry(weights, x, position)),)

    def apart(weights, x, position, cached):
        return attend(weights, x, position, cached[0].split((64, 16), -1))

    assert not missed(measure(joined, apart, counterexample, seed=3))


def test_twice_the_cache_is_too_large(few_tokens):
    def doubled(weights, x, position, cached):
        torch.cat((*cached, *cached), -1)
        return attend(weights, x, position, cached)

    assert missed(measure(entry, doubled, counterexample, seed=3)) == {"largest tensor"}


class TestMatrices:
    def test_each_is_refuted_by_the_reference_solution(self):
        for seed in range(20):
            assert refuted(counterexample, seed=seed) == 1

    @pytest.mark.parametrize("offset", range(HEAD_D + 1))
    def test_no_single_offset_refutes_all(self, offset):
        for seed in range(5):
            assert refuted(lambda *case: (offset, 0), seed=seed) < 0.8

    def test_two_offsets_are_not_enough(self):
        def of_two(w_q, up, matrix):
            is_right = np.allclose(matrix_at(w_q, up, 0), matrix, atol=1e-12)
            return (1, 0) if is_right else (0, 0)

        assert all(refuted(of_two, seed=seed) < 1 for seed in range(5))

    def test_some_are_right_at_all_offsets_but_one(self):
        counts = []
        for w_q, up, matrix in draw_matrices(seed=3):
            scale = (abs(w_q).T @ abs(up)).max()
            right = [matrix_at(w_q, up, t) for t in range(HEAD_D + 1)]
            counts.append(sum(abs(m - matrix).max() < 1e-12 * scale for m in right))
        assert sorted(counts) == [0] * 5 + [1] * 5 + [HEAD_D] * 5

    @pytest.mark.parametrize(
        ("found", "error", "message"),
        [
            (3, TypeError, r"must return \(i, j\), got 3"),
            ((1, 0, 0), TypeError, r"must return \(i, j\)"),
            ((1.0, 0), TypeError, "positions must be integers"),
            ((HEAD_D + 1, 0), ValueError, "got i = 5, j = 0"),
            ((1, 2), ValueError, "got i = 1, j = 2"),
        ],
    )
    def test_what_are_no_positions_is_refused(self, found, error, message):
        with pytest.raises(error, match=message):
            refuted(lambda *case: found, seed=3)


@pytest.mark.parametrize(
    ("found", "error", "message"),
    [
        (torch.zeros(80), TypeError, "must return a tuple of tensors"),
        ((), ValueError, r"must return vectors \[n\]"),
        ((torch.zeros(80).float(),), ValueError, "of torch.float32"),
        ((torch.zeros(8, 10).double(),), ValueError, r"got \[8, 10\]"),
    ],
)
def test_what_is_no_entry_is_refused(found, error, message):
    with pytest.raises(error, match=message):
        measure(lambda *token: found, attend, counterexample, seed=3)


def test_entries_have_one_shape(few_tokens):
    def growing(weights, x, position):
        return (torch.zeros(1 + position % 2).to(x),)

    with pytest.raises(ValueError, match="one shape for all tokens"):
        measure(growing, attend, counterexample, seed=3)


@pytest.mark.parametrize(
    ("found", "error", "message"),
    [
        (0.0, TypeError, "must return a tensor, got float"),
        (torch.zeros(3).double(), ValueError, r"\[256\] .*got \[3\]"),
        (torch.zeros(256), ValueError, "torch.float64.*got .*torch.float32"),
    ],
)
def test_what_is_no_output_is_refused(found, error, message):
    with pytest.raises(error, match=message):
        measure(entry, lambda *step: found, counterexample, seed=3)


def test_a_layer_without_a_norm_is_refused():
    layer = draw_layer(seed=0)
    layer.kv_gain = None
    with pytest.raises(ValueError, match="norm=True"):
        Weights.of(layer)
