"""Log-linear attention: loops, buckets, states, caches, special cases, mistakes."""

import math

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posedu.numpy import gated as reference
from posedu.numpy.attention import attend as attend_reference
from posedu.sympy import gated as symbolic
from posedu.sympy.attention import steps
from posedu.torch import LogLinear, attend
from posedu.torch.encoding import Tokens
from support.path import DOUBLE, layer_of, normal, stepwise, texts_alone

BUCKETS = ("weak", "strong")
each_kind = pytest.mark.parametrize("buckets", BUCKETS)
WIDTH, HEADS, D = 8, 2, 4


def peeled(t):
    """The weak buckets of query t, level to tokens: the lowest digits first."""
    found, left = {0: [t]}, t
    for bit in range(t.bit_length()):
        if t >> bit & 1:
            found[bit + 1] = [*range(left - 2**bit, left)]
            left -= 2**bit
    assert left == 0
    return found


def walked(q, k, log_gates, level_weights, buckets="weak"):
    """One head's weights, pair by pair, with a product of gates for each."""
    weights = np.zeros((len(q), len(q)))
    for t in range(len(q)):
        for s in range(t + 1):
            level = reference.bucket_level(t, s, buckets=buckets)
            factor = level_weights[t, min(level, level_weights.shape[1] - 1)]
            decay = np.prod(np.exp(log_gates[s + 1 : t + 1]))
            weights[t, s] = q[t] @ k[s] * decay * factor
    return weights


def drawn(seed, tokens=11, levels=3):
    """Queries, keys, values, an input and parameters by name."""
    rng = np.random.default_rng(seed)
    q, k, v = rng.normal(size=(3, HEADS, tokens, D))
    given = {
        "gate_weight": rng.normal(size=(HEADS, WIDTH)),
        "gate_bias": rng.normal(size=HEADS),
        "gate_rate": rng.normal(size=HEADS) - 1,
        "level_weight": rng.normal(size=(HEADS, levels, WIDTH)),
        "level_scale": rng.normal(size=(HEADS, levels)),
    }
    return (q, k, v), rng.normal(size=(tokens, WIDTH)), given


def gates_and_levels(x, given):
    """Log gates and λ by loops over heads, tokens and levels."""
    heads, levels = given["level_scale"].shape
    gates, factors = np.zeros((heads, len(x))), np.zeros((heads, len(x), levels))
    for h in range(heads):
        for t, row in enumerate(x):
            z = given["gate_weight"][h] @ row + given["gate_bias"][h]
            gates[h, t] = -math.exp(given["gate_rate"][h]) * math.log1p(math.exp(z))
            for n in range(levels):
                z = given["level_scale"][h, n] * (given["level_weight"][h, n] @ row)
                factors[h, t, n] = math.log1p(math.exp(z))
    return gates, factors


def module_of(given, buckets):
    heads, levels, width = given["level_weight"].shape
    module = LogLinear(width, heads, buckets=buckets, levels=levels).double()
    state = {name: torch.tensor(array) for name, array in given.items()}
    module.load_state_dict(state)
    return module


@each_kind
@given(seed=st.integers(0, 2**31), tokens=st.integers(0, 20), levels=st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_reference_and_module_are_the_loops(buckets, seed, tokens, levels):
    (q, k, v), x, parameters = drawn(seed, tokens, levels)
    gates, factors = gates_and_levels(x, parameters)
    expected = np.zeros_like(v)
    for h in range(HEADS):
        expected[h] = walked(q[h], k[h], gates[h], factors[h], buckets) @ v[h]
    close = dict(rtol=0, atol=1e-12 * max(1, factors.max(initial=0)))
    hooks = reference.log_linear(**parameters, buckets=buckets)
    found = attend_reference(q, k, v, hooks, x=x)
    np.testing.assert_allclose(found, expected, **close)
    tensors = (torch.tensor(t)[None] for t in (q, k, v))
    module = module_of(parameters, buckets)
    found = attend(*tensors, module, x=torch.tensor(x)[None]).detach()[0].numpy()
    np.testing.assert_allclose(found, expected, **close)


@given(st.integers(0, 2**31), st.integers(1, 70), st.integers(1, 8))
@settings(max_examples=25, deadline=None)
def test_states_are_the_quadratic_form(seed, tokens, levels):
    (q, k, v), x, parameters = drawn(seed, tokens, levels)
    gates, factors = gates_and_levels(x, parameters)
    hooks = reference.log_linear(**parameters, buckets="weak")
    expected = attend_reference(q, k, v, hooks, x=x)
    found = reference.log_linear_recurrent(q, k, v, gates, factors)
    size = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * size)


def levels_of(tokens, buckets, levels=16):
    q, at = torch.zeros(1, 1, tokens, 1), torch.arange(tokens)[None]
    given = Tokens(*(q, q, q), d=1, query_positions=at, key_positions=at, causal=True)
    module = LogLinear(1, 1, buckets=buckets, levels=levels)
    return np.where(np.tri(tokens, dtype=bool), module.levels_of(given)[0], -1)


@each_kind
def test_three_ways_to_count_levels_agree(buckets):
    expected = reference.bucket_levels(200, buckets=buckets)
    np.testing.assert_array_equal(levels_of(200, buckets), expected)
    for t in (0, 1, 2, 3, 17, 64, 100, 127, 128, 199):
        for s in range(t + 1):
            assert symbolic.bucket_level(t, s, buckets=buckets) == expected[t, s]
    few = levels_of(200, buckets, levels=4)
    np.testing.assert_array_equal(few, np.minimum(expected, 3))


def test_weak_buckets_are_the_binary_digits_of_the_query():
    """Sizes 0 or 2^(l − 1); one state for each digit 1 and one for the token."""
    for t in range(130):
        found = {}
        for s in range(t + 1):
            level = reference.bucket_level(t, s, buckets="weak")
            found.setdefault(level, []).append(s)
        assert found == peeled(t)
        assert len(found) == t.bit_count() + 1
    assert [len(peeled(t)) for t in (4095, 4096)] == [13, 2]


def test_strong_buckets_have_sizes_from_a_quarter_to_a_half():
    for t in range(1, 130):
        row = [reference.bucket_level(t, s, buckets="strong") for s in range(t + 1)]
        assert row == sorted(row, reverse=True)
        for level in range(1, t.bit_length() + 1):
            size = 2 ** max(level - 2, 0)
            assert row.count(level) in (size, 2 ** (level - 1))


def test_a_worked_example():
    """Query 6 is 110: tokens 0 … 3 have level 3, tokens 4 and 5 level 2, 6 level 0."""
    found = [reference.bucket_level(6, s, buckets="weak") for s in range(7)]
    assert found == [3, 3, 3, 3, 2, 2, 0]
    found = [reference.bucket_level(6, s, buckets="strong") for s in range(7)]
    assert found == [3, 3, 3, 3, 2, 1, 0]


def softplus_inverse(y):
    return math.log(math.expm1(y))


def even(buckets="weak", levels=4):
    """Parameters whose λ are 1 for the input 1, 0, …, 0, and whose gates are 1/2."""
    weight = np.zeros((1, levels, WIDTH))
    weight[..., 0] = softplus_inverse(1.0)
    return {
        "gate_weight": np.zeros((1, WIDTH)),
        "gate_bias": np.array([softplus_inverse(math.log(2))]),
        "gate_rate": np.zeros(1),
        "level_weight": weight,
        "level_scale": np.ones((1, levels)),
        "buckets": buckets,
    }


@each_kind
def test_factors_of_one_are_linear_attention_with_decay(buckets):
    """S ← α S + k vᵀ, o = Sᵀ q: the recurrence without levels."""
    (q, k, v), x, _ = drawn(1, 20)
    q, k, v = (t[:1] for t in (q, k, v))
    x[:, 0] = 1
    parameters = even(buckets)
    parameters["gate_weight"][0, 1:] = 0.5
    found = attend_reference(q, k, v, reference.log_linear(**parameters), x=x)
    state = np.zeros((D, D))
    for t, row in enumerate(x):
        z = 0.5 * row[1:].sum() + parameters["gate_bias"][0]
        state = state / (1 + math.exp(z)) + np.outer(k[0, t], v[0, t])
        np.testing.assert_allclose(found[0, t], q[0, t] @ state, rtol=0, atol=1e-12)


def test_symbols_at_even_gates():
    one = [[1] + [0] * (WIDTH - 1)]
    x, ones = sp.Matrix(one * 4), [sp.ones(4, 1)]
    parameters = even()
    rational = {
        "gate_weight": sp.zeros(1, WIDTH),
        "gate_bias": [sp.S.Zero],
        "gate_rate": [sp.S.Zero],
        "level_weight": [sp.zeros(4, WIDTH)],
        "level_scale": sp.ones(1, 4),
    }
    out = symbolic.log_linear(**rational, buckets="weak")
    weights = out.weigh([sp.ones(4)], steps(ones, ones, ones, x=x).tokens)[0]
    half, log2 = sp.Rational(1, 2), sp.log(2)
    expected = sp.Matrix(4, 4, lambda i, j: log2 * half ** (i - j) if j <= i else 0)
    assert sp.simplify(weights - expected) == sp.zeros(4)
    hooks = reference.log_linear(**parameters)
    ones = np.ones((1, 4, 1))
    found = attend_reference(ones, ones, ones, hooks, x=np.array(one * 4, float))
    np.testing.assert_allclose(found[0, :, 0], [1, 1.5, 1.75, 1.875], rtol=1e-14)


@each_kind
@pytest.mark.parametrize("kv_heads", (4, 2, 1))
def test_pieces_padding_and_packing_are_the_texts_alone(buckets, kv_heads):
    layer = layer_of(Sized(16, 4, buckets=buckets, levels=4), kv_heads=kv_heads)
    texts_alone(layer, 20)
    x = normal(2, 20, 16)
    with torch.no_grad():
        one_by_one = stepwise(layer, x, (1,) * 20)
        torch.testing.assert_close(one_by_one, layer(x), rtol=0, atol=1e-12)


class Sized(LogLinear):
    d = 4  # for ``layer_of``, since the encoding serves every head dimension


def test_a_window_does_not_change_the_levels():
    (q, k, v), x, parameters = drawn(4, 16)
    weights = [
        walked(q[h], k[h], gates, factors) * ~np.tri(16, k=-5, dtype=bool)
        for h, (gates, factors) in enumerate(
            zip(*gates_and_levels(x, parameters), strict=True)
        )
    ]
    tensors = (torch.tensor(t)[None] for t in (q, k, v))
    module = module_of(parameters, "weak")
    found = attend(*tensors, module, x=torch.tensor(x)[None], window=5)
    expected = np.stack(weights) @ v
    np.testing.assert_allclose(found.detach()[0], expected, rtol=0, atol=1e-12)


def test_where_it_starts():
    """λ near log 2 on every level; decay rates 1, 2, … times steps of 0.001 to 0.1."""
    torch.manual_seed(0)
    module = LogLinear(64, 4, buckets="weak")
    x = torch.zeros(1, 1, 64)
    factors = module.level_weights(x)
    assert factors.shape == (1, 4, 1, 15)
    torch.testing.assert_close(factors, torch.full_like(factors, math.log(2)))
    steps = -module.remember(x)["log_gates"][0, 0].double() / torch.arange(1, 5)
    assert ((steps > 0.99e-3) & (steps < 0.101)).all()


def test_nothing_overflows_where_later_keys_would_grow():
    """The exponent of a later key is positive: it is hidden before the exponential."""
    _, x, parameters = drawn(5, 30)
    parameters["gate_rate"][:] = 5.0
    q, k, v = normal(3, 1, HEADS, 30, D).float().unbind(0)
    q.requires_grad_()
    module = module_of(parameters, "weak").float()
    out = attend(q, k, v, module, x=torch.tensor(x)[None].float())
    out.sum().backward()
    assert out.isfinite().all() and q.grad.isfinite().all()


def test_gradients():
    for buckets in BUCKETS:
        _, x, parameters = drawn(6, 5)
        module = module_of(parameters, buckets)
        leaves = [t.requires_grad_() for t in normal(3, 1, HEADS, 5, D).unbind(0)]
        leaves.append(torch.tensor(x)[None].requires_grad_())

        def run(q, k, v, x, module=module):
            return attend(q, k, v, module, x=x)

        assert torch.autograd.gradcheck(run, leaves)


def test_bfloat16_keeps_decays_and_factors_in_float32():
    (q, k, v), x, parameters = drawn(7, 40)
    module = module_of(parameters, "weak").float()
    x = torch.tensor(x)[None].bfloat16()
    rounded = [torch.tensor(t)[None].bfloat16() for t in (q, k, v)]
    found = attend(*rounded, module, x=x)
    exact = attend(*(t.double() for t in rounded), module.double(), x=x.double())
    assert found.dtype == torch.bfloat16
    size = attend(*(t.double().abs() for t in rounded), module, x=x.double())
    # A product of d terms, a sum of weights and three stored results: 2⁻⁸ each.
    assert ((found - exact).abs() <= 6 * 2**-8 * size + 1e-3).all()


@each_kind
def test_the_compiled_layer_has_its_gradient(buckets, unchecked):
    layer = layer_of(Sized(16, 4, buckets=buckets, levels=4))
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x, given = normal(1, 9, 16), list(layer.parameters())
    found, expected = (
        torch.autograd.grad(run(x).square().sum(), given) for run in (compiled, layer)
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


WRONG = {
    "the key's own gate counts": lambda q, k, g, f: walked(
        q, k * np.exp(g)[:, None], g, f
    ),
    "levels of the distance": lambda q, k, g, f: np.array(
        [
            [
                walked(q, k, g, f[:, :1] ** 0)[t, s]
                * f[t, min((t - s).bit_length(), f.shape[1] - 1)]
                for s in range(len(q))
            ]
            for t in range(len(q))
        ]
    ),
    "factors of the key": lambda q, k, g, f: np.array(
        [
            [
                walked(q, k, g, f[:, :1] ** 0)[t, s]
                * f[s, min((t ^ s).bit_length(), f.shape[1] - 1)]
                for s in range(len(q))
            ]
            for t in range(len(q))
        ]
    ),
    "divided by the root of d": lambda q, k, g, f: walked(q, k, g, f) / 2,
    "strong buckets": lambda q, k, g, f: walked(q, k, g, f, "strong"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_no_log_linear_attention(name):
    (q, k, v), x, parameters = drawn(8, 12, levels=5)
    gates, factors = gates_and_levels(x, parameters)
    hooks = reference.log_linear(**parameters, buckets="weak")
    found = attend_reference(q, k, v, hooks, x=x)[0]
    wrong = WRONG[name](q[0], k[0], gates[0], factors[0]) @ v[0]
    assert np.abs(found - wrong).max() > 0.05


BAD = [
    (dict(level_weight=np.zeros((2, 8))), r"\[heads, levels, d_model\]"),
    (dict(level_weight=np.zeros((2, 0, 8))), "at least one level"),
    (dict(gate_rate=np.zeros(3)), r"gate_rate must be \[2\]"),
    (dict(level_scale=np.zeros((2, 4))), r"level_scale must be \[2, 3\]"),
    (dict(buckets="even"), "buckets"),
]


@pytest.mark.parametrize("options, message", BAD)
def test_arrays_that_do_not_fit_are_named(options, message, unchecked):
    given = {**drawn(0)[2], "buckets": "weak"}
    with pytest.raises(ValueError, match=message):
        reference.log_linear(**given | options)


def test_bad_sizes_and_a_missing_convention_are_refused(unchecked):
    with pytest.raises(ValueError, match="buckets"):
        LogLinear(8, 2, buckets="even")
    with pytest.raises(ValueError, match="levels"):
        LogLinear(8, 2, buckets="weak", levels=0)
    with pytest.raises(TypeError, match="buckets"):
        LogLinear(8, 2)
    for t, s in ((2, 3), (2, -1)):
        with pytest.raises(ValueError, match="s must be"):
            reference.bucket_level(t, s, buckets="weak")
    q = torch.zeros(1, 2, 3, 4, dtype=DOUBLE)
    with pytest.raises(ValueError, match="needs the layer's input"):
        attend(q, q, q, LogLinear(8, 2, buckets="weak"))
