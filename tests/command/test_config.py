"""``posedu config`` and ``posedu diff``: targets, exit statuses, JSON, warnings."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from posedu.book.explorables import config_reader
from posedu.command import main
from posedu.tools.configs.rotary_config import CODES
from support import ROOT

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 4,
    "max_position_embeddings": 4096,
    "rope_theta": 10_000.0,
}
UNREAD = LLAMA | {"rope_scaling_factor": 32.0}


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """Make the output so wide that the files' long names wrap no table."""
    monkeypatch.setenv("COLUMNS", "500")


@pytest.fixture
def write(tmp_path):
    """A function that writes a configuration, and returns the file's path."""

    def write(content, name="config.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
        return str(path)

    return write


def test_a_warning_is_status_1_and_stands_before_the_table(write, capsys):
    assert main(["config", write(UNREAD)]) == 1
    first, *table = capsys.readouterr().out.splitlines()
    assert first.startswith("warning [unread-name]: rope_scaling_factor is not read")
    assert table[0] == "Rotary embeddings of llama, config format: transformers 4"


def test_warnings_are_left_out_by_their_code(write, capsys):
    path = write(UNREAD)
    assert main(["config", path, "--ignore", "unread-name"]) == 0
    assert "warning" not in capsys.readouterr().out
    assert main(["config", path, "--ignore", "stale-keys"]) == 1
    assert main(["config", path, "--ignore", "no such code"]) == 2
    said = capsys.readouterr().err
    assert all(code in said for code in CODES)


def test_what_is_not_known_is_a_status_where_it_is_asked_for(write):
    bare = write({"rope_theta": 10_000.0, "head_dim": 64})
    assert main(["config", bare]) == 0
    assert main(["config", bare, "--strict"]) == 1
    assert main(["config", write(LLAMA, "llama.json"), "--strict"]) == 0


def test_several_targets_have_the_worst_status(write, capsys):
    right, wrong = write(LLAMA, "a.json"), write(UNREAD, "b.json")
    assert main(["config", right, right]) == 0
    assert main(["config", right, wrong]) == 1
    assert main(["config", "nowhere.json", wrong, right]) == 2
    said = capsys.readouterr()
    assert said.err == "nowhere.json: there is no such file\n"
    assert said.out.count(f"{right}:\n") == 4


def test_the_standard_input_is_read(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(LLAMA)))
    assert main(["config", "-"]) == 0
    assert "10,000" in capsys.readouterr().out
    for text, reason in (("{", "-: the standard input is not JSON"), ("[]", "object")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        assert main(["config", "-"]) == 2
        assert reason in capsys.readouterr().err


def test_each_line_of_a_file_of_lines_is_a_configuration(tmp_path, capsys):
    path = tmp_path / "all.jsonl"
    path.write_text("\n".join(map(json.dumps, (LLAMA, UNREAD))) + "\n", "utf-8")
    assert main(["config", str(path), "--json"]) == 1
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["target"] for each in said] == [f"{path}:1", f"{path}:2"]
    assert {each["schema"] for each in said} == {"posedu.config/1"}
    assert len(said[0]["kinds"]["all"]["frequencies"]) == 64
    assert said[1]["remarks"][0]["code"] == "unread-name"


BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{{', '.join(f'k{k}: *a{n - 1}' for k in range(9))}}}\n"
    for n in range(1, 12)
)
HOSTILE = {
    # A file, and for each complaint what is complained of and a part of the reason.
    ("empty.json", b""): [("", "it is empty")],
    ("list.json", b"[1]"): [("", "must be a JSON object, got [1]")],
    ("bytes.json", b"\xff\xff"): [("", "it is not text")],
    ("deep.json", b'{"a":' * 10**5): [("", "recursion")],
    ("cut.jsonl", b'{"rope_theta": 1'): [(":1", "it ends within an object")],
    ("empty.jsonl", b"\n \n"): [("", "no configuration")],
    ("bytes.jsonl", b"\xff\n[]\n"): [(":1", "it is not text"), (":2", "JSON object")],
    ("deep.jsonl", b"[" * 10**5): [(":1", "recursion")],
    ("empty.yaml", b"---\n---\n"): [("", "no configuration")],
    ("list.yaml", b"a: 1\n---\n- 1\n"): [("", "document 2 must be an object")],
    ("code.yaml", b"!!python/name:os.system"): [("", "not YAML")],
    ("in itself.yaml", b"&x {a: *x, rope_theta: 10.0, head_dim: 8}"): [("", "within")],
    ("a bomb.yaml", BOMB.encode()): [("", "at most 65536 objects")],
    ("cut.gguf", b"GGUF\x03\0\0\0"): [("", "damaged")],
}


@pytest.mark.parametrize(("name", "data"), HOSTILE)
def test_a_file_that_is_none_is_refused_in_a_sentence(name, data, tmp_path, capsys):
    path = tmp_path / name
    path.write_bytes(data)
    assert main(["config", str(path)]) == 2
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert said.out == "" and len(lines) == len(HOSTILE[name, data])
    for line, (place, reason) in zip(lines, HOSTILE[name, data], strict=True):
        assert line.startswith(f"{path}{place}: ") and reason in line


def test_a_broken_line_hides_no_other(tmp_path, capsys):
    path = tmp_path / "all.jsonl"
    lines = "{", json.dumps(LLAMA | {"note": "\u2028"}, ensure_ascii=False), "[]"
    path.write_text("\n".join(lines), "utf-8")
    assert main(["config", str(path)]) == 2
    said = capsys.readouterr()
    assert "10,000" in said.out
    named = [line.partition(": ")[0] for line in said.err.splitlines()]
    assert named == [f"{path}:1", f"{path}:3"]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.yaml", "-"])
def test_a_key_that_is_given_twice_is_said(name, tmp_path, monkeypatch, capsys):
    text = '{"rope_theta": 1.0e+4, "head_dim": 64, "rope_theta": 2.0e+4}'
    (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    target = name if name == "-" else str(tmp_path / name)
    assert main(["config", target]) == 1
    said = capsys.readouterr().out
    assert "'rope_theta' is given twice; the last is used" in said and "20,000" in said


def test_a_name_of_the_hub_is_read_from_its_library(write, monkeypatch, capsys):
    path = write(LLAMA)
    asked = []

    def download(name, file):
        asked.append((name, file))
        return path

    monkeypatch.setitem(
        sys.modules, "huggingface_hub", SimpleNamespace(hf_hub_download=download)
    )
    assert main(["config", "meta-llama/Llama-2-7b-hf"]) == 0
    assert asked == [("meta-llama/Llama-2-7b-hf", "config.json")]

    def refuse(name, file):
        raise RuntimeError("offline")

    monkeypatch.setattr(sys.modules["huggingface_hub"], "hf_hub_download", refuse)
    assert main(["config", "some/model"]) == 2
    assert "does not give its config.json (RuntimeError)" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert main(["config", "some/model"]) == 2
    assert "pip install huggingface_hub" in capsys.readouterr().err


def test_a_closed_pipe_is_no_error(write):
    code = "import sys; from posedu.command import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "config", *[write(LLAMA)] * 50]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait() == 0
    assert said == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has none")
def test_a_full_disk_is_no_answer(write):
    code = "import sys; from posedu.command import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "config", write(LLAMA)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == ["the output: No space left on device"]


def test_an_interrupt_has_a_status_of_its_own(write, monkeypatch):
    def interrupted(source):
        raise KeyboardInterrupt

    module = sys.modules["posedu.command.config"]
    monkeypatch.setattr(module, "read_rope", interrupted)
    assert main(["config", write(LLAMA)]) == 130


def test_one_configuration_in_two_spellings_does_not_differ(write, capsys):
    new = {**LLAMA, "rope_parameters": {"rope_theta": 10_000.0}}
    del new["rope_theta"]
    assert main(["diff", write(LLAMA, "a.json"), write(new, "b.json")]) == 0
    assert capsys.readouterr().out == "Same rotations in all layers.\n"


def test_what_differs_in_effect_is_named_pair_by_pair(write, capsys):
    other = LLAMA | {"rope_scaling": {"type": "linear", "factor": 4.0}}
    one, two = write(LLAMA, "a.json"), write(other, "b.json")
    assert main(["diff", one, two]) == 1
    said = capsys.readouterr().out
    assert said.startswith("1 thing differs.\n")
    assert "frequencies: 64 of 64 pairs  pair 0: 1; pair" in said
    assert main(["diff", one, two, "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == "posedu.diff/1" and len(said["differences"]) == 1
    assert main(["diff", one, "nowhere"]) == 2


def test_what_is_not_compared_is_a_status_where_it_is_asked_for(write, capsys):
    one = write(LLAMA, "a.json")
    bare = write({"rope_theta": 10_000.0, "head_dim": 128}, "b.json")
    assert main(["diff", one, bare]) == 0
    assert "Not compared: the layout" in capsys.readouterr().out
    assert main(["diff", one, bare, "--strict"]) == 1
    assert main(["diff", one, one, "--strict"]) == 0


def test_a_target_of_several_configurations_is_not_compared(tmp_path, write, capsys):
    path = tmp_path / "all.jsonl"
    path.write_text("\n".join([json.dumps(LLAMA)] * 2), "utf-8")
    assert main(["diff", write(LLAMA), str(path)]) == 2
    assert "one configuration is compared, got 2" in capsys.readouterr().err


def test_a_model_without_rotation_is_a_reading(write, capsys):
    bloom = {"model_type": "bloom", "hidden_size": 64, "n_head": 8}
    path = write(bloom, "bloom.json")
    assert main(["config", path, "--strict"]) == 0
    said = capsys.readouterr().out
    assert "the order of tokens comes from ALiBi with the slopes 0.5, 0.25" in said
    assert main(["config", path, "--json"]) == 0
    encodings = json.loads(capsys.readouterr().out)["encodings"]
    assert encodings == [{"kind": "alibi", "bias_max": 8.0, "heads": 8}]
    assert main(["diff", path, write(LLAMA, "llama.json")]) == 1
    assert "order of tokens  ALiBi with the slopes" in capsys.readouterr().out
    same = write(bloom | {"num_attention_heads": 8}, "same.json")
    assert main(["diff", path, same]) == 0
    said = capsys.readouterr().out
    assert said.startswith("No rotation in any layer of both; the order of tokens")
    assert "comes from ALiBi with the slopes 0.5, 0.25" in said
    vit = write({"model_type": "vit"}, "vit.json")
    assert main(["diff", vit, vit]) == 0
    said = capsys.readouterr().out
    assert said.startswith("No rotation in any layer of both. Not compared: where")
    assert main(["config", vit]) == 0 and main(["config", vit, "--strict"]) == 1
    assert "is not known here" in capsys.readouterr().out


NEMO = """
trainer: {devices: 8}
model:
  max_position_embeddings: 4096
  hidden_size: 4096
  num_attention_heads: 32
  position_embedding_type: rope
  rotary_percentage: 0.5
"""


def test_a_yaml_file_may_hold_the_model_under_any_name(tmp_path, capsys):
    path = tmp_path / "train.yaml"
    path.write_text(NEMO, "utf-8")
    assert main(["config", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["format"] == "Megatron-LM" and said["kinds"]["all"]["width"] == 64
    assert "is the object model" in said["remarks"][-1]["text"]
    path.write_text(NEMO + "  rope_ratio_of_mine: 2\n", "utf-8")
    assert main(["config", str(path)]) == 1
    assert "model.rope_ratio_of_mine is not read" in capsys.readouterr().out


def test_each_document_of_a_yaml_file_is_a_configuration(tmp_path, capsys):
    path = tmp_path / "two.yml"
    path.write_text(f"{json.dumps(LLAMA)}\n---\n{NEMO}", "utf-8")
    assert main(["config", str(path)]) == 0
    said = capsys.readouterr().out
    assert f"{path}:1:" in said and f"{path}:2:" in said
    assert main(["diff", str(path), str(path)]) == 2
    assert "one configuration is compared, got 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [1", "the file is not YAML"),
        ("- 1", "document 1 must be an object"),
        (f"a: {json.dumps(LLAMA)}\nb: {json.dumps(LLAMA)}", "several objects"),
        ("a: {b: 1}", "config format not recognized"),
    ],
)
def test_a_yaml_file_that_cannot_be_read_is_refused(text, reason, tmp_path, capsys):
    path = tmp_path / "c.yaml"
    path.write_text(text, "utf-8")
    assert main(["config", str(path)]) == 2
    assert reason in capsys.readouterr().err


def test_without_pyyaml_the_command_says_what_to_install(tmp_path, monkeypatch, capsys):
    path = tmp_path / "c.yaml"
    path.write_text(NEMO, "utf-8")
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert main(["config", str(path)]) == 2
    assert "pip install posedu[yaml]" in capsys.readouterr().err


MODEL = """
import math
import torch
from torch import nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self, base=10_000.0, d=32):
        super().__init__()
        self.embed = nn.Embedding(64, d)
        self.q, self.k = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.frequencies = base ** (-torch.arange(0, d, 2) / d)

    def rotated(self, x, positions):
        angle = positions[:, None, :, None] * self.frequencies
        a, b = x.chunk(2, -1)
        cos, sin = angle.cos(), angle.sin()
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, input_ids, position_ids=None):
        x = self.embed(input_ids)
        if position_ids is None:
            position_ids = torch.arange(x.shape[1]).expand(x.shape[:2])
        q, k = (self.rotated(m(x)[:, None], position_ids) for m in (self.q, self.k))
        return F.scaled_dot_product_attention(q, k, x[:, None], is_causal=True)[:, 0]

def right():
    torch.manual_seed(0)
    return Model()

def other_base():
    torch.manual_seed(0)
    return Model(base=500_000.0)
"""


def test_a_configuration_is_compared_with_a_model(write, tmp_path, monkeypatch, capsys):
    (tmp_path / "own_model.py").write_text(MODEL, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = write(LLAMA | {"hidden_size": 32, "num_attention_heads": 1})
    assert main(["diff", path, "own_model.py:right"]) == 0
    assert capsys.readouterr().out.startswith("Same rotations in all layers.")
    assert main(["diff", path, "own_model:other_base", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    (row,) = said["differences"]
    assert row["what"] == "frequencies: 15 of 16 pairs"
    assert row["one"].startswith("pair 1: 0.562341") and "pair 15" in row["other"]
    bloom = write({"model_type": "bloom", "hidden_size": 32, "n_head": 1}, "b.json")
    assert main(["diff", bloom, "own_model.py:right"]) == 1
    said = capsys.readouterr().out
    assert "rotated" in said and "requires ALiBi's bias" in said
    assert main(["diff", path, "own_model.py:nothing"]) == 2
    assert main(["diff", "nowhere.json", "own_model.py:right"]) == 2
    sys.modules.pop("own_model", None)


def test_each_code_of_a_warning_has_one_place_on_the_page():
    page = (ROOT / "book/practice/command.md").read_text("utf-8")
    assert page.count("config_reader.warning_codes()") == 1
    shown = config_reader.warning_codes()._repr_html_()
    assert re.findall(r'id="code-([\w-]+)"', shown) == [*CODES]
