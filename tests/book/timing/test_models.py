"""Times of decoding and training: what is timed computes the same thing."""

import pytest
import torch

from posedu.book.timing import Timing, models
from posedu.torch import RoPE, Transformer

SIZES = {"WIDTH": 16, "HEADS": 4, "KV_HEADS": 2, "LAYERS": 2, "D": 4}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for name, size in SIZES.items():
        monkeypatch.setattr(models, name, size)
    monkeypatch.setattr(models, "BATCHES", {3: 2, 5: 1})
    monkeypatch.setattr(torch, "compile", lambda step, fullgraph: step)


COMPILED = {f"{name}, compiled" for name in models.COMPILED}


@torch.no_grad()
def test_the_plain_loop_is_the_model_without_an_encoding():
    loop = models.PlainLoop(capacity=9)
    model = Transformer(16, 4, 2, kv_heads=2)
    model.blocks = loop.blocks
    x = torch.randn(1, 7, 16)
    steps = [loop.step(x[:, n : n + 1], n) for n in range(7)]
    ours = torch.cat([model.norm(step) for step in steps], 1)
    torch.testing.assert_close(ours, model(x), rtol=0, atol=1e-5)
    late = loop.step(x[:, 6:], 5)  # Mutant: one token less in the cache.
    assert (late - steps[-1]).abs().max() > 1e-3


@torch.no_grad()
def test_every_step_adds_a_token_and_the_loop_starts_again():
    steps = models.decoding_steps(4, 3, with_llama=False)
    assert {*steps} == {models.LOOP, *models.ENCODINGS, *COMPILED}
    assert next(iter(steps)) == models.LOOP
    for step in steps.values():
        for _ in range(7):
            assert step().isfinite().all()


@torch.no_grad()
def test_a_compiled_step_computes_what_the_model_does():
    model = Transformer(16, 4, 2, kv_heads=2, encoding=RoPE(4, layout="half"))
    caches = models._filled(model, 5)
    slots = [models.slots_of(cache, 8) for cache in caches]
    torch.manual_seed(0)
    step = models._decode_compiled(model, slots, 5)
    found = torch.cat([step() for _ in range(3)], 1)
    torch.manual_seed(0)
    step = models._decode(model, caches)
    expected = torch.cat([step() for _ in range(3)], 1)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_both_results_are_saved_and_read(tmp_path):
    made = (
        models.time_decoding((3, 5), repeats=2, save_to=tmp_path / "decoding.json"),
        models.time_training((3, 5), repeats=2, save_to=tmp_path / "training.json"),
    )
    for result in made:
        assert result.complete
        stored = Timing.load(tmp_path / f"{result.name}.json")
        assert stored == result
        assert {r.length for r in stored.records} == {3, 5}
        names = {r.candidate for r in stored.records} - {models.LLAMA}
        of_decoding = COMPILED if result.name == "decoding" else set()
        assert names == {*models.ENCODINGS} | of_decoding
        assert result.name.capitalize() in result.caption()
    steps = models.training_steps(3)
    assert [g.shape for g in steps["RoPE"]()] == [
        p.shape for p in Transformer(16, 4, 2).parameters()
    ]


def test_the_command_writes_two_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(models, "keep_memory", lambda: None)
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    sizes = ["--contexts", "2", "--lengths", "3", "--repeats", "1"]
    sizes += ["--training-repeats", "1"]
    assert models.main([*sizes, "--folder", str(tmp_path)]) == 0
    assert {p.name for p in tmp_path.iterdir()} == {
        "decoding-cpu.json",
        "training-cpu.json",
    }
    assert "decode a token" in capsys.readouterr().out
