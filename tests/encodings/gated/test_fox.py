"""FoX and FoX Pro: theorems, reference and PyTorch, routes, errors."""

import math

import mpmath
import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from posedu.numpy import gated as reference
from posedu.numpy.attention import Tokens, softmax
from posedu.numpy.attention import attend as attend_reference
from posedu.sympy import gated as symbolic
from posedu.torch import Attention, FoX, FoXPro, KVCache, attend
from support.gated import ROUTES, causal, normal, same_on_every_route, stepwise

pytestmark = [
    pytest.mark.usefixtures("untraced_flex"),
    pytest.mark.filterwarnings("ignore:flex_attention called without"),
]
DOUBLE = torch.float64
seeds = st.integers(0, 2**31)


def gates(seed, n, spread=3.0):
    """Logarithms of gates, from logits around 0."""
    return -np.logaddexp(0, -spread * normal(seed, n))


# The forget gate


@given(seeds, st.integers(1, 12))
def test_the_bias_is_the_product_of_the_gates_after_the_key(seed, n):
    log_f = gates(seed, n)
    d = reference.forget_bias(log_f)
    for i in range(n):
        for j in range(i + 1):
            product = np.prod(np.exp(log_f[j + 1 : i + 1]))
            assert math.exp(d[i, j]) == pytest.approx(product, rel=1e-12)


@given(seeds, st.integers(2, 10))
def test_paths_compose_and_the_first_gate_never_acts(seed, n):
    log_f = gates(seed, n)
    d = reference.forget_bias(log_f)
    i, k, j = n - 1, n // 2, 0
    assert d[i, j] == pytest.approx(d[i, k] + d[k, j], abs=1e-12)
    assert not np.diag(d).any() and not np.triu(d, 1).any()
    other = log_f.copy()
    other[0] -= 5.0
    np.testing.assert_allclose(reference.forget_bias(other), d, rtol=0, atol=1e-12)


@given(st.floats(0.01, 3.0), st.integers(1, 12))
def test_a_constant_gate_is_alibi(slope, n):
    i, j = np.indices((n, n))
    alibi = np.tril(-slope * (i - j))
    d = reference.forget_bias(np.full(n, -slope))
    np.testing.assert_allclose(d, alibi, rtol=0, atol=1e-13 * n * n)
    bias = -math.log(math.expm1(slope))
    module = FoX(4, 1, gate="fixed", gate_bias=bias).double()
    log_f = module.log_gates(torch.zeros(1, n, 4, dtype=DOUBLE))
    np.testing.assert_allclose(log_f.detach().numpy(), -slope, rtol=1e-5)


@given(seeds, st.integers(1, 12))
def test_the_softmax_cannot_tell_the_key_part_from_the_difference(seed, n):
    logits, log_f = 3 * normal(seed, n, n), gates(seed, n)
    c = np.cumsum(log_f)
    difference = softmax(logits + reference.forget_bias(log_f), causal(n))
    key = softmax(logits - c[None, :], causal(n))
    np.testing.assert_allclose(key, difference, rtol=0, atol=1e-14 * (4 + abs(c[-1])))


@given(seeds, st.integers(2, 40), st.sampled_from((1e-2, 1e-4)))
def test_pruning_by_the_bound_loses_at_most_its_mass(seed, n, epsilon):
    logits, log_f = 2 * normal(seed, n, n), gates(seed, n)
    d = reference.forget_bias(log_f)
    threshold = -2 * np.abs(logits).max() - math.log(n) + math.log(epsilon)
    weights = softmax(logits + d, causal(n))
    pruned = np.where((d < threshold) & causal(n), weights, 0).sum(-1)
    assert (pruned <= epsilon).all()


def test_the_gradient_of_a_gate_is_that_of_the_paths_across_it():
    """The gradient of log f_l is Σ dS_ij over i ≥ l > j; nothing for the first."""
    n = 6
    logits = torch.tensor(normal(0, n, n))
    log_f = torch.tensor(gates(1, n), requires_grad=True)
    c = log_f.cumsum(0)
    scores = (logits + c[:, None] - c[None, :]).requires_grad_()
    scores.retain_grad()
    hidden = ~torch.tensor(causal(n))
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    (weights * torch.tensor(normal(2, n, n))).sum().backward()
    ds = scores.grad
    across = [ds[i:, :i].sum() for i in range(n)]
    torch.testing.assert_close(log_f.grad, torch.stack(across), rtol=0, atol=1e-14)
    assert abs(log_f.grad[0]) < 1e-15


def off_by_one(log_f):
    """Notes on the web: the product starts at the key's own gate."""
    c = np.concatenate(([0.0], np.cumsum(log_f)))
    return np.tril(c[1:, None] - c[None, :-1])


def over_root_d(log_f, d=4):
    """The bias added before the division by √d, as PaTH-FoX's kernel has it."""
    return reference.forget_bias(log_f) / math.sqrt(d)


@pytest.mark.parametrize("wrong", [off_by_one, over_root_d])
def test_published_slips_are_no_forget_gate(wrong):
    log_f = gates(0, 5)
    numbers = [sp.Float(value) for value in log_f]
    exact = np.array(symbolic.forget_bias(numbers).tolist(), dtype=float)
    np.testing.assert_allclose(reference.forget_bias(log_f), exact, rtol=0, atol=1e-14)
    assert np.abs(wrong(log_f) - exact).max() > 0.1


def test_time_scales_are_even_in_their_logarithm():
    bias = reference.constant_gate_bias(5, shortest=1, longest=16)
    times = -1 / -np.logaddexp(0, -bias)
    np.testing.assert_allclose(-times, [-1, -2, -4, -8, -16], rtol=1e-12)
    module = FoX(4, 5, gate="fixed", gate_bias=(1.0, 16.0))
    np.testing.assert_allclose(module.gate_bias.detach(), bias, rtol=1e-6)
    assert not module.gate_bias.requires_grad


def bias_by_log1p(heads, *, shortest, longest):
    """The bias by ``log1p(-exp(-rate))``, which cancels for long time scales."""
    rate = 1 / np.geomspace(shortest, longest, heads)
    return -(rate + np.log1p(-np.exp(-rate)))


def slope_errors(start):
    """Relative errors of slopes from ``start`` and of T, per bound of the chapter."""
    shares = []
    for time in np.geomspace(1e-3, 1e12, 61):
        (bias,) = start(1, shortest=time, longest=time)
        exact = 1 / mpmath.mpf(time)
        slope = mpmath.log1p(mpmath.exp(-mpmath.mpf(bias)))
        bound = 2.0**-53 * (abs(math.log(time)) + abs(bias) + 6)
        shares.append(float(abs(slope / exact - 1)) / bound)
    return shares


def test_a_slope_has_its_stated_error_at_every_time_scale():
    with mpmath.workdps(40):
        assert 0.1 < max(slope_errors(reference.constant_gate_bias)) <= 1
        assert max(slope_errors(bias_by_log1p)) > 1000


def fox_layer(route, seed=0, **options):
    torch.manual_seed(seed)
    encoding = FoX(16, 4, **options)
    if encoding.gate_weight is not None:
        torch.nn.init.normal_(encoding.gate_weight)
    layer = Attention(16, 4, kv_heads=2, encoding=encoding, route=route)
    return layer.to(DOUBLE)


@pytest.mark.parametrize("form", ["difference", "key"])
@pytest.mark.parametrize("gate", ["learned", "independent", "fixed"])
def test_fox_s_routes_agree_and_a_cache_changes_nothing(gate, form):
    same_on_every_route(
        lambda route: fox_layer(route, gate=gate, form=form, gate_bias=(1.0, 50.0))
    )


@given(
    seeds,
    st.integers(1, 9),
    st.sampled_from((0.3, 4.0)),
    st.sampled_from(("difference", "key")),
    st.sampled_from(("learned", "fixed")),
)
@settings(max_examples=40)
def test_fox_is_the_reference(seed, n, size, form, gate):
    q, k, v = (size * normal(seed + s, 2, n, 4) for s in range(3))
    x, bias = normal(seed, n, 6), normal(seed + 4, 2)
    weight = normal(seed + 5, 2, 6) if gate == "learned" else None
    module = FoX(
        6,
        2,
        gate=gate,
        form=form,
        gate_bias=torch.tensor(bias),
        gate_weight=None if weight is None else torch.tensor(weight),
    )
    *qkv, given = (torch.tensor(t)[None] for t in (q, k, v, x))
    hooks = reference.fox(gate_weight=weight, gate_bias=bias, form=form)
    wanted = attend_reference(q, k, v, hooks, x=x)
    for route in (*ROUTES, "folded"):
        out = attend(*qkv, module, x=given, route=route)[0]
        np.testing.assert_allclose(out.detach().numpy(), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("start", [0.0, 5.0])
def test_where_gates_start(start):
    module = FoX(8, 2, gate_bias=start)
    log_f = module.log_gates(torch.zeros(1, 1, 8))
    half_life = -math.log(2) / log_f[0, 0, 0].item()
    assert half_life == pytest.approx({0.0: 1.0, 5.0: 103.2}[start], rel=1e-3)


def test_what_gates_look_for_starts_normal_and_small():
    torch.manual_seed(0)
    weight = FoX(500, 8).gate_weight.detach().numpy()
    assert stats.kstest(weight.ravel(), "norm", (0, 0.02)).pvalue > 1e-3


def test_gates_are_summed_in_float32_whatever_the_input():
    module = FoX(8, 2).to(torch.bfloat16)
    log_f = module.log_gates(torch.randn(1, 5, 8).to(torch.bfloat16))
    assert log_f.dtype == torch.float32
    layer = Attention(8, 2, encoding=module, route="eager").to(torch.bfloat16)
    out = layer(torch.randn(1, 5, 8).to(torch.bfloat16))
    assert out.dtype == torch.bfloat16 and out.isfinite().all()


# FoX Pro

OFF = {
    **dict.fromkeys(("k_shift", "v_shift", "qk_norm", "output_norm"), False),
    "output_gate": None,
}


def pro(seed=0, **switches):
    torch.manual_seed(seed)
    module = FoXPro(8, 2, **switches).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module


@pytest.mark.parametrize("off", [None, *OFF])
def test_the_block_is_the_reference_with_each_part_on_its_switch(off):
    module = pro(**({} if off is None else {off: OFF[off]}))
    x = normal(1, 7, 8)
    weights = {
        name.replace(".", "_"): p.detach().numpy()
        for name, p in module.named_parameters()
    }
    out = module(torch.tensor(x)[None])[0].detach().numpy()
    np.testing.assert_allclose(out, reference.fox_pro(x, **weights), rtol=0, atol=1e-12)


def test_the_authors_other_gate_is_the_reference():
    module = pro(output_gate="silu")
    x = normal(1, 7, 8)
    weights = {
        name.replace(".", "_"): p.detach().numpy()
        for name, p in module.named_parameters()
    }
    out = module(torch.tensor(x)[None])[0].detach().numpy()
    wanted = reference.fox_pro(x, **weights, output_gate="silu")
    np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-12)
    assert np.abs(wanted - reference.fox_pro(x, **weights)).max() > 0.1


def test_with_every_switch_off_it_is_fox():
    module = pro(**OFF)
    plain = Attention(8, 2, encoding=module.encoding).double()
    plain.load_state_dict(module.state_dict())
    x = torch.tensor(normal(2, 2, 5, 8))
    torch.testing.assert_close(module(x), plain(x), rtol=0, atol=0)


def test_parameters_are_as_many_as_published():
    """5C² + 3CH + H + 3C for FoX (Pro), 4C² + CH + H without its parts."""
    c, h = 48, 6

    def count(**switches):
        return sum(p.numel() for p in FoXPro(c, h, **switches).parameters())

    assert count() == 5 * c**2 + 3 * c * h + h + 3 * c
    assert count(**OFF) == 4 * c**2 + c * h + h


@pytest.mark.parametrize("off", [None, *OFF])
def test_the_block_decodes_token_by_token(off):
    module = pro(**({} if off is None else {off: OFF[off]}))
    x = torch.tensor(normal(3, 2, 9, 8))
    torch.testing.assert_close(stepwise(module, x), module(x), rtol=0, atol=1e-13)


def test_the_shift_weighs_the_previous_token_and_stops_at_a_segment():
    module = pro(qk_norm=False, output_norm=False, output_gate=None)
    module.v_shift.weight.data.zero_()  # α = ½
    x = torch.tensor(normal(4, 1, 4, 8))
    _, _, v, _ = module.project(x, None, None, None)
    plain = module.v(x).unflatten(-1, (2, 4)).transpose(1, 2)
    torch.testing.assert_close(v[:, :, 0], plain[:, :, 0] / 2)
    torch.testing.assert_close(v[:, :, 1], (plain[:, :, 0] + plain[:, :, 1]) / 2)
    packed = module(x, segments=torch.tensor([[0, 0, 1, 1]]))
    torch.testing.assert_close(packed[:, 2:], module(x[:, 2:]), rtol=0, atol=1e-13)


def bare(*shape):
    return np.zeros(shape)


BAD = [
    (lambda: reference.forget_bias(np.array([0.5])),
     ValueError, "finite and at most 0, got 0.5"),
    (lambda: reference.forget_bias(np.array([-np.inf])),
     ValueError, "finite and at most 0, got -inf"),
    (lambda: reference.forget_bias(np.float64(-1.0)),
     ValueError, "got a single number"),
    (lambda: attend_reference(
        *(bare(2, 3, 2) for _ in "qkv"), reference.fox(gate_bias=bare(4)),
        x=bare(3, 4)),
     ValueError, r"a bias must be .*\[2, 3, 3\] for 2 heads, got shape \[4, 3, 3\]"),
    (lambda: attend_reference(
        *(bare(2, 3, 2) for _ in "qkv"), reference.fox(gate_bias=bare(2)),
        x=bare(4, 4)),
     ValueError, r"x must be \[3, d_model\] like the queries, got shape \[4, 4\]"),
    (lambda: attend_reference(
        bare(1, 3, 2), bare(1, 4, 2), bare(1, 3, 2), reference.fox(gate_bias=bare(1))),
     ValueError, r"agree in tokens and d, got shapes \[1, 3, 2\], \[1, 4, 2\]"),
    (lambda: attend_reference(
        *(bare(2, 3, 2) for _ in "qkv"), reference.fox(gate_bias=bare(2))),
     ValueError, "fox needs the layer's input: give attention x"),
    (lambda: reference.log_gates(bare(3, 4), bare(2, 5), bare(2)),
     ValueError, r"gate_weight must be \[heads, d_model\].*got shapes \[2, 5\]"),
    (lambda: reference.constant_gate_bias(2, shortest=0, longest=4),
     ValueError, "1e-30 ≤ shortest ≤ longest, got 0 and 4"),
    (lambda: FoX(8, 2, gate="open"), ValueError, "gate must be 'learned' or .*'open'"),
    (lambda: FoX(8, 2, form="query"), ValueError, "form must be .*got 'query'"),
    (lambda: FoX(8, 2, gate_bias=math.nan), ValueError, "gate_bias must be finite"),
    (lambda: FoX(8, 2, gate_bias=(5.0, 2.0)), ValueError, "got 5.0 and 2.0"),
    (lambda: FoX(8, 0), ValueError, "heads must be a positive multiple of 1, got 0"),
    (lambda: FoXPro(9, 2), ValueError, "d_model must be a multiple of heads = 2"),
    (lambda: reference.fox_pro(
        bare(2, 2), **dict.fromkeys(
            ("q_weight", "k_weight", "v_weight", "o_weight"), bare(2, 2)),
        encoding_gate_weight=bare(1, 2), encoding_gate_bias=bare(1),
        q_gain=bare(1, 2)),
     ValueError, "q_gain and k_gain go together"),
    (lambda: reference.fox_pro(
        bare(2, 2, 2), **dict.fromkeys(
            ("q_weight", "k_weight", "v_weight", "o_weight"), bare(2, 2)),
        encoding_gate_weight=bare(1, 2), encoding_gate_bias=bare(1)),
     ValueError, r"x must be \[tokens, d_model\].*got shapes \[2, 2, 2\]"),
    (lambda: reference.fox_pro(
        bare(2, 2), **dict.fromkeys(
            ("q_weight", "k_weight", "v_weight", "o_weight"), bare(2, 2)),
        encoding_gate_weight=bare(1, 2), encoding_gate_bias=bare(1),
        o_gain=bare(2, 2)),
     ValueError, r"o_gain must be \[1, 2\] for 1 heads"),
    (lambda: reference.fox_pro(
        bare(2, 3), **dict.fromkeys(
            ("q_weight", "k_weight", "v_weight", "o_weight"), bare(3, 3)),
        encoding_gate_weight=bare(2, 3), encoding_gate_bias=bare(2)),
     ValueError, r"d_model a multiple of heads, got shapes \[2, 3\] and \[2\]"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), BAD)
def test_bad_input_is_refused(call, error, words, unchecked):
    with pytest.raises(error, match=words):
        call()


def test_the_forms_of_the_bias_are_two():
    """One is 0 on the diagonal, the other the same for all queries."""
    x = np.ones((3, 4))
    mask, at = np.tri(3, dtype=bool), np.arange(3.0)
    tokens = Tokens(x[None], x[None], x[None], 4, at, at, mask, x)
    for form in ("difference", "key"):
        bias = reference.fox(gate_bias=np.zeros(1), form=form).bias(tokens)[0]
        rows = np.tri(3) * np.subtract.outer(-at, -at) if form != "key" else 1 + at
        np.testing.assert_allclose(bias, np.log(2) * (rows + np.zeros((3, 3))))


def test_no_output_gate_has_no_weights(unchecked):
    """The PyTorch module took None where the reference and SymPy refused it."""
    weights = dict.fromkeys(("q_weight", "k_weight", "v_weight", "o_weight"), np.eye(2))
    gates = {"encoding_gate_weight": bare(1, 2), "encoding_gate_bias": bare(1)}
    options = weights | gates
    x = normal(0, 3, 2)
    without = reference.fox_pro(x, **options, output_gate=None)
    np.testing.assert_array_equal(without, reference.fox_pro(x, **options))
    with pytest.raises(ValueError, match="where out_gate_weight is given, got None"):
        reference.fox_pro(x, **options, output_gate=None, out_gate_weight=np.eye(2))


@pytest.mark.parametrize("cached", [0, 3])
def test_the_token_before_is_the_one_before_the_padding(cached):
    """Keys and values are mixed with those of the last token that is no padding."""
    torch.manual_seed(0)
    layer = FoXPro(8, 2).double()
    for weight in layer.parameters():
        torch.nn.init.normal_(weight)
    x = torch.randn(1, 7, 8, dtype=torch.float64)
    padding = torch.tensor([[True, False, False, True, True, False, False]])
    kept = ~padding[0]
    with torch.no_grad():
        if cached:
            cache = KVCache()
            layer(x[:, :cached], key_padding_mask=padding[:, :cached], cache=cache)
            out = layer(x[:, cached:], key_padding_mask=padding, cache=cache)
        else:
            out = layer(x, key_padding_mask=padding)
        alone = layer(x[:, kept])
    expected = alone[:, kept[:cached].sum() :]
    torch.testing.assert_close(out[:, kept[cached:]], expected, rtol=0, atol=1e-12)
