"""Selective RoPE: loops, RoPE as a special case, what does and does not read a path."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posedu.numpy.frequencies import frequencies
from posedu.numpy.path import selective_temperatures
from posedu.torch import RoPE, SelectiveRoPE, Tokens, attend
from support.path import DOUBLE, layer_of, loop_scores, normal, stepwise

CONFIGURATIONS = {
    "plain": dict(gate=False),
    "gate and bias": dict(gate=True, phase_bias=True),
    "own parts": dict(gate=True, rank=None, activation=True),
    "no convolution": dict(gate=False, convolution=None),
}
TOKENS = 40


def rotation(steps, layout):
    """The matrix of a rotation by −steps, one for each pair."""
    d = 2 * len(steps)
    matrix = np.zeros((d, d))
    for p, step in enumerate(steps):
        a, b = (2 * p, 2 * p + 1) if layout == "interleaved" else (p, p + d // 2)
        matrix[a, a] = matrix[b, b] = math.cos(step)
        matrix[a, b], matrix[b, a] = math.sin(step), -math.sin(step)
    return matrix


def steps_by_loops(module, x):
    """Angles that each token adds, ``[tokens, heads, pairs]``, by loops over tokens."""
    p = {n: t.detach().numpy() for n, t in module.named_parameters()}
    heads, (tokens, d_model) = module.heads, x.shape
    width, pairs = d_model // heads, module.d // 2
    tau = module.temperatures().numpy()
    raw, steps = np.zeros((tokens, heads, pairs)), np.zeros((tokens, heads, pairs))
    gates = np.ones((tokens, heads))
    for t in range(tokens):
        parts = x[t].reshape(heads, width)
        parts = parts / np.sqrt((parts**2).sum(1, keepdims=True) + 1e-6)
        for h in range(heads):
            if "phase_down" in p:
                inner = p["phase_down"] @ parts.ravel()
                raw[t, h] = p["phase_weight"][h] @ inner
            else:
                rows = p["phase_weight"][h]
                rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
                raw[t, h] = p["phase_scale"][h] * (rows @ parts[h])
            if "gate_weight" in p:
                logit = p["gate_weight"][h] @ parts.ravel() + p["gate_bias"][h]
                gates[t, h] = 1 / (1 + math.exp(-logit))
    for t in range(tokens):
        a = raw[t]
        if "taps" in p:
            n = p["taps"].shape[-1]
            a = sum(
                p["taps"][..., n - 1 - s] * raw[t - s] for s in range(n) if t - s >= 0
            )
        if module.activation:
            a = a / (1 + np.exp(-a))
        if "phase_bias" in p:
            a = a + np.exp(p["phase_bias"])
        steps[t] = tau * a * gates[t][:, None]
    return steps


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("layout", ("interleaved", "half"))
def test_the_module_is_the_loop_over_rotation_matrices(name, layout):
    module = SelectiveRoPE(8, 2, 4, layout=layout, **CONFIGURATIONS[name])
    module = layer_of(module).encoding
    (q, k), x = normal(2, 1, 2, 9, 4).unbind(0), normal(1, 9, 8, seed=2)
    v = torch.eye(9, dtype=DOUBLE).expand(1, 2, 9, 9)
    weights = attend(q, k, v, module, x=x)[0].detach().numpy()
    steps = steps_by_loops(module, x[0].numpy())
    for h in range(2):
        transitions = [rotation(s, layout) for s in steps[:, h]]
        scores = loop_scores(q[0, h].numpy(), k[0, h].numpy(), transitions) / 2
        expected = np.where(np.tri(9, dtype=bool), np.exp(scores), 0)
        expected /= expected.sum(-1, keepdims=True)
        np.testing.assert_allclose(weights[h], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("layout", ("interleaved", "half"))
def test_a_bias_without_content_is_rope(layout):
    """And its frequencies are τ e^b: with b = 0, RoPE's of base 500,000."""
    module = SelectiveRoPE(8, 2, 4, layout=layout, gate=False, phase_bias=True)
    module = module.double()
    torch.nn.init.zeros_(module.phase_weight)
    rope = RoPE(4, layout=layout, base=500000.0).double()
    (q, k, v), x = normal(3, 1, 2, TOKENS, 4).unbind(0), normal(1, TOKENS, 8, seed=1)
    torch.testing.assert_close(
        attend(q, k, v, module, x=x), attend(q, k, v, rope), rtol=0, atol=1e-13
    )


@given(st.integers(0, 2**31))
@settings(max_examples=20, deadline=None)
def test_commuting_rotations_do_not_see_the_order_between(seed):
    """Without a convolution, tokens between key and query may change places."""
    encoding = SelectiveRoPE(8, 1, 4, layout="half", gate=True, convolution=None)
    module = layer_of(encoding).encoding
    (q, k), x = normal(2, 1, 1, 9, 4, seed=seed).unbind(0), normal(1, 9, 8, seed=seed)
    v = torch.eye(9, dtype=DOUBLE)[None, None]
    order = [0, 1, 4, 2, 3, 5, 7, 6, 8]  # the query is 8, the key 1
    before = attend(q, k, v, module, x=x)[0, 0, 8]
    after = attend(q, k, v, module, x=x[:, order])[0, 0, 8]
    ratio = (before[1] / before[8]) / (after[1] / after[8])
    assert ratio.item() == pytest.approx(1, abs=1e-12)


def test_a_difference_of_phases_has_no_path():
    """The authors' option without convolution takes first differences: taps (−1, 1).

    Their sum is the token's own phase, so that tokens between do not matter.
    """
    encoding = SelectiveRoPE(8, 1, 4, layout="half", gate=False, convolution=2)
    module = layer_of(encoding).encoding
    with torch.no_grad():
        module.taps.copy_(torch.tensor([-1.0, 1.0]))
    (q, k), x = normal(2, 1, 1, 9, 4).unbind(0), normal(1, 9, 8, seed=5)
    v, other = torch.eye(9, dtype=DOUBLE)[None, None], x.clone()
    other[:, 2:8] = normal(1, 6, 8, seed=6)
    before, after = (attend(q, k, v, module, x=t)[0, 0, 8] for t in (x, other))
    assert (before[1] / before[8]).item() == pytest.approx(
        (after[1] / after[8]).item(), rel=1e-12
    )
    with torch.no_grad():
        module.taps.copy_(torch.tensor([0.5, 1.0]))
    before, after = (attend(q, k, v, module, x=t)[0, 0, 8] for t in (x, other))
    assert (before[1] / before[8] - after[1] / after[8]).abs() > 1e-4


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("kv_heads", (2, 1))
def test_pieces_padding_and_packing_are_the_texts_alone(name, kv_heads):
    encoding = SelectiveRoPE(8, 2, 4, layout="half", **CONFIGURATIONS[name])
    layer = layer_of(encoding, kv_heads=kv_heads)
    x, close = normal(2, TOKENS, 8), {"rtol": 0, "atol": 1e-12}
    with torch.no_grad():
        whole = layer(x)
        torch.testing.assert_close(stepwise(layer, x, (20, 1, 1, 18)), whole, **close)
        padded = torch.cat((normal(2, 3, 8, seed=9), x), 1)
        mask = torch.arange(TOKENS + 3).expand(2, -1) < 3
        for out in (
            layer(padded, key_padding_mask=mask),
            stepwise(layer, padded, (20, 1, 22), key_padding_mask=mask),
        ):
            torch.testing.assert_close(out[:, 3:], whole, **close)
        mixed = x.transpose(0, 1).reshape(1, 2 * TOKENS, 8)
        segments = torch.arange(2).repeat(TOKENS)[None]
        out = layer(mixed, segments=segments).reshape(TOKENS, 2, 8)
        torch.testing.assert_close(out.transpose(0, 1), whole, **close)


def test_angles_stay_exact_in_a_long_text():
    """Sums in float32 are off by .1 after 65,536 tokens, in bfloat16 by 64 (sheet)."""
    module = SelectiveRoPE(4, 1, 2, layout="half", gate=False, rank=1, convolution=None)
    phases = torch.rand(1, 65536, 1, 1, generator=torch.Generator().manual_seed(0))
    exact = phases.double().cumsum(1)[0, -1].item()
    x = torch.zeros(1, 65536, 4)
    memory = {**module.remember(x), "phases": phases}
    q = torch.zeros(1, 1, 65536, 2)
    at = torch.arange(65536)[None]
    tokens = Tokens(q, q, q, 2, at, at, causal=True, x=x, memory=memory)
    assert module.angles(tokens)[0, 0, -1, 0].item() == pytest.approx(exact, abs=1e-9)
    assert abs(phases.cumsum(1)[0, -1].item() - exact) > 1e-4
    in_bfloat16 = phases.bfloat16().cumsum(1)[0, -1].item()
    assert abs(in_bfloat16 - exact) > 1


def test_temperatures_rfa_rotate_one_plane():
    """32 planes, largest .25: the median is 4e−5, the last three 4e−4, 8e−4, .25."""
    tau = selective_temperatures(64, temperature="rfa", largest=0.25)
    assert tau[0] == 0 and np.median(tau) == pytest.approx(4e-5, rel=0.1)
    np.testing.assert_allclose(tau[-3:], [4e-4, 8e-4, 0.25], rtol=0.1)
    module = SelectiveRoPE(
        64, 1, 64, layout="half", gate=False, temperature="rfa", largest=0.25
    )
    np.testing.assert_allclose(module.temperatures().numpy(), tau, rtol=1e-9)


def test_temperatures_rope_are_its_frequencies():
    np.testing.assert_allclose(
        selective_temperatures(8), frequencies(8, base=500000.0), rtol=1e-15
    )


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(gate=False, rank=0), "rank"),
        (dict(gate=False, convolution=None, activation=True), "activation"),
        (dict(gate=False, temperature="linear"), "temperature"),
        (dict(gate=1), "gate"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        SelectiveRoPE(8, 2, 4, layout="half", **options)


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="multiple of heads"):
        SelectiveRoPE(9, 2, 4, layout="half", gate=False)


def test_temperatures_one_are_equal():
    """The authors' state-tracking configurations have one temperature for all pairs."""
    tau = selective_temperatures(6, temperature="one", largest=0.5)
    np.testing.assert_array_equal(tau, [0.5] * 3)
    module = SelectiveRoPE(
        *(6, 1, 6), layout="half", gate=False, temperature="one", largest=0.5
    )
    np.testing.assert_array_equal(module.temperatures().numpy(), tau)
