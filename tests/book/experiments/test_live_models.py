"""Small models for the page: their files, weights and provenance."""

import json
import re

import numpy as np
import pytest
import torch

from posedu.book.experiments import live_models
from posedu.book.experiments.characters import CONDITIONS, KNOWN, Model, Settings
from support import ROOT

FOLDER = ROOT / "book" / "_static" / "models"
TINY = Settings(steps=2, batch=2, length=8, tested=2)


def test_rounding_is_at_most_half_a_step_of_the_row():
    weight = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    weight[2], weight[3] = 0, weight[3] * 1e-4
    integers, scales = live_models.quantize(weight)
    assert integers.dtype == np.int8 and abs(integers.astype(int)).max() == 127
    error = abs(integers * scales[:, None] - weight.numpy())
    assert (error <= scales[:, None] * 0.5001).all()
    assert scales[2] == 1 and not integers[2].any()
    assert integers[3].any()


@pytest.mark.parametrize("encoding", live_models.ENCODINGS)
def test_a_file_gives_back_the_weights_of_its_model(encoding, tmp_path):
    first = live_models.trained(encoding, TINY)
    live_models.write(first, tmp_path)
    content = live_models.read(tmp_path / f"{encoding}.js")
    assert content == json.loads(json.dumps(first))
    weights = live_models.unpacked(content)
    model = live_models.model_of(content)
    for name, value in model.named_parameters():
        stored = weights[name]
        assert torch.equal(value[: len(stored)], stored)
        assert not value[len(stored) :].any()
    untrained = Model(CONDITIONS[encoding], TINY, live_models.SEED)
    assert not torch.equal(untrained.answer.weight, model.answer.weight)
    again = live_models.trained(encoding, TINY)
    assert again["data"] == first["data"] and again["loss"] == first["loss"]


@pytest.mark.parametrize("encoding", live_models.ENCODINGS)
def test_the_models_of_the_site_are_small_and_say_how_they_were_made(encoding):
    path = FOLDER / f"{encoding}.js"
    assert path.stat().st_size <= 120_000
    content = live_models.read(path)
    assert content["encoding"] == encoding and content["characters"] == KNOWN
    made = Settings(**content["settings"])
    assert made == Settings(text=made.text)
    assert content["rate"] == live_models.RATE
    provenance = content["provenance"]
    assert provenance["seed"] == live_models.SEED
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", provenance["date"])
    assert {"python", "posedu", "torch", "numpy"} <= provenance["versions"].keys()
    assert abs(content["loss"] - content["bits"]["64"]) < 0.05


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "rope.js"
    path.write_text("posedu.models.fox = {};\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"must be `posedu\.models\.rope = …;`"):
        live_models.read(path)


def test_the_command_writes_what_it_is_asked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(live_models, "Settings", lambda: TINY)
    monkeypatch.setattr(
        live_models,
        "trained",
        lambda name, settings: {"encoding": name, "bits": {str(settings.length): 1.0}},
    )
    folder = tmp_path / "models"
    arguments = ["--out", str(folder), "--encodings", "rope", "fox"]
    assert live_models.main(arguments) == 0
    assert {path.name for path in folder.iterdir()} == {"rope.js", "fox.js"}
    assert "rope: {'8': 1.0} bits per character" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        live_models.main(["--out", str(folder), "--encodings", "x"])
