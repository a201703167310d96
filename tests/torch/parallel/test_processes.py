"""Processes of ``torch.distributed`` that share a text, by gloo on this machine."""

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import torch

from posedu.book.timing.many_devices import ALONE, D
from posedu.book.timing.many_devices import HEADS as TIMED_HEADS
from posedu.catalog import CATALOG
from posedu.crosscheck.many_devices import BOUND, HEADS
from posedu.torch.parallel import FORMS, ORDERS

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("processes.py")
HAS_RING = torch.__version__.startswith("2.13.")  # a private one, which changes


@pytest.fixture(scope="module")
def found():
    command = [
        sys.executable,
        PROGRAM,
        "every_cut:2",
        "fully_sharded:2",
        "heads_too:4",
        "heads_alone:4",
        "a_rank_ends:2",
        "all_have_joined:4",
        "decoding:2",
        "generated:2",
        *(["torch_s_ring:2"] if HAS_RING else []),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_every_rank_of_every_cut_equals_one_device(found):
    assert len(found["every_cut"]) == 10 * 7
    for row in found["every_cut"]:
        errors = row["out"], row["inputs"], row["parameters"]
        assert max(errors) <= BOUND, row
        assert (row["sent"] > 0) == (row["refused"] < row["configurations"])


def test_the_committed_table_has_every_encoding_under_every_cut():
    table = json.loads((ROOT / "book/data/many-devices-cpu.json").read_text("utf-8"))
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    cuts = [*product(CATALOG, (2, 4), ORDERS, (False, True), FORMS)]
    cuts += [
        (name, ranks, HEADS[0], hidden, HEADS[1])
        for name, ranks, hidden in product(CATALOG, (2, 4), (False, True))
    ]
    keys = "name", "ranks", "order", "hidden", "form"
    assert [tuple(row[key] for key in keys) for row in rows] == sorted(
        cuts, key=lambda cut: ((2, 4).index(cut[1]), [*CATALOG].index(cut[0]))
    )
    for row in rows:
        assert max(row["out"], row["inputs"], row["parameters"]) <= BOUND, row
        assert row["configurations"] == len(CATALOG[row["name"]].variants)
        assert row["refused"] == 0 or row["form"] in ("ring", HEADS[1])


def test_the_committed_times_have_the_bytes_of_the_formulas():
    table = json.loads((ROOT / "book/data/many-devices-times-cpu.json").read_text())
    for row in table["rows"]:
        n, tokens, b = row["processes"], row["tokens"], 4
        keys = tokens // n * TIMED_HEADS * D * b
        sent = {
            "decode": (n - 1) * (TIMED_HEADS * (D + 1) * b + 256),
            "all-gather": (n - 1) * (4 * keys + 8 * tokens // n + 512),
            "ring": (n - 1) * (2 * keys + 8 * tokens // n + 512) + 4 * n * keys,
            ALONE: 0,
        }
        task = "decode" if row["task"] == "decode" else row["form"]
        assert row["sent"] == sent[task], row
    assert {(row["processes"], row["form"]) for row in table["rows"]} == {
        (1, ALONE),
        *product((2, 4), FORMS),
    }


@pytest.mark.parametrize("job", ("fully_sharded", "heads_too", "heads_alone"))
def test_sharded_parameters_train_as_on_one_device(found, job):
    losses = dict(found[job])
    alone = losses.pop("alone")
    assert alone[-1] < alone[0] - 0.05
    for cut, of_cut in losses.items():
        assert of_cut == pytest.approx(alone, rel=1e-10), cut


def test_a_rank_that_ends_is_reported_by_the_others(found):
    assert "rank 0 of 2 could not exchange with the others" in found["a_rank_ends"]


def test_no_rank_begins_before_all_have_joined(found):
    assert found["all_have_joined"]  # one that ended would end the others' joining


def test_every_rank_decodes_as_one_device(found):
    assert len(found["decoding"]) == 5 * 2
    for name, error in found["decoding"].items():
        assert error <= BOUND, name


def test_a_model_generates_as_on_one_device(found):
    alone, *of_ranks = found["generated"]
    assert of_ranks == [alone] * 2


@pytest.mark.skipif(
    not HAS_RING,
    reason=f"PyTorch's private ring is that of 2.13, not {torch.__version__}",
)
def test_our_ring_is_pytorch_s(found):
    """Outputs and gradients of RoPE, in float64."""
    assert found["torch_s_ring"].keys() == {*ORDERS}
    assert max(found["torch_s_ring"].values()) <= 1e-13
