"""New angles beyond the training length: what each change at the test hides."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from posedu.book.experiments import new_angles
from posedu.book.experiments.new_angles import (
    CHANGES,
    FACTORS,
    MODELS,
    CappedRoPE,
    Model,
    Result,
    Run,
    Settings,
    base,
    label,
)
from posedu.numpy.frequencies import frequencies
from posedu.torch import RoPE, attend

SMALL = Settings(steps=1, batch=2, length=8, heads=2, d=8, tested=2)
ATOL = 1e3 * torch.finfo(torch.float64).eps


def by_hand(q, k, w, capped, cap):
    """Logits pair by pair: the real part of q · conj(k) times e^(i ω offset)."""
    half = len(w)
    q, k = (torch.complex(x[..., :half], x[..., half:]) for x in (q, k))
    positions = torch.arange(q.shape[-2])
    offsets = (positions[:, None] - positions)[..., None].expand(-1, -1, half)
    offsets = torch.where(torch.tensor(capped), offsets.clamp(max=cap), offsets)
    rotated = torch.exp(1j * offsets * torch.tensor(w))
    products = q[..., :, None, :] * k[..., None, :, :].conj()
    return (products * rotated).real.sum(-1) / (2 * half) ** 0.5


@pytest.mark.parametrize("capped", [[1, 1, 1], [0, 1, 0], [0, 0, 0]])
def test_offsets_are_capped_in_the_pairs_that_are_named(capped):
    w, capped = frequencies(6), np.array(capped, dtype=bool)
    q, k, v = torch.randn(3, 1, 2, 9, 6, dtype=torch.float64)
    rope = RoPE(6, layout="half")
    out = attend(q, k, v, CappedRoPE(rope, capped, 4))
    mask = torch.ones(9, 9).tril().bool()
    logits = by_hand(q, k, w, capped, 4).masked_fill(~mask, -torch.inf)
    torch.testing.assert_close(out, logits.softmax(-1) @ v, rtol=0, atol=ATOL)
    same = torch.allclose(out, attend(q, k, v, rope), rtol=0, atol=ATOL)
    assert same == (not capped.any())


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("model", MODELS)
def test_within_the_training_length_no_change_changes_anything(model, change):
    with torch.random.fork_rng(devices=[]):
        plain, changed = (
            Model(model, SMALL, 0, how).double() for how in ("none", change)
        )
        tokens = torch.randint(90, (2, 2 * SMALL.length))
    near = slice(SMALL.length)
    one, other = plain(tokens), changed(tokens)
    torch.testing.assert_close(one[:, near], other[:, near], rtol=0, atol=ATOL)
    is_same = change == "none" or (change, model) == ("unturned pairs", "rope-turned")
    assert ((one - other)[:, SMALL.length :].abs().max() > 1e-6) != is_same


def test_the_slowest_pair_completes_a_turn():
    for settings in (SMALL, Settings()):
        own = frequencies(settings.d, base=base("rope-turned", settings))
        assert own[-1] * (settings.length - 1) == pytest.approx(2 * np.pi)
        assert own[0] == 1
    assert base("rope", SMALL) == 10_000


def test_a_run_has_bits_for_every_change_and_repeats():
    run = new_angles.run("rope", 1, SMALL)
    assert {*run.bits} == {"8", *(label(*c) for c in product(CHANGES, FACTORS))}
    again = new_angles.run("rope", 1, SMALL)
    assert replace(run, seconds=0.0) == replace(again, seconds=0.0)
    assert len({run.bits[label(change, 8)] for change in CHANGES}) == len(CHANGES)
    with pytest.raises(ValueError, match="'rope-turned', got 'alibi'"):
        replace(run, encoding="alibi")


def test_the_parts_add_up_to_the_whole(tmp_path):
    path = tmp_path / "new-angles.json"
    result = new_angles.experiment(
        models=["rope", "rope-turned"], seeds=2, settings=SMALL, save_to=path
    )
    assert result.complete and Result.load(path) == result
    whole = result.bits("rope", label("none", 4))
    parts = sum(result.cost("rope", part, 4) for part in (1, 2, 3))
    start = result.bits("rope", label("window", 4))
    np.testing.assert_allclose(start + parts, whole, rtol=0, atol=1e-12)
    head, *rows = result.rows()
    assert len(rows) == 2 * len(CHANGES) and len(head) == 2 + len(FACTORS)
    missing = replace(result.runs[0], bits={"8": 1.0})
    path.write_text(path.read_text("utf-8"), "utf-8")
    with pytest.raises(ValueError, match="must have bits of"):
        Result("", SMALL, [missing])._require_sound()
    assert isinstance(result.runs[0], Run)
