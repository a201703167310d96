"""The needles experiment: its questions, conditions and stored results."""

import json
import math
from itertools import product

import numpy as np
import pytest
import torch

from posedu.book.experiments import needles, sequences
from posedu.book.experiments.context_extension import (
    FACTORS,
    METHODS,
    TEMPERATURES,
)
from posedu.book.experiments.needles import (
    FACTS,
    LETTERS,
    METHOD,
    MODELS,
    TASK,
    TITLES,
    TRIED,
    Result,
    Run,
    Settings,
    factors,
    label,
    labels,
)
from posedu.book.experiments.sequences import IGNORED
from posedu.numpy.scaling import log_n_temperature
from posedu.torch import Encoding, LogN, RoPE
from support import ROOT

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = Settings(steps=2, batch=3, length=24, heads=2, d=4, tested=5)


def batch_of(length, batch=200, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return needles.needles(batch, length, SMALL.length, generator)


@pytest.mark.parametrize("length", [24, 25, 77])
def test_a_mark_asks_for_the_letter_that_followed_it(length):
    tokens, labels = batch_of(length)
    for row, asked in zip(tokens.tolist(), labels.tolist(), strict=True):
        noise, questions = row[:-FACTS], row[-FACTS:]
        assert sorted(questions) == [*range(LETTERS, LETTERS + FACTS)]
        answers = [noise[noise.index(mark) + 1] for mark in questions]
        assert asked == [IGNORED] * (length - FACTS) + answers
        assert all(noise.count(mark) == 1 for mark in questions)
        assert all(answer < LETTERS for answer in answers)


def test_letters_places_and_orders_are_all_that_they_can_be():
    tokens, labels = batch_of(26, batch=2000)
    first = (tokens == LETTERS).float().argmax(-1)
    assert {*first.tolist()} == {*range(0, 18, 2)}  # of 18 of noise
    assert {*labels[:, -1].tolist()} == {*range(LETTERS)}
    assert {*tokens[:, -1].tolist()} == {*range(LETTERS, LETTERS + FACTS)}
    counts = torch.bincount(labels[labels != IGNORED], minlength=LETTERS)
    expected = counts.sum() / LETTERS
    assert ((counts - expected).abs() < 5 * expected**0.5).all()


def test_the_same_seed_makes_the_same_texts():
    assert all(map(torch.equal, batch_of(40, seed=3), batch_of(40, seed=3)))
    assert not torch.equal(batch_of(40, seed=3)[0], batch_of(40, seed=4)[0])


def test_a_text_too_short_for_its_facts_is_refused():
    with pytest.raises(ValueError, match="need a length of at least 24, got 23"):
        batch_of(23)
    with pytest.raises(ValueError, match="batch must be a positive"):
        batch_of(24, batch=0)


@pytest.mark.parametrize("model", MODELS)
def test_a_run_has_all_its_labels(model):
    made = needles.run(model, 1, SMALL)
    assert {*made.accuracy} == {*labels(model)}
    assert len(made.accuracy) == 1 + len(TRIED[model]) * len(factors(model))


def test_it_is_asked_as_trained_and_by_each_method(monkeypatch):
    """At a longer length by the method's own encodings, with the trained weights."""
    seen = []

    def test(model, task, length, settings, seed):
        kinds = [type(block.attention.encoding) for block in model.trunk.blocks]
        seen.append((length, kinds, model.answer.weight.sum().item()))
        return 0.5

    monkeypatch.setattr(needles, "test", test)
    needles.run("windows", 1, SMALL)
    lengths = [f * SMALL.length for f in factors("windows")]
    longer = lengths * len(TRIED["windows"])
    assert [length for length, *_ in seen] == [SMALL.length, *longer]
    assert len({weights for *_, weights in seen}) == 1
    plain = seen[1][1]
    assert plain == [RoPE, Encoding]
    assert all(kinds == plain for _, kinds, _ in seen[: 1 + len(lengths)])
    assert all(kinds == [RoPE, LogN] for _, kinds, _ in seen[1 + len(lengths) :])


@pytest.mark.parametrize("name", TEMPERATURES)
def test_temperatures_are_those_of_the_reference(name):
    """The training length stands in place of the shipped one."""
    growth, index_from = {
        "log-n": ("floor", 1),
        "llama4": ("steps", 1),
        "ministral3": ("steps", 0),
        "inkling2": ("floor", 1),
        "beam": ("power", 1),
    }[name]
    alpha = 1 / math.log(24) if name == "log-n" else 0.1
    made = TEMPERATURES[name].make(None, 24, 8, 192)
    q = torch.ones(1, 1, 192, 1, dtype=torch.float64)
    found, _ = made.rotate(q, q, range(192))
    expected = log_n_temperature(
        np.arange(192), growth=growth, index_from=index_from, alpha=alpha, length=24
    )
    np.testing.assert_allclose(found[0, 0, :, 0], expected, rtol=4e-16)
    assert expected[-1] > 1.2


def test_the_trained_temperature_is_of_the_nope_layers():
    model = needles._model("windows-learned", SMALL, 1)
    first, second = (block.attention.encoding for block in model.trunk.blocks)
    assert type(first) is RoPE and second.growth == "learned"


def test_whoever_copies_after_the_mark_is_always_right():
    """Every question has an answer in the text, at every length."""

    class Oracle(torch.nn.Module):
        def forward(self, tokens):
            marks = tokens[:, -FACTS:, None] == tokens[:, None, :-FACTS]
            found = tokens.gather(1, marks.float().argmax(-1) + 1)
            said = torch.zeros(*tokens.shape, dtype=torch.long)
            said[:, -FACTS:] = found
            return torch.nn.functional.one_hot(said, LETTERS).float()

    for factor in (1, *FACTORS):
        length = factor * SMALL.length
        generator = torch.Generator().manual_seed(1)
        tokens, asked = TASK.make(4, length, SMALL.length, generator)
        right = Oracle()(tokens).argmax(-1) == asked
        assert right[asked != IGNORED].all()


def test_a_file_goes_on_where_it_was(tmp_path):
    path = tmp_path / "needles.json"
    how = dict(settings=SMALL, save_to=path)
    assert len(needles.experiment(models=["rope"], seeds=1, **how).runs) == 1
    result = needles.experiment(seeds=1, **how)
    assert result.complete and result.encodings() == list(MODELS)
    assert all(title in str(result) for title in TITLES.values())
    assert math.isfinite(result.accuracy("windows", "log-n", 8).item())
    near = [result.accuracy("rope", method, 1) for method in METHODS]
    assert len({value.item() for value in near}) == 1
    stored = json.loads(path.read_text("utf-8"))
    del stored["runs"][0]["accuracy"][label("pi", 2)]
    path.write_text(json.dumps(stored))
    with pytest.raises(ValueError, match="must have accuracies at trained, none × 2"):
        Result.load(path)


def test_a_model_has_learned_the_task_from_95_percent_on():
    shares = [0.94, 0.95, 1.0]
    runs = [
        Run(
            encoding="windows-learned",
            seed=seed,
            accuracy=dict.fromkeys(labels("windows-learned"), share),
            loss=0.0,
            seconds=0.0,
        )
        for seed, share in enumerate(shares, 1)
    ]
    learned = Result(METHOD, SMALL, runs).learned("windows-learned")
    assert learned.tolist() == [False, True, True]


def test_what_is_no_experiment_is_refused():
    with pytest.raises(ValueError, match="model must be 'rope' or 'rope-500'"):
        needles.experiment(models=["nope"])
    with pytest.raises(ValueError, match="model must be 'rope' or 'rope-500'"):
        Run(encoding="pi", seed=1, accuracy={}, loss=0.0, seconds=0.0)
    with pytest.raises(ValueError, match="steps must be a positive"):
        needles.experiment(settings=Settings(steps=0))
    assert issubclass(Settings, sequences.Settings)


def test_the_committed_result_is_whole():
    result = Result.load(ROOT / "book/data/needles-cpu.json")
    assert result.settings == Settings() and result.method == METHOD
    assert result.complete
    trained = {(run.encoding, run.seed) for run in result.runs}
    assert trained == {*product(MODELS, range(1, 6))}
    assert all(made["commit"].isalnum() for made in result.made())
