"""The project on ring attention: what its measurement refuses, and what it computes."""

import math

import pytest
import torch

from posedu.book import projects
from posedu.book.projects import ring
from posedu.book.projects.exchange import in_processes, replay, simulate
from posedu.book.projects.solutions import ring as solution
from posedu.book.projects.solutions.ring import (
    ANSWERS,
    contiguous,
    fox_rank,
    merge,
    merge_sticks,
    softplus,
    split,
    sticks_rank,
)
from posedu.torch.stickbreaking import stick_breaking_tiles


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(ring, "LENGTHS", (80, 100))


@pytest.mark.parametrize("seed", [7, 8, 9])
@pytest.mark.parametrize(("threshold", "enough"), [(20.0, False), (40.0, True)])
def test_an_error_of_e_to_the_minus_20_in_a_softplus_misses(
    monkeypatch, seed, threshold, enough
):
    def thresholded(z):
        return torch.nn.functional.softplus(z, threshold=threshold)

    monkeypatch.setattr(solution, "softplus", thresholded)
    error = ring.measure(*ANSWERS, seed=seed)["stick error"]
    assert error < 0.01 if enough else error > 2


NAMED = dict(zip(ring.PROJECT.answers, ANSWERS, strict=True))


def measured(**changed):
    return ring.measure(*(NAMED | changed).values(), seed=7)


def reached(found):
    return {goal.quantity for goal in ring.GOALS if goal.is_reached(found)}


EVERY = {goal.quantity for goal in ring.GOALS}


def test_the_reference_solution_reaches_all_goals_and_a_seed_decides_all():
    found = measured()
    assert reached(found) == EVERY
    assert measured() == found
    assert ring.measure(*ANSWERS, seed=8) != found


def unwritten(*given):
    raise NotImplementedError


@pytest.mark.parametrize(
    ("missing", "measured_goals"),
    [
        (("sticks_rank",), EVERY - {"stick error"}),
        (("merge_sticks", "sticks_rank"), EVERY - {"stick error"}),
        (("merge_sticks",), EVERY - {"stick error"}),
        (("fox_rank",), {"merge error"}),
    ],
)
def test_functions_are_measured_up_to_the_first_that_is_not_written(
    missing, measured_goals
):
    found = measured(**dict.fromkeys(missing, unwritten))
    assert {key for key in found if " of rank " not in key} == measured_goals
    assert all(goal.is_reached(found) for goal in ring.GOALS if goal.quantity in found)
    report = projects.measure(
        ring.PROJECT,
        [unwritten if name in missing else f for name, f in NAMED.items()],
        [7],
    )
    assert not report.is_reached()
    assert report.caption().startswith("○ ring: open, not measured: ")
    assert "<svg" in ring.plot(report).svg


@pytest.mark.parametrize("missing", ["split", "merge"])
def test_nothing_is_measured_before_the_first_merge(missing):
    with pytest.raises(NotImplementedError):
        measured(**{missing: unwritten})


def test_the_single_device_is_the_librarys_attention():
    problem = ring.draw(30, torch.Generator().manual_seed(0))
    tiles, _ = stick_breaking_tiles(
        *(t[None] for t in (problem.q, problem.k, problem.v)), attend_current=False
    )
    torch.testing.assert_close(ring.single_device(problem)[0], tiles[0])


def test_without_a_running_maximum_large_logits_overflow():
    def careless(one, other):
        shifted = (
            (torch.zeros_like(m), m.exp() * s, m.exp()[..., None] * o)
            for m, s, o in (one, other)
        )
        return merge(*shifted)

    assert measured(merge=careless)["merge error"] == math.inf


def test_a_merge_of_empty_sets_that_gives_nan_misses():
    def unguarded(one, other):
        maximum = torch.maximum(one[0], other[0])
        first, second = ((part[0] - maximum).exp() for part in (one, other))
        total = first * one[1] + second * other[1]
        return maximum, total, first[..., None] * one[2] + second[..., None] * other[2]

    assert measured(merge=unguarded)["merge error"] == math.inf


def test_sticks_in_the_wrong_order_miss():
    found = measured(merge_sticks=lambda one, other: merge_sticks(other, one))
    assert reached(found) == EVERY - {"merge error"}


def test_a_merge_with_a_wrong_gradient_of_values_misses():
    def older_detached(nearer, older):
        return merge_sticks(nearer, tuple(t.detach() for t in older))

    found = measured(merge_sticks=older_detached)
    assert found["merge error"] > 1


def test_neighbors_are_an_unbalanced_split():
    found = measured(split=contiguous)
    assert reached(found) == EVERY - {"work"}
    assert found["work of rank 0"] < 0.6 < 1.9 < found["work of rank 3"]


def test_whoever_collects_all_keys_has_no_room():
    def collecting(rank, shares, q, k, v):
        blocks = {rank: (k, v)}
        for step in range(1, len(shares)):
            blocks[(rank - step) % len(shares)] = yield blocks[
                (rank - step + 1) % len(shares)
            ]
        parts = [blocks[source] for source in range(len(shares))]
        every = zip(*parts, strict=True)
        keys, values = (ring.gathered(list(t), shares) for t in every)
        z = q @ keys.mT / q.shape[-1] ** 0.5
        hidden = torch.arange(keys.shape[1]) >= shares[rank][:, None]
        cost = softplus(z).masked_fill(hidden, 0.0)
        spent = cost.flip(-1).cumsum(-1).flip(-1)
        return (z - spent).masked_fill(hidden, -math.inf).exp() @ values

    found = measured(sticks_rank=collecting)
    assert reached(found) == EVERY - {"work", "largest tensor"}


def test_who_sends_the_block_home_again_sends_too_much():
    def around(rank, shares, q, k, v):
        out = yield from sticks_rank(rank, shares, q, k, v)
        yield k, v
        return out

    assert measured(sticks_rank=around)["bytes"] > 0.85


def test_a_shared_variable_is_noticed():
    shared = {}

    def cheating(rank, shares, q, k, v):
        shared[rank] = k
        yield (q[:, :1],)
        return q + shared[0].mean() + shared[3].mean()

    with pytest.raises(ValueError, match=r"rank \d with the same arguments"):
        measured(sticks_rank=cheating)


@pytest.mark.parametrize(
    ("changed", "error", "match"),
    [
        ({"split": lambda n, r: [n]}, TypeError, "4 int64 tensors of positions"),
        ({"split": lambda n, r: split(n, 5)}, ValueError, "4 tensors, got 5"),
        ({"split": lambda n, r: split(n - 1, r)}, ValueError, "a token is missing"),
        (
            {"split": lambda n, r: [t.flip(0) for t in split(n, r)]},
            ValueError,
            "must be increasing",
        ),
        (
            {"split": lambda n, r: list(torch.arange(n).split([n - 6, 2, 2, 2]))},
            ValueError,
            "has memory for at most 4 more",
        ),
        ({"merge": lambda one, other: one[0]}, TypeError, "a tuple of 3 tensors"),
        (
            {"merge_sticks": lambda one, other: (one[0][..., None], one[1])},
            ValueError,
            "of shapes",
        ),
        ({"merge": torch.no_grad()(merge)}, ValueError, "have no gradient"),
        ({"merge_sticks": torch.no_grad()(merge_sticks)}, ValueError, "no gradient"),
        ({"fox_rank": lambda *given: given[2]}, TypeError, "generator function"),
    ],
)
def test_what_is_no_answer_is_refused(changed, error, match):
    with pytest.raises(error, match=match):
        measured(**changed)


def _no_tuple(rank, shares, q, k, v):
    yield k
    return q


def _uneven(rank, shares, q, k, v):
    for _ in range(rank + 1):
        yield (k,)
    return q


def _narrow(rank, shares, q, k, v):
    yield (k,)
    return q.float()


def _cut(rank, shares, q, k, v):
    yield (k,)
    return q.detach()


def _short(rank, shares, q, k, v):
    yield (k,)
    return q[:, 1:]


@pytest.mark.parametrize(
    ("program", "error", "match"),
    [
        (_no_tuple, TypeError, "a tuple of tensors, rank 0 yields"),
        (_uneven, RuntimeError, "must yield equally often"),
        (_narrow, ValueError, r"must be float64, got torch\.float32"),
        (_cut, ValueError, "have no gradient"),
        (_short, ValueError, "outputs of shape"),
    ],
)
def test_a_program_that_does_not_fit_is_refused(program, error, match):
    with pytest.raises(error, match=match):
        measured(sticks_rank=program)


def test_a_rank_can_be_run_again_alone():
    problem = ring.draw(50, torch.Generator().manual_seed(3), gate=1.0)
    arguments = ring.arguments_of(problem, split(50, 4))
    whole = simulate(fox_rank, arguments)
    for rank in range(4):
        again = replay(fox_rank, arguments[rank], whole.received[rank])
        assert torch.equal(again, whole.outputs[rank])
    with pytest.raises(RuntimeError, match="more messages than before"):
        replay(fox_rank, arguments[0], whole.received[0][:-1])


@pytest.mark.slow
def test_processes_compute_what_the_simulation_does():
    problem = ring.draw(20, torch.Generator().manual_seed(3), gate=1.0)
    arguments = ring.arguments_of(problem, split(20, 2))
    outputs = in_processes(fox_rank, arguments)
    assert all(map(torch.equal, outputs, simulate(fox_rank, arguments).outputs))
    with pytest.raises(RuntimeError, match=r"rank 0 failed:[\s\S]*generator function"):
        in_processes(split, [(20, 2)])
