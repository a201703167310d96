"""The characters of the hybrids experiment: its models, its lengths and a run."""

import pytest
import torch

from posedu.book.experiments import characters, hybrids, sequences
from posedu.book.experiments.characters import CHARACTERS, text_of
from posedu.book.experiments.hybrid_characters import (
    MULTIPLES,
    Result,
    Settings,
    experiment,
    model_of,
)

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = Settings(steps=2, batch=3, length=8, heads=2, d=4, tested=3)


@pytest.mark.parametrize("name", hybrids.CONDITIONS)
def test_models_are_those_of_the_tasks(name):
    condition, task = hybrids.CONDITIONS[name], hybrids.TASKS["swaps"]
    with torch.random.fork_rng(devices=[]):
        of_tasks = sequences.Model(condition, task, hybrids.Settings(), seed=0)
        model = model_of(name, Settings(d=hybrids.Settings().d), seed=0)
    kinds, expected = (
        [type(block.attention.encoding) for block in m.trunk.blocks]
        for m in (model, of_tasks)
    )
    assert kinds == expected
    assert model.answer.out_features == CHARACTERS


def test_windows_are_64_times_as_long_and_end_alike():
    windows = characters.test_windows(text_of(SMALL), SMALL, 1, MULTIPLES[-1])
    assert windows.shape == (3, 64 * 8 + 1)


@pytest.mark.parametrize("name", ("recurrent", "three-rope"))
def test_what_comes_later_is_not_seen(name):
    model = model_of(name, SMALL, 0).double().eval()
    shown = torch.randint(CHARACTERS, (2, 12))
    changed = shown.clone()
    changed[:, -1] = (changed[:, -1] + 1) % CHARACTERS
    with torch.no_grad():
        before, after = (model(t)[:, :-1] for t in (shown, changed))
    torch.testing.assert_close(before, after, rtol=0, atol=1e-12)


def test_a_run_is_stored_and_read(tmp_path):
    path = tmp_path / "hybrid-characters.json"
    names = ("one-rope", "recurrent")
    result = experiment(seeds=1, settings=SMALL, encodings=names, save_to=path)
    stored = Result.load(path)
    assert result.complete and {r.key for r in stored.runs} == {(n, 1) for n in names}
    assert [*stored.runs[0].bits] == ["8", "32", "128", "512"]
    assert stored.encodings() == ["recurrent", "one-rope"]  # as they are shown
    assert len(stored.bits("recurrent", 512)) == 1
    assert "1 : 1 with RoPE" in str(stored)
