"""NoPE: the temperature on every route, the order that remains, errors."""

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from posedu.numpy import attend as attend_reference
from posedu.numpy import nope
from posedu.numpy.attention import NO_HOOKS, causal_mask, steps
from posedu.sympy import attend as attend_exactly
from posedu.sympy import nope as symbolic_nope
from posedu.torch import Attention, KVCache, NoPE, attend

pytestmark = [
    pytest.mark.usefixtures("untraced_flex"),
    pytest.mark.filterwarnings("ignore:flex_attention called without"),
]
DOUBLE = torch.float64


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def heads_of(temperatures):
    """A module whose trained temperatures are these."""
    module = NoPE(heads=len(temperatures)).double()
    with torch.no_grad():
        module.temperature.copy_(torch.tensor(temperatures, dtype=DOUBLE))
    return module


def by_hand(q, k, v, temperatures, mask):
    """softmax(λ q · k) v, one query at a time; λ √d is the temperature."""
    out = np.zeros_like(v)
    for h, i in np.ndindex(q.shape[:2]):
        seen = np.flatnonzero(mask[i])
        scores = temperatures[h] * k[h, seen] @ q[h, i] / np.sqrt(q.shape[2])
        a = np.exp(scores - scores.max())
        out[h, i] = a / a.sum() @ v[h, seen]
    return out


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("temperatures", [(1.0, 1.0), (1.6, 0.25), (-0.5, 3.0)])
def test_every_implementation_is_the_published_formula(temperatures, causal):
    """Up to 24 roundings of logits below 20: 1e-13 is more."""
    q, k, v = normal(3, 2, 6, 4)
    mask = causal_mask(6) if causal else np.ones((6, 6), bool)
    expected = by_hand(q, k, v, temperatures, mask)
    hooks = nope(temperature=np.array(temperatures))
    found = attend_reference(q, k, v, hooks, causal=causal)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    tensors = [torch.tensor(t)[None] for t in (q, k, v)]
    for route in ("eager", "sdpa", "flex"):
        with torch.no_grad():
            fast = attend(*tensors, heads_of(temperatures), causal=causal, route=route)
        np.testing.assert_allclose(fast[0].numpy(), expected, rtol=0, atol=1e-13)


def test_a_temperature_of_one_is_plain_attention_to_the_last_bit():
    q, k, v = normal(3, 2, 6, 4)
    plain = attend_reference(q, k, v, NO_HOOKS)
    assert (attend_reference(q, k, v, nope()) == plain).all()
    tensors = [torch.tensor(t, dtype=torch.bfloat16)[None] for t in (q, k, v)]
    for module in (NoPE(), NoPE(heads=2)):
        assert attend(*tensors, module).equal(attend(*tensors))
    assert [*NoPE().parameters()] == []


@pytest.mark.parametrize("temperature", [0.0, 1.2, 2.0])
def test_one_temperature_is_the_same_for_all_heads(temperature):
    q, k, v = normal(3, 3, 5, 4)
    one = attend_reference(q, k, v, nope(temperature=temperature))
    each = attend_reference(q, k, v, nope(temperature=np.full(3, temperature)))
    assert (one == each).all()
    tensors = [torch.tensor(t)[None] for t in (q, k, v)]
    fast = attend(*tensors, NoPE(temperature))
    np.testing.assert_allclose(fast[0].numpy(), one, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_heads_that_share_keys_keep_temperatures_of_their_own(kv_heads):
    q, k, v = normal(4, 5, 4), *normal(2, kv_heads, 5, 4, seed=1)
    temperatures = (0.5, 1.0, 1.5, 2.5)
    k_each, v_each = (t.repeat(4 // kv_heads, 0) for t in (k, v))
    expected = by_hand(q, k_each, v_each, temperatures, causal_mask(5))
    found = attend_reference(q, k, v, nope(temperature=np.array(temperatures)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    fast = attend(*(torch.tensor(t)[None] for t in (q, k, v)), heads_of(temperatures))
    np.testing.assert_allclose(fast.detach()[0], expected, rtol=0, atol=1e-13)


def test_the_published_model_trains_704_temperatures():
    """22 layers of 32 heads of 64 features, each from 1.6 on."""
    layer = NoPE(1.6, heads=32)
    assert 22 * sum(p.numel() for p in layer.parameters()) == 704
    assert layer.temperature.unique().tolist() == [torch.tensor(1.6).item()]


def test_the_gradient_of_a_temperature_is_that_of_its_scores():
    """∂ out / ∂ f = Σ a (s − s̄) v, for s the scores at f = 1."""
    q, k, v = normal(3, 2, 6, 4)
    module = heads_of((1.6, 0.7))
    out = attend(*(torch.tensor(t)[None] for t in (q, k, v)), module, causal=False)
    (found,) = torch.autograd.grad(out.sum(), module.temperature)
    taken = steps(q, k, v, nope(temperature=module.temperature.detach().numpy()))
    s = q @ k.swapaxes(1, 2) / 2
    mean = (taken.weights * s).sum(-1, keepdims=True)
    expected = ((taken.weights * (s - mean)) @ v).sum((1, 2))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@given(st.permutations(range(5)), st.floats(-3, 3))
def test_the_last_output_of_one_causal_layer_knows_no_order(order, temperature):
    """Whatever the temperature; 1e-13 is a hundred roundings of numbers below four."""
    q, k, v = normal(3, 1, 6, 4)
    order = [*order, 5]
    hooks = nope(temperature=temperature)
    left = attend_reference(q, k, v, hooks)[:, -1]
    moved = (t[:, order] for t in (q, k, v))
    right = attend_reference(*moved, hooks)[:, -1]
    np.testing.assert_allclose(left, right, rtol=0, atol=1e-13)


def test_a_row_of_equal_tokens_stays_one_through_every_layer():
    torch.manual_seed(0)
    layers = [Attention(8, 2, encoding=NoPE(1.6, heads=2)).double() for _ in range(3)]
    x = torch.randn(1, 1, 8, dtype=DOUBLE).expand(1, 9, 8)
    marked = x.clone()
    marked[:, 0] = -marked[:, 0]
    for layer in layers:
        x, marked = x + layer(x).tanh(), marked + layer(marked).tanh()
    assert (x - x[:, :1]).abs().max() < 1e-14
    assert (marked[0, 2:] - marked[0, 1:-1]).abs().amax(-1).min() > 1e-4


@pytest.mark.parametrize("route", ["eager", "sdpa", "flex"])
def test_a_cache_holds_keys_as_they_are(route):
    torch.manual_seed(0)
    layer = Attention(8, 4, kv_heads=2, encoding=NoPE(1.6, heads=4), route=route)
    layer = layer.double()
    x = torch.randn(2, 7, 8, dtype=DOUBLE)
    with torch.no_grad():
        whole, cache = layer(x), KVCache()
        parts = [layer(x[:, s], cache=cache) for s in (slice(4), slice(4, 7))]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_output_has_the_dtype_of_the_queries(dtype):
    tensors = [torch.tensor(t, dtype=dtype)[None] for t in normal(3, 2, 5, 4)]
    for module in (NoPE(1.2), NoPE(1.6, heads=2)):
        assert attend(*tensors, module).dtype == dtype


@pytest.mark.parametrize("tokens", [0, 1])
def test_no_token_and_one_token(tokens):
    q = normal(2, tokens, 4)
    assert attend_reference(q, q, q, nope(temperature=np.ones(2))).shape == q.shape
    one = torch.tensor(q)[None]
    torch.testing.assert_close(attend(one, one, one, heads_of((2.0, 3.0))), one)


def test_the_symbolic_implementation_has_one_temperature_or_one_for_each_head():
    f, g = sp.symbols("f g")
    q = [sp.Matrix([[1, 2], [3, 5]])] * 2
    for tau, own in ((f, (f, f)), ((f, g), (f, g)), (sp.Matrix([f, g]), (f, g))):
        turned, k = symbolic_nope(temperature=tau).rotate(tuple(q), tuple(q), (0, 1))
        assert turned == tuple(a * m for a, m in zip(own, q, strict=True))
        assert k == tuple(q)
    assert attend_exactly(q, q, q, symbolic_nope()) == attend_exactly(q, q, q)


def attending(temperature, heads=2):
    q = normal(heads, 3, 4)
    return lambda: attend_reference(q, q, q, nope(temperature=temperature))


def exactly(temperature):
    q = [sp.eye(2)] * 2
    return lambda: attend_exactly(q, q, q, symbolic_nope(temperature=temperature))


BAD = {
    "text": (attending("1"), TypeError, "temperature must be a number, got '1'"),
    "yes": (attending(True), TypeError, "temperature must be a number, got True"),
    "infinite": (attending(np.inf), ValueError, "temperature must be finite, got inf"),
    "integers": (attending(np.ones(2, int)), TypeError, "temperature must hold floats"),
    "a square": (
        attending(np.ones((2, 1))),
        ValueError,
        r"one finite number or \[heads\] of them, got .* of shape \[2, 1\]",
    ),
    "none": (attending(np.ones(0)), ValueError, r"got \[\] of shape \[0\]"),
    "not finite": (attending(np.array([1.0, np.nan])), ValueError, r"got \[1.0, nan\]"),
    "other heads": (attending(np.ones(3)), ValueError, "3 heads, q has 2"),
    "no symbols": (exactly([]), ValueError, "one for each head, got none"),
    "symbols of more": (exactly([1, 2, 3]), ValueError, "has 3 heads, q has 2"),
    "symbols as text": (exactly("f"), TypeError, "temperature must be a number or an"),
    "module": (lambda: NoPE("1"), TypeError, "temperature must be a number, got '1'"),
    "module's": (
        lambda: NoPE(np.nan),
        ValueError,
        "temperature must be finite, got nan",
    ),
    "heads": (lambda: NoPE(heads=0), ValueError, "heads must be a positive"),
    "too large": (
        lambda: NoPE(1e300, heads=2),
        ValueError,
        "temperature must be finite in torch.float32, got 1e",
    ),
    "layer": (
        lambda: Attention(8, 4, encoding=NoPE(heads=2)),
        ValueError,
        "NoPE was made for heads = 2, the layer has heads = 4",
    ),
    "folded": (
        lambda: Attention(8, 2, encoding=NoPE(), route="folded"),
        ValueError,
        "NoPE has no bias",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name):
    call, error, words = BAD[name]
    with pytest.raises(error, match=words):
        call()


def test_a_module_says_what_it_is():
    assert repr(NoPE(1.2)) == "NoPE(temperature=1.2)"
    assert repr(NoPE(heads=4)) == "NoPE(heads=4)"
