"""Experiments on a Dask cluster: processes of this machine, as a test has them."""

import os
import signal
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace

import pytest
import torch

from posedu.book.experiments import parallel, sequences
from support.fake_experiment import Result, Settings, attempts, experiment

distributed = pytest.importorskip("distributed")

SMALL = sequences.Settings(steps=3, batch=4, length=16, heads=2, d=4, tested=6)


@pytest.fixture(scope="module")
def cluster():
    """Two workers, each a process with two threads, of which jobs use one."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, processes=True, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.fixture
def settings(tmp_path):
    return Settings(folder=str(tmp_path), parent=os.getpid())


def test_runs_are_those_of_one_machine_bit_by_bit(cluster, capsys):
    options = dict(tasks=["recall"], encodings=["rope", "fox"], settings=SMALL)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    here = sequences.experiment(**options, seeds=2)
    torch.set_num_threads(before)
    there = sequences.experiment(**options, seeds=2, dask=cluster.scheduler_address)
    assert "4/4" in capsys.readouterr().err
    alone = {run.key: replace(run, seconds=0.0, made={}) for run in here.runs}
    for run in there.runs:
        assert replace(run, seconds=0.0, made={}) == alone[run.key]
        assert run.made == here.runs[0].made | {"memory": run.made["memory"]}
    assert len(there.runs) == len(alone) == 4


def test_an_interrupt_keeps_what_is_finished(cluster, settings, tmp_path, capsys):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    path = tmp_path / "fake.json"
    how = dict(settings=settings, dask=cluster.scheduler_address, save_to=path)
    how |= dict(kinds=["interrupted"])
    result = experiment(seeds=100, **how)
    assert result.interrupted and 1 <= len(result.runs) < 100
    assert Result.load(path).runs == result.runs
    assert f"{len(result.runs)} runs are saved" in capsys.readouterr().err
    assert len(experiment(seeds=3, **how).runs) >= 3


def test_a_training_that_diverges_is_an_error_here_too(cluster, settings):
    how = dict(kinds=["diverged"], settings=settings, dask=cluster.scheduler_address)
    with pytest.raises(ValueError, match="diverged, seed 3: loss must be finite"):
        experiment(**how)


def test_a_worker_that_is_killed_loses_nothing(cluster, settings, tmp_path):
    """Its job is done again; those that were finished before are not."""
    path = tmp_path / "fake.json"
    how = dict(kinds=["killed"], settings=settings, dask=cluster.scheduler_address)
    assert not experiment(seeds=2, save_to=path, **how).interrupted
    result = experiment(seeds=8, save_to=path, **how)
    assert result.complete and len(result.runs) == 8
    assert Result.load(path).runs == result.runs
    tries = {seed: attempts(tmp_path, "killed", seed) for seed in range(1, 9)}
    assert tries[1] == tries[2] == 1 and tries[3] == 2


def test_a_cluster_forgets_runs_that_arrived(cluster, settings):
    """Otherwise it would repeat them when it loses the worker that made them."""
    jobs = [("plain", seed, settings) for seed in range(1, 9)]
    how = dict(processes=1, dask=cluster.scheduler_address, libraries=())
    with closing(parallel.finished_runs(experiment.run_one, jobs, **how)) as finished:
        assert {next(finished).seed for _ in jobs} == {*range(1, 9)}
        deadline = time.monotonic() + 10
        while cluster.scheduler.tasks and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not cluster.scheduler.tasks


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense", "http://here"])
def test_an_address_without_a_scheduler_is_an_error(
    address, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(parallel, "TIMEOUT", 0.5)
    out = ["--out", str(tmp_path / "fake.json")]
    with pytest.raises(SystemExit) as refusal:
        experiment.main(["--dask", address, *out])
    assert refusal.value.code == 2
    assert f"no Dask scheduler answers at '{address}'" in capsys.readouterr().err


def test_a_scheduler_that_stops_is_an_error(settings, monkeypatch, capsys):
    """It has no worker either, which is said, since a worker may come later."""
    monkeypatch.setattr(parallel, "TIMEOUT", 1)
    alone = distributed.LocalCluster(n_workers=0, dashboard_address=":0")
    threading.Timer(1, alone.close).start()
    with pytest.raises(OSError, match=r"the Dask scheduler at .* stopped"):
        experiment(settings=settings, dask=alone.scheduler_address)
    assert (
        f"waiting for a worker of {alone.scheduler_address}" in capsys.readouterr().err
    )


def test_without_distributed_the_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    out = ["--out", str(tmp_path / "fake.json")]
    with pytest.raises(SystemExit):
        experiment.main(["--dask", "tcp://127.0.0.1:8786", *out])
    assert "pip install 'posedu[cluster]'" in capsys.readouterr().err
