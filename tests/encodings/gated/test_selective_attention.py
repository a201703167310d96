"""Selective attention: loops, the first token, caches, texts, published mistakes."""

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posedu.numpy import gated as reference
from posedu.numpy.attention import attend as attend_reference
from posedu.numpy.attention import steps
from posedu.sympy import gated as symbolic
from posedu.sympy.attention import attend as attend_exactly
from posedu.torch import DAPE, Attention, KVCache, SelectiveAttention, attend
from support.path import DOUBLE, normal, stepwise, texts_alone

seeds = st.integers(0, 2**31)
OPTIONS = [
    dict(include_current=current, spare_first=first)
    for current in (False, True)
    for first in (False, True)
]
each_option = pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda o: str([*o.values()])
)
PAPER = OPTIONS[1]


def walked(q, k, *, include_current, spare_first):
    """The number subtracted of each logit, by loops over the selector's logits."""
    n, d = q.shape
    total = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            for token in range(j + 1, i + include_current):
                if not (spare_first and j == 0):
                    total[i, j] += max(q[token] @ k[j] / d**0.5, 0)
    return total


def output(q, k, v, bias_of):
    """The output of all heads, from a bias that the first one makes."""
    bias, outs = bias_of(q[0], k[0]), []
    for own_q, own_k, own_v in zip(q, k, v, strict=True):
        logits = own_q @ own_k.T / q.shape[-1] ** 0.5 - bias
        weights = np.tril(np.exp(logits - logits.max(1, keepdims=True)))
        outs.append(weights / weights.sum(1, keepdims=True) @ own_v)
    return np.stack(outs)


def drawn(seed, heads=2, tokens=9, d=4, size=1.0):
    return size * np.random.default_rng(seed).normal(size=(3, heads, tokens, d))


@given(seeds, st.integers(0, 12), st.integers(1, 5), st.sampled_from(OPTIONS))
@settings(max_examples=40, deadline=None)
def test_reference_and_module_are_the_loops(seed, tokens, d, options):
    """Sums of at most 12 products of d numbers of a few units: errors of 1e−15 each."""
    q, k, v = drawn(seed, 2, tokens, d)
    expected = output(q, k, v, lambda *t: walked(*t, **options)) if tokens else v
    found = attend_reference(q, k, v, reference.selective_attention(**options))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    tensors = (torch.tensor(t)[None] for t in (q, k, v))
    found = attend(*tensors, SelectiveAttention(**options))[0].numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@each_option
def test_symbols_are_the_loops(options):
    q, k, v = np.round(4 * drawn(3, 2, 4, 4)) / 4
    exact = [
        [sp.Matrix([[*map(sp.Rational, row)] for row in m]) for m in t]
        for t in (q, k, v)
    ]
    found = attend_exactly(*exact, symbolic.selective_attention(**options))
    expected = output(q, k, v, lambda *t: walked(*t, **options))
    for out, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            np.array(out.evalf(20), float), wanted, rtol=0, atol=1e-13
        )


def test_a_worked_example():
    """Token 1 deselects token 0 by 2 for token 2, and token 2 once more for 3."""
    q = np.array([[[1.0], [2.0], [1.0], [0.0]]])
    k = np.array([[[1.0], [-1.0], [3.0], [5.0]]])
    tokens = steps(q, k, k, mask=np.tri(4, dtype=bool)).tokens
    logits = tokens.q[0] @ tokens.k[0].T
    selections = reference.selections(logits, tokens.mask, spare_first=False)
    assert selections.tolist() == [[0, 0, 0, 0], [2, 0, 0, 0], [1, 0, 0, 0], [0] * 4]
    sums = reference.accumulated_selections(selections, include_current=False)
    assert sums[:, 0].tolist() == [0, 0, 2, 3] and not sums[:, 1:].any()
    spared = reference.selections(logits, tokens.mask, spare_first=True)
    assert not spared.any()


def without_negative_products(q, k):
    return -q.abs(), k.abs()


def test_without_selections_it_is_no_encoding():
    q, k, v = normal(3, 1, 3, 9, 4).unbind(0)
    q, k = q.clone(), k.clone()
    q[:, 0], k[:, 0] = without_negative_products(q[:, 0], k[:, 0])
    for options in OPTIONS:
        found = attend(q, k, v, SelectiveAttention(**options))
        torch.testing.assert_close(found, attend(q, k, v), rtol=0, atol=1e-15)


@each_option
@pytest.mark.parametrize("kv_heads", (4, 2, 1))
def test_pieces_padding_and_packing_are_the_texts_alone(options, kv_heads):
    torch.manual_seed(0)
    encoding = SelectiveAttention(**options)
    layer = Attention(16, 4, kv_heads=kv_heads, encoding=encoding).double()
    with torch.no_grad():
        for p in layer.parameters():
            p.mul_(3)
    texts_alone(layer, 20)


@each_option
def test_windows_cut_what_a_token_may_deselect(options):
    q, k, v = drawn(4, tokens=12)
    n = q.shape[1]
    mask = np.tri(n, dtype=bool) & ~np.tri(n, k=-4, dtype=bool)
    hooks = reference.selective_attention(**options)
    expected = steps(q, k, v, hooks, mask=mask).out
    tensors = [torch.tensor(t)[None] for t in (q, k, v)]
    encoding = SelectiveAttention(**options)
    found = attend(*tensors, encoding, window=4)[0].numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    cache, parts = KVCache(), []
    for piece in zip(*(t.split((5, 1, 1, 5), 2) for t in tensors), strict=True):
        parts.append(attend(*piece, encoding, window=4, cache=cache))
    found = torch.cat(parts, 2)[0].numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_a_cache_holds_one_number_of_each_key():
    q, k, v = normal(3, 2, 2, 6, 4).unbind(0)
    cache, encoding = KVCache(), SelectiveAttention(**PAPER)
    for i in range(6):
        now = slice(i, i + 1)
        attend(q[:, :, now], k[:, :, now], v[:, :, now], encoding, cache=cache)
    assert cache.memory.keys() == {"deselected"}
    assert cache.memory["deselected"].shape == (2, 6)
    for row in range(2):
        of_all = walked(q[row, 0].numpy(), k[row, 0].numpy(), **OPTIONS[3])
        of_cache = cache.memory["deselected"][row].numpy()
        np.testing.assert_allclose(of_cache, of_all[-1], rtol=0, atol=1e-14)


def test_a_copy_of_a_cache_keeps_its_own_sums():
    q, k, v = normal(3, 1, 2, 8, 4, seed=1).unbind(0)
    encoding = SelectiveAttention(**PAPER)
    one = KVCache()
    with torch.no_grad():
        attend(q[:, :, :5], k[:, :, :5], v[:, :, :5], encoding, cache=one)
        other, before = one.shared(), one.memory["deselected"].clone()
        attend(q[:, :, 5:], k[:, :, 5:], v[:, :, 5:], encoding, cache=one)
    torch.testing.assert_close(other.memory["deselected"], before, rtol=0, atol=0)
    assert (one.memory["deselected"][:, :5] > before).any()


def test_sums_are_float32_in_bfloat16():
    """Selections of 300 and 1 apart: bfloat16 would lose the second."""
    cache, encoding = (
        KVCache(),
        SelectiveAttention(include_current=False, spare_first=False),
    )
    q = torch.tensor([0.0, 300.0, 1.0, 1.0]).bfloat16()[None, None, :, None]
    k = torch.ones_like(q)
    out = attend(q, k, k, encoding, cache=cache)
    assert out.dtype == torch.bfloat16
    assert cache.memory["deselected"].dtype == torch.float32
    assert cache.memory["deselected"][0].tolist() == [302, 2, 1, 0]


def test_far_deselected_tokens_fade():
    q = torch.tensor([[0.0, 9.0, 9.0, 0.0]]).double()[None, ..., None]
    k = torch.tensor([[1.0, 1.0, 0.0, 0.0]]).double()[None, ..., None]
    v = torch.eye(4, dtype=DOUBLE)[None, None]
    weights = attend(
        q, k, v, SelectiveAttention(include_current=False, spare_first=False)
    )
    assert weights[0, 0, 3, 0] < 1e-7 < 1e-5 < weights[0, 0, 3, 1] < 1e-3


def test_dape_may_be_over_it():
    """DAPE keeps the sums in the cache, too."""
    encoding = DAPE(2, over=SelectiveAttention(**PAPER), kernel=1, residual=True)
    layer = Attention(8, 2, encoding=encoding).double()
    x = normal(1, 9, 8)
    with torch.no_grad():
        found = stepwise(layer, x, (3, 1, 1, 4))
        torch.testing.assert_close(found, layer(x), rtol=0, atol=1e-12)


def test_gradients():
    leaves = [t.requires_grad_() for t in normal(3, 1, 2, 5, 3, seed=6).unbind(0)]
    for options in OPTIONS:
        encoding = SelectiveAttention(**options)
        assert torch.autograd.gradcheck(lambda *t, e=encoding: attend(*t, e), leaves)


def published(bias_of):
    return lambda q, k: bias_of(np.tril(q @ k.T / q.shape[1] ** 0.5), len(q))


def selected(logits):
    """Positive parts, without the diagonal and the first column."""
    s = np.maximum(logits, 0) * (1 - np.eye(len(logits)))
    s[:, 0] = 0
    return s


def rolled(s):
    return np.concatenate((0 * s[:1], s[:-1]))


WRONG = {
    "summed along the keys": published(lambda z, n: np.cumsum(rolled(selected(z)), 1)),
    "not accumulated": published(lambda z, n: rolled(selected(z))),
    "negative parts count": published(
        lambda z, n: np.cumsum(rolled(np.tril(z, -1) * (np.arange(n) > 0)), 0)
    ),
    "the query's own row counts": published(lambda z, n: np.cumsum(selected(z), 0)),
    "a token deselects itself": published(
        lambda z, n: np.cumsum(rolled(np.maximum(z, 0) * (np.arange(n) > 0)), 0)
    ),
    "not divided by the root of d": lambda q, k: walked(2 * q, k, **PAPER),
    "the first token is not spared": lambda q, k: walked(q, k, **OPTIONS[0]),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_no_selective_attention(name):
    q, k, v = drawn(5)
    found = attend_reference(q, k, v, reference.selective_attention(**PAPER))
    assert np.abs(found - output(q, k, v, WRONG[name])).max() > 0.02


def test_compiled_decoding_is_refused_and_compiled_layers_agree(unchecked):
    layer = Attention(8, 2, encoding=SelectiveAttention(**PAPER)).double()
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = normal(1, 7, 8)
    torch.testing.assert_close(compiled(x), layer(x), rtol=0, atol=1e-12)
    assert layer.encoding.needs_own_key_last


@pytest.mark.parametrize("name", ("include_current", "spare_first"))
def test_a_convention_must_be_chosen(name, unchecked):
    for make in (
        SelectiveAttention,
        reference.selective_attention,
        symbolic.selective_attention,
    ):
        with pytest.raises(TypeError, match=name):
            make(**PAPER | {name: "yes"})
        with pytest.raises(TypeError, match=name):
            make(**{n: o for n, o in PAPER.items() if n != name})
