"""The recurrence holds against flash-linear-attention's own loops, in float32."""

import json

import numpy as np
import pytest
import torch

from posedu.numpy.recurrent import read_states
from posedu.torch.recurrent import Writes, by_chunks, pair_weights
from support import ROOT

STORED = json.loads(
    (ROOT / "tests/oracles/recurrent-fla.json").read_text(encoding="utf-8")
)
INPUTS = {
    name: torch.tensor(rows).transpose(1, 2) for name, rows in STORED["inputs"].items()
}
TOKENS, STEPS = 70, 2
GATES = {"gla": "gates", "gated delta": "gate", "kda": "gates"}
CLOSE = {"rtol": 0, "atol": 1e-6}


def writes(name):
    """The numbers of one function, whose steps are in a row."""
    q, k, v, beta = (INPUTS[n] for n in ("q", "k", "v", "beta"))
    q = q * q.shape[-1] ** -0.5
    if name == "gated delta product":
        spread = torch.zeros_like(k)
        spread[:, :, STEPS - 1 :: STEPS] = q
        log_decay = torch.zeros_like(beta)
        log_decay[:, :, ::STEPS] = INPUTS["gate"]
        return Writes(spread, k, v, log_decay, beta, segments(k), delta=True)
    k, v, beta = (t[:, :, :TOKENS] for t in (k, v, beta))
    delta = name not in ("linear", "gla")
    if not delta:
        beta = torch.ones_like(beta)
    log_decay = INPUTS[GATES[name]] if name in GATES else torch.zeros_like(beta)
    return Writes(q, k, v, log_decay, beta, segments(k), delta=delta)


def segments(k):
    return torch.zeros(len(k), k.shape[2], dtype=torch.int64)


def published(name):
    return torch.tensor(STORED["outputs"][name]).transpose(1, 2)


def read(name, out):
    steps = STEPS if name == "gated delta product" else 1
    return out[:, :, steps - 1 :: steps]


@pytest.mark.parametrize("name", STORED["outputs"])
def test_all_three_forms_give_the_published_output(name):
    given = writes(name)
    expected = published(name)
    assert expected.abs().max() > 0.1
    torch.testing.assert_close(read(name, by_chunks(given)[0]), expected, **CLOSE)
    pairs = pair_weights(given) @ given.v
    torch.testing.assert_close(read(name, pairs), expected, **CLOSE)
    arrays = (t[0].numpy() for t in given[:5])
    loop = torch.tensor(read_states(*arrays, delta=given.delta)[0])[None]
    np.testing.assert_allclose(read(name, loop), expected, **CLOSE)


@pytest.mark.parametrize("name", ("gla", "gated delta", "kda", "gated delta product"))
def test_a_write_that_its_own_gate_decays_is_another_output(name):
    given = writes(name)
    rate = given.log_decay.exp()
    strength = rate if rate.ndim == 3 else rate.mean(-1)
    wrong = read(name, by_chunks(given._replace(beta=given.beta * strength))[0])
    assert (wrong - published(name)).abs().max() > 0.01
