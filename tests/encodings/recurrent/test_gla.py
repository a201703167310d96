"""GLA: its weights are Wall's logits, and half of a state is left after τ tokens."""

import math

import numpy as np
import torch

from posedu.numpy.attention import causal_mask, steps
from posedu.numpy.path import wall
from posedu.torch import GLA, attend
from support.path import DOUBLE, normal


def test_weights_are_the_logits_of_wall():
    q, k, x = normal(1, 2, 9, 4), normal(1, 2, 9, 4, seed=1), normal(1, 9, 8, seed=2)
    encoding = GLA(8, 2, 4, rank=3, temperature=1.0).double()
    values = torch.eye(9, dtype=DOUBLE).expand(1, 2, 9, 9)
    with torch.no_grad():
        encoding.gate_bias.normal_()
        found = attend(q, k, values, encoding, x=x)[0].numpy()
        weight = (encoding.gate_up @ encoding.gate_down).numpy()
        hooks = wall(gate_weight=weight, gate_bias=encoding.gate_bias.numpy())
    run = steps(
        *(q[0].numpy(), k[0].numpy(), k[0].numpy(), hooks),
        x=x[0].numpy(),
        mask=causal_mask(9),
    )
    expected = np.where(causal_mask(9), run.logits, 0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    assert np.abs(expected).max() > 0.5


def test_half_of_the_state_is_left_after_the_temperature_at_the_start():
    torch.manual_seed(0)
    zero = torch.zeros(1, 1, 8)
    for temperature in (1.0, 16.0):
        with torch.no_grad():
            log_decay = GLA(8, 2, 4, temperature=temperature).remember(zero)[
                "log_decay"
            ]
        assert math.isclose(math.log(2) / -log_decay.max(), temperature, rel_tol=1e-6)
