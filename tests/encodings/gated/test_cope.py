"""CoPE: counted positions, reference and PyTorch, routes, errors."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posedu.numpy import gated as reference
from posedu.numpy.attention import attend as attend_reference
from posedu.torch import Attention, CoPE, attend
from posedu.torch.gated.cope import counted_bias
from support.gated import normal, same_on_every_route

pytestmark = [
    pytest.mark.usefixtures("untraced_flex"),
    pytest.mark.filterwarnings("ignore:flex_attention called without"),
]
SCALINGS = ("code", "bias unscaled", "paper")
DOUBLE = torch.float64
seeds = st.integers(0, 2**31)


def gates(seed, n, spread=3.0):
    """Logarithms of gates, from logits around 0."""
    return -np.logaddexp(0, -spread * normal(seed, n))


# CoPE


@given(st.integers(1, 10), st.integers(0, 5), st.integers(1, 12))
def test_all_gates_one_count_both_ends(queries, past, largest):
    """p = i − j + 1, not i − j; a query late in its cache likewise."""
    logits = np.full((queries, queries + past), 800.0)
    counted = reference.contextual_positions(logits, largest=largest)
    i, j = np.indices(logits.shape)
    distance = np.clip(i + past - j + 1, 0, largest)
    np.testing.assert_array_equal(counted, distance)


@given(seeds, st.integers(1, 10))
def test_positions_fall_by_a_gate_from_key_to_key(seed, n):
    logits = 3 * normal(seed, n, n)
    counted = reference.contextual_positions(logits, largest=n + 1)
    sigma = np.exp(-np.logaddexp(0, -logits))
    for i in range(n):
        steps = counted[i, :i] - counted[i, 1 : i + 1]
        np.testing.assert_allclose(steps, sigma[i, :i], rtol=0, atol=1e-13)
        assert counted[i, i] == pytest.approx(sigma[i, i], abs=1e-15)


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_it_counts_the_tokens_of_a_class(marks):
    logits = np.where(np.array(marks), 800.0, -800.0)[None]
    counted = reference.contextual_positions(logits, largest=len(marks))
    np.testing.assert_array_equal(counted[0], np.cumsum(marks[::-1])[::-1])


@given(seeds, st.integers(1, 8), st.integers(1, 6), st.booleans())
def test_vectors_and_scalars_interpolate_alike(seed, n, npos, per_head):
    q = normal(seed, 2, n, 3)
    table = normal(seed + 1, *((2,) if per_head else ()), 3, npos)
    counted = reference.contextual_positions(normal(seed, 2, n, n), largest=npos - 1)
    vectors = reference.interpolated_vectors(counted, table)
    scalars = reference.interpolated_scalars(counted, q @ table)
    straightforward = np.einsum("hid,hijd->hij", q, vectors)
    np.testing.assert_allclose(scalars, straightforward, rtol=0, atol=1e-13 * npos)


def swapped(counted, values):
    """Floor and ceiling exchanged: the fraction weighs the floor."""
    floor, ceiling = np.floor(counted).astype(int), np.ceil(counted).astype(int)
    fraction = counted - floor
    low = np.take_along_axis(values, floor, -1)
    return fraction * low + (1 - fraction) * np.take_along_axis(values, ceiling, -1)


def test_the_fraction_weighs_the_ceiling():
    values = np.array([[0.0, 10.0, 20.0]])
    counted = np.array([[0.25, 1.75, 2.0]])
    right = reference.interpolated_scalars(counted, values)
    np.testing.assert_allclose(right, [[2.5, 17.5, 20.0]])
    assert np.abs(swapped(counted, values) - right).max() > 4


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("gates", ["content", "values", "keys"])
def test_cope_is_the_reference(scaling, heads, gates):
    q, k, v = (normal(s, 2, 7, 4) for s in range(3))
    x, own = normal(3, 7, 6), {}
    if gates == "keys":
        own = {"d_model": 6, "gate_heads": 2}
    table = torch.tensor(normal(4, *((2,) if heads else ()), 4, 4))
    module = CoPE(
        4, npos=4, scaling=scaling, heads=heads, gates=gates, table=table, **own
    ).double()
    given = (torch.tensor(t)[None] for t in (q, k, v))
    out = attend(*given, module, x=torch.tensor(x)[None])[0]
    if gates == "keys":
        own = {"gate_keys_weight": module.gate_keys.weight.detach().numpy()}
    hooks = reference.cope(table=table.numpy(), scaling=scaling, gates=gates, **own)
    wanted = attend_reference(q, k, v, hooks, x=x)
    np.testing.assert_allclose(out.detach().numpy(), wanted, rtol=0, atol=1e-13)


def test_the_three_scalings_differ():
    q, k, v = (normal(s, 1, 7, 4) for s in range(3))
    table = normal(3, 4, 4)
    outs = [
        attend_reference(q, k, v, reference.cope(table=table, scaling=s))
        for s in SCALINGS
    ]
    for n, left in enumerate(outs):
        assert all(np.abs(left - right).max() > 1e-2 for right in outs[:n])


KEYS = {"gates": "keys", "d_model": 16, "gate_heads": 4}


@pytest.mark.parametrize("gates", [{}, {"gates": "values"}, KEYS], ids=str)
@pytest.mark.parametrize("scaling", SCALINGS)
def test_cope_s_routes_agree_and_a_cache_changes_nothing(scaling, gates):
    def make(route):
        torch.manual_seed(0)
        encoding = CoPE(4, npos=3, scaling=scaling, **gates)
        torch.nn.init.normal_(encoding.table)
        layer = Attention(16, 4, kv_heads=2, encoding=encoding, route=route)
        return layer.to(DOUBLE)

    same_on_every_route(make)


def test_padding_counts_nothing():
    torch.manual_seed(0)
    encoding = CoPE(4, npos=6, scaling="code")
    torch.nn.init.normal_(encoding.table)
    layer = Attention(16, 4, encoding=encoding, route="eager").double()
    x = torch.tensor(normal(7, 1, 6, 16))
    padding = torch.tensor([[False, False, True, False, True, False]])
    kept = layer(x[:, ~padding[0]])
    padded = layer(x, key_padding_mask=padding)[:, ~padding[0]]
    torch.testing.assert_close(padded, kept, rtol=0, atol=1e-13)


def test_it_starts_as_no_encoding_and_its_gates_without_a_gradient():
    torch.manual_seed(0)
    encoding = CoPE(4, npos=4, scaling="code", **KEYS)
    layer = Attention(16, 4, encoding=encoding, route="eager").double()
    bare = Attention(16, 4, route="eager").double()
    bare.load_state_dict(
        {n: p for n, p in layer.state_dict().items() if "encoding" not in n}
    )
    x = torch.tensor(normal(8, 2, 5, 16))
    torch.testing.assert_close(layer(x), bare(x), rtol=0, atol=0)
    layer(x).square().sum().backward()
    assert not encoding.gate_keys.weight.grad.any()
    assert encoding.table.grad.any()


@pytest.mark.parametrize("queries", [3, 5])
def test_the_lean_gradient_is_right(queries):
    generator = torch.Generator().manual_seed(0)
    shape = 1, 2, queries
    values = torch.randn(*shape, 4, dtype=DOUBLE, generator=generator)
    logits = torch.randn(*shape, 5, dtype=DOUBLE, generator=generator)
    mask = torch.rand(1, 1, queries, 5, generator=generator) < 0.8
    arguments = values.requires_grad_(), logits.requires_grad_(), mask
    assert torch.autograd.gradcheck(counted_bias, arguments, atol=1e-9)


def test_no_gradient_at_integers_and_under_the_clamp():
    values = torch.randn(1, 1, 1, 3, dtype=DOUBLE)
    saturated = torch.full((1, 1, 1, 6), 800.0, dtype=DOUBLE, requires_grad=True)
    counted_bias(values, saturated).sum().backward()
    assert not saturated.grad.any()
    clamped = torch.full((1, 1, 1, 9), 3.0, dtype=DOUBLE, requires_grad=True)
    counted_bias(values, clamped)[..., :5].sum().backward()
    assert not clamped.grad.any()


def test_four_bytes_a_pair_are_kept_for_the_gradient():
    n = 64
    values = torch.randn(1, 1, n, 4, requires_grad=True)
    logits = torch.randn(1, 1, n, n, requires_grad=True)
    kept = {}

    def keep(t):
        kept[t.data_ptr()] = t.nbytes
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        counted_bias(values, logits)
    assert sum(kept.values()) == logits.nbytes + values.nbytes


def bare(*shape):
    return np.zeros(shape)


BAD = [
    (lambda: reference.contextual_positions(np.array([[np.inf, np.nan]]), largest=3),
     ValueError, "gate_logits must be finite, got inf; hide keys with mask"),
    (lambda: reference.contextual_positions(bare(3, 2), largest=4),
     ValueError, r"at least as many keys as queries, got shape \[3, 2\]"),
    (lambda: reference.contextual_positions(np.full((2, 2), np.nan), largest=4),
     ValueError, "finite, got nan; hide keys with mask"),
    (lambda: reference.contextual_positions(bare(2, 2), largest=-1),
     ValueError, "largest must be finite and not negative, got -1"),
    (lambda: attend_reference(
        *(bare(1, 2, 4) for _ in "qkv"),
        reference.cope(table=bare(3, 5), scaling="code")),
     ValueError, r"table must be \[4, npos\] or .* got shape \[3, 5\]"),
    (lambda: attend_reference(
        *(bare(1, 2, 4) for _ in "qkv"),
        reference.cope(table=bare(4, 0), scaling="code")),
     ValueError, r"npos ≥ 1, got shape \[4, 0\]"),
    (lambda: reference.cope(table=bare(4, 5), scaling="none"),
     ValueError, "scaling must be .* got 'none'"),
    (lambda: reference.cope(table=bare(4, 5), scaling="code", gates="keys"),
     ValueError, "gate_keys_weight is for gates='keys' and needed there"),
    (lambda: CoPE(4, npos=3, scaling="code", gates="keys"),
     ValueError, "d_model and gate_heads are for gates='keys'"),
    (lambda: CoPE(4, npos=3, scaling="code", table=torch.zeros(3, 3)),
     ValueError, r"table must be \[4, 3\], got shape \[3, 3\]"),
    (lambda: CoPE(4, npos=0, scaling="code"),
     ValueError, "npos must be a positive multiple of 1, got 0"),
    (lambda: counted_bias(torch.zeros(1, 1, 3, 2), torch.zeros(1, 1, 3, 2)),
     ValueError, "at least as many keys as queries, got 2 and 3"),
    (lambda: counted_bias(torch.zeros(1, 1, 2, 2), torch.zeros(1, 2, 2, 2)),
     ValueError, r"got shapes \[1, 1, 2, 2\] and \[1, 2, 2, 2\]"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), BAD)
def test_bad_input_is_refused(call, error, words, unchecked):
    with pytest.raises(error, match=words):
        call()
