"""Retention: loops, the recurrent state, divisors of paper and code, caches."""

import math

import numpy as np
import pytest
import torch

from posedu.numpy import path as reference
from posedu.numpy.attention import attend as attend_reference
from posedu.torch import Attention, Retention, RoPE, attend
from support.path import DOUBLE, normal, stepwise

HEADS, D, TOKENS = 3, 8, 11
DIVISORS = ("none", "paper", "torchscale")
FREQUENCIES = {
    "rope": 10000.0 ** (-2 * np.arange(D // 2) / D),
    "torchscale": 1 / 10000 ** np.linspace(0, 1, D // 2),
}


def drawn(seed=0, size=1.0, tokens=TOKENS):
    return size * np.random.default_rng(seed).normal(size=(3, HEADS, tokens, D))


def as_complex(x, layout):
    a, b = (
        (x[..., ::2], x[..., 1::2])
        if layout == "interleaved"
        else np.split(x, 2, axis=-1)
    )
    return a + 1j * b


def gamma_of(h):
    return 1 - 2.0 ** (-5 - h)


def walked(q, k, at, h, *, layout, spacing, normalization):
    """One head's weights, pair by pair: planes that shrink by γ and turn by ω."""
    q, k = as_complex(q, layout), as_complex(k, layout)
    step = gamma_of(h) * np.exp(-1j * FREQUENCIES[spacing])
    weights = np.zeros((len(q), len(k)))
    for i in range(len(q)):
        keys = range(i + 1)
        for j in keys:
            turned = k[j] * step ** (at[i] - at[j])
            weights[i, j] = (q[i].conj() * turned).sum().real / D**0.5
        if normalization != "none":
            weights[i] /= sum(gamma_of(h) ** (at[i] - at[j]) for j in keys) ** 0.5
            size = {
                "paper": abs(sum(weights[i])),
                "torchscale": min(sum(map(abs, weights[i])), 5e4),
            }[normalization]
            weights[i] /= max(size, 1)
    return weights


def output(q, k, v, at, **options):
    return np.stack([walked(q[h], k[h], at, h, **options) @ v[h] for h in range(HEADS)])


@pytest.mark.parametrize("normalization", DIVISORS)
@pytest.mark.parametrize("spacing", FREQUENCIES)
@pytest.mark.parametrize("layout", ("interleaved", "half"))
@pytest.mark.parametrize("size", (0.5, 4.0, 1e3))
def test_reference_and_module_are_the_loop(layout, spacing, normalization, size):
    """At 1000 a row of absolute values is above torchscale's bound of 50000."""
    options = dict(layout=layout, spacing=spacing, normalization=normalization)
    q, k, v = drawn(1, size)
    at = np.array([0, 1, 2, 5, 6, 9, 10, 11, 20, 21, 30])
    expected = output(q, k, v, at, **options)
    hooks = reference.retention(heads=HEADS, **options)
    close = dict(rtol=0, atol=1e-12 * size**3)
    found = attend_reference(q, k, v, hooks, positions=at)
    np.testing.assert_allclose(found, expected, **close)
    tensors = (torch.tensor(t)[None] for t in (q, k, v))
    module = Retention(HEADS, D, **options)
    found = attend(*tensors, module, positions=torch.tensor(at))[0].numpy()
    np.testing.assert_allclose(found, expected, **close)


OPTIONS = dict(layout="interleaved", spacing="torchscale")


def test_without_divisors_it_is_one_state_for_all_keys():
    """S ← γ R S + k vᵀ: the recurrent form of the paper, in complex planes."""
    q, k, v = drawn(2)
    hooks = reference.retention(heads=HEADS, **OPTIONS, normalization="none")
    found = attend_reference(q, k, v, hooks)
    for h in range(HEADS):
        step = gamma_of(h) * np.exp(-1j * FREQUENCIES["torchscale"])
        state = np.zeros((D // 2, D), complex)
        for i in range(TOKENS):
            of_query, of_key = (as_complex(t[h, i], "interleaved") for t in (q, k))
            state = step[:, None] * state + of_key[:, None] * v[h, i]
            out = (of_query.conj() @ state).real / D**0.5
            np.testing.assert_allclose(found[h, i], out, rtol=0, atol=1e-12)


def slowest(module):
    """The frequency of the last pair: its angle at position 1."""
    cos, sin = module.table([1], dtype=DOUBLE)
    return math.atan2(sin[0, -1].item(), cos[0, -1].item())


def test_half_lives_and_frequencies_are_the_published_ones():
    half_lives = np.log(0.5) / np.log(reference.retention_decays(8))
    assert [*half_lives.round().astype(int)[[0, 1, 2, -1]]] == [22, 44, 88, 2839]
    module = Retention(8, 128, **OPTIONS, normalization="none")
    decays = module.log_decays().exp().numpy()
    np.testing.assert_allclose(decays, reference.retention_decays(8), rtol=1e-15)
    assert slowest(module) == pytest.approx(1e-4, rel=1e-12)
    rope = Retention(8, 64, layout="half", spacing="rope", normalization="none")
    assert slowest(rope) == pytest.approx(1.33e-4, rel=3e-3)


def test_its_rotation_is_rope_s():
    q, k = normal(2, 1, HEADS, TOKENS, D).unbind(0)
    module = Retention(HEADS, D, layout="half", spacing="rope", normalization="none")
    found = module.rotate(q, k, range(TOKENS))
    expected = RoPE(D, layout="half").rotate(q, k, range(TOKENS))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("normalization", DIVISORS)
@pytest.mark.parametrize("kv_heads", (4, 2, 1))
def test_pieces_padding_packing_and_shifts_are_the_texts_alone(normalization, kv_heads):
    torch.manual_seed(0)
    encoding = Retention(4, 4, **OPTIONS, normalization=normalization)
    layer = Attention(16, 4, encoding=encoding, kv_heads=kv_heads).double()
    x, close = normal(2, 20, 16), {"rtol": 0, "atol": 1e-12}
    with torch.no_grad():
        whole = layer(x)
        torch.testing.assert_close(stepwise(layer, x, (9, 1, 10)), whole, **close)
        shifted = layer(x, torch.arange(1000, 1020))
        torch.testing.assert_close(shifted, whole, **close)
        places = torch.arange(25) % 5 != 0
        padded, hidden = normal(2, 25, 16, seed=9), (~places)[None].expand(2, -1)
        padded[:, places] = x
        at = places.cumsum(0) - 1
        out = layer(padded, at, key_padding_mask=hidden)[:, places]
        torch.testing.assert_close(out, whole, **close)
        segments = torch.arange(2).repeat_interleave(20)[None]
        packed = layer(x.reshape(1, 40, 16), torch.arange(40) % 20, segments=segments)
        torch.testing.assert_close(packed.reshape(2, 20, 16), whole, **close)


def test_a_query_without_keys_gets_zeros():
    for normalization in DIVISORS:
        encoding = Retention(2, 4, **OPTIONS, normalization=normalization)
        layer = Attention(8, 2, encoding=encoding).double()
        hidden = torch.tensor([[True, False, False]])
        assert not layer(normal(1, 3, 8), key_padding_mask=hidden)[0, 0].any()


def test_the_divisor_is_invisible_after_a_norm_and_has_a_gradient_before():
    """Published code detaches it: right after a norm without ε alone."""
    (q, k, v), gradients = normal(3, 1, HEADS, TOKENS, D).unbind(0), {}
    for normalization in DIVISORS:
        leaves = [(3 * t).requires_grad_() for t in (q, k, v)]
        encoding = Retention(HEADS, D, **OPTIONS, normalization=normalization)
        out = attend(*leaves, encoding)
        normed = out * out.square().mean(-1, keepdim=True).rsqrt()
        along = normal(*out.shape, seed=5)
        gradients[normalization] = torch.autograd.grad((normed * along).sum(), leaves)
    for normalization in DIVISORS[1:]:
        for found, wanted in zip(
            gradients[normalization], gradients["none"], strict=True
        ):
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


def test_gradients():
    for normalization in DIVISORS:
        encoding = Retention(2, 4, **OPTIONS, normalization=normalization)
        leaves = [t.requires_grad_() for t in normal(3, 1, 2, 5, 4, seed=6).unbind(0)]
        assert torch.autograd.gradcheck(lambda *t, e=encoding: attend(*t, e), leaves)


def test_decays_are_as_exact_in_bfloat16_as_the_products_that_they_multiply():
    """A product of d terms, a sum of L weights and three stored results: 2⁻⁸ each."""
    q, k, v = (torch.tensor(t)[None].bfloat16() for t in drawn(3, tokens=64))
    encoding = Retention(HEADS, D, **OPTIONS, normalization="none")
    found = attend(q, k, v, encoding)
    exact = attend(*(t.double() for t in (q, k, v)), encoding)
    at = torch.arange(64, dtype=DOUBLE)
    powers = (encoding.log_decays()[:, None, None] * (at[:, None] - at)).exp().tril()
    size = q.double().norm(dim=-1)[..., None] * k.double().norm(dim=-1)[..., None, :]
    bound = 6 * 2**-8 * (size * powers / D**0.5) @ v.double().abs()
    assert found.dtype == torch.bfloat16 and ((found - exact).abs() <= bound).all()


def weights_of(normalization, **changed):
    q, k, _ = drawn(4, 3.0)
    options = {**OPTIONS, "normalization": normalization, **changed}
    return walked(q[0], k[0], np.arange(TOKENS), 0, **options)


def test_paper_code_and_none_differ():
    none, paper, code = (weights_of(n) for n in DIVISORS)
    for left, right in ((none, paper), (paper, code), (none, code)):
        assert np.abs(left - right).max() > 0.05
    rope = weights_of("none", spacing="rope")
    assert np.abs(rope - none).max() > 0.05


@pytest.mark.parametrize("name", ("layout", "spacing", "normalization"))
def test_a_convention_must_be_chosen(name):
    options = {**OPTIONS, "normalization": "none"}
    with pytest.raises(ValueError, match=name):
        Retention(2, 4, **options | {name: "other"})
    with pytest.raises(TypeError, match=name):
        Retention(2, 4, **{n: v for n, v in options.items() if n != name})
