"""Processes of ``torch.distributed`` that share a text, by gloo on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from posedu.crosscheck.many_devices import BOUND

PROGRAM = Path(__file__).with_name("processes.py")


@pytest.fixture(scope="module")
def found():
    command = [
        sys.executable,
        PROGRAM,
        "2",
        "every_cut",
        "fully_sharded",
        "a_rank_ends",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_every_rank_of_every_cut_equals_one_device(found):
    assert len(found["every_cut"]) == 8 * 7
    for row in found["every_cut"]:
        errors = row["out"], row["inputs"], row["parameters"]
        assert max(errors) <= BOUND, row
        assert (row["sent"] > 0) == (row["refused"] < row["configurations"])


def test_fully_sharded_parameters_train_as_on_one_device(found):
    losses = dict(found["fully_sharded"])
    alone = losses.pop("alone")
    assert alone[-1] < alone[0] - 0.05
    for cut, of_cut in losses.items():
        assert of_cut == pytest.approx(alone, rel=1e-10), cut


def test_a_rank_that_ends_is_reported_by_the_others(found):
    assert "rank 0 of 2 could not exchange with the others" in found["a_rank_ends"]
