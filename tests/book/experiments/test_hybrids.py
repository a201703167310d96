"""The hybrids experiment: its models, layer by layer, and a run."""

import pytest
import torch

from posedu.book.experiments.hybrids import (
    CONDITIONS,
    TASKS,
    Result,
    Settings,
    experiment,
)
from posedu.book.experiments.sequences import Model
from posedu.torch import Encoding, GatedDeltaNet, RoPE

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = Settings(steps=2, batch=3, length=24, heads=2, d=4, tested=3)
R, N, P = GatedDeltaNet, Encoding, RoPE
LAYERS = {
    "none": (N, N, N, N),
    "rope": (P, P, P, P),
    "recurrent": (R, R, R, R),
    "three-none": (R, R, R, N),
    "three-rope": (R, R, R, P),
    "one-none": (R, N, R, N),
    "one-rope": (R, P, R, P),
}


def model_of(name, task="swaps", settings=SMALL):
    with torch.random.fork_rng(devices=[]):
        return Model(CONDITIONS[name], TASKS[task], settings, seed=0)


@pytest.mark.parametrize("name", CONDITIONS)
def test_each_layer_has_the_encoding_of_its_place(name):
    encodings = [block.attention.encoding for block in model_of(name).trunk.blocks]
    assert tuple(map(type, encodings)) == LAYERS[name]
    assert len({*map(id, encodings)}) == 4


def test_all_models_start_from_the_same_weights_and_sizes_differ_by_gates_alone():
    models = {name: model_of(name, settings=Settings()) for name in CONDITIONS}
    first = dict(models["none"].named_parameters())
    counts = []
    for model in models.values():
        given = dict(model.named_parameters())
        for name, weight in first.items():
            assert torch.equal(weight, given[name])
        assert all("encoding" in name for name in given.keys() - first.keys())
        counts.append(sum(p.numel() for p in given.values()))
    assert max(counts) < 1.02 * min(counts)


@pytest.mark.parametrize("task", TASKS)
def test_a_model_reads_no_later_token(task):
    model = model_of("three-none", task).double().eval()
    generator = torch.Generator().manual_seed(0)
    tokens, _ = TASKS[task].make(2, 24, 24, generator)
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % TASKS[task].tokens
    with torch.no_grad():
        before, after = (model(t)[:, :-1] for t in (tokens, changed))
    torch.testing.assert_close(before, after, rtol=0, atol=1e-12)


def test_a_run_is_stored_and_read(tmp_path):
    path = tmp_path / "hybrids.json"
    result = experiment(
        seeds=1,
        settings=SMALL,
        tasks=("n-back",),
        encodings=("one-none",),
        save_to=path,
    )
    (made,) = Result.load(path).runs
    assert result.complete and made.key == ("n-back", "one-none", 1)
    assert [*made.accuracy] == ["24", "48", "96", "192", "384"]
    assert "1 : 1 with attention" in str(Result.load(path))
