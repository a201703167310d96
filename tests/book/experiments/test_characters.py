"""The character experiment: its text, encodings and questions."""

import math
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from posedu.book.experiments import characters
from posedu.book.experiments.characters import (
    ALL,
    CHARACTERS,
    CHOOSING,
    CONDITIONS,
    KNOWN,
    MULTIPLES,
    RATES,
    Model,
    Result,
    Run,
    Settings,
    Text,
)

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = Settings(steps=2, batch=3, length=8, heads=2, d=4, tested=5)
EPS = torch.finfo(torch.float64).eps


@pytest.fixture(scope="module")
def text():
    return characters.standard_library()


def model_of(name, seed=0, settings=SMALL):
    with torch.random.fork_rng(devices=[]):
        return Model(ALL[name], settings, seed)


# --- The text


def as_words(numbers):
    return "".join((KNOWN + "\0")[n] for n in numbers.tolist())


def test_the_text_is_the_standard_library_s_split_by_file(text):
    training, testing = as_words(text.training), [*map(as_words, text.testing)]
    assert "def " in training and len(testing) > 10
    heads = [words[:200] for words in testing if len(words) > 2000]
    assert heads and not any(head in training for head in heads)
    assert 0.05 < sum(map(len, testing)) / len(training) < 0.4
    for words in (training, *testing):
        assert words.count("\0") < 1e-3 * len(words)


def test_a_module_is_read_character_by_character(text):
    source = Path(textwrap.__file__).read_text("utf-8")
    assert {*source} <= {*KNOWN}
    everything = (text.training, *text.testing)
    assert sum(as_words(part).count(source) for part in everything) == 1


def test_the_digest_is_of_the_text_alone():
    again = characters.standard_library.__wrapped__()
    assert again.digest == Settings().text == characters.standard_library().digest


# --- The windows

LINE = Text(torch.arange(40), (torch.arange(100, 110), torch.arange(200, 340)), "")


def test_a_training_window_is_anywhere_in_the_training_text():
    settings = replace(SMALL, steps=200)
    windows = torch.cat([*characters.training_windows(LINE, settings, 1)])
    assert windows.shape == (600, SMALL.length + 1)
    assert (windows.diff() == 1).all()
    assert {*windows[:, 0].tolist()} == {*range(40 - SMALL.length)}


def test_a_test_window_lies_within_a_file_that_is_long_enough():
    settings = replace(SMALL, tested=500)
    windows = characters.test_windows(LINE, settings, 1)
    longest = MULTIPLES[-1] * SMALL.length
    assert windows.shape == (500, longest + 1)
    assert (windows.diff() == 1).all()
    assert {*windows[:, 0].tolist()} == {*range(200, 340 - longest)}
    short = replace(LINE, testing=LINE.testing[:1])
    with pytest.raises(ValueError, match=r"windows of 129 .* longest has 10"):
        characters.test_windows(short, settings, 1)


class Knowing(torch.nn.Module):
    """Says the successor of what it is shown, as surely as given; notes the lengths."""

    def __init__(self, logit):
        super().__init__()
        self.logit, self.shown = logit, []

    def forward(self, tokens):
        self.shown.append(tokens.clone())
        successor = (tokens + 1) % CHARACTERS
        return self.logit * torch.nn.functional.one_hot(successor, CHARACTERS).double()


@pytest.mark.parametrize("length", [8, 16, 128])
def test_bits_are_of_the_last_characters_whatever_is_shown_before(length):
    windows = torch.arange(129).expand(5, -1) % CHARACTERS
    windows = windows.clone()
    windows[:, 3:125:2] = 0  # wrong, where nothing is asked
    for logit in (0.0, 1.0, 50.0):
        model = Knowing(logit)
        bits, right = characters.test(model, windows, length, 4)
        p = math.exp(logit) / (math.exp(logit) + CHARACTERS - 1)
        assert bits == pytest.approx(-math.log2(p), rel=64 * EPS, abs=64 * EPS)
        assert right == (1 if logit else 0)
        shown = torch.cat(model.shown)
        assert torch.equal(shown, windows[:, 128 - length : 128])


def test_a_bit_is_a_bit_in_training_too():
    class Level(Knowing):
        def forward(self, tokens):
            return self.level.expand(*tokens.shape, CHARACTERS)

    model = Level(0.0)
    model.level = torch.nn.Parameter(torch.zeros(1))
    loss = characters.fit(model, LINE, SMALL, 1e-3, 1)
    assert loss == pytest.approx(math.log2(CHARACTERS), rel=1e-6)


# --- The models


@pytest.mark.parametrize("name", ALL)
def test_every_encoding_is_trained_and_tested_and_repeats(name):
    state = torch.random.get_rng_state()
    run = characters.run(3e-3, name, 1, SMALL)
    lengths = {str(m * SMALL.length) for m in MULTIPLES}
    assert run.bits.keys() == run.accuracy.keys() == lengths
    assert all(5 < bits < 9 for bits in run.bits.values())
    assert torch.equal(state, torch.random.get_rng_state())
    if name in ("fox", "learned", "cape", "randomized"):
        again = characters.run(3e-3, name, 1, SMALL)
        assert replace(run, seconds=0.0) == replace(again, seconds=0.0)
        assert characters.run(3e-3, name, 2, SMALL).loss != run.loss


def test_of_one_seed_all_start_alike_but_for_the_encoding():
    common = {n: p for n, p in model_of("none").named_parameters()}
    for name in {*ALL} - {"t5-drawn"}:
        own = dict(model_of(name).named_parameters())
        assert own.keys() >= common.keys()
        assert all(torch.equal(own[n], p) for n, p in common.items())
    assert not torch.equal(common["answer.weight"], model_of("none", 1).answer.weight)


@pytest.mark.parametrize("name", ALL)
def test_what_comes_later_is_not_seen(name):
    model = model_of(name).double()
    tokens = torch.randint(CHARACTERS, (2, 12))
    other = tokens.clone()
    other[:, 7:] = (other[:, 7:] + 1) % CHARACTERS
    with torch.random.fork_rng():
        torch.manual_seed(0)
        here = model(tokens)[:, :7]
        torch.manual_seed(0)
        there = model(other)[:, :7]
    assert (here - there).abs().max() <= 1e3 * EPS * here.abs().max()


def test_layers_share_what_the_paper_shares():
    fields = {id(block.encoding.field) for block in model_of("floater").trunk.blocks}
    assert len(fields) == 1
    rows = [b.encoding.table for b in model_of("learned-per-layer").trunk.blocks]
    assert rows[0] is not rows[1]


def test_positions_are_shaken_where_the_paper_shakes_them():
    tokens = torch.randint(CHARACTERS, (2, 8))
    for name, augmented in {"cape": (True, False), "randomized": (True, True)}.items():
        model = model_of(name)
        for mode, differs in zip((True, False), augmented, strict=True):
            model.train(mode)
            assert torch.equal(model(tokens), model(tokens)) != differs


def test_encodings_know_order_but_for_none():
    """A last layer without an encoding can't tell one order of earlier tokens apart."""
    tokens = torch.randint(
        CHARACTERS, (1, 8), generator=torch.Generator().manual_seed(0)
    )
    swapped = tokens[:, [1, 0, 2, 3, 4, 5, 6, 7]]
    one = replace(SMALL, layers=1)
    for name in CONDITIONS:
        model = model_of(name, settings=one).double()
        if name in ("kerple-log", "shaw", "t5", "fire"):  # all distances start near 0
            for p in model.trunk.parameters():
                torch.nn.init.normal_(p, generator=torch.Generator().manual_seed(1))
        gap = (model(tokens)[:, -1] - model(swapped)[:, -1]).abs().max()
        assert (gap > 1e-9) == (name != "none"), name


def test_rows_beyond_the_training_length_are_never_trained():
    settings = replace(SMALL, decay=1.0)
    model = model_of("learned", settings=settings)
    table = model.trunk.input.table
    before = table.detach().clone()
    characters.fit(model, LINE, settings, 1e-2, 1)
    moved = (table != before).any(-1)
    assert moved[: SMALL.length].all() and not moved[SMALL.length :].any()


# --- What is kept of the runs


def a_run(rate=RATES[0], encoding="none", seed=3, bits=2.0, settings=SMALL):
    """A run that was never trained."""
    lengths = [str(m * settings.length) for m in MULTIPLES]
    return Run(
        rate=rate,
        encoding=encoding,
        seed=seed,
        bits=dict.fromkeys(lengths, bits),
        accuracy=dict.fromkeys(lengths, 0.5),
        loss=2.0,
        seconds=0.0,
    )


@pytest.fixture
def counted(monkeypatch):
    """Runs that cost nothing, of which the second rate is the best; who was made."""
    made = []

    def run(rate, encoding, seed, settings):
        made.append((rate, encoding, seed))
        if made[-1] == (RATES[1], "t5", 4):
            raise KeyboardInterrupt
        return a_run(rate, encoding, seed, 2 + abs(rate - RATES[1]), settings)

    monkeypatch.setattr(characters.experiment, "run_one", run)
    return made


def test_the_rate_is_chosen_on_seeds_that_are_not_reported(counted, tmp_path, capsys):
    path = tmp_path / "characters.json"
    names = ["none", "rope", "shaw-4"]
    options = dict(encodings=names, seeds=2, settings=SMALL, save_to=path)
    result = characters.experiment(**options)
    trying = {(r, e, s) for r in RATES for e in names[:2] for s in CHOOSING}
    assert {*counted[: len(trying)]} == trying and len(trying) == 16
    reported = [(RATES[1], e, s) for s in (3, 4) for e in names]
    assert counted[len(trying) :] == reported
    assert result.complete and result.chosen() == RATES[1]
    assert result.encodings() == names
    assert {run.seed for run in result.reported()} == {3, 4}
    assert result.bits("none", 8).tolist() == [2.0, 2.0]
    assert Result.load(path) == result
    del counted[:]
    characters.experiment(**options)
    assert counted == []
    head, *rows = result.rows()
    assert head[0] == "bits per character" and head[-1] == "L = 128"
    assert rows[0] == ("no encoding", *["2.000 ± 0.000"] * 5)
    alone = characters.experiment(encodings=["none"], seeds=1, settings=SMALL)
    assert [*alone.rows()][1][1] == "2.000"


def test_who_joins_later_is_asked_for_the_rate_too(counted):
    result = characters.experiment(encodings=["none"], seeds=1, settings=SMALL)
    grown = replace(result, runs=[*result.runs, a_run(encoding="rope", seed=1)])
    assert grown.chosen() is None and grown.reported() == [] and not grown.complete


def test_who_has_another_best_rate_is_trained_with_it_too(counted, monkeypatch):
    def run(rate, encoding, seed, settings):
        best = RATES[0] if encoding == "t5" else RATES[1]
        counted.append((rate, encoding, seed))
        return a_run(rate, encoding, seed, 2 + abs(rate - best), settings)

    monkeypatch.setattr(characters.experiment, "run_one", run)
    names = ["none", "rope", "t5", "shaw-4"]
    result = characters.experiment(encodings=names, seeds=2, settings=SMALL)
    assert result.chosen() == RATES[1] == result.own_rate("shaw-4")
    assert result.own_rate("t5") == RATES[0] != result.own_rate("none")
    assert counted[-2:] == [(RATES[0], "t5", seed) for seed in (3, 4)]
    assert result.complete and len(result.reported()) == 2 * len(names)
    assert result.at_own_rate("t5", 8).tolist() == [2.0, 2.0]
    assert result.bits("t5", 8) == pytest.approx(2 + RATES[1] - RATES[0])
    assert result.at_own_rate("rope", 8).tolist() == result.bits("rope", 8).tolist()


def test_controls_differ_in_what_their_titles_say():
    wide, narrow = (model_of(n).trunk.input.table for n in ("learned-wide", "learned"))
    assert 0.9 < wide.std() < 1.1 and 0.015 < narrow.std() < 0.025
    drawn = [model_of("random-drawn", seed).trunk.input.table for seed in (0, 1)]
    assert 0.9 < drawn[0].std() < 1.1 and not torch.equal(*drawn)
    assert torch.equal(drawn[1], model_of("random-drawn", 1).trunk.input.table)
    assert 0.015 < model_of("random-narrow").trunk.input.table.std() < 0.025
    less = 2 * SMALL.layers  # c and threshold of each layer
    count = {n: characters.parameters(n, SMALL) for n in ("fire", "fire-frozen")}
    assert count["fire"] - count["fire-frozen"] == less
    layers = [type(b.attention).__name__ for b in model_of("fox-pro").trunk.blocks]
    assert layers == ["FoXPro"] * SMALL.layers


def test_t5_starts_as_its_code_draws_it():
    """Queries smaller by √d than here, a table of deviation d_model^(−½)."""
    ours, theirs = (
        [b.attention for b in model_of(name).trunk.blocks]
        for name in ("t5", "t5-drawn")
    )
    for one, other in zip(ours, theirs, strict=True):
        ratio = SMALL.d**0.5
        torch.testing.assert_close(one.q.weight, ratio * other.q.weight)
        assert torch.equal(one.k.weight, other.k.weight)
        assert not one.encoding.table.any()
        deviation = other.encoding.table.std().item() * SMALL.d_model**0.5
        assert 0.6 < deviation < 1.5


def test_steep_slopes_replace_the_two_that_are_flat_over_the_training_length():
    settings, one = Settings(text="made up"), torch.ones(1, dtype=torch.float64)
    authors, steep = (
        {-m for m in ALL[name].make(settings).of_offsets(one).flatten().tolist()}
        for name in ("alibi", "alibi-steep")
    )
    assert authors - steep == {1 / 64, 1 / 256}
    assert steep - authors == {1 / 2, 1 / 8}


def test_single_numbers_are_kept_after_training():
    run = characters.run(0.01, "fire", 3, SMALL)
    layers = range(SMALL.layers)
    assert {*run.trained} == {f"{n}.{p}" for n in layers for p in ("c", "multiplier")}
    assert run.trained["0.c"] != 0.1
    assert characters.run(0.01, "fire-frozen", 3, SMALL).trained == {}


def test_sinusoids_of_every_layer_are_those_of_the_input():
    model = model_of("sinusoidal-per-layer").double()
    tokens = torch.randint(CHARACTERS, (1, 8))
    seen = []
    for block in model.trunk.blocks:
        block.before_attention.register_forward_pre_hook(
            lambda module, inputs: seen.append(inputs[0])
        )
    model(tokens)
    x = model.embedding(tokens)
    added = seen[0] - x
    expected = CONDITIONS["sinusoidal"].make(SMALL)(torch.zeros_like(x), range(8))
    torch.testing.assert_close(added, expected)
    assert len(seen) == SMALL.layers


def test_bases_complete_as_many_turns_as_said():
    """Llama 2: 18 of 64 pairs complete no turn in 4,096 tokens."""
    llama = Settings(d=128, length=4096)
    assert characters.unturned("rope", llama) == 18
    assert characters.unturned("rope-matched", llama) == 18
    assert characters.base_of("rope-matched", 4096) == pytest.approx(10_000)
    for d, length in ((16, 64), (32, 128)):
        settings = Settings(d=d, length=length)
        pairs = d / 2
        share = characters.unturned("rope-matched", settings) / pairs
        assert abs(share - 18 / 64) <= 1 / pairs
        assert characters.unturned("rope", settings) > pairs / 2
    assert characters.base_of("rope-500", 64) == 500


def test_an_interrupt_keeps_what_is_finished(counted, tmp_path, capsys):
    path = tmp_path / "characters.json"
    options = ["--encodings", "none", "t5", "--seeds", "2", "--processes", "1"]
    assert characters.main([*options, "--out", str(path)]) == 130
    printed = capsys.readouterr()
    assert "interrupted: 19 runs are saved" in printed.err
    assert "not complete" in printed.out
    del counted[:]
    characters.experiment(
        encodings=["none", "t5"], seeds=1, settings=Settings(), save_to=path
    )
    assert counted == []


def test_an_interrupt_while_the_rate_is_chosen_reports_nothing(counted, monkeypatch):
    def run(*job):
        if job[:3] == (RATES[-1], "none", CHOOSING[-1]):
            raise KeyboardInterrupt
        return a_run(*job[:3], settings=job[3])

    monkeypatch.setattr(characters.experiment, "run_one", run)
    result = characters.experiment(encodings=["none"], settings=SMALL)
    assert result.interrupted and result.chosen() is None
    assert len([*result.rows()]) == 1 and "not complete" in result.caption()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(encodings=["mla"]), "encoding must be 'none' or 'learned'"),
        (dict(encodings=["shaw-4"]), "must be among the encodings"),
        (dict(seeds=0), "seeds must be a positive"),
        (dict(processes=0), "processes must be a positive"),
        (dict(settings=Settings(steps=0)), "steps must be a positive"),
        (dict(settings=Settings(text="another")), "of the text another; that of this"),
    ],
)
def test_hostile_options_are_refused(counted, tmp_path, options, message):
    path = tmp_path / "characters.json"
    with pytest.raises(ValueError, match=message):
        characters.experiment(**options, save_to=path)
    assert counted == [] and not path.exists()


@pytest.mark.parametrize("bits", [math.nan, math.inf])
def test_a_training_that_diverged_is_refused(bits):
    with pytest.raises(ValueError, match="bits at 8 must be finite"):
        a_run(bits=bits)
