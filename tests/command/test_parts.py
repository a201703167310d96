"""``posedu kernel``, ``oracle``, ``convert``, ``time`` and ``run``."""

import json
import sys

import numpy as np
import pytest
import torch

from posedu.command import main
from support.safetensors_files import read, written

KERNELS = """
import torch

def rotate(x, positions, base=10_000.0):
    w = base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angle = positions[:, None, :, None].double() * w.double()
    cos, sin = angle.cos(), angle.sin()
    a, b = x.double().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)

def other_base(x, positions):
    return rotate(x, positions, base=500_000.0)

def doubled(x, positions):
    return 2 * other_base(x, positions)

def shifted(x, positions):
    return rotate(x, positions + 1)

def nothing(x, positions):
    raise NotImplementedError("later")
"""
LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 2,
    "rope_theta": 500_000.0,
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with kernels and a configuration, from which the command is run."""
    (tmp_path / "own_kernels.py").write_text(KERNELS, "utf-8")
    (tmp_path / "config.json").write_text(json.dumps(LLAMA), "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_kernels", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("own_kernels", None)


def test_a_kernel_is_right_or_wrong_or_not_run(here, capsys):
    half = ["layout=half"]
    assert main(["kernel", "own_kernels:rotate", *half]) == 0
    assert capsys.readouterr().out.startswith("✓ RoPE: right")
    assert main(["kernel", "own_kernels:shifted", *half]) == 1
    assert "✗ RoPE: wrong" in capsys.readouterr().out
    assert main(["kernel", "own_kernels:nothing", *half]) == 2
    assert "cannot run: it raises NotImplementedError" in capsys.readouterr().out
    assert main(["kernel", "own_kernels.py:rotate", *half]) == 0


def test_a_kernel_is_tested_with_the_numbers_of_a_configuration(here, capsys):
    of_config = ["--config", "config.json", "--dtypes", "float64"]
    assert main(["kernel", "own_kernels:other_base", *of_config]) == 0
    assert main(["kernel", "own_kernels:rotate", *of_config]) == 1
    assert "base 10,000" in capsys.readouterr().out
    scaling = {"type": "yarn", "factor": 1.0, "attention_factor": 2.0}
    scaling["original_max_position_embeddings"] = 4096
    yarn = LLAMA | {"rope_scaling": scaling, "max_position_embeddings": 4096}
    (here / "yarn.json").write_text(json.dumps(yarn), "utf-8")
    of_yarn = ["--config", "yarn.json", "--dtypes", "float64"]
    assert main(["kernel", "own_kernels:doubled", *of_yarn]) == 0
    assert main(["kernel", "own_kernels:other_base", *of_yarn]) == 1
    assert "rotated features are multiplied by 1, not 2" in capsys.readouterr().out
    two = LLAMA | {"model_type": "gemma3_text", "rope_local_base_freq": 10_000.0}
    (here / "two.json").write_text(json.dumps(two), "utf-8")
    assert main(["kernel", "own_kernels:rotate", "--config", "two.json"]) == 2
    assert "must have one kind of rotated layer" in capsys.readouterr().err


def test_a_verdict_is_a_line_of_json(here, capsys):
    assert main(["kernel", "own_kernels:shifted", "layout=half", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (
        said["schema"] == "posedu.kernel/1" and said["target"] == "own_kernels:shifted"
    )
    assert said["ok"] is False and said["faults"] and said["failures"]


def test_test_cases_are_written_for_other_languages(here, capsys):
    assert main(["oracle", "rope", "layout=half", "--out", "rope.npz"]) == 0
    with np.load(here / "rope.npz") as arrays:
        count = len(json.loads(str(arrays["README"]))["cases"])
    assert capsys.readouterr().out == f"rope.npz: {count} cases of rope\n"


@pytest.fixture
def checkpoint(here):
    """A folder with a configuration and a file of three matrices."""
    folder = here / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA), "utf-8")
    made = torch.Generator().manual_seed(0)
    tensors = {
        f"model.layers.0.self_attn.{name}_proj.weight": torch.randn(
            64, 64, generator=made
        ).bfloat16()
        for name in "qkv"
    }
    written(folder / "model.safetensors", tensors)
    return folder


def test_a_checkpoint_is_planned_and_converted(checkpoint, here, capsys):
    assert main(["convert", "model", "--to", "interleaved", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Pairs half → interleaved: 2 tensors to permute")
    assert [*here.glob("*new*")] == []
    target = str(here / "new.safetensors")
    assert main(["convert", "model", target, "--to", "interleaved"]) == 0
    assert f"written to {target}, the tensors alone" in capsys.readouterr().out
    before, _ = read(checkpoint / "model.safetensors")
    after, _ = read(here / "new.safetensors")
    name = "model.layers.0.self_attn.q_proj.weight"
    heads = before[name].view(2, 2, 16, 64).transpose(1, 2).reshape(64, 64)
    assert torch.equal(after[name], heads)
    assert main(["convert", "model", target, "--to", "interleaved"]) == 2
    assert capsys.readouterr().err == f"{target}: exists; --overwrite replaces it\n"
    given = ["--from", "interleaved", "--config", "model/config.json", "--to", "half"]
    assert main(["convert", target, str(here / "back.safetensors"), *given]) == 0
    back, _ = read(here / "back.safetensors")
    assert all(torch.equal(back[n], before[n]) for n in before)


def test_what_cannot_be_read_or_written_is_the_one_that_is_named(
    checkpoint, here, capsys
):
    (here / "list.json").write_text("[1]", "utf-8")
    asked = ["convert", str(checkpoint), "new", "--to", "interleaved"]
    assert main([*asked, "--config", "list.json"]) == 2
    assert capsys.readouterr().err.startswith("list.json: the file must be a JSON obj")
    assert main(["oracle", "rope", "layout=half", "--out", "nowhere/rope.npz"]) == 2
    assert capsys.readouterr().err.startswith("nowhere/rope.npz: ")


def test_a_kernel_is_run_on_one_thread(here, capsys):
    (here / "threads.py").write_text(
        "import torch\ndef f(x, positions): raise ValueError(torch.get_num_threads())",
        "utf-8",
    )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert main(["kernel", "threads.py:f"]) == 2
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert "raises ValueError: 1 (" in capsys.readouterr().out


def test_a_conversion_names_what_is_missing(checkpoint, capsys):
    assert main(["convert", "nowhere", "new", "--to", "half"]) == 2
    assert capsys.readouterr().err == "nowhere: there is no such file or folder\n"
    (checkpoint / "config.json").unlink()
    assert main(["convert", "model", "new", "--to", "half"]) == 2
    assert "model: it has no config.json" in capsys.readouterr().err
    assert not (checkpoint.parent / "new").exists()


def test_a_tensor_that_cannot_be_converted_is_named(checkpoint, capsys):
    tensors, _ = read(checkpoint / "model.safetensors")
    tensors["model.layers.0.self_attn.qkv_proj.weight"] = torch.zeros(
        192, 64
    ).bfloat16()
    written(checkpoint / "model.safetensors", tensors)
    assert main(["convert", "model", "new", "--to", "interleaved"]) == 1
    assert "qkv_proj" in capsys.readouterr().out
    assert not (checkpoint.parent / "new").exists()


def test_a_fused_matrix_is_converted_with_its_order(checkpoint, here, capsys):
    tensors, _ = read(checkpoint / "model.safetensors")
    matrices = [tensors[f"model.layers.0.self_attn.{n}_proj.weight"] for n in "qkv"]
    name = "model.layers.0.self_attn.qkv_proj.weight"
    written(checkpoint / "model.safetensors", {name: torch.cat(matrices)})
    target = str(here / "new.safetensors")
    given = ["convert", "model", target, "--to", "interleaved"]
    stacked = ["--fused", "stacked", "--heads", "2"]
    assert main([*given, *stacked]) == 0
    after, _ = read(here / "new.safetensors")
    q, k, v = after[name].chunk(3)
    for before, now in zip(matrices, (q, k), strict=False):
        heads = before.view(2, 2, 16, 64).transpose(1, 2).reshape(64, 64)
        assert torch.equal(now, heads)
    assert torch.equal(v, matrices[2])
    assert main([*given, "--fused", "stacked"]) == 2
    assert main([*given, "--kv-heads", "2"]) == 2
    assert capsys.readouterr().err.count("--fused needs --heads") == 2
    grouped = ["--fused", "grouped", "--heads", "2", "--kv-heads", "2", "--overwrite"]
    assert main([*given, *grouped]) == 0
    other, _ = read(here / "new.safetensors")
    assert not torch.equal(other[name], after[name])


def test_an_order_of_fused_matrices_without_any_is_warned_of(checkpoint, here, capsys):
    """A shard of a checkpoint may lack them; a whole checkpoint may not."""
    given = ["--to", "interleaved", "--fused", "stacked", "--heads", "2"]
    for more in (["--dry-run"], ["new.safetensors"]):
        assert main(["convert", "model", *more, *given]) == 1
        assert capsys.readouterr().out.startswith("warning: --fused and --heads desc")
    plain, _ = read(here / "new.safetensors")
    assert main(["convert", "model", "other.safetensors", "--to", "interleaved"]) == 0
    other, _ = read(here / "other.safetensors")
    assert all(torch.equal(plain[name], other[name]) for name in plain | other)
    shard = checkpoint / "model-00001-of-00002.safetensors"
    (checkpoint / "model.safetensors").rename(shard)
    asked = ["convert", str(shard), "--dry-run", *given]
    capsys.readouterr()
    assert main(asked) == 0
    assert "warning" not in capsys.readouterr().out
    names = {f"model.layers.0.self_attn.{n}_proj.weight": shard.name for n in "qkv"}
    index = checkpoint / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}), "utf-8")
    assert main(["convert", "model", "--dry-run", *given]) == 1
    assert "warning: --fused" in capsys.readouterr().out


def test_experiments_and_timings_get_their_arguments(here, capsys):
    assert main(["run", "no-such-experiment"]) == 2
    assert (
        "the experiments are characters, context_extension" in capsys.readouterr().err
    )
    assert main(["run", "--help"]) == 0
    assert "One of characters" in capsys.readouterr().out
    assert main(["run", "digits", "--help"]) == 0
    assert "--epochs" in capsys.readouterr().out
    assert main(["time", "--help"]) == 0
    assert "--lengths" in capsys.readouterr().out


def test_a_function_that_is_missing_is_named_once(here, capsys):
    assert main(("kernel", "own_kernels:missing", "--encoding", "rope")) == 2
    error = capsys.readouterr().err
    assert error.count("own_kernels:missing") == 1 and "AttributeError" in error


def test_what_keeps_transformers_from_being_imported_is_named(
    here, monkeypatch, capsys
):
    (here / "transformers.py").write_text("import never_installed\n")
    (here / "config.json").write_text('{"model_type": "llama"}')
    monkeypatch.syspath_prepend(here)
    monkeypatch.delitem(sys.modules, "transformers", raising=False)
    assert main(("diagnose", "config.json")) == 2
    error = capsys.readouterr().err
    assert "never_installed" in error and "install it" not in error
