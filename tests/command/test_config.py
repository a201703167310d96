"""``posedu config`` and ``posedu diff``: targets, exit statuses, JSON, warnings."""

import io
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from posedu.command import main
from posedu.tools.configs.rotary_config import CODES

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 4,
    "max_position_embeddings": 4096,
    "rope_theta": 10_000.0,
}
UNREAD = LLAMA | {"rope_scaling_factor": 32.0}


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
