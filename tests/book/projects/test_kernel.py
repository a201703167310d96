"""The project on a kernel: what its measurement refuses, and what it computes."""

import math

import pytest
import torch

from posedu.book.projects import kernel
from posedu.book.projects.solutions.kernel import (
    ANSWERS,
    attend,
    attend_at_once,
    attend_with_empty_tiles,
    attend_without_correction,
    attend_without_maximum,
    rotate,
)
from posedu.numpy.rotary import rope

EXACT = ("rotation error", "output error", "gradient error")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(kernel, "LENGTH", 512)
    monkeypatch.setattr(kernel, "FORWARD", (80, 120))
    monkeypatch.setattr(kernel, "BACKWARD", (60, 80))
    monkeypatch.setattr(kernel, "REPEATS", 1)


def tiled(function, tile=32):
    return lambda q, k, v, score_mod: function(q, k, v, score_mod, tile)


def measured(rotation=rotate, attention=attend, tile=32):
    if attention is not attend_at_once:
        attention = tiled(attention, tile)
    return kernel.measure(rotation, attention, seed=5)


def reached(found):
    return {goal.quantity for goal in kernel.GOALS if goal.is_reached(found)}


EVERY = {goal.quantity for goal in kernel.GOALS} - {"time"}  # too short to time


def test_the_reference_solution_reaches_all_goals_and_a_seed_decides_all():
    found, again = measured(), measured()
    assert reached(found) >= EVERY
    timed = {name for name in found if name.startswith("time")}
    assert len(timed) == 2
    assert {n: found[n] for n in found.keys() - timed} == {
        n: again[n] for n in again.keys() - timed
    }


def test_the_rotation_is_the_librarys():
    x, positions = torch.randn(1, 1, 5, 8, dtype=torch.float64), torch.arange(5) * 7
    expected = rope(x[0, 0].numpy(), positions=positions.numpy(), layout="half")
    torch.testing.assert_close(
        kernel.rotated(x, positions)[0, 0], torch.from_numpy(expected)
    )


@pytest.mark.parametrize(
    ("attention", "missed"),
    [
        (attend_with_empty_tiles, {"output error", "gradient error"}),
        (attend_without_correction, {"output error", "gradient error"}),
        (attend_without_maximum, {"output error", "gradient error"}),
        (attend_at_once, {"scores", "largest tensor"}),
    ],
)
def test_an_answer_that_does_not_suffice_misses(attention, missed):
    assert EVERY - reached(measured(attention=attention)) == missed


def test_places_in_a_tile_are_not_those_in_the_text():
    def local(q, k, v, score_mod):
        def shifted(s, b, h, i, j):
            return score_mod(s, b, h, i - i.min(), j - j.min())

        return attend(q, k, v, shifted, 32)

    found = kernel.measure(rotate, local, seed=5)
    assert EVERY - reached(found) == {"output error", "gradient error"}


def test_the_maximum_is_needed_for_the_wave_alone(monkeypatch):
    draw = kernel.draw_variants

    def others(*args):
        return [variant for variant in draw(*args) if variant.name != "wave"]

    monkeypatch.setattr(kernel, "draw_variants", others)
    assert reached(measured(attention=attend_without_maximum)) >= EVERY


def test_the_logit_of_ones_own_key_is_no_maximum():
    def shifted(q, k, v, score_mod, tile):
        logits = (q * k).sum(-1) / math.sqrt(q.shape[-1])

        def less(score, b, h, i, j):
            own = score_mod(logits[:, :, i[:, 0], None], b, h, i, i)
            return score_mod(score, b, h, i, j) - own

        return attend_without_maximum(q, k, v, less, tile)

    found = measured(attention=shifted)
    assert EVERY - reached(found) >= {"output error", "gradient error"}


def test_angles_in_float32_miss():
    def rounded(x, positions):
        d = x.shape[-1]
        omega = 10000 ** (-torch.arange(0, d, 2) / d)
        angles = positions[:, None].float() * omega
        a, b = x.chunk(2, -1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

    assert measured(rounded)["rotation error"] > 100


def test_half_precision_misses():
    def half(q, k, v, score_mod):
        narrow = (t.to(torch.bfloat16).to(t.dtype) for t in (q, k, v))
        return attend(*narrow, score_mod, 32)

    assert kernel.measure(rotate, half, seed=5)["gradient error"] > 1


def test_nan_that_is_replaced_afterwards_has_no_gradient():
    def replaced(q, k, v, score_mod):
        return attend_with_empty_tiles(q, k, v, score_mod, 32).nan_to_num()

    assert kernel.measure(rotate, replaced, seed=5)["gradient error"] == math.inf


def _numpy(q, k, v, score_mod):
    return attend(q.detach(), k.detach(), v.detach(), lambda s, *_: s, 32)


def _scalars(q, k, v, score_mod):
    return score_mod(q @ k.mT, 0, 0, 0, 0) @ v


def _one_score(q, k, v, score_mod):
    return score_mod(q.sum(), *torch.zeros(4, dtype=torch.int64)) + v


def _misplaced(q, k, v, score_mod):
    heads = torch.arange(q.shape[1])
    at = torch.zeros(1, dtype=torch.int64)
    return score_mod(q @ k.mT, at, heads[:, None, None, None], at, at) @ v


@pytest.mark.parametrize(
    ("answers", "error", "match"),
    [
        ((lambda x, p: x[..., :2], attend), ValueError, "rotate must return shape"),
        ((lambda x, p: x.half(), attend), ValueError, r"must return torch\.float32"),
        ((rotate, lambda q, k, v, mod: q[:1]), ValueError, "attend must return shape"),
        ((rotate, _scalars), TypeError, "a tensor of integers as b, got 0"),
        ((rotate, _one_score), ValueError, "needs a tile of scores, .* FlexAttention"),
        ((rotate, _misplaced), ValueError, "that broadcast to the score's shape"),
        ((rotate, _numpy), ValueError, "attend has no gradient"),
    ],
)
def test_what_is_no_answer_is_refused(answers, error, match):
    with pytest.raises(error, match=match):
        kernel.measure(*answers, seed=5)


def test_threads_are_restored():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(NotImplementedError):
            kernel.measure(_unwritten, attend, seed=5)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def _unwritten(x, positions):
    raise NotImplementedError


def test_the_answers_are_named():
    assert len(kernel.PROJECT.answers) == len(ANSWERS)
