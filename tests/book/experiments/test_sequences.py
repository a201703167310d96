"""Content-dependent positions: the tasks, the encodings and the stored results."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch.nn import functional

from posedu.book.experiments import parallel, runs, sequences, training
from posedu.book.experiments.parallel import finished_runs
from posedu.book.experiments.sequences import (
    ALL,
    CONDITIONS,
    COPIED,
    IGNORED,
    LARGEST_COUNT,
    MULTIPLES,
    TASKS,
    Model,
    Result,
    Settings,
)
from posedu.book.provenance import provenance
from posedu.torch import (
    TAPE,
    CoPE,
    Encoding,
    FoX,
    RoPE,
    StickBreaking,
    tiled_attention,
)
from support import ROOT
from support.known_runs import MADE

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = Settings(steps=3, batch=4, length=16, heads=2, d=4, tested=6)
EPS = torch.finfo(torch.float64).eps
ACCURATE = {str(m * SMALL.length): 1.0 for m in MULTIPLES}
SHORTEST = {"count": 1, "copy": 2 * COPIED, "recall": 1, "n-back": 1}


def batch_of(task, batch, length, trained, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return TASKS[task].make(batch, length, trained, generator)


def model_of(name, task="recall", seed=0, settings=SMALL):
    with torch.random.fork_rng(devices=[]):
        return Model(ALL[name], TASKS[task], settings, seed)


# --- The tasks: what is asked after a token, from it and those before it alone


def count_since_reset(seen):
    last = max(i for i, token in enumerate(seen) if token == 0)
    return seen[last:].count(1)


def letter_to_come(seen):
    if 1 not in seen:
        return IGNORED
    begin = seen.index(1)
    letters = [token - 2 for token in seen[:begin] if token]
    said = len(seen) - begin - 1
    return letters[said]


def value_of_key(seen, back=1):
    *before, token = seen
    if token < 32:
        return IGNORED
    values = [t % 8 for t in before if t < 32 and t // 8 == token - 32]
    return values[-back] if len(values) >= back else IGNORED


ANSWERS = {
    "count": count_since_reset,
    "copy": letter_to_come,
    "recall": value_of_key,
    "n-back": lambda seen: value_of_key(seen, back=2),
}


@pytest.mark.parametrize("task", TASKS)
@given(data=st.data(), seed=st.integers(0, 2**63 - 1), trained=st.integers(1, 64))
def test_every_label_is_the_answer_that_the_tokens_so_far_give(
    task, data, seed, trained
):
    length = data.draw(st.integers(SHORTEST[task], 96))
    tokens, labels = batch_of(task, 2, length, trained, seed)
    assert tokens.shape == labels.shape == (2, length)
    for row, asked in zip(tokens.tolist(), labels.tolist(), strict=True):
        assert asked == [ANSWERS[task](row[: i + 1]) for i in range(length)]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("times", MULTIPLES)
def test_every_token_and_label_occurs_and_no_other(task, times):
    tokens, labels = batch_of(task, 256, 64 * times, 64)
    assert tokens.unique().tolist() == [*range(TASKS[task].tokens)]
    assert labels[labels != IGNORED].unique().tolist() == [*range(TASKS[task].labels)]


def near(values, expected):
    """Return whether the mean of independent values is within 5 standard errors."""
    values = np.asarray(values, dtype=float)
    return abs(values.mean() - expected) < 5 * stats.sem(values)


@pytest.mark.parametrize("times", MULTIPLES)
def test_counting_at_k_times_the_length_has_as_many_resets_and_increments(times):
    trained, (reset, increment) = 64, np.array([1 / 16, 1 / 4]) / times
    stay = 1 - reset - increment
    step = stay * np.eye(LARGEST_COUNT + 1) + increment * np.eye(LARGEST_COUNT + 1, k=1)
    step[:, 0] += reset
    step[-1, 0] += increment
    chances, resets, increments = np.eye(LARGEST_COUNT + 1)[0], 1.0, 0.0
    for _ in range(times * trained - 1):
        resets += reset + increment * chances[-1]
        increments += increment * (1 - chances[-1])
        chances = chances @ step
    tokens, _ = batch_of("count", 2000, times * trained, trained)
    assert near((tokens == 0).sum(1), resets)
    assert near((tokens == 1).sum(1), increments)


@pytest.mark.parametrize("times", MULTIPLES)
def test_copying_has_eight_letters_anywhere_then_begin_then_the_letters(times):
    tokens, labels = batch_of("copy", 2000, 64 * times, 64)
    before, begin, after = tokens.split((64 * times - COPIED, 1, COPIED - 1), 1)
    is_letter = before > 1
    assert (begin == 1).all() and not (before == 1).any()
    assert (is_letter.sum(1) == COPIED).all()
    letters = before[is_letter].reshape(-1, COPIED)
    assert torch.equal(after, letters[:, :-1])
    assert torch.equal(labels[:, -COPIED:], letters - 2)
    thirds = [part.sum(1) for part in is_letter.tensor_split(3, 1)]
    sizes = [part.shape[1] for part in before.tensor_split(3, 1)]
    for found, size in zip(thirds, sizes, strict=True):
        assert near(found, COPIED * size / before.shape[1])


@pytest.mark.parametrize("task", ["recall", "n-back"])
def test_half_of_the_tokens_read(task):
    tokens, _ = batch_of(task, 2000, 64, 64)
    assert near((tokens >= 32).sum(1), 32)


@pytest.mark.parametrize("task", TASKS)
def test_sequences_are_those_of_their_generator_alone(task):
    state = torch.random.get_rng_state()
    first, again, other = (batch_of(task, 3, 64, 64, seed) for seed in (7, 7, 8))
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(map(torch.equal, first, again))
    assert not torch.equal(first[0], other[0])


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ((0, 64, 64), ValueError, "batch must be a positive .*, got 0"),
        ((2, 0, 64), ValueError, "length must be a positive .*, got 0"),
        ((2, -3, 64), ValueError, "length must be a positive .*, got -3"),
        ((2, 64, 0), ValueError, "trained must be a positive .*, got 0"),
        ((2, 64.0, 64), TypeError, "length must be an integer, got 64.0"),
    ],
)
def test_sizes_that_make_no_task_are_refused(unchecked, task, sizes, error, message):
    with pytest.raises(error, match=message):
        batch_of(task, *sizes)


@pytest.mark.parametrize("length", [1, COPIED, 2 * COPIED - 1])
def test_copying_needs_room_for_its_letters(length):
    with pytest.raises(ValueError, match=f"a length of at least 16, got {length}"):
        batch_of("copy", 2, length, 64)


def test_where_nothing_is_asked_there_is_no_mean():
    model, settings = model_of("none"), replace(SMALL, length=1)
    message = r"nothing is asked in {} sequences of 1 tokens"
    with pytest.raises(ValueError, match=message.format(SMALL.batch)):
        sequences.fit(model, TASKS["recall"], settings, 0)
    with pytest.raises(ValueError, match=message.format(SMALL.tested)):
        sequences.test(model, TASKS["recall"], 1, settings, 0)


# --- The encodings

KINDS = {
    "none": Encoding,
    "rope": RoPE,
    "fixed": FoX,
    "fox": FoX,
    "fox-spread": FoX,
    "cope": CoPE,
    "stickbreaking": StickBreaking,
    "tape": TAPE,
}


@pytest.mark.parametrize("name", ALL)
def test_every_layer_has_the_encoding_and_takes_its_route(name, monkeypatch):
    calls = []

    def spy(*arguments, **options):
        calls.append(arguments)
        return functional.scaled_dot_product_attention(*arguments, **options)

    monkeypatch.setattr(tiled_attention, "scaled_dot_product_attention", spy)
    model = model_of(name)
    kinds = [type(block.attention.encoding) for block in model.trunk.blocks]
    assert kinds == [KINDS[name]] * SMALL.layers
    model(batch_of("recall", 2, 16, 16)[0])
    assert len(calls) == (0 if ALL[name].route == "eager" else SMALL.layers)


def test_the_encodings_are_made_for_the_training_length_and_as_published():
    _, rope, fixed, fox, spread, cope, sticks = (
        condition.make(SMALL) for condition in CONDITIONS.values()
    )
    assert (rope.d, rope.layout) == (SMALL.d, "half")
    assert (fixed.gate, fox.gate, spread.gate) == ("fixed", "learned", "learned")
    assert fox.gate_bias.tolist() == [0] * SMALL.heads
    assert torch.equal(spread.gate_bias, fixed.gate_bias)
    slopes = -functional.logsigmoid(fixed.gate_bias[[0, -1]])
    assert torch.allclose(1 / slopes, torch.tensor([2.0, SMALL.length]))
    assert (cope.npos, cope.scaling) == (SMALL.length, "code")
    assert (sticks.attend_current, sticks.remainder) == (False, "drop")


@pytest.mark.parametrize(
    "name", [name for name in CONDITIONS if name != "stickbreaking"]
)
def test_the_route_changes_no_answer(name):
    tokens, _ = batch_of("recall", 2, 24, 16)
    model = model_of(name).double()
    answers = model(tokens)
    for block in model.trunk.blocks:
        block.attention.route = "eager"
    assert torch.allclose(model(tokens), answers, rtol=0, atol=1e4 * EPS)


def test_stick_breaking_has_no_stock_kernel():
    with pytest.raises(ValueError, match="only route='eager'"):
        Model(
            replace(CONDITIONS["stickbreaking"], route="sdpa"), TASKS["count"], SMALL, 0
        )


@pytest.mark.parametrize("name", ALL)
def test_outputs_do_not_depend_on_later_tokens(name):
    tokens, _ = batch_of("recall", 3, 24, 16)
    other = tokens.clone()
    other[:, 12:] = (other[:, 12:] + 1) % TASKS["recall"].tokens
    model = model_of(name).double()
    change = (model(other) - model(tokens)).abs().amax((0, 2))
    assert change[:12].max() <= 1e4 * EPS < 1e-3 < change[12:].min()


# --- Fairness


def test_all_conditions_of_a_seed_start_from_the_same_weights():
    def shared(name, seed):
        weights = model_of(name, seed=seed).state_dict()
        return {
            key: value
            for key, value in weights.items()
            if "encoding" not in key and "input" not in key
        }

    first = shared("none", 0)
    assert first.keys() == model_of("none").state_dict().keys()
    for name in ALL:
        other = shared(name, 0)
        assert other.keys() == first.keys()
        assert all(torch.equal(other[key], first[key]) for key in first), name
    assert not torch.equal(shared("none", 1)["answer.weight"], first["answer.weight"])


def recorded(name, task, seed):
    """Every batch that one run makes."""
    batches = []

    def make(*arguments):
        batches.append(TASKS[task].make(*arguments))
        return batches[-1]

    spied, model = replace(TASKS[task], make=make), model_of(name, task)
    sequences.fit(model, spied, SMALL, seed)
    sequences.test(model, spied, 32, SMALL, seed)
    return [tokens for tokens, _ in batches]


@pytest.mark.parametrize("task", TASKS)
def test_all_conditions_of_a_seed_get_the_same_sequences_and_fresh_ones_to_test(task):
    first = recorded("none", task, 0)
    assert [len(tokens) for tokens in first] == [SMALL.batch] * 3 + [SMALL.tested]
    for name in ALL:
        assert all(map(torch.equal, recorded(name, task, 0), first)), name
    assert not any(map(torch.equal, recorded("none", task, 1), first))
    rows = [tuple(row) for tokens in first for row in tokens[:, :16].tolist()]
    assert max(Counter(rows).values()) == 1


# --- Training and testing


@torch.no_grad()
def cross_entropy(model, tokens, labels):
    """Mean over the tokens that are asked, in NumPy."""
    asked = (labels != IGNORED).numpy()
    logits, wanted = model(tokens).double().numpy()[asked], labels.numpy()[asked]
    chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return -np.log(chances[np.arange(len(wanted)), wanted]).mean()


def test_the_loss_is_that_of_the_tokens_asked_in_the_last_tenth_of_the_steps():
    still = replace(SMALL, steps=20, rate=0.0)
    model, generator = model_of("rope"), torch.Generator().manual_seed(5)
    batches = [TASKS["recall"].make(4, 16, 16, generator) for _ in range(20)]
    expected = np.mean([cross_entropy(model, *batch) for batch in batches[-2:]])
    loss = sequences.fit(model, TASKS["recall"], still, 5)
    assert loss == pytest.approx(expected, rel=1e-5)


def test_training_learns():
    settings = replace(SMALL, steps=100, batch=16, rate=1e-2)
    still, trained = (
        sequences.fit(model_of("fox", "count"), TASKS["count"], given, 0)
        for given in (replace(settings, rate=0.0), settings)
    )
    assert trained < still / 2


def test_gradients_are_cut_to_length_one(monkeypatch):
    lengths = []

    class Spy(torch.optim.AdamW):
        def step(self):
            gradients = [p.grad for group in self.param_groups for p in group["params"]]
            lengths.append(torch.cat([g.flatten() for g in gradients]).norm().item())
            return super().step()

    monkeypatch.setattr(training, "AdamW", Spy)
    model = model_of("none")
    with torch.no_grad():
        model.answer.weight *= 100
    sequences.fit(model, TASKS["recall"], SMALL, 0)
    assert lengths == pytest.approx([1.0] * 3, rel=1e-5)


class Oracle(Model):
    """Answers the first ``known`` sequences right and the others wrong."""

    def __init__(self, labels, known):
        torch.nn.Module.__init__(self)
        right = torch.arange(len(labels))[:, None] < known
        self.answers = torch.where(right, labels, labels + 1).clamp(0) % 8
        self.asked = 0

    def forward(self, tokens):
        answers = self.answers[self.asked : self.asked + len(tokens)]
        self.asked += len(tokens)
        return functional.one_hot(answers, 8).float()


@pytest.mark.parametrize("task", ["copy", "recall", "n-back"])
@pytest.mark.parametrize("known", [0, 3, 20, 37])
def test_accuracy_counts_the_tokens_asked_and_no_others(task, known):
    seed, settings = 3, Settings(tested=37)
    _, labels = batch_of(task, 37, 64, 64, 10**6 + seed)
    asked = [sum(label != IGNORED for label in row) for row in labels.tolist()]
    got = sequences.test(Oracle(labels, known), TASKS[task], 64, settings, seed)
    assert got == pytest.approx(sum(asked[:known]) / sum(asked))


# --- How it trains


@pytest.mark.parametrize("steps", [1, 2, 3, 9, 10, 11, 20])
def test_few_steps_have_rates_too(steps):
    optimizer, schedule = training.optimization(
        model_of("fox"), rate=0.5, decay=0.1, steps=steps
    )
    for _ in range(steps):
        assert 0 < optimizer.param_groups[0]["lr"] <= 0.5
        optimizer.step()
        schedule.step()


def test_the_rate_rises_for_a_tenth_of_the_steps_and_falls_along_a_cosine():
    optimizer, schedule = training.optimization(
        model_of("fox"), rate=0.5, decay=0.1, steps=40
    )
    rates = []
    for _ in range(40):
        decayed, others = optimizer.param_groups
        assert decayed["lr"] == others["lr"] and decayed["betas"] == (0.9, 0.999)
        rates.append(decayed["lr"])
        optimizer.step()
        schedule.step()
    first, peak, last = 0.5 / 25, 3, 0.5 / 25e4
    falling = (1 + np.cos(np.pi * np.arange(40 - peak) / (39 - peak))) / 2
    assert rates[0] == pytest.approx(first)
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == pytest.approx(last + (0.5 - last) * falling)


# --- Runs and what is kept of them


def a_run(task="count", encoding="none", seed=1, settings=SMALL, **other):
    """A run that was never trained."""
    accuracy = {str(m * settings.length): (3 + seed) / 8 for m in MULTIPLES}
    given = dict(accuracy=accuracy, loss=0.1, seconds=0.0) | other
    return sequences.Run(task=task, encoding=encoding, seed=seed, **given)


@pytest.fixture
def counted(monkeypatch):
    """Runs that cost nothing, and the list of those that were made."""
    made = []

    def run(task, encoding, seed, settings):
        made.append((task, encoding, seed))
        if made[-1] == ("copy", "fox", 3):
            raise KeyboardInterrupt
        return a_run(task, encoding, seed, settings)

    monkeypatch.setattr(sequences.experiment, "run_one", run)
    return made


def test_a_miniature_from_the_command_line(tmp_path, capsys):
    path = tmp_path / "new" / "sequences.json"
    command = ["--tasks", "recall", "--encodings", "none", "rope", "--seeds", "1"]
    command += ["--steps", "2", "--processes", "1", "--out", str(path)]
    assert sequences.main(command) == 0
    printed = capsys.readouterr()
    assert "no encoding" in printed.out and "RoPE" in printed.out
    assert "Recall of the last value" in printed.out and str(path) in printed.out
    assert "2/2" in printed.err
    result = Result.load(path)
    assert result.complete and result.settings == Settings(steps=2)
    assert result.method == sequences.METHOD
    (made,) = result.made()
    assert made.keys() >= {"device", "date", "commit", "threads", "versions"}
    assert [run.key for run in result.runs] == [
        ("recall", "none", 1),
        ("recall", "rope", 1),
    ]
    for run in result.runs:
        assert run.accuracy.keys() == {"64", "128", "256", "512"}
        assert all(0 < accuracy < 0.5 for accuracy in run.accuracy.values())
        assert 0 < run.loss < 2 * np.log(8) and run.seconds > 0


def test_a_run_repeats_exactly_and_leaves_the_global_generator_alone():
    state = torch.random.get_rng_state()
    first, second = (sequences.run("count", "fox", 1, SMALL) for _ in range(2))
    assert replace(first, seconds=0.0) == replace(second, seconds=0.0)
    assert torch.equal(state, torch.random.get_rng_state())
    other = sequences.run("count", "fox", 2, SMALL)
    assert other.loss != first.loss and other.seed == 2


def test_an_interrupt_keeps_what_is_finished_and_a_second_call_does_the_rest(
    counted, tmp_path, capsys
):
    path = tmp_path / "sequences.json"
    options = dict(
        tasks=["count", "copy"], encodings=["none", "fox"], seeds=3, save_to=path
    )
    result = sequences.experiment(**options)
    assert "interrupted: 11 runs are saved" in capsys.readouterr().err
    assert len(result.runs) == 11 and not result.complete
    assert Result.load(path) == result
    assert result.interrupted and "not complete" in str(result)

    *before, interrupted = counted
    del counted[:]
    smaller = options | {"seeds": 2}
    assert len(sequences.experiment(**smaller).runs) == 11 and counted == []
    grown = sequences.experiment(**smaller | {"encodings": ["none", "cope"]})
    assert counted == [(t, "cope", s) for s in (1, 2) for t in ("count", "copy")]
    assert not grown.interrupted and not grown.complete and len(grown.runs) == 15
    assert Result.load(path) == grown
    assert interrupted not in before
    rest = sequences.experiment(**options)
    assert counted[4:] == [interrupted] and len(rest.runs) == 15
    del counted[:]
    whole = sequences.experiment(
        tasks=["count"], encodings=["none", "fox"], seeds=3, save_to=tmp_path / "other"
    )
    assert whole.complete and not whole.interrupted


@pytest.mark.slow
def test_an_interrupted_command_keeps_the_runs_of_its_two_processes(tmp_path):
    # Where this process ignores interrupts, so would the command.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    path = tmp_path / "sequences.json"
    options = ["--tasks", "recall", "--encodings", "none", "--seeds", "100"]
    options += ["--steps", "5", "--processes", "2", "--out", str(path)]
    command = subprocess.Popen(
        [sys.executable, "-m", "posedu.book.experiments.sequences", *options],
        cwd=ROOT,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not path.exists():
            assert command.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.killpg(command.pid, signal.SIGINT)
        printed, errors = command.communicate(timeout=60)
    finally:
        command.kill()
    result = Result.load(path)
    assert command.returncode == 130, errors
    assert 1 <= len(result.runs) < 100
    assert "not complete" in printed and "runs are saved" in errors
    kept = result.runs[0]
    alone = sequences.run(*kept.key, result.settings)
    assert kept.loss == pytest.approx(alone.loss, rel=1e-3)


def _threads(seed):
    given = dict(accuracy=ACCURATE, loss=torch.get_num_threads(), seconds=0.0)
    return sequences.Run(task="count", encoding="none", seed=seed, **given)


def test_another_process_takes_one_thread():
    torch.set_num_threads(2)
    (run,) = finished_runs(_threads, [(1,)], processes=2, dask=None, libraries=())
    assert run.loss == run.made["threads"] == 1


def test_an_interrupted_command_says_so(counted, tmp_path):
    path = str(tmp_path / "sequences.json")
    command = ["--tasks", "copy", "--encodings", "fox", "--processes", "1"]
    assert sequences.main([*command, "--out", path]) == 130
    assert len(Result.load(path).runs) == 2


def test_a_file_of_other_settings_is_refused(counted, tmp_path, capsys):
    path = tmp_path / "sequences.json"
    sequences.experiment(
        tasks=["count"], encodings=["none"], seeds=1, save_to=path, settings=SMALL
    )
    before = path.read_text("utf-8")
    with pytest.raises(SystemExit):
        sequences.main(["--tasks", "count", "--out", str(path)])
    assert "give another file" in capsys.readouterr().err
    assert path.read_text("utf-8") == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(tasks=["sort"]), "task must be 'count' or 'copy'"),
        (dict(encodings=["alibi"]), "encoding must be 'none' or 'rope'"),
        (dict(seeds=0), "seeds must be a positive"),
        (dict(processes=0), "processes must be a positive"),
        (dict(settings=Settings(steps=0)), "steps must be a positive"),
    ],
)
def test_hostile_options_are_refused(counted, tmp_path, options, message):
    path = tmp_path / "sequences.json"
    with pytest.raises(ValueError, match=message):
        sequences.experiment(**options, save_to=path)
    assert counted == [] and not path.exists()


def test_a_name_given_twice_runs_once(counted):
    sequences.experiment(tasks=["count"] * 2, encodings=["none"] * 2, seeds=2)
    assert counted == [("count", "none", 1), ("count", "none", 2)]


def test_the_table_says_means_and_intervals_of_what_was_run(counted):
    options = dict(tasks=["n-back", "count"], encodings=["fox", "none"])
    result = sequences.experiment(**options, seeds=2)
    assert result.lengths() == [64, 128, 256, 512]
    head, *rows = result.rows()
    assert head == ("accuracy in %", "encoding", *(f"L = {2**n}" for n in range(6, 10)))
    mean, half = sequences.interval(np.array([50.0, 62.5]))
    assert rows == [
        (
            TASKS[task].title,
            CONDITIONS[condition].title,
            *[f"{mean:.1f} ± {half:.1f}"] * 4,
        )
        for task, condition in product(("count", "n-back"), ("none", "fox"))
    ]
    page = result._repr_html_()
    assert page.count('scope="col"') == 6 and page.count("<tr>") == 5
    alone = sequences.experiment(**options, seeds=1)
    assert all(row[2:] == ("50.0%",) * 4 for row in [*alone.rows()][1:])


def test_accuracies_of_two_encodings_are_paired_by_seed(counted):
    result = sequences.experiment(tasks=["count"], encodings=["none", "fox"], seeds=3)
    result.runs.reverse()
    assert result.accuracy("count", "fox", 128).tolist() == [0.5, 0.625, 0.75]
    assert result.accuracy("copy", "fox", 128).tolist() == []


def test_what_cannot_be_written_leaves_the_file_as_it_was(
    counted, tmp_path, monkeypatch
):
    path, write = tmp_path / "sequences.json", Path.write_text
    options = dict(tasks=["count"], encodings=["none"], save_to=path)
    first = sequences.experiment(**options, seeds=1)

    def fill_the_disk(path, text, encoding):
        write(path, text[: len(text) // 2])
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_text", fill_the_disk)
    with pytest.raises(OSError, match="no space left"):
        sequences.experiment(**options, seeds=2)
    assert Result.load(path) == first
    assert not [*tmp_path.glob("*.part")]


@pytest.mark.parametrize("place", ["file/sequences.json", "folder"])
def test_where_nothing_can_be_written_nothing_is_trained(
    counted, tmp_path, place, capsys
):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(SystemExit) as refusal:
        sequences.main(["--processes", "1", "--out", str(tmp_path / place)])
    assert refusal.value.code == 2 and counted == []
    assert str(tmp_path) in capsys.readouterr().err


def test_two_that_write_one_file_lose_nothing(monkeypatch, tmp_path):
    """The first run of one call finds that another has done its own meanwhile."""
    path = tmp_path / "sequences.json"

    def run(task, encoding, seed, settings):
        if (encoding, seed) == ("none", 1):
            sequences.experiment(
                tasks=["count"], encodings=["rope"], seeds=2, save_to=path
            )
        return a_run(task, encoding, seed, settings)

    monkeypatch.setattr(sequences.experiment, "run_one", run)
    options = dict(tasks=["count"], encodings=["none"], seeds=2)
    result = sequences.experiment(**options, save_to=path)
    assert {run.key for run in Result.load(path).runs} == {
        ("count", name, seed) for name in ("none", "rope") for seed in (1, 2)
    }
    assert result.complete and len(result.runs) == 4


def write_often(path, encoding):
    """Eight runs, one after another, as a process of its own would write them."""
    result = Result(sequences.METHOD, SMALL)
    for seed in range(8):
        result.runs.append(a_run("count", encoding, seed, accuracy=ACCURATE, made=MADE))
        result.save(path)


def test_writers_at_the_same_time_lose_nothing_and_no_reader_sees_half(tmp_path):
    path = tmp_path / "sequences.json"
    writers = [
        threading.Thread(target=write_often, args=(path, name))
        for name in ("none", "rope", "fox")
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        if path.exists():
            Result.load(path)
    assert len(Result.load(path).runs) == 24


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda runs: runs.append(runs[0]), "count, none, seed 1 is there twice"),
        (lambda runs: runs[0].update(seed="1"), "seed must be a whole number, got '1'"),
        (lambda runs: runs[0].update(loss=math.nan), "loss must be finite, got nan"),
        (lambda runs: runs[0].update(seconds="1"), "seconds must be a number, got '1'"),
        (lambda runs: runs[0].update(encoding="cpoe"), "encoding must be .*'cpoe'"),
        *(
            (
                lambda runs, index=index: runs[0].update(made=index),
                f"made of run 1 must be an index of the 1 provenances, .*{index}",
            )
            for index in (1, -1, True, 0.0, None, {})
        ),
        (lambda runs: runs[0].pop("made"), "made of run 1 must be an index .*None"),
        (lambda runs: runs[0].update(accuracy={}), "must have accuracies at 64, 128"),
        (
            lambda runs: runs[0]["accuracy"].update({"64": 7.0}),
            "accuracy at 64 must be between 0 and 1, got 7.0",
        ),
        (
            lambda runs: runs[0]["accuracy"].update({"64": math.nan}),
            "accuracy at 64 must be finite, got nan",
        ),
        (lambda runs: runs.append("run"), "'str' object has no attribute"),
    ],
)
def test_a_file_of_runs_that_cannot_be_is_refused_and_stays(
    unchecked, counted, tmp_path, change, message
):
    path = tmp_path / "sequences.json"
    options = dict(tasks=["count"], encodings=["none"], save_to=path)
    sequences.experiment(**options, seeds=1)
    stored = json.loads(path.read_text("utf-8"))
    change(stored["runs"])
    path.write_text(json.dumps(stored))
    before = path.read_text("utf-8")
    del counted[:]
    with pytest.raises(ValueError, match=f"{message}.*give another file"):
        sequences.experiment(**options, seeds=2)
    assert path.read_text("utf-8") == before and counted == []


def test_a_training_that_diverges_is_no_run():
    with pytest.raises(ValueError, match="count, none, seed 1: loss must be finite"):
        a_run(loss=math.nan)


def test_runs_of_several_calls_keep_what_each_was_made_with(
    counted, tmp_path, monkeypatch
):
    path = tmp_path / "sequences.json"
    options = dict(tasks=["count"], save_to=path, seeds=2)
    sequences.experiment(encodings=["none"], **options)
    monkeypatch.setattr(
        parallel, "provenance", lambda *_: provenance(*_) | {"commit": "later"}
    )
    both = sequences.experiment(encodings=["none", "fox"], **options)
    commits = {run.encoding: run.made["commit"] for run in both.runs}
    assert commits["fox"] == "later" != commits["none"]
    assert len(both.made()) == 2 and both.caption().count("torch") == 1


def test_runs_of_no_experiment_have_no_table():
    with pytest.raises(NotImplementedError):
        runs.Runs("", None).rows()
    with pytest.raises(NotImplementedError):
        runs.Runs("", None).evaluations()


# --- Intervals


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_an_interval_is_student_s(level):
    values = np.random.default_rng(0).normal(size=5)
    mean, half = sequences.interval(values, level)
    low, high = stats.t.interval(level, 4, values.mean(), stats.sem(values))
    assert (mean - half, mean + half) == pytest.approx((low, high), rel=1e-12)


def test_an_interval_needs_two_seeds():
    with pytest.raises(ValueError, match="at least 2 seeds, got 1"):
        sequences.interval(np.ones(1))


# --- The result that the book shows


def test_the_committed_result_is_whole():
    result = Result.load(ROOT / "book/data/sequences-cpu.json")
    assert result.settings == Settings()
    assert result.complete and result.method == sequences.METHOD
    assert {*range(1, 5)} <= {run.seed for run in result.runs} and 0 not in {
        run.seed for run in result.runs
    }
    trained = {run.key[:2] for run in result.runs}
    assert trained == {*product(TASKS, ALL)}
    assert all(made["commit"].isalnum() for made in result.made())


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "sequences.json"
    for text in ("", "{}", '{"made": {}, "settings": {"epochs": 3}}'):
        path.write_text(text)
        with pytest.raises(ValueError, match="not a result of this experiment"):
            sequences.experiment(seeds=1, save_to=path)
        assert path.read_text("utf-8") == text
