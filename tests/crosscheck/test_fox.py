"""Errors of FoX's weights stay within their bound in float32, and exceed it in bf16."""

import pytest
import torch

from posedu.crosscheck.fox import weight_errors

LENGTHS = (64, 256, 1024)


def methods(log_gates, rows):
    c, true = log_gates.cumsum(0), log_gates.double().cumsum(0)
    steps = torch.arange(len(c))
    return {
        "float64": true[-rows:, None] - true,
        "key, float64": -true.expand(rows, -1),
        "difference": c[-rows:, None] - c,
        "key": -c.expand(rows, -1),
        "bf16": c[-rows:, None] - c.bfloat16().float(),
        "one gate late": true[-rows:, None] - true.roll(1) * (steps > 0),
    }


@pytest.mark.parametrize("gate_bias", [0.0, 5.0])
def test_float32_keeps_its_bound_and_bf16_does_not(gate_bias):
    found = weight_errors(methods, LENGTHS, gate_bias=gate_bias)
    for n, bound in enumerate(found.bounds()):
        for method in ("difference", "key"):
            assert 0 < found.errors[method][n] <= bound
        assert found.errors["bf16"][n] > found.errors["difference"][n]
        # Only the logits, of 24 bits, and the softmax, in float64, are rounded here.
        assert found.errors["float64"][n] < 1e-15
        # A constant for a whole row cancels in its softmax.
        assert found.errors["key, float64"][n] < 1e-10
        assert found.errors["one gate late"][n] > 1e-3
    assert found.errors["bf16"][-1] > found.bounds()[-1]


def test_c_falls_by_the_mean_log_gate_of_a_token():
    """E softplus(z) of a standard normal z is 0.806; of z − 5 it is 0.011."""
    for gate_bias, each in ((0.0, 0.806), (5.0, 0.011)):
        found = weight_errors(methods, (4096,), gate_bias=gate_bias)
        assert found.sizes[0] == pytest.approx(4096 * each, rel=0.05)


def test_a_length_shorter_than_the_rows_is_refused():
    with pytest.raises(ValueError, match=r"at least 64 rows, got \[32, 128\]"):
        weight_errors(methods, (32, 128), gate_bias=0.0)
