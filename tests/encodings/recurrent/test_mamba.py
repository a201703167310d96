"""Mamba-2: GLA with one gate, times a step; half-lives at the start."""

import math

import numpy as np
import torch

from posedu.numpy.attention import causal_mask, steps
from posedu.numpy.recurrent import gla
from posedu.torch import Mamba2, attend
from support.path import DOUBLE, normal


def test_weights_are_those_of_gla_with_one_gate_times_a_step():
    q, k, x = normal(1, 2, 9, 4), normal(1, 2, 9, 4, seed=1), normal(1, 9, 8, seed=2)
    encoding = Mamba2(8, 2).double()
    values = torch.eye(9, dtype=DOUBLE).expand(1, 2, 9, 9)
    with torch.no_grad():
        encoding.gate_rate.fill_(0.5)
        found = attend(q, k, values, encoding, x=x)[0].numpy()
        step = encoding.remember(x)["beta"][0].T.numpy()
        down = -encoding.gate_weight.numpy()
        bias = -encoding.gate_bias.numpy()
    hooks = gla(
        gate_down=down,
        gate_up=np.eye(2)[:, None].repeat(4, 1),
        gate_bias=bias[:, None].repeat(4, 1),
        temperature=math.exp(-0.5),
    )
    of_gla = steps(
        *(q[0].numpy(), k[0].numpy(), k[0].numpy(), hooks),
        x=x[0].numpy(),
        mask=causal_mask(9),
    ).weights
    expected = math.sqrt(4) * of_gla * step[:, None] + np.eye(9)  # the skip starts at 1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_half_lives_at_the_start():
    """Tokens until half of the state is left, at x = 0: steps of .001 to .1."""
    torch.manual_seed(0)
    with torch.no_grad():
        log_decay = Mamba2(8, 4000).remember(torch.zeros(1, 1, 8))["log_decay"]
    of_heads = math.log(2) / -log_decay[0, 0]
    low, middle, high = of_heads.quantile(torch.tensor([0.1, 0.5, 0.9]))
    assert 1 < low < 2 and 8 < middle < 13 and 60 < high < 100
