"""The context-extension experiment: changes of models, and stored results."""

import json
import math
from dataclasses import replace
from itertools import product

import pytest
import torch

from posedu.book.experiments import characters, context_extension
from posedu.book.experiments.characters import CHOOSING, standard_library
from posedu.book.experiments.context_extension import (
    FACTORS,
    METHOD,
    METHODS,
    MODELS,
    TRIED,
    Model,
    Result,
    Settings,
    label,
    labels,
)
from posedu.torch import Encoding, LogN, RoPE
from support import ROOT

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = Settings(steps=2, batch=3, length=8, heads=2, d=4, tested=5, tuning=1)


@pytest.fixture(scope="module")
def run():
    return context_extension.run(1e-2, "rope", 3, SMALL)


def model_of(model, **changes):
    with torch.random.fork_rng(devices=[]):
        return Model(model, SMALL, 0, **changes)


def encodings_of(model):
    return [block.attention.encoding for block in model.trunk.blocks]


def test_the_model_with_windows_turns_near_and_sees_far():
    """Layers that turn have a window, those that see everything do not turn."""
    model = model_of("windows", method="log-n", factor=4, length=32)
    near, far = encodings_of(model)
    assert type(near) is RoPE and type(far) is LogN and far.over is None
    windows = [block.attention.window for block in model.trunk.blocks]
    assert windows == [SMALL.length // 4, None]
    assert [type(e) for e in encodings_of(model_of("windows"))] == [RoPE, Encoding]


@pytest.mark.parametrize("method", METHODS)
def test_a_method_changes_rope_and_nothing_else(method):
    trained = model_of("rope")
    longer = model_of("rope", method=method, factor=4, length=32)
    longer.load_state_dict(trained.state_dict())
    x = torch.randint(10, (2, 32), generator=torch.Generator().manual_seed(0))
    moved = (longer(x) - trained(x)).abs().max()
    assert (moved == 0) == (method == "none")
    for own in encodings_of(longer):
        turning = own.over if method == "log-n" else own
        assert isinstance(turning, RoPE) and turning.d == SMALL.d


def test_a_temperature_is_1_within_the_training_length():
    """And ln n/ln L beyond: 2 at n = L²."""
    own, _ = encodings_of(model_of("rope", method="log-n", factor=8, length=64))
    q = torch.ones(1, 1, 3, 4, dtype=torch.float64)
    at = torch.tensor([0, SMALL.length - 1, SMALL.length**2 - 1])
    over = own.over.rotate(q, q, at)[0]
    ratio = (own.rotate(q, q, at)[0] / over)[0, 0, :, 0]
    torch.testing.assert_close(ratio, torch.tensor([1.0, 1.0, 2.0]).double())


def test_a_run_has_all_its_labels(run):
    near = str(SMALL.length)
    assert {*run.bits} == {near, *labels("rope")}
    assert len(labels("rope")) == len(METHODS) * (2 * len(FACTORS) + 1)
    assert len(labels("windows")) == len(TRIED["windows"]) * (2 * len(FACTORS) + 1)
    assert all(0 < value < 20 for value in run.bits.values())


def test_dynamic_is_plain_at_the_trained_length(run):
    """Two methods change nothing at the trained length: dynamic NTK, and log-n, whose
    temperature is 1 there."""
    near = run.bits[str(SMALL.length)]
    same = {m for m in METHODS if run.bits[label(m, FACTORS[-1], "near")] == near}
    assert same == {"none", "ntk-dynamic", "log-n"}
    for factor in FACTORS:
        for how in ("plain", "tuned"):
            own, other = (
                run.bits[label(m, factor, how)] for m in ("ntk-dynamic", "ntk")
            )
            assert own == other


def test_tuning_starts_from_the_trained_model(run):
    """At a rate of nothing it changes nothing."""
    text = standard_library()
    trained = model_of("rope")
    windows = characters.test_windows(text, SMALL, 3)
    still = context_extension.extended_bits(
        trained, "rope", text, windows, SMALL, 0.0, 3
    )
    for method in METHODS:
        plain, tuned = (still[label(method, 2, how)] for how in ("plain", "tuned"))
        assert plain == tuned
        assert (
            run.bits[label(method, 2, "plain")] != run.bits[label(method, 2, "tuned")]
        )


def test_tuning_is_at_the_new_length_with_as_many_tokens(monkeypatch):
    seen = []

    def fit(model, text, settings, rate, seed):
        seen.append((settings.length, settings.batch, settings.steps, rate))

    monkeypatch.setattr(context_extension, "fit", fit)
    settings = replace(SMALL, batch=8)
    text = standard_library()
    windows = characters.test_windows(text, settings, 3)
    with torch.random.fork_rng(devices=[]):
        trained = Model("windows", settings, 0)
    context_extension.extended_bits(trained, "windows", text, windows, settings, 1.0, 3)
    assert seen == [(8 * f, 8 // f, 1, 0.1) for _ in TRIED["windows"] for f in FACTORS]


@pytest.mark.slow
def test_a_file_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr("posedu.book.experiments.characters.RATES", (1e-2, 3e-2))
    path = tmp_path / "stretched.json"
    how = dict(seeds=1, settings=SMALL, save_to=path)
    result = context_extension.experiment(models=["rope"], **how)
    made = len(result.runs)
    assert made == 2 * len(CHOOSING) + 1
    result = context_extension.experiment(**how)
    assert len(result.runs) == made + 3 and result.complete
    assert result.encodings() == list(MODELS)
    table = str(result)
    assert all(method.title in table for method in METHODS.values())
    assert math.isfinite(result.values("windows", label("log-n", 8, "tuned")).item())
    stored = json.loads(path.read_text("utf-8"))
    del stored["runs"][-1]["bits"][label("none", 2, "plain")]
    path.write_text(json.dumps(stored))
    with pytest.raises(ValueError, match="must have bits of"):
        Result.load(path)


REFUSED = {
    "no model that chooses": (
        lambda: context_extension.experiment(models=["windows"]),
        "rope must be among the models",
    ),
    "an unknown model": (
        lambda: context_extension.experiment(models=["rope", "nope"]),
        "model must be 'rope' or ",
    ),
    "no tuning": (
        lambda: context_extension.experiment(settings=replace(SMALL, tuning=0)),
        "tuning must be a positive multiple",
    ),
    "another text": (
        lambda: context_extension.experiment(settings=replace(SMALL, text="0")),
        "the settings are of the text 0",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_experiment_is_refused(case):
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_the_committed_result_is_whole():
    result = Result.load(ROOT / "book/data/context-extension-cpu.json")
    text = result.settings.text
    assert result.settings == Settings(text=text) and result.method == METHOD
    assert result.complete and result.encodings() == list(MODELS)
    assert {run.seed for run in result.choosing()} == {*CHOOSING}
    reported = {(run.encoding, run.seed) for run in result.reported()}
    assert reported == {*product(MODELS, range(3, 8))}
    assert all(made["commit"].isalnum() for made in result.made())
