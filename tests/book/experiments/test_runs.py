"""Shared parts of all experiments: files of runs, interrupts, commands."""

import json
import os
import signal
from contextlib import suppress
from copy import deepcopy
from importlib import import_module

import pytest

from posedu.book.experiments import runs
from posedu.book.experiments.comparisons import origins
from posedu.book.experiments.runs import Run
from support import ROOT
from support.fake_experiment import KINDS, Result, Settings, experiment

NAMES = ("characters", "context_extension", "digits", "needles", "sequences")
MADE = dict(
    date="2026-01-02",
    device="a processor",
    threads=1,
    memory="kept",
    commit="0123456789",
    versions={"python": "3.14", "torch": "2.13"},
)


def a_run(seed=1, kind="plain", made=MADE):
    how = dict(accuracy={"it": 0.5}, loss=0.1, seconds=1.0)
    return Run(encoding=kind, seed=seed, made=made, **how)


def a_result(*runs):
    return Result("Nothing is trained.", Settings(), [*runs])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fake.json"


# --- The file


def test_a_file_has_each_provenance_once_and_loses_nothing(path):
    other = MADE | {"versions": {"torch": "2.14"}, "commit": None}
    result = a_result(a_run(1), a_run(2, made=other), a_run(3), a_run(4, made=other))
    result.save(path)
    stored = json.loads(path.read_text("utf-8"))
    assert stored["provenance"] == [MADE, other]
    assert [run["made"] for run in stored["runs"]] == [0, 1, 0, 1]
    again = Result.load(path)
    assert again == result and [run.made for run in again.runs] == [MADE, other] * 2
    again.save(path)
    assert json.loads(path.read_text("utf-8")) == stored


def test_an_empty_result_loses_nothing(path):
    a_result().save(path)
    assert Result.load(path) == a_result()


def test_a_file_of_0_2_is_read_and_becomes_one_of_today(path):
    result = a_result(a_run(1), a_run(2))
    result.save(path)
    stored = json.loads(path.read_text("utf-8"))
    (made,) = stored.pop("provenance")
    for run in stored["runs"]:
        run["made"] = made
    path.write_text(json.dumps(stored))
    assert Result.load(path) == result
    result.save(path)
    assert json.loads(path.read_text("utf-8"))["provenance"] == [MADE]
    stored["runs"][0]["made"] = {}
    path.write_text(json.dumps(stored))
    with pytest.raises(ValueError, match="plain, seed 1 has no valid date, device, "):
        Result.load(path)


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_file_is_as_saved(name, path):
    module = import_module(f"posedu.book.experiments.{name}")
    file = ROOT / f"book/data/{name.replace('_', '-')}-cpu.json"
    module.Result.load(file).save(path)
    assert path.read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(versions=None), "versions"),
        (dict(versions={}), "version of torch"),
        (dict(versions={"torch": None}), "version of torch"),
        (dict(date=3), "date"),
        (dict(commit=3), "commit"),
        (dict(threads="1"), "threads"),
        (dict(device=None), "device"),
    ],
)
def test_provenance_that_no_table_can_show_is_refused(path, change, message):
    a_result(a_run(made=MADE | change)).save(path)
    with pytest.raises(
        ValueError, match=f"seed 1 has no valid {message}.*another file"
    ):
        Result.load(path)


def test_versions_that_are_missing_are_refused(path):
    made = {name: value for name, value in MADE.items() if name != "versions"}
    a_result(a_run(made=made | {"torch": "2.13"})).save(path)
    with pytest.raises(ValueError, match="has no valid versions"):
        Result.load(path)


@pytest.mark.parametrize("depth", [10**5, 10**6])
def test_deep_brackets_are_refused(path, depth):
    path.write_text('{"runs": ' + "[" * depth)
    with pytest.raises(ValueError, match="is not a result of this experiment"):
        Result.load(path)


def places(stored, *at):
    """Yield the places of all values in a tree of lists and dicts."""
    yield at
    if isinstance(stored, dict | list):
        keys = stored if isinstance(stored, dict) else range(len(stored))
        for key in keys:
            yield from places(stored[key], *at, key)


def test_a_file_with_any_value_of_another_type_is_refused_or_can_be_shown(path):
    a_result(a_run(1), a_run(2)).save(path)
    stored = json.loads(path.read_text("utf-8"))
    for *outer, last in [at for at in places(stored) if at]:
        for value in (None, True, -1, 1.5, "x", [], {}, [None], {"x": None}):
            changed = inner = deepcopy(stored)
            for key in outer:
                inner = inner[key]
            inner[last] = value
            path.write_text(json.dumps(changed))
            with suppress(ValueError):
                result = Result.load(path)
                str(result), str(origins(result, dict.fromkeys(KINDS, "title")))
                result.save(path)


# --- Interrupts


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_interrupt_while_a_run_is_saved_keeps_this_run(
    path, monkeypatch, capsys, seed
):
    """A signal arrives when the run is finished and its file is not."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    save = Result.save

    def interrupted(self, path):
        if len(self.runs) == seed:
            os.kill(os.getpid(), signal.SIGINT)
        save(self, path)

    monkeypatch.setattr(Result, "save", interrupted)
    settings = Settings(folder=str(path.parent))
    result = experiment(kinds=["plain"], settings=settings, save_to=path)
    assert result.interrupted and len(result.runs) == seed
    assert Result.load(path).runs == result.runs
    assert f"interrupted: {seed} runs are saved" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_does_not_wait():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    passed = []
    with pytest.raises(KeyboardInterrupt), runs._delayed_interrupt():
        signal.raise_signal(signal.SIGINT)
        passed.append("first")
        signal.raise_signal(signal.SIGINT)
        passed.append("second")
    assert passed == ["first"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_a_file_no_run_is_said_to_be_saved(tmp_path, capsys):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings = Settings(folder=str(tmp_path), parent=os.getpid())
    result = experiment(kinds=["interrupted"], settings=settings)
    assert result.interrupted and len(result.runs) == 2
    assert "interrupted: 2 runs are finished" in capsys.readouterr().err


# --- The experiment and its command


def test_a_choice_that_the_experiment_does_not_have_is_refused():
    with pytest.raises(TypeError, match="fake has the choices kinds, got encodings"):
        experiment(encodings=["plain"])


def test_a_call_trains_all_choices_by_default(tmp_path):
    result = experiment(seeds=1, settings=Settings(folder=str(tmp_path)))
    assert [run.encoding for run in result.runs] == [*KINDS]


@pytest.mark.parametrize("name", NAMES)
def test_the_command_has_the_choices_of_its_module(name, capsys):
    module = import_module(f"posedu.book.experiments.{name}")
    with pytest.raises(SystemExit) as done:
        module.main(["--help"])
    printed = capsys.readouterr().out
    assert done.value.code == 0
    assert f"python -m posedu.book.experiments.{name} " in printed
    options = (*module.experiment.choices, module.experiment.lengths[0])
    for option in (*options, "seeds", "processes", "dask", "out"):
        assert f"--{option}" in printed
    assert module.experiment.run_one is module.run


def test_a_cluster_or_processes_but_not_both(capsys):
    with pytest.raises(SystemExit):
        experiment.main(["--dask", "tcp://there:8786", "--processes", "3"])
    assert "not allowed with argument" in capsys.readouterr().err
