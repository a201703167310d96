"""The command for a GPU, run on the CPU: it continues, and names failures."""

from dataclasses import replace

import pytest
import torch

from posedu.book import gpu
from posedu.book.timing import Timing, encodings, peers
from posedu.catalog import CATALOG
from posedu.crosscheck import CrossCheck, attention_hooks, features
from posedu.torch import RoPE, StickBreaking

pytestmark = pytest.mark.usefixtures("unchecked")

SMALL = ["--device", "cpu", "--modes", "eager", "--lengths", "8", "--repeats", "1"]


@pytest.fixture
def command(tmp_path, monkeypatch):
    """The command with the smallest inputs, for the first variants."""
    monkeypatch.setattr(features, "SIZES", (4,))
    monkeypatch.setattr(attention_hooks, "SHAPES", attention_hooks.SHAPES[:1])
    for name in ("sinusoidal", "rope", "stickbreaking"):
        record = CATALOG[name]
        record = replace(record, variants=record.variants[:1])
        monkeypatch.setitem(CATALOG, name, record)
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
