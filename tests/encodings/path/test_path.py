"""PaTH and PaTH-FoX: loops, blocks, theorems, caches, published mistakes."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posedu.numpy import path as reference
from posedu.numpy.attention import attend as attend_reference
from posedu.torch import FoX, PaTH, PaTHFoX, attend
from posedu.torch.path import path_products
from support.path import DOUBLE, layer_of, loop_scores, normal, stepwise

seeds = st.integers(0, 2**31)
LONG = 150  # more than two blocks of 64 tokens


def householders(w, beta):
    """The matrices I − β w wᵀ of each token, ``[tokens, d, d]``."""
    return np.eye(w.shape[1]) - beta[:, None, None] * w[:, :, None] * w[:, None, :]


def drawn(seed, tokens, d, largest=2.0):
    """Queries, keys, unit vectors and strengths of one head, as NumPy arrays."""
    rng = np.random.default_rng(seed)
    q, k, w = rng.normal(size=(3, tokens, d))
    w /= np.linalg.norm(w, axis=-1, keepdims=True)
    return q, k, w, rng.uniform(0, largest, tokens)


def by_blocks(q, k, w, beta, **options):
    q, k, w, beta = (torch.tensor(t)[None, None] for t in (q, k, w, beta))
    return path_products(q, k, w, beta, **options)[0, 0].numpy()


@given(seeds, st.integers(0, 40), st.integers(1, 5), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_blocks_of_any_size_are_the_loop(seed, tokens, d, block):
    q, k, w, beta = drawn(seed, tokens, d)
    expected = loop_scores(q, k, householders(w, beta))
    found = np.tril(by_blocks(q, k, w, beta, block=block))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("queries", (1, 37, 64, 100, LONG))
def test_the_last_queries_are_the_last_rows(queries):
    q, k, w, beta = drawn(0, LONG, 8)
    expected = loop_scores(q, k, householders(w, beta))[-queries:]
    found = by_blocks(q[-queries:], k, w, beta)
    mask = np.tri(LONG, dtype=bool)[-queries:]
    np.testing.assert_allclose(found * mask, expected, rtol=0, atol=1e-12)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_the_score_reads_no_token_before_the_key(seed):
    q, k, w, beta = drawn(seed, 12, 4)
    before = by_blocks(q, k, w, beta)
    w[:6], beta[:6] = w[:6][::-1], 0.3
    after = by_blocks(q, k, w, beta)
    np.testing.assert_allclose(
        np.tril(after)[6:, 5:], np.tril(before)[6:, 5:], rtol=0, atol=1e-12
    )
    assert np.abs(np.tril(after - before)[6:, :5]).max() > 1e-3


def test_no_strength_is_no_encoding():
    layer = layer_of(PaTH(8, 2, 4))
    with torch.no_grad():
        layer.encoding.beta_bias.fill_(-1e3)
        layer.encoding.beta_weight.zero_()
    x = normal(1, 9, 8)
    q, k, v, _ = layer.project(x, None, None, None)
    torch.testing.assert_close(
        attend(q, k, v, layer.encoding, x=x), attend(q, k, v), rtol=0, atol=1e-14
    )


def test_reflections_swap_objects_and_follow_a_thousand_swaps():
    """β = 2 along (e_a − e_b)/√2 swaps a and b; sheet: the right key, every time."""
    rng = np.random.default_rng(0)
    n, swaps = 5, 1024
    k = np.concatenate((np.eye(n), np.zeros((swaps, n))))
    w = np.zeros((n + swaps, n))
    place = np.arange(n)  # place[object] = where it is
    for t in range(n, n + swaps):
        a, b = rng.choice(n, 2, replace=False)
        w[t, a], w[t, b] = math.sqrt(0.5), -math.sqrt(0.5)
        place = np.array([b if p == a else a if p == b else p for p in place])
    q = np.zeros_like(k)
    for y in range(n):
        q[-1] = 20 * np.eye(n)[y]
        weights = {}
        for beta in (2.0, 1.0):
            scores = by_blocks(q[-1:], k, w, np.full(len(k), beta))[0]
            weights[beta] = np.exp(scores - scores.max())
            weights[beta] /= weights[beta].sum()
        assert place[weights[2.0].argmax()] == y and weights[2.0].max() > 0.9999
        assert weights[1.0][:n].max() < 0.21  # a projection forgets them all


@pytest.mark.parametrize("make", [PaTH, lambda *a: PaTHFoX(*a, scaling="logit")])
@pytest.mark.parametrize("kv_heads", (4, 2, 1))
def test_pieces_padding_and_packing_are_the_texts_alone(make, kv_heads):
    layer = layer_of(make(16, 4, 4), kv_heads=kv_heads)
    x = normal(2, LONG, 16)
    close = {"rtol": 0, "atol": 1e-11}
    with torch.no_grad():
        whole = layer(x)
        pieces = stepwise(layer, x, (70, 1, 1, LONG - 72))
        torch.testing.assert_close(pieces, whole, **close)
        padded = torch.cat((normal(2, 5, 16, seed=9), x), 1)
        mask = torch.arange(LONG + 5).expand(2, -1) < 5
        for out in (
            layer(padded, key_padding_mask=mask),
            stepwise(layer, padded, (60, 1, LONG - 56), key_padding_mask=mask),
        ):
            torch.testing.assert_close(out[:, 5:], whole, **close)
        packed = x.reshape(1, 2 * LONG, 16)
        segments = torch.arange(2)[:, None].expand(2, LONG)
        out = layer(packed, segments=segments.reshape(1, -1))
        torch.testing.assert_close(out.reshape(2, LONG, 16), whole, **close)
        mixed = x.transpose(0, 1).reshape(1, 2 * LONG, 16)
        out = layer(mixed, segments=segments.T.reshape(1, -1))
        out = out.reshape(LONG, 2, 16).transpose(0, 1)
        torch.testing.assert_close(out, whole, **close)


def test_a_convolution_that_is_not_reset_leaks():
    layer = layer_of(PaTH(8, 2, 4))
    x = normal(1, 12, 8)
    segments = (torch.arange(12) >= 6).long()[None]
    with torch.no_grad():
        alone = layer(x[:, 6:])
        packed = layer(x, segments=segments)[:, 6:]
        torch.testing.assert_close(packed, alone, rtol=0, atol=1e-12)
        memory = layer.encoding.remember(x)["w"]
        taps = layer.encoding.w_taps
        leaked = sum(taps[..., 2 - s] * memory[:, 6 - s] for s in range(3))
        own = taps[..., 2] * memory[:, 6]
    assert (leaked - own).abs().max() > 1e-2


def test_one_transition_serves_neighboring_heads():
    shared = layer_of(PaTH(16, 4, 4, transitions=2))
    x = normal(1, 9, 16)
    own = layer_of(PaTH(16, 4, 4))
    with torch.no_grad():
        for name in ("w_up", "w_taps", "beta_weight", "beta_bias"):
            value = getattr(shared.encoding, name).repeat_interleave(2, 0)
            getattr(own.encoding, name).copy_(value)
        own.encoding.w_down.copy_(shared.encoding.w_down)
        q, k, v, _ = own.project(x, None, None, None)
        torch.testing.assert_close(
            attend(q, k, v, shared.encoding, x=x),
            attend(q, k, v, own.encoding, x=x),
            rtol=0,
            atol=1e-14,
        )


@pytest.mark.parametrize("scaling", ("product", "logit"))
def test_path_fox_without_strength_is_fox(scaling):
    encoding = layer_of(PaTHFoX(8, 2, 4, scaling=scaling)).encoding
    fox = FoX(8, 2).double()
    with torch.no_grad():
        encoding.beta_weight.zero_()
        encoding.beta_bias.fill_(-1e3)
        fox.gate_weight.copy_(encoding.gate_weight)
        fox.gate_bias.copy_(encoding.gate_bias)
    (q, k, v), x = normal(3, 1, 2, 9, 4).unbind(0), normal(1, 9, 8, seed=3)
    found = attend(q, k, v, encoding, x=x)
    expected = attend(q, k, v, fox, x=x)
    difference = (found - expected).abs().max().item()
    assert (difference < 1e-14) is (scaling == "product")


def test_the_gate_inside_the_scale_is_a_gate_to_the_power_of_one_over_root_d():
    """The authors' kernel: at a gate of 1/2 the half-life is √d tokens, not 1."""
    d, tokens = 64, 40
    encoding = PaTHFoX(d, 1, d, scaling="logit").double()
    with torch.no_grad():
        for p in (encoding.beta_weight, encoding.gate_weight):
            p.zero_()
        encoding.beta_bias.fill_(-1e3)
    zeros = torch.zeros(1, 1, tokens, d, dtype=DOUBLE)
    v = torch.eye(tokens, d, dtype=DOUBLE)[None, None]
    weights = attend(zeros, zeros, v, encoding, x=zeros[0])[0, 0, -1]
    ratio = (weights[tokens - 1] / weights[tokens - 1 - 8]).item()
    assert ratio == pytest.approx(2, rel=1e-12)


def test_at_the_published_start_every_transition_is_a_projection():
    encoding = PaTH(64, 4, 16)
    memory = encoding.remember(torch.randn(1, 50, 64))
    assert (memory["beta"] - 1).abs().max() < 0.5
    zeros = encoding.remember(torch.zeros(1, 1, 64))
    assert zeros["beta"].unique().tolist() == [1.0]


WRONG = {
    "query's token left out": lambda q, k, t: loop_scores(
        q, k, np.concatenate((t[1:], np.eye(t.shape[1])[None]))
    ),
    "order reversed": lambda q, k, t: np.array(
        [
            [
                q[i]
                @ np.linalg.multi_dot([*t[j + 1 : i + 1], np.eye(4), np.eye(4)])
                @ k[j]
                if i > j
                else q[i] @ k[j] * (i == j)
                for j in range(len(k))
            ]
            for i in range(len(q))
        ]
    ),
    "key's own token counted": lambda q, k, t: loop_scores(
        q, np.einsum("tab,tb->ta", t, k), t
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_published_slips_are_no_path_product(name):
    q, k, w, beta = drawn(3, 9, 4)
    found = np.tril(by_blocks(q, k, w, beta))
    assert np.abs(found - np.tril(WRONG[name](q, k, householders(w, beta)))).max() > 0.1


def test_reference_and_module_agree_beyond_a_block():
    encoding = layer_of(PaTHFoX(8, 2, 4, scaling="product")).encoding
    q, k, v = normal(3, 1, 2, LONG, 4).unbind(0)
    x = normal(1, LONG, 8, seed=2)
    weights = {n: p.detach().numpy() for n, p in encoding.named_parameters()}
    hooks = reference.path_fox(heads=2, scaling="product", **weights)
    expected = attend_reference(
        *(t[0].numpy() for t in (q, k, v)), hooks, x=x[0].numpy()
    )
    found = attend(q, k, v, encoding, x=x).detach()[0].numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_gradients_through_blocks():
    q, k, w, beta = (torch.tensor(t)[None, None] for t in drawn(5, 7, 3))
    leaves = [t.requires_grad_() for t in (q, k, w, beta)]
    assert torch.autograd.gradcheck(
        lambda *t: path_products(*t, block=3).tril(), leaves
    )


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(transitions=3), "must divide heads"),
        (dict(rank=0), "rank"),
        (dict(convolution=-1), "convolution"),
        (dict(negative_eigenvalues=1), "negative_eigenvalues"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        PaTH(8, 4, 2, **options)
