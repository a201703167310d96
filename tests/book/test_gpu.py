"""The command for a GPU, run on the CPU: it continues, and names failures."""

import subprocess
import sys
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from posedu.book import gpu
from posedu.book.timing import Timing, encodings, peers
from posedu.catalog import CATALOG
from posedu.crosscheck import CrossCheck, attention_hooks, features
from posedu.torch import RoPE, StickBreaking
from support import ROOT
from support.fake_cuda import NAME, fake_cuda

pytestmark = pytest.mark.usefixtures("unchecked")

SMALL = ["--device", "cpu", "--modes", "eager", "--lengths", "8", "--repeats", "1"]


@pytest.fixture
def smallest(monkeypatch):
    """Cross-check and time the smallest inputs, of the first variants."""
    monkeypatch.setattr(features, "SIZES", (4,))
    monkeypatch.setattr(attention_hooks, "SHAPES", attention_hooks.SHAPES[:1])
    for name in ("sinusoidal", "rope", "alibi", "stickbreaking"):
        record = CATALOG[name]
        record = replace(record, variants=record.variants[:1])
        monkeypatch.setitem(CATALOG, name, record)


@pytest.fixture
def command(smallest, tmp_path):
    """The command with the smallest inputs."""
    return lambda *given: gpu.main([*given, *SMALL, "--folder", str(tmp_path)])


def test_every_entry_is_checked_and_timed_and_some_with_peers():
    found = gpu.parts()
    assert found[: 2 * len(CATALOG)] == [
        (kind, name) for kind in ("crosscheck", "timing") for name in CATALOG
    ]
    assert found[2 * len(CATALOG) :] == [("peers", name) for name in peers.PEERS]


def test_files_say_on_what_they_were_made(command, tmp_path, capsys):
    assert command("sinusoidal") == 0
    checks = CrossCheck.load(tmp_path / "crosscheck-sinusoidal-cpu.json")
    times = Timing.load(tmp_path / "timing-sinusoidal-cpu.json")
    assert checks.ok and times.complete and len(times.records) == 4
    for made in (checks.made, times.made):
        assert {"device", "seed", "date", "commit", "versions"} <= made.keys()
    said = capsys.readouterr().out
    assert "crosscheck sinusoidal: 8 of 8 comparisons hold" in said
    assert "timing sinusoidal: 4 measured" in said and str(tmp_path) in said


def test_interrupted_it_goes_on(command, tmp_path, monkeypatch, capsys):
    def interrupted(*given, **cell):
        raise KeyboardInterrupt

    with monkeypatch.context() as then:
        then.setattr(encodings, "compare", interrupted)
        assert command("sinusoidal") == 130
    assert "Interrupted in timing sinusoidal" in capsys.readouterr().out
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(before) == 2
    with monkeypatch.context() as then:
        then.setattr(gpu, "crosscheck", None)  # what is there is not made again
        assert command("sinusoidal") == 0
    after = {path: path.read_bytes() for path in tmp_path.iterdir()}
    changed = [path.name for path in after if after[path] != before[path]]
    assert changed == ["timing-sinusoidal-cpu.json"]
    with monkeypatch.context() as then:
        then.setattr(gpu, "crosscheck", None)
        then.setattr(encodings, "compare", None)
        assert command("sinusoidal") == 0


def wrong_kernel(stopping, tokens):
    """The kernel's result, off by a thousandth."""
    return 1.001 * ATTEND(stopping, tokens)


ATTEND = StickBreaking.attend


def test_a_wrong_kernel_is_named_and_fails(command, tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as then:
        then.setattr(StickBreaking, "attend", wrong_kernel)
        assert command("stickbreaking", "sinusoidal") == 1
    said = capsys.readouterr().out.splitlines()
    wrong = [line for line in said if "✗" in line]
    assert wrong
    for line in wrong:
        assert line.startswith("crosscheck stickbreaking: ✗ numpy–torch fused, ")
        assert line.endswith("% of the bound")
    assert "timing sinusoidal: 4 measured" in said
    # It is a result, and stays one when the command goes on.
    assert command("stickbreaking", "sinusoidal") == 1


def test_what_fails_with_an_error_is_named_and_tried_again(
    command, tmp_path, monkeypatch, capsys
):
    def broken(module, *given):
        raise RuntimeError("no such kernel\nand more")

    with monkeypatch.context() as then:
        then.setattr(RoPE, "forward", broken)
        then.setattr(RoPE, "rotate", broken)
        then.setitem(peers.PEERS, "rope", broken)
        assert command("rope", "sinusoidal") == 1
    said = capsys.readouterr().out.splitlines()
    reason = "RuntimeError: no such kernel"
    assert f"crosscheck rope: ✗ eager: {reason}" in said
    assert f"timing rope: ✗ {reason}" in said
    assert f"peers rope: ✗ {reason}" not in said  # it got keywords that it lacks
    assert any(line.startswith("peers rope: ✗ TypeError") for line in said)
    assert "crosscheck sinusoidal: 8 of 8 comparisons hold" in said
    monkeypatch.setitem(peers.PEERS, "rope", broken)
    assert command("rope") == 0
    assert CrossCheck.load(tmp_path / "crosscheck-rope-cpu.json").ok


def test_without_a_gpu_it_refuses_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 2
    refused = capsys.readouterr()
    assert refused.out == ""
    assert refused.err == f"{gpu.REFUSAL}\n"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["ropes"], "no entry is named ropes"),
        (["--device", "cpu"], "--device cpu needs a --folder"),
    ],
)
def test_refused(given, message, capsys):
    with pytest.raises(SystemExit):
        gpu.main(given)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("native", [True, False])
def test_what_a_gpu_is_asked_for(native, tmp_path, monkeypatch):
    """A GPU that emulates bfloat16 is timed in float16; files are named after it."""
    asked = {}

    def noting(name, **given):
        asked[name] = given
        return Timing(name, {}, complete=True)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Some GPU (2)")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **given: native)
    monkeypatch.setattr(gpu, "time_encoding", noting)
    monkeypatch.setitem(gpu.PEERS, "rope", noting)
    monkeypatch.setattr(gpu, "check", lambda name, **given: CrossCheck(name, ()))
    assert gpu.main(["alibi", "--folder", str(tmp_path)]) == 1
    half = torch.bfloat16 if native else torch.float16
    assert asked["alibi"]["device"] == torch.device("cuda")
    assert asked["alibi"]["dtypes"] == (torch.float32, half)
    assert asked["alibi"]["save_to"] == tmp_path / "timing-alibi-some-gpu-2.json"


@pytest.fixture
def installed(monkeypatch):
    """Arguments that the notebook gives pip, which installs nothing here."""
    wanted, run = [], subprocess.run

    def run_without_pip(command, **options):
        if "pip" not in command:
            return run(command, **options)
        wanted.extend(command[command.index("--quiet") + 1 :])

    monkeypatch.setattr(subprocess, "run", run_without_pip)
    return wanted


@pytest.mark.slow
@pytest.mark.usefixtures("smallest", "untraced_flex")
def test_the_notebook_runs_in_colab_on_a_gpu(installed, tmp_path, monkeypatch):
    """All cells run in order on a fake GPU, for two encodings at the smallest sizes."""
    display = pytest.importorskip("IPython.display")
    nbformat = pytest.importorskip("nbformat")
    downloads, shown, main = [], [], gpu.main
    colab = SimpleNamespace(files=SimpleNamespace(download=downloads.append))
    few, sizes = ["rope", "alibi"], ["--lengths", "8", "--repeats", "1"]
    monkeypatch.setitem(sys.modules, "google.colab", colab)
    monkeypatch.setattr(display, "display", shown.append)
    monkeypatch.setattr(gpu, "main", lambda given: main([*few, *given, *sizes]))
    monkeypatch.chdir(tmp_path)
    notebook, names = nbformat.read(ROOT / "notebooks/gpu.ipynb", as_version=4), {}
    with fake_cuda(monkeypatch):
        for number, cell in enumerate(notebook.cells):
            if cell.cell_type == "code":
                exec(compile(cell.source, f"cell {number}", "exec"), names)
    assert tuple(installed) == tuple(peers.LIBRARIES)
    checks = [result for result in shown if isinstance(result, CrossCheck)]
    times = [result for result in shown if isinstance(result, Timing)]
    assert (len(checks), len(times)) == (2, 4)
    rows = [row for result in checks for row in result.results]
    assert {row.device for row in rows} == {"cuda"}
    routes = {row.implementations.partition(" ")[2] for row in rows}
    assert routes >= {"eager", "flex, compiled", "folded, compiled"}
    assert all(result.complete and result.records for result in times)
    assert {result.made["device"] for result in shown} == {NAME}
    (archive,) = downloads
    assert {*zipfile.ZipFile(archive).namelist()} >= {
        f"book/data/{kind}-{name}-fake-gpu.json"
        for kind in ("crosscheck", "timing", "peers")
        for name in few
    }
