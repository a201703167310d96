"""Wall attention: loops, anchors, limits, caches, published mistakes."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posedu.numpy import path as reference
from posedu.numpy.attention import attend as attend_reference
from posedu.torch import FoX, PaTH, Wall, attend
from posedu.torch.path import gated_products
from support.path import DOUBLE, layer_of, normal, stepwise

seeds = st.integers(0, 2**31)
LONG = 75  # more than two blocks of 32 tokens


def walked(q, k, log_gates):
    """Each query's products, by a walk back over the keys that multiplies by gates."""
    scores = np.zeros((len(q), len(k)))
    for i in range(len(q)):
        factor = np.ones(q.shape[1])
        for j in reversed(range(i + 1)):
            scores[i, j] = q[i] @ (k[j] * factor)
            factor = factor * np.exp(log_gates[j])
    return scores


def drawn(seed, tokens, d, bias=0.0):
    """Queries, keys and log gates of one head, as NumPy arrays."""
    q, k, logits = np.random.default_rng(seed).normal(size=(3, tokens, d))
    return q, k, -np.logaddexp(0, -logits - bias)


def by_blocks(q, k, log_gates, **options):
    sums = torch.tensor(log_gates).double().cumsum(0)
    q, k, sums = (torch.as_tensor(t)[None, None] for t in (q, k, sums))
    return gated_products(q, k, sums, **options)[0, 0].numpy()


@given(seeds, st.integers(0, 40), st.integers(1, 5), st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_blocks_of_any_size_and_the_reference_are_the_loop(seed, tokens, d, block):
    q, k, g = drawn(seed, tokens, d)
    expected = walked(q, k, g)
    found = np.tril(by_blocks(q, k, g, block=block))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    found = reference.gated_products(q[None], k[None], g[None])[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("queries", (1, 31, 33, LONG))
def test_the_last_queries_are_the_last_rows(queries):
    q, k, g = drawn(0, LONG, 8)
    found = by_blocks(q[-queries:], k, g) * np.tri(LONG)[-queries:]
    np.testing.assert_allclose(found, walked(q, k, g)[-queries:], rtol=0, atol=1e-12)


def test_own_key_and_path_alone_are_read():
    q, k, g = drawn(1, 12, 4)
    found = np.tril(by_blocks(q, k, g, block=5))
    np.testing.assert_allclose(np.diag(found), (q * k).sum(1), rtol=1e-13)
    other = g.copy()
    other[:6] -= 1.0  # tokens up to the key's own
    changed = np.tril(by_blocks(q, k, other, block=5))
    np.testing.assert_allclose(changed[5:, 5:], found[5:, 5:], rtol=0, atol=1e-12)
    assert np.abs(changed - found)[5:, :5].max() > 1e-3


def from_origin(q, k, log_gates):
    """One split for all tokens, q e^P and k e^(−P), in float32."""
    p = np.cumsum(log_gates, axis=0).astype(np.float32)
    q, k = q.astype(np.float32), k.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return (q * np.exp(p)) @ (k * np.exp(-p)).T


@pytest.mark.parametrize("bias", (2.0, 0.0, -4.0))
def test_no_exponent_overflows_where_one_split_for_all_does(bias):
    q, k, g = drawn(0, 512, 16, bias)
    expected = np.tril(walked(q, k, g))
    wrong = np.tril(from_origin(q, k, g))
    found = np.tril(by_blocks(*(t.astype(np.float32) for t in (q, k)), g))
    assert found.dtype == np.float32 and np.isfinite(found).all()
    # 16 products of a few units each, with two rounded factors and two exponentials
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)
    # The sheet counts 2415 entries at 2 and 86 320 at 0, with wider heads.
    assert (~np.isfinite(wrong)).sum() > (500 if bias > 0 else 50_000)


def limit(encoding):
    """Gates of all channels so near to 1 that their logarithms are 0."""
    with torch.no_grad():
        encoding.gate_weight.zero_()
        encoding.gate_bias.fill_(1e3)
    return encoding


def test_gates_of_one_are_no_encoding_and_a_scalar_gate_is_fox():
    (q, k, v), x = normal(3, 1, 2, 9, 4).unbind(0), normal(1, 9, 8, seed=3)
    plain = limit(layer_of(Wall(8, 2, 4)).encoding)
    torch.testing.assert_close(
        attend(q, k, v, plain, x=x), attend(q, k, v), rtol=0, atol=1e-14
    )
    scalar = limit(layer_of(Wall(8, 2, 4, scalar_gate=True)).encoding)
    fox = FoX(8, 2).double()
    with torch.no_grad():
        fox.gate_weight.copy_(scalar.scalar_weight)
        fox.gate_bias.copy_(scalar.scalar_bias)
    torch.testing.assert_close(
        attend(q, k, v, scalar, x=x), attend(q, k, v, fox, x=x), rtol=0, atol=1e-14
    )


def test_equal_gates_multiply_the_logit_which_fox_s_gate_does_not():
    """A gate shared by all channels is a factor of the product, no added term."""
    q, k, g = drawn(2, 9, 4)
    g[:] = g[:, :1]
    factors = np.exp(np.tril(np.subtract.outer(*[np.cumsum(g[:, 0])] * 2)))
    expected = np.tril(q @ k.T * factors)
    found = np.tril(by_blocks(q, k, g))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    added = np.tril(q @ k.T + np.log(factors))
    assert np.abs(added - found).max() > 1


@pytest.mark.parametrize("scalar_gate", (False, True))
@pytest.mark.parametrize("kv_heads", (4, 2, 1))
def test_pieces_padding_and_packing_are_the_texts_alone(scalar_gate, kv_heads):
    layer = layer_of(Wall(16, 4, 4, scalar_gate=scalar_gate), kv_heads=kv_heads)
    x = normal(2, LONG, 16)
    close = {"rtol": 0, "atol": 1e-11}
    with torch.no_grad():
        whole = layer(x)
        pieces = stepwise(layer, x, (40, 1, 1, LONG - 42))
        torch.testing.assert_close(pieces, whole, **close)
        places = torch.arange(LONG + 5) % 16 != 3
        hidden = (~places)[None].expand(2, -1)
        padded = normal(2, LONG + 5, 16, seed=9)
        padded[:, places] = x
        for out in (
            layer(padded, key_padding_mask=hidden),
            stepwise(layer, padded, (60, 1, LONG - 56), key_padding_mask=hidden),
        ):
            torch.testing.assert_close(out[:, places], whole, **close)
        mixed = x.transpose(0, 1).reshape(1, 2 * LONG, 16)
        segments = torch.arange(2).repeat(LONG)[None]
        out = layer(mixed, segments=segments).reshape(LONG, 2, 16).transpose(0, 1)
        torch.testing.assert_close(out, whole, **close)


WRONG = {
    "the key's own gate counts": lambda q, k, g: walked(q, k * np.exp(g), g),
    "the query's own gate is left out": lambda q, k, g: walked(
        q, k, np.concatenate((g[1:], 0 * g[:1]))
    ),
    "exponents of base 2": lambda q, k, g: walked(q, k, g * math.log(2)),
    "one gate for all channels": lambda q, k, g: walked(q, k, g[:, :1] + 0 * g),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_no_gated_product(name):
    q, k, g = drawn(3, 9, 4)
    found = np.tril(by_blocks(q, k, g))
    assert np.abs(found - WRONG[name](q, k, g)).max() > 0.1


def test_the_scalar_gate_is_not_divided_by_the_root_of_d():
    encoding = limit(Wall(4, 1, 4, scalar_gate=True).double())
    with torch.no_grad():
        encoding.scalar_weight.zero_()
        encoding.scalar_bias.zero_()
    zeros, v = torch.zeros(1, 1, 3, 4, dtype=DOUBLE), torch.eye(3, 4, dtype=DOUBLE)
    out = attend(zeros, zeros, v[None, None], encoding, x=zeros[0])[0, 0, -1]
    expected = torch.tensor([1, 2, 4, 0], dtype=DOUBLE) / 7  # gates of 1/2
    torch.testing.assert_close(out, expected, rtol=1e-13, atol=0)


def test_where_gates_start():
    """A bias of 8: half of a channel is left after 2067 tokens."""
    encoding = Wall(8, 2, 4)
    gates = encoding.remember(torch.zeros(1, 1, 8))["log_gates"]
    assert gates.shape == (1, 1, 2, 4)
    half_life = -math.log(2) / gates[0, 0].double()
    torch.testing.assert_close(half_life, torch.full((2, 4), 2067.0).double(), **NEAR)


NEAR = {"rtol": 1e-3, "atol": 0}


@pytest.mark.parametrize("scalar_gate", (False, True))
def test_reference_and_module_agree_beyond_a_block(scalar_gate):
    encoding = layer_of(Wall(8, 2, 4, scalar_gate=scalar_gate)).encoding
    (q, k, v), x = normal(3, 1, 2, LONG, 4).unbind(0), normal(1, LONG, 8, seed=2)
    weights = {n: p.detach().numpy() for n, p in encoding.named_parameters()}
    arrays = (t[0].numpy() for t in (q, k, v))
    expected = attend_reference(*arrays, reference.wall(**weights), x=x[0].numpy())
    found = attend(q, k, v, encoding, x=x).detach()[0].numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_gradients_through_blocks():
    q, k, g = (torch.tensor(t)[None, None] for t in drawn(5, 7, 3))
    leaves = [t.requires_grad_() for t in (q, k, g)]
    assert torch.autograd.gradcheck(
        lambda q, k, g: gated_products(q, k, g.cumsum(2), block=3).tril(), leaves
    )


@pytest.mark.parametrize("make", (PaTH, Wall))
def test_the_compiled_operation_has_its_gradient(make, unchecked):
    layer = layer_of(make(8, 2, 4))
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    x = normal(1, 35, 8)
    given = list(layer.parameters())
    found, expected = (
        torch.autograd.grad(run(x).square().sum(), given) for run in (compiled, layer)
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


BAD = [
    (dict(scalar_weight=np.zeros((2, 8))), "go together"),
    (dict(gate_bias=np.zeros(2)), r"gate_bias \[heads, d\]"),
    (dict(scalar_weight=np.zeros((3, 8)), scalar_bias=np.zeros(2)), r"\[2, 8\]"),
]


@pytest.mark.parametrize("options, message", BAD)
def test_arrays_that_do_not_fit_are_named(options, message, unchecked):
    arrays = {"gate_weight": np.zeros((2, 4, 8)), "gate_bias": np.zeros((2, 4))}
    with pytest.raises(ValueError, match=message):
        reference.wall(**arrays | options)
