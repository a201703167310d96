"""Measurement of time and memory, and stored results. No test compares times."""

import gc
import json
import os
import subprocess
import sys
import weakref
from dataclasses import replace
from types import MappingProxyType, ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch._dynamo.exc import TorchDynamoException

from posedu.book import provenance
from posedu.book.timing import (
    Measurement,
    Spread,
    Timing,
    alternate,
    clock,
    compare,
    encodings,
    peak_memory,
    ratios,
    time_encoding,
    time_exponent,
)
from posedu.book.timing.__main__ import main
from posedu.book.timing.attention_goals import AttentionComparison
from posedu.book.timing.peers import PEERS, attention, rope
from posedu.book.timing.rope_goals import RoPEComparison, goals
from posedu.catalog import CATALOG, Variant
from posedu.catalog.records import variant
from posedu.numpy import rotary as reference
from posedu.torch import ALiBi, Encoding, RoPE
from support import ROOT

pytestmark = pytest.mark.usefixtures("compiler")
CPU = torch.device("cpu")
TASKS = ("forward", "forward + backward")
SMALL = dict(lengths=(8, 16), head_dims=(4,), heads=2, repeats=3)


class Offsets(Encoding):
    """A bias, to have a hook other than ``embed`` and ``rotate``."""

    def bias(self, tokens):
        return -tokens.offsets.abs().to(tokens.q.dtype)


@pytest.fixture(scope="module", autouse=True)
def small_heap():
    """Exempt what is loaded from the collection of garbage before each measurement."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def biased(monkeypatch):
    module = ModuleType("posedu.torch.biased")
    module.Offsets = Offsets
    monkeypatch.setitem(sys.modules, "posedu.torch.biased", module)
    entry = replace(
        CATALOG["rope"],
        name="offsets",
        kind="hooks",
        hooks=("bias",),
        file="biased",
        module="Offsets",
        sizes=(),
        variants=(Variant(MappingProxyType({}), MappingProxyType({})),),
    )
    monkeypatch.setitem(CATALOG, "offsets", entry)


@pytest.mark.parametrize("name", CATALOG)
def test_a_record_for_every_variant_length_and_task(name):
    result = time_encoding(name, **SMALL)
    entry = CATALOG[name]
    variants = sum(4 % entry.divisor(v) == 0 for v in entry.variants)
    assert result.complete and len(result.records) == variants * 2 * 2
    for task, passes in (("forward", 1), ("forward + backward", 2)):
        for length in SMALL["lengths"]:
            records = result.select(task=task, length=length)
            assert len({r.candidate for r in records}) == variants
            turns = entry.kind == "features" and "rotate" in entry.hooks
            tensors = 2 if turns else 1
            moved = passes * 2 * tensors * 2 * length * 4 * 4
            for r in records:
                inside = entry.kind not in ("features", "positions")
                limit = "attention without encoding" if inside else "copy"
                assert r.bytes_moved == moved and r.limit == limit
                assert r.peak_bytes >= moved / (2 * passes)  # the result at least
                for spread in (r.seconds, r.limit_seconds, r.ratio):
                    assert 0 < spread.low <= spread.median <= spread.high


def test_another_hook_is_timed_in_attention(biased):
    result = time_encoding("offsets", **SMALL)
    assert {r.limit for r in result.records} == {"attention without encoding"}
    assert len(result.records) == 4


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_compiled_variants_are_timed_with_the_others():
    result = time_encoding("rope", **SMALL | dict(lengths=(8,)), compile=True)
    names = {r.candidate for r in result.records}
    eager = {f"rope, {layout}" for layout in ("interleaved", "half")}
    assert names == eager | {f"{name}, compiled" for name in eager}


def test_calls_alternate_and_each_timed_one_is_warm():
    calls = []
    seconds = alternate(
        {name: lambda name=name: calls.append(name) for name in "ab"},
        lambda: calls.append("limit"),
        device=CPU,
        repeats=4,
        warm_up=1,
    )
    once = ["limit", "limit", "a", "a", "limit", "limit", "b", "b"]
    assert calls == ["limit", "a", "b", *once * 4]
    assert {name: s.shape for name, s in seconds.items()} == {"a": (4, 2), "b": (4, 2)}


def test_ratios_are_of_neighbors(monkeypatch):
    # A machine that gets ten times slower at every round changes no ratio.
    ticks = iter(np.cumsum([0, *(t * 10**i for i in range(5) for t in (2, 0, 6, 0))]))
    monkeypatch.setattr(clock.time, "thread_time", lambda: float(next(ticks)))
    monkeypatch.setattr(clock.time, "perf_counter", lambda: float(next(ticks)))
    (record,) = compare(
        {"three": lambda: None},
        lambda: None,
        limit_name="one",
        task="nothing",
        length=1,
        d=2,
        dtype=torch.float32,
        device=CPU,
        repeats=5,
        bytes_moved=0,
    )
    assert record.ratio == Spread(3, 3, 3)
    assert record.seconds == Spread(60, 600, 6000)


def test_what_only_the_collector_frees_is_freed_before_the_clock_starts():
    """An example is a graph with checkpoints and without a backward pass."""
    dropped = torch.nn.Module()
    held = weakref.ref(dropped)
    dropped.__dict__["itself"] = dropped
    del dropped
    alive = []
    cell = dict(task="nothing", length=1, d=2, dtype=torch.float32)
    compare(
        {"looks": lambda: alive.append(held())},
        lambda: None,
        limit_name="one",
        device=CPU,
        repeats=1,
        bytes_moved=0,
        **cell,
    )
    assert alive and all(one is None for one in alive)


def test_peak_memory_is_what_is_held_at_a_time():
    x = torch.randn(1 << 18)

    def two_in_turn():
        a = x + 1
        del a
        return x + 2

    assert peak_memory(lambda: x.add_(1), CPU) < 1024
    assert peak_memory(two_in_turn, CPU) == pytest.approx(x.nbytes, abs=1024)
    both = peak_memory(lambda: (x + 1, x + 2), CPU)
    assert both == pytest.approx(2 * x.nbytes, abs=1024)


def test_saved_and_loaded_is_the_same(tmp_path):
    result = time_encoding("rope", **SMALL, save_to=tmp_path / "new" / "rope.json")
    assert Timing.load(tmp_path / "new" / "rope.json") == result
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["rope.json"]
    made = result.made
    assert made["threads"] == torch.get_num_threads() and made["seed"] == 0
    assert made["versions"]["torch"] == torch.__version__
    assert made["memory"] in ("kept", "system") and made["device"]
    assert "neighboring" in made["method"]


def test_where_nothing_can_be_written_nothing_is_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(encodings, "compare", None)
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "file" / "rope.json"):
        with pytest.raises(OSError, match=str(tmp_path)):
            time_encoding("rope", **SMALL, save_to=place)


def test_an_interrupt_keeps_the_finished_cells(tmp_path, monkeypatch, capsys):
    calls = []

    def interrupted(*arguments, **keywords):
        calls.append(keywords["length"])
        if len(calls) == 4:
            raise KeyboardInterrupt
        return compare(*arguments, **keywords)

    monkeypatch.setattr(encodings, "compare", interrupted)
    result = time_encoding("rope", **SMALL, save_to=tmp_path / "rope.json")
    assert not result.complete and {r.length for r in result.records} == {8}
    assert len(result.records) == 4
    assert Timing.load(tmp_path / "rope.json") == result
    assert "interrupted: 4 records are saved" in capsys.readouterr().err
    assert "interrupted" in result._repr_html_()


def test_shown_as_a_table():
    result = time_encoding("rope", **SMALL)
    result.missing["x<y"] = "a & b"
    page = result._repr_html_()
    assert page.count("<tr>") == 1 + len(result.records)
    assert "x&lt;y is missing (a &amp; b)" in page
    assert len(str(result).splitlines()) == 2 + len(result.records)
    assert f"{Spread(1, 2, 3):.1f}" == "2.0 [1.0–3.0]"


@pytest.mark.parametrize(
    "wrong, message",
    [
        (dict(name="ropes"), "name must be .*'ropes'"),
        (dict(lengths=(8, 0)), "length must be"),
        (dict(head_dims=(3,)), "d must be"),
        (dict(repeats=0), "repeats must be"),
    ],
)
def test_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        time_encoding(**dict(name="rope") | SMALL | wrong)


TINY = ["--lengths", "8", "--head-dims", "4", "--heads", "2", "--repeats", "2"]


def test_the_command_writes_a_file(tmp_path):
    kept = provenance.KEPT_MEMORY
    command = [
        sys.executable,
        "-m",
        "posedu.book.timing",
        "rope",
        "--folder",
        str(tmp_path),
    ]
    done = subprocess.run(
        [*command, *TINY, "--dtypes", "float32"],
        env={k: v for k, v in os.environ.items() if k not in kept},
        capture_output=True,
        text=True,
        check=True,
    )
    out = tmp_path / "timing-rope-cpu.json"
    result = Timing.load(out)
    assert result.complete and len(result.records) == 4
    assert result.made["memory"] == "kept" and result.made["threads"] == 1
    assert str(out) in done.stdout and "rope, half" in done.stdout


@pytest.fixture
def command(tmp_path, monkeypatch):
    """The command in this process; no time of its own for what is not under test."""
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    own = ["--folder", str(tmp_path), "--system-memory", *TINY]
    return lambda *given: main([*given, *own])


def test_one_entry(command, tmp_path):
    assert command("sinusoidal") == 0
    result = Timing.load(tmp_path / "timing-sinusoidal-cpu.json")
    assert {r.dtype for r in result.records} == {"float32", "bfloat16"}


def test_all_entries_but_those_that_were_timed_alike(command, tmp_path, monkeypatch):
    timed = []

    def noting(*given, **cell):
        timed.append(cell["limit_name"])
        if len(timed) == 3:
            raise KeyboardInterrupt
        return []

    here = {name: CATALOG[name] for name in ("sinusoidal", "alibi")}
    monkeypatch.setattr("posedu.book.timing.__main__.CATALOG", here)
    monkeypatch.setattr(encodings, "compare", noting)
    once = ["--all", "--dtypes", "float32"]
    assert command(*once) == 130  # in the second one
    assert timed == ["copy", "copy", "attention without encoding"]
    del timed[:]
    assert command(*once) == 0
    assert timed == ["attention without encoding"] * 2
    path = tmp_path / "timing-alibi-cpu.json"
    made = json.loads(path.read_text("utf-8"))
    made["made"]["commit"] = "another"
    path.write_text(json.dumps(made))
    del timed[:]
    timed += [""] * 3
    assert command(*once) == 0
    assert timed[3:] == ["attention without encoding"] * 2
    assert command(*once, "--seed", "1") == 0
    assert len(timed) == 9


def test_a_cell_without_memory_is_named_and_the_others_measured(monkeypatch):
    def narrow(*given, **cell):
        if cell["length"] == 16:
            raise torch.OutOfMemoryError
        return compare(*given, **cell)

    monkeypatch.setattr(encodings, "compare", narrow)
    result = time_encoding("rope", **SMALL | dict(repeats=1))
    assert result.complete and {r.length for r in result.records} == {8}
    assert result.missing == {"L = 16, d = 4, float32": "out of memory"}
    assert "L = 16, d = 4, float32 is missing (out of memory)" in result.caption()


def test_peers_of_an_entry_that_has_none_are_refused(command, capsys):
    with pytest.raises(SystemExit):
        command("sinusoidal", "--peers")
    names = ", ".join(PEERS)
    assert (
        f"--peers is available for {names}, got sinusoidal" in capsys.readouterr().err
    )
    with pytest.raises(SystemExit):
        command()


@pytest.mark.usefixtures("stand_ins", "stand_in_peers")
def test_peers_are_timed_by_the_command(command, tmp_path, monkeypatch):
    two = {name: PEERS[name] for name in ("rope", "deberta")}
    monkeypatch.setattr("posedu.book.timing.__main__.PEERS", two)
    assert command("--all", "--peers", "--dtypes", "float32") == 0
    for name in two:
        result = Timing.load(tmp_path / f"peers-{name}-cpu.json")
        assert result.complete and result.missing == {
            "absent": "No module named 'absent'"
        }


# Published libraries. Stand-ins replace those that are not installed.


def make_stand_in(layout):
    """A library made of our own parts, with a table that repeats each column."""

    def make(d, device):
        module = RoPE(d, layout=layout)
        a, b = reference.pairs(d, layout=layout)

        def table(positions):
            halves = module.table(positions)
            full = [torch.empty(len(positions), d) for _ in halves]
            for t, half in zip(full, halves, strict=True):
                t[:, a], t[:, b] = half, half
            return full

        def prepare(q, k):
            return lambda: module.rotate(q, k, range(q.shape[-2]))

        return rope.Peer(layout, table, prepare)

    return make


def absent(d, device):
    raise ImportError("No module named 'absent'")


@pytest.fixture
def stand_ins(monkeypatch):
    layouts = {f"stand-in {layout}": layout for layout in ("interleaved", "half")}
    made = {name: make_stand_in(layout) for name, layout in layouts.items()}
    monkeypatch.setattr(rope, "LIBRARIES", made | {"absent": absent})
    monkeypatch.setattr(provenance, "version", lambda library: "0")
    for module in (rope, attention):
        monkeypatch.setattr(module, "compiled", lambda run, **options: run)
    return set(made)


def test_peers_are_measured_in_one_run(stand_ins, tmp_path):
    dtypes = (torch.float32, torch.bfloat16)
    path = tmp_path / "peers.json"
    result = rope.time_rope(**SMALL, dtypes=dtypes, save_to=path)
    assert Timing.load(path) == result and result.complete
    assert result.missing == {"absent": "No module named 'absent'"}
    rotations, tables = result.select(task="rotate"), result.select(task="table")
    assert {r.candidate for r in tables} == {"posedu"} | stand_ins
    assert len(tables) == 2 * 3 and len(rotations) == 2 * 2 * (1 + 8 + 4)
    assert {r.limit for r in rotations} == {"copy"}
    for r in rotations:
        u = torch.finfo(getattr(torch, r.dtype)).eps / 2
        # Table, product, sum and result each round once; a pair has norm √2 at most.
        assert (r.candidate == "a fresh copy") or 0 < r.error <= 4 * 2**0.5 * u
    for r in tables:
        assert 0 < r.error <= 2**-25 + 1e-9


def test_a_wrong_peer_shows_in_its_error(stand_ins, monkeypatch):
    def swapped(d, device):
        other = make_stand_in("half")(d, device)
        return rope.Peer("interleaved", other.table, other.prepare)

    monkeypatch.setitem(rope.LIBRARIES, "stand-in half", swapped)
    result = rope.time_rope(**SMALL, dtypes=(torch.float32,))
    for r in result.select(candidate="stand-in half"):
        assert r.error > 0.1


@pytest.mark.parametrize("library", rope.LIBRARIES)
def test_the_library_itself_is_exact_at_short_lengths(library):
    try:
        peer = rope.LIBRARIES[library](8, CPU)
    except ImportError as error:
        pytest.skip(str(error))
    q, k = torch.randn(2, 1, 3, 16, 8)
    run = peer.prepare(q, k)
    assert rope._relative_error(run, q, k, peer.layout) < 16 * 2**-24


def stand_in_attention(encoding, tokens):
    return {"eager": attention.by_ours(encoding, tokens)["eager"]}


@pytest.fixture
def stand_in_peers(monkeypatch):
    """Give every encoding a library made of our parts, and one that is missing."""
    libraries = {"stand-in": stand_in_attention, "absent": absent}
    for name, match in attention.MATCHES.items():
        match = replace(match, libraries=libraries)
        monkeypatch.setitem(attention.MATCHES, name, match)


@pytest.mark.usefixtures("stand_ins", "stand_in_peers")
def test_attention_is_measured_with_peers_in_one_run(tmp_path):
    path = tmp_path / "peers.json"
    small = SMALL | dict(lengths=(8,), dtypes=(torch.float32, torch.bfloat16))
    result = attention.time_attention("alibi", **small, save_to=path)
    assert Timing.load(path) == result and result.complete
    assert result.missing == {"absent": "No module named 'absent'"}
    both_ways = ("posedu, folded", "posedu, sdpa", "posedu, eager", "stand-in, eager")
    names = {f"{name}{end}" for name in both_ways for end in ("", ", compiled")}
    for dtype in ("float32", "bfloat16"):
        records = result.select(length=8, dtype=dtype, task="causal")
        assert {r.candidate for r in records} == names | {"posedu, flex, compiled"}
        for r in records:
            assert r.limit == "attention without encoding"
            assert 0 < r.error < 2**8 * torch.finfo(getattr(torch, dtype)).eps


@pytest.mark.usefixtures("stand_ins", "stand_in_peers")
def test_what_is_as_far_off_as_zeros_is_named(monkeypatch):
    def spoiled(run, **options):
        return lambda: run().log()

    monkeypatch.setattr(attention, "compiled", spoiled)
    small = SMALL | dict(lengths=(8,), dtypes=(torch.bfloat16,))
    result = attention.time_attention("t5", **small)
    assert not [r for r in result.records if "compiled" in r.candidate]
    where = "stand-in, eager, compiled, L = 8, torch.bfloat16"
    assert result.missing[where] == "relative error nan"


@pytest.mark.usefixtures("stand_ins", "stand_in_peers")
def test_what_does_not_compile_is_named(monkeypatch):
    def refused(run, **options):
        def fail():
            raise TorchDynamoException("no such kernel\nand more")

        return fail

    monkeypatch.setattr(attention, "compiled", refused)
    small = SMALL | dict(lengths=(8,), dtypes=(torch.float32,))
    result = attention.time_attention("t5", **small)
    assert {r.candidate for r in result.records} == {
        "posedu, sdpa",
        "posedu, eager",
        "stand-in, eager",
    }
    reason = "does not compile: no such kernel"
    assert result.missing["posedu, flex, compiled"] == reason
    assert result.missing["stand-in, eager, compiled"] == reason


CORES = [
    (name, library)
    for name, match in attention.MATCHES.items()
    for library in ("posedu", *match.libraries)
]


@torch.no_grad()
@pytest.mark.parametrize("name, library", CORES)
def test_ours_and_the_libraries_compute_the_same(name, library, monkeypatch):
    match = attention.MATCHES[name]
    core = {"posedu": attention.by_ours, **match.libraries}[library]
    encoding, tokens = attention.draw(name, **attention.CHECKED)
    try:
        found = {way: run() for way, run in core(encoding, tokens).items()}
    except ImportError as error:
        pytest.skip(str(error))
    rows, exact = attention.exact_rows(name, encoding, tokens)
    for out in found.values():
        assert 0 < attention.relative_error(out, rows, exact) < attention.SAME
    # Tables that are off by one; where there are none, other slopes.
    for parameter in encoding.parameters():
        parameter.copy_(parameter.roll(1, -1))
    if name == "alibi":
        other = variant(slopes="geometric", sides="causal")
        monkeypatch.setitem(attention.MATCHES, name, replace(match, variant=other))
    _, wrong = attention.exact_rows(name, encoding, tokens)
    for out in found.values():
        assert attention.relative_error(out, rows, wrong) > attention.SAME


def test_a_library_that_computes_something_else_is_refused():
    def of_another(encoding, tokens):
        return attention.by_ours(ALiBi(3, slopes="geometric"), tokens)

    def of_no_number(encoding, tokens):
        return {"eager": lambda: tokens.q.log()}

    libraries = {"same": stand_in_attention, "other": of_another}
    libraries |= {"no number": of_no_number, "absent": absent}
    refused = attention.refusals("alibi", libraries)
    assert {*refused} == {"other", "no number", "absent"}
    assert "computes something else: relative error " in refused["other"]
    assert refused["no number"].endswith("nan")


@pytest.fixture
def stored_attention():
    """A measurement in which ours takes 2 and 3, the libraries 8 and 1.5."""
    taken = {
        ("posedu, sdpa", "float32"): 2.0,
        ("posedu, eager", "float32"): 5.0,
        ("theirs, eager", "float32"): 8.0,
        ("posedu, sdpa", "bfloat16"): 3.0,
        ("theirs, eager", "bfloat16"): 1.5,
    }
    one = Spread(1, 1, 1)
    records = [
        Measurement(
            *(candidate, "causal", "attention without encoding", length, 4, dtype),
            *(one, one, Spread(ratio, ratio, ratio), 1, 0, int(1e6 * ratio), 1e-7),
        )
        for length in (8, 16)
        for (candidate, dtype), ratio in taken.items()
    ]
    made = {"device": "a CPU", "threads": 1, "date": "today", "heads": 2}
    return Timing("t5", made, records)


def test_who_is_ahead_is_computed(stored_attention):
    comparison = AttentionComparison(stored_attention)
    head, *rows = comparison.rows()
    assert head[:2] == ("call", "float32: time / limit") and len(head) == 7
    assert rows == [
        ("posedu, sdpa", "2.00", "2.0", "1e-07", "3.00", "3.0", "1e-07"),
        ("posedu, eager", "5.00", "5.0", "1e-07", "—", "—", "—"),
        ("theirs, eager", "8.00", "8.0", "1e-07", "1.50", "1.5", "1e-07"),
    ]
    stored_attention.missing["absent"] = "not installed"
    caption = comparison.caption()
    assert caption.startswith(
        "T5's relative bias, causal, 2 heads, L = 16, d = 4, on a"
    )
    assert caption.endswith("; absent is missing (not installed)")
    said = comparison.verdict()
    assert said.startswith(
        "T5's relative bias: in float32 ours takes 2.00 (posedu, sdp"
    )
    assert "ours is ahead by a factor of 4.00, with 2.0 MB compared with 8.0" in said
    assert "ours is behind by a factor of 2.00, with 3.0 MB compared with 1.5" in said
    stored_attention.records = [
        r for r in stored_attention.records if "posedu" in r.candidate
    ]
    assert (
        "and no library was installed"
        in AttentionComparison(stored_attention).verdict()
    )


DATA = ROOT / "book" / "data"


def test_the_committed_comparison_with_peers_loads():
    result = Timing.load(DATA / "peers-rope-cpu.json")
    assert result.complete and result.made["threads"] == 1
    for library in rope.LIBRARIES:
        assert result.select(candidate=library, task="rotate", dtype="bfloat16")


@pytest.mark.parametrize("name", attention.MATCHES)
def test_a_committed_comparison_of_attention_has_every_library(name):
    result = Timing.load(DATA / f"peers-{name}-cpu.json")
    assert result.complete and result.made["threads"] == 1
    there = {record.candidate.partition(",")[0] for record in result.records}
    assert there == {"posedu", *attention.MATCHES[name].libraries}


@pytest.fixture
def stored_rope():
    """The committed comparison, in which every library takes three copies' time."""
    stored = Timing.load(DATA / "peers-rope-cpu.json")
    for n, record in enumerate(stored.records):
        ratio = 3.0 if "posedu" not in record.candidate else 1.5 + record.d / 128
        stored.records[n] = replace(record, ratio=Spread(ratio, ratio, ratio))
    return stored


def change(stored, ratio, **fields):
    (record,) = stored.select(task="rotate", **fields)
    spread = Spread(ratio, ratio, ratio)
    stored.records[stored.records.index(record)] = replace(record, ratio=spread)


def test_a_comparison_names_the_fastest_library_of_a_cell(stored_rope):
    cell = {"dtype": "bfloat16", "length": 8192, "d": 128}
    change(stored_rope, 2.25, candidate="x-transformers, compiled", **cell)
    comparison = RoPEComparison(stored_rope)
    key = tuple(cell.values())
    assert comparison.fastest("compiled", key) == (2.25, "x-transformers")
    assert comparison.fastest("eager", key)[0] == 3
    assert not comparison.is_fastest("half", "compiled", key) and comparison.is_fastest(
        "half", "eager", key
    )
    assert (
        "half, eager, in 8; interleaved, compiled, in 7; half, compiled, in 7 of 8"
        in (comparison.caption())
    )
    rows = [*comparison.rows()]
    assert len(rows) == 1 + 2 * 8
    assert rows[-1] == (
        "compiled",
        "bfloat16",
        "8192",
        "128",
        "2.50 ✗",
        "2.50 ✗",
        "2.25 x-transformers",
    )
    drawn = comparison.figure()
    assert "2.0 to 2.5 times as long as a copy" in drawn.caption
    assert "2.2 to 3.0 times with the fastest library" in drawn.caption
    assert "<!-- rotary-embedding-torch -->" in drawn.svg


def test_a_comparison_goes_without_a_library_that_was_missing(stored_rope):
    stored_rope.missing["transformers"] = "not installed"
    stored_rope.records = [
        r for r in stored_rope.records if not r.candidate.startswith("transformers")
    ]
    rows = [*RoPEComparison(stored_rope).rows()]
    assert len(rows) == 17 and "transformers" not in {row[-1][5:] for row in rows}


def test_goals_are_shown_met_and_missed(stored_rope):
    fast = {"dtype": "float32", "length": 2048, "d": 64}
    change(stored_rope, 1.6, candidate="posedu, half", **fast)
    change(stored_rope, 1.61, candidate="posedu, interleaved", **fast)
    for layout in ("half", "interleaved"):
        name = f"posedu, {layout}, compiled, into a buffer"
        change(stored_rope, 1.7, candidate=name, **fast | {"dtype": "bfloat16"})
    shown = goals(stored_rope)
    head, first, *rest = shown.rows()
    assert head == ("goal", "L", "d", "interleaved", "half")
    assert first == ("float32, eager: ≤ 1.6", "2048", "64", "1.61 ✗", "1.60 ✓")
    assert len(rest) == 11
    assert "of 12 goals at least one layout meets 2, and both meet 1" in shown.caption()


def test_time_and_limit_are_drawn_over_the_length():
    result = time_encoding("rope", **SMALL)
    drawn = result.figure("forward", caption="Both rise.", alt="Three lines.")
    for line in ("rope, half", "rope, interleaved", "limit: copy"):
        assert drawn.svg.count(f"<!-- {line} -->") == 1


@pytest.mark.parametrize(
    "path", sorted(DATA.glob("timing-*.json")), ids=lambda p: p.stem
)
def test_committed_timings_are_whole_and_of_today_s_records(path):
    result = Timing.load(path)
    entry = CATALOG[result.name]
    assert path.stem.startswith(f"timing-{entry.name}-")
    # Runs on a borrowed GPU may be cut off: the page "Costs" names each of them.
    assert result.complete or not path.stem.endswith("-cpu")
    labels = {entry.label(variant) for variant in entry.variants}
    assert {record.candidate for record in result.records} <= labels
    assert {record.task for record in result.records} == set(TASKS)


def test_the_commit_is_the_installer_s_or_the_checkout_s(monkeypatch):
    def installed(text):
        origin = SimpleNamespace(read_text=lambda name: text)
        monkeypatch.setattr(provenance, "distribution", lambda name: origin)
        return provenance.commit()

    checkout = DATA.parents[1] / "posedu/book/provenance.py"
    monkeypatch.setattr(provenance, "__file__", str(checkout))
    assert installed('{"url": "u", "vcs_info": {"commit_id": "abc"}}') == "abc"
    here = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=DATA, capture_output=True, text=True
    ).stdout.strip()
    for text in (None, '{"url": "u", "dir_info": {"editable": true}}'):
        assert installed(text).removesuffix("+") == here
    # A checkout of something else, which the package only lies in, says nothing.
    monkeypatch.setattr(provenance, "__file__", str(DATA / "absent.py"))
    assert installed(None) is None


def test_results_made_alike_differ_in_their_day_alone():
    made = {"date": "1", "seed": 0}
    assert provenance.same_making(made, made | {"date": "2"})
    assert not provenance.same_making(made, made | {"seed": 1})
    assert not provenance.same_making(made, made | {"more": 0})


def known(runs, limit, *, device, repeats):
    """A clock that believes what a call returns."""
    assert device.type == "cpu" and not torch.is_grad_enabled()
    return {
        name: np.full((repeats, 2), (run(), limit() or 1)) for name, run in runs.items()
    }


def test_an_exponent_is_the_slope_and_has_an_error(monkeypatch):
    monkeypatch.setattr("posedu.book.timing.ratios_to_limits.alternate", known)
    slope, error = time_exponent(lambda n: lambda: n**2, (1, 2, 4, 8))
    assert slope == pytest.approx(2) and error < 1e-6
    _, error = time_exponent(lambda n: lambda: n**2 + 100 * (n == 4), (1, 2, 4, 8))
    assert error > 0.1
    with pytest.raises(ValueError, match=r"three sizes or more, got \[1, 2\]"):
        time_exponent(lambda n: lambda: n, (1, 2))


def test_ratios_are_over_the_limit(monkeypatch):
    monkeypatch.setattr("posedu.book.timing.ratios_to_limits.alternate", known)
    found = ratios({"one": lambda: 6.0, "other": lambda: 1.0}, lambda: 4.0)
    assert {name: time.median for name, time in found.items()} == {
        "one": 1.5,
        "other": 0.25,
    }
