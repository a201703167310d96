"""Commands answer bad arguments with a sentence and exit status 2.

Files are read and written as UTF-8 in every locale.
"""

import os
import subprocess
import sys
from importlib import import_module

import pytest

from posedu.book.experiments import characters, digits, sequences
from posedu.command import main as command
from support import ROOT

NUMBERS = ("0", "-1", "x", "1.5", "9" * 20)
PARTS = {
    "": [["--bad"], ["x"]],
    "config": [
        [],
        [""],
        ["nowhere"],
        ["."],
        ["--bad"],
        ["a/b"],
        ["a", "--ignore", "x"],
    ],
    "diff": [[], ["a"], ["nowhere", "nowhere"], ["a", "b", "c"]],
    "diagnose": [
        *([], ["nowhere"], ["a:b"], ["os:nothing"], ["os:getcwd"], [":"], ["x:"]),
        *(["sys:exit"], ["..:a"], ["--bad"]),
    ],
    "kernel": [
        *([], ["x"], ["a:b"], ["os:nothing"], ["math:pi"], ["..:a"]),
        *(["math:cos", *more] for more in (["--d", "0"], ["--d", "x"], ["layout"])),
        *(["math:cos", option] for option in ("d=8", "kernel=8", "name=x", "=3")),
        *(["math:cos", "--device", "x"], ["math:cos", "--tensors", "x"]),
        *(["math:cos", "--dtypes", "int8"], ["math:cos", "--angles", "x"]),
        ["math:cos", "--config", "nowhere"],
    ],
    "oracle": [
        *([], ["x", "--out", "a.npz"], ["rope", "--out", "a.txt"]),
        *(["rope", "--out", ""], ["rope", "--out", "/proc/x/a.npz"]),
        *(["rope", "--out", "a.npz", option] for option in ("d=8", "path=x", "name=x")),
        *(["rope", "--out", "a.npz", "--d", n] for n in NUMBERS),
        *(["rope", "--out", "a.npz", option] for option in ("layout=x", "base=[]")),
    ],
    "convert": [
        *([], ["nowhere"], ["nowhere", "--to", "half"], ["nowhere", "--to", "x"]),
        ["nowhere", "b", "--to", "half", "--from", "interleaved"],
    ],
    "time": [["x"], ["rope", "--bad"]],
    "run": [[], ["x"], ["digits", "--bad"]],
}
BAD = {
    "posedu.book.timing.__main__": [
        *([], ["x"], ["rope", "--bad"], ["rope", "--device", "x"], ["rope", "--all"]),
        *(["rope", "--compile", "--peers"], ["cape", "--peers"]),
        *(["rope", "--dtypes", "x"], ["rope", "--system-memory", "--head-dims", "3"]),
        *(
            ["rope", option, n]
            for option in ("--lengths", "--head-dims", "--heads", "--repeats")
            for n in NUMBERS
        ),
        *(["rope", "--threads", n] for n in NUMBERS),
        *(["rope", "--seed", n] for n in NUMBERS[1:]),
        ["rope", "--system-memory", "--folder", "/proc/x"],
    ],
    "posedu.book.timing.models": [
        *(["x"], ["--bad"]),
        *(
            [option, n]
            for option in ("--contexts", "--lengths", "--repeats", "--training-repeats")
            for n in NUMBERS
        ),
        *(["--seed", n] for n in NUMBERS[1:]),
    ],
    "posedu.book.timing.chunks": [
        *(["x"], ["--bad"]),
        *(
            [option, n]
            for option in ("--length", "--chunks", "--repeats")
            for n in NUMBERS
        ),
        *(["--seed", n] for n in NUMBERS[1:]),
    ],
    "posedu.book.gpu": [
        *(["x"], ["--bad"], ["--device", "cpu"], ["--device", "x"], ["--modes", "x"]),
        *([option, n] for option in ("--lengths", "--repeats") for n in NUMBERS),
        ["rope", "--device", "cpu", "--folder", "/proc/x"],
    ],
}
EXPERIMENTS = {
    "digits": (digits.experiment, "encodings", "epochs"),
    "sequences": (sequences.experiment, "encodings", "steps"),
    "characters": (characters.experiment, "encodings", "steps"),
}


def answer(main, arguments):
    """The exit status of a command."""
    try:
        return main(arguments)
    except SystemExit as exit:
        return exit.code


@pytest.mark.parametrize("module", BAD)
def test_bad_arguments_are_answered_with_a_sentence(
    module, capsys, tmp_path, monkeypatch, unchecked
):
    monkeypatch.chdir(tmp_path)
    main = import_module(module).main
    for arguments in BAD[module]:
        assert answer(main, arguments) == 2, arguments
        said = capsys.readouterr().err
        assert said.strip() and "Traceback" not in said, arguments


@pytest.mark.parametrize("part", PARTS)
def test_bad_arguments_of_posedu_are_answered_with_a_sentence(
    part, capsys, tmp_path, monkeypatch, unchecked
):
    monkeypatch.chdir(tmp_path)
    for arguments in PARTS[part]:
        assert command([part, *arguments] if part else arguments) == 2, arguments
        said = capsys.readouterr().err
        assert said.strip() and "Traceback" not in said, arguments


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_answers_bad_arguments_with_a_sentence(name, capsys, tmp_path):
    experiment, choice, length = EXPERIMENTS[name]
    out = ["--out", str(tmp_path / "result.json")]
    bad = [["x"], [f"--{choice}", "x"], [f"--{choice}"]]
    options = ("--seeds", f"--{length}", "--processes")
    bad += [[option, n] for option in options for n in NUMBERS[:-1]]
    bad += [["--processes", "1", "--dask", "x"], ["--out", str(tmp_path)]]
    for arguments in bad:
        assert answer(experiment.main, [*out, *arguments]) == 2, arguments
        said = capsys.readouterr().err
        assert said.strip() and "Traceback" not in said, arguments
    assert answer(experiment.main, ["--out", "/proc/x/result.json"]) == 2
    assert "/proc/x" in capsys.readouterr().err


READS = """
import sys
from pathlib import Path
from posedu.book.experiments import digits
from posedu.book.timing import Timing
from posedu.crosscheck import CrossCheck
data, folder = map(Path, sys.argv[1:])
for kind, name in (
    (digits.Result, "digits-cpu.json"),
    (Timing, next(data.glob("timing-rope-*.json")).name),
):
    result = kind.load(data / name)
    result.save(folder / name)
    assert kind.load(folder / name) == result
check = CrossCheck("rope", (), failed={"eager": "a \\u2264 b"})
check.save(folder / "check.json")
assert CrossCheck.load(folder / "check.json") == check
"""


def test_files_are_utf_8_in_every_locale(tmp_path):
    command = [sys.executable, "-c", READS, str(ROOT / "book/data"), str(tmp_path)]
    locale = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    run = subprocess.run(
        command, env=os.environ | locale, cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
