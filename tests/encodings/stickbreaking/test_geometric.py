"""Geometric attention: loops, both sides, special cases, texts, published mistakes."""

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posedu.numpy import stickbreaking as reference
from posedu.numpy.attention import attend as attend_reference
from posedu.numpy.attention import steps
from posedu.sympy import stickbreaking as symbolic
from posedu.torch import Attention, Geometric, StickBreaking, attend
from posedu.torch.stickbreaking import break_nearest_first
from support.path import DOUBLE, layer_of, normal, stepwise, texts_alone

WIDTH, HEADS, D = 8, 2, 4
seeds = st.integers(0, 2**31)
each_normalize = pytest.mark.parametrize("normalize", (True, False))


def nearness(i, j):
    return (abs(i - j), j < i)


def walked(logits, mask, *, normalize, nearness=nearness):
    """Weights by a walk from the nearest key on, which breaks the stick at each."""
    weights = np.zeros(logits.shape)
    for i in range(len(logits)):
        stick = 1.0
        for j in sorted(range(len(logits)), key=lambda j, i=i: nearness(i, j)):
            if j != i and mask[i, j]:
                share = 1 / (1 + np.exp(-logits[i, j]))
                weights[i, j] = share * stick
                stick *= 1 - share
        if normalize:
            weights[i] /= max(weights[i].sum(), 1e-12)
    return weights


def masks(tokens):
    return {"causal": np.tri(tokens, dtype=bool), "all": np.ones((tokens,) * 2, bool)}


@given(seeds, st.integers(0, 15), st.booleans(), st.sampled_from(("causal", "all")))
@settings(max_examples=50, deadline=None)
def test_weights_are_those_of_the_walk(seed, tokens, normalize, kind):
    logits = 2 * np.random.default_rng(seed).normal(size=(tokens, tokens))
    mask = masks(tokens)[kind]
    expected = walked(logits, mask, normalize=normalize)
    found = reference.break_nearest_first(logits, mask, normalize=normalize)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    allowed = torch.tensor(mask & ~np.eye(tokens, dtype=bool))[None, None]
    found = break_nearest_first(torch.tensor(logits)[None, None], allowed)[0, 0]
    unscaled = walked(logits, mask, normalize=False)
    np.testing.assert_allclose(found, unscaled, rtol=0, atol=1e-13)


def parameters(seed=0, direction=True):
    rng = np.random.default_rng(seed)
    given = {
        "product_scale": rng.normal(size=1),
        "logit_bias": rng.normal(size=1),
        "content_bias": rng.normal(size=(HEADS, D)),
    }
    if direction:
        given["direction_weight"] = rng.normal(size=(HEADS, 2, WIDTH))
        given["direction_bias"] = rng.normal(size=(HEADS, 2))
    return given


def scores(q, k, x, given):
    """All logits by loops over heads and pairs."""
    logits = np.zeros((len(q), q.shape[1], q.shape[1]))
    for h, i, j in np.ndindex(*logits.shape):
        product = (q[h, i] + given["content_bias"][h]) @ k[h, j]
        logits[h, i, j] = given["product_scale"][0] * product + given["logit_bias"][0]
        if i != j and "direction_weight" in given:
            side = 0 if j < i else 1
            logits[h, i, j] += given["direction_weight"][h, side] @ x[i]
            logits[h, i, j] += given["direction_bias"][h, side]
    return logits


def module_of(given, normalize):
    direction = "direction_weight" in given
    made = Geometric(WIDTH, HEADS, D, normalize=normalize, direction=direction)
    made.double().load_state_dict({n: torch.tensor(a) for n, a in given.items()})
    return made


@each_normalize
@pytest.mark.parametrize("direction", (True, False))
@pytest.mark.parametrize("kind", ("causal", "all"))
def test_reference_and_module_are_the_loops(normalize, direction, kind):
    rng, tokens = np.random.default_rng(1), 11
    q, k, v = rng.normal(size=(3, HEADS, tokens, D))
    x, given_ = rng.normal(size=(tokens, WIDTH)), parameters(2, direction)
    logits = scores(q, k, x, given_)
    options = dict(mask=masks(tokens)[kind], normalize=normalize)
    expected = [walked(z, **options) @ u for z, u in zip(logits, v, strict=True)]
    hooks = reference.geometric(**given_, normalize=normalize)
    causal = kind == "causal"
    found = attend_reference(q, k, v, hooks, x=x, causal=causal)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    tensors = (torch.tensor(t)[None] for t in (q, k, v))
    module = module_of(given_, normalize)
    found = attend(*tensors, module, x=torch.tensor(x)[None], causal=causal)
    np.testing.assert_allclose(found.detach()[0], expected, rtol=0, atol=1e-12)


def test_a_worked_example():
    """Shares of one half: 1/2 on the right, 1/4 on the left, 1/8 two to the right."""
    logits, mask = np.zeros((4, 4)), np.ones((4, 4), bool)
    found = reference.break_nearest_first(logits, mask, normalize=False)
    np.testing.assert_allclose(found[1], [1 / 4, 0, 1 / 2, 1 / 8], rtol=1e-14)
    np.testing.assert_allclose(found[0], [0, 1 / 2, 1 / 4, 1 / 8], rtol=1e-14)
    found = reference.break_nearest_first(logits, mask, normalize=True)
    np.testing.assert_allclose(found[1] * 7, [2, 0, 4, 1], rtol=1e-14)
    assert symbolic.nearest_first(1, range(4)) == [2, 0, 3]
    exact = symbolic.break_nearest_first([sp.S.Zero] * 4, 1, range(4), normalize=True)
    assert exact == [sp.Rational(n, 7) for n in (2, 0, 4, 1)]


@pytest.mark.parametrize(
    "normalize, remainder", ((True, "renormalize"), (False, "drop"))
)
def test_causal_it_is_stick_breaking_without_the_own_key(normalize, remainder):
    given_ = parameters(direction=False)
    given_["product_scale"][:] = D**-0.5
    given_["logit_bias"][:] = 0
    given_["content_bias"][:] = 0
    q, k, v = normal(3, 1, HEADS, 9, D).unbind(0)
    found = attend(q, k, v, module_of(given_, normalize))
    stick = StickBreaking(attend_current=False, remainder=remainder)
    torch.testing.assert_close(found, attend(q, k, v, stick), rtol=0, atol=1e-13)
    assert not found[:, :, 0].any()


def test_a_direction_far_below_zero_hides_a_side():
    given_ = parameters()
    given_["direction_weight"][:] = 0
    given_["direction_bias"][:] = [[-800.0, 0.0]] * HEADS
    q, k, v = normal(3, 1, HEADS, 9, D).unbind(0)
    x = normal(1, 9, WIDTH)
    module = module_of(given_, True)
    out = attend(q, k, v, module, x=x, causal=False)
    changed = v.clone()
    changed[:, :, :4] += 1
    other = attend(q, k, changed, module, x=x, causal=False)
    torch.testing.assert_close(out[:, :, 4:], other[:, :, 4:], rtol=0, atol=0)


def test_a_reversed_text_has_reversed_weights_where_no_two_keys_are_as_near():
    """At ties the later key is the nearer: only there does the order show."""
    logits = np.random.default_rng(3).normal(size=(6, 6))
    mask = np.ones((6, 6), bool)
    found = reference.break_nearest_first(logits, mask, normalize=False)
    back = reference.break_nearest_first(logits[::-1, ::-1], mask, normalize=False)
    difference = np.abs(found - back[::-1, ::-1])
    assert difference[[0, -1]].max() < 1e-14 and difference[1:-1].max() > 0.01


@each_normalize
@pytest.mark.parametrize("kv_heads", (4, 2, 1))
def test_pieces_padding_and_packing_are_the_texts_alone(normalize, kv_heads):
    layer = layer_of(Geometric(16, 4, 4, normalize=normalize), kv_heads=kv_heads)
    texts_alone(layer, 20)
    x = normal(2, 20, 16)
    with torch.no_grad():
        one_by_one = stepwise(layer, x, (1,) * 20)
        torch.testing.assert_close(one_by_one, layer(x), rtol=0, atol=1e-12)


def test_padding_and_packing_on_both_sides():
    encoding = layer_of(Geometric(16, 4, 4, normalize=True)).encoding
    torch.manual_seed(1)
    layer = Attention(16, 4, encoding=encoding, causal=False).double()
    x, close = normal(2, 12, 16), {"rtol": 0, "atol": 1e-12}
    with torch.no_grad():
        whole = layer(x)
        places = ~torch.isin(torch.arange(16), torch.tensor([0, 4, 5, 15]))
        padded = normal(2, 16, 16, seed=3)
        padded[:, places] = x
        out = layer(padded, key_padding_mask=(~places).expand(2, -1))
        torch.testing.assert_close(out[:, places], whole, **close)
        mixed = x.transpose(0, 1).reshape(1, 24, 16)
        segments = torch.arange(2).repeat(12)[None]
        out = layer(mixed, segments=segments).reshape(12, 2, 16).transpose(0, 1)
        torch.testing.assert_close(out, whole, **close)
        window = Attention(16, 4, encoding=encoding, window=3).double()
        window.load_state_dict(layer.state_dict())
        q, k, v, _ = window.project(x, None, None, None)
        arrays = {n: p.detach().numpy() for n, p in encoding.named_parameters()}
        mask = np.tri(12, dtype=bool) & ~np.tri(12, k=-3, dtype=bool)
        hooks = reference.geometric(**arrays, normalize=True)
        for row in range(2):
            given_ = (t[row].numpy() for t in (q, k, v))
            out = steps(*given_, hooks, x=x[row].numpy(), mask=mask).out
            found = window.steps(x)[1].out[row]
            np.testing.assert_allclose(found, out, rtol=0, atol=1e-12)


def test_where_it_starts():
    module = Geometric(64, 4, 16, normalize=True)
    assert module.product_scale.item() == 0.25
    assert not module.content_bias.any() and not module.logit_bias.any()
    assert module.direction_weight.abs().max() <= 1 / 8


def test_large_logits_neither_overflow_nor_lose_small_weights():
    """A share of 1 − e⁻³⁰ leaves e⁻³⁰, which a difference 1 − P would round to 0."""
    logits = torch.tensor([[0.0, 30.0, 30.0, 0.0]]).expand(4, -1)[None, None]
    allowed = ~torch.eye(4, dtype=torch.bool)[None, None]
    found = break_nearest_first(logits.float(), allowed)[0, 0, 0]
    expected = torch.tensor([0.0, 1.0, np.exp(-30.0), np.exp(-60.0) / 2])
    torch.testing.assert_close(found.double(), expected.double(), rtol=1e-5, atol=0)
    huge = break_nearest_first(1e30 * normal(1, 1, 4, 4).float(), allowed)
    assert huge.isfinite().all()


def test_rows_without_a_key_are_zero():
    layer = layer_of(Geometric(16, 4, 4, normalize=True))
    hidden = torch.tensor([[True, True, False]])
    x = normal(1, 3, 16).requires_grad_()
    out = layer(x, key_padding_mask=hidden)
    out.sum().backward()
    assert not out.detach().any() and x.grad.isfinite().all()


def test_gradients():
    for causal in (True, False):
        module = module_of(parameters(), True)
        leaves = [t.requires_grad_() for t in normal(3, 1, HEADS, 5, D).unbind(0)]
        leaves.append(normal(1, 5, WIDTH, seed=4).requires_grad_())

        def run(q, k, v, x, module=module, causal=causal):
            return attend(q, k, v, module, x=x, causal=causal)

        assert torch.autograd.gradcheck(run, leaves)


def test_bfloat16_shares_are_float32():
    q, k, v = normal(3, 1, HEADS, 40, D).bfloat16().unbind(0)
    module = module_of(parameters(5, direction=False), False).float()
    found = attend(q, k, v, module, causal=False)
    exact = attend(
        *(t.double() for t in (q, k, v)), module.double(), causal=False
    ).detach()
    size = v.double().abs().max()
    assert found.dtype == torch.bfloat16
    # The weights, which sum to at most 1, and the output are stored: 2⁻⁸ each.
    assert (found.double() - exact).abs().max() <= 2 * 2**-8 * size


def test_a_compiled_layer_agrees(unchecked):
    layer = layer_of(Geometric(8, 2, 4, normalize=True))
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = normal(1, 7, 8)
    torch.testing.assert_close(compiled(x), layer(x), rtol=0, atol=1e-12)


WRONG = {
    "the left key is the nearer": lambda i, j: (abs(i - j), j > i),
    "the left side before the right": lambda i, j: (j > i, abs(i - j)),
    "the farthest first": lambda i, j: (-abs(i - j), j < i),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_orders_are_no_geometric_attention(name):
    logits, mask = np.random.default_rng(6).normal(size=(9, 9)), masks(9)["all"]
    found = reference.break_nearest_first(logits, mask, normalize=False)
    wrong = walked(logits, mask, normalize=False, nearness=WRONG[name])
    assert np.abs(found - wrong).max() > 0.1


BAD = [
    (dict(product_scale=np.zeros(2)), r"product_scale must be \[1\]"),
    (dict(content_bias=np.zeros(4)), r"content_bias must be \[heads, d\]"),
    (dict(direction_bias=None), "go together"),
    (dict(direction_bias=np.zeros((2, 3))), r"direction_bias \[2, 2\]"),
]


@pytest.mark.parametrize("options, message", BAD)
def test_arrays_that_do_not_fit_are_named(options, message, unchecked):
    with pytest.raises(ValueError, match=message):
        reference.geometric(**parameters() | options, normalize=True)


def test_options_are_checked(unchecked):
    with pytest.raises(TypeError, match="normalize"):
        Geometric(8, 2, 4)
    with pytest.raises(TypeError, match="normalize"):
        Geometric(8, 2, 4, normalize="yes")
    with pytest.raises(TypeError, match="direction"):
        Geometric(8, 2, 4, normalize=True, direction=None)
    q = torch.zeros(1, 2, 3, 4, dtype=DOUBLE)
    with pytest.raises(ValueError, match="needs the layer's input"):
        attend(q, q, q, Geometric(8, 2, 4, normalize=True))
