"""CARoPE: two-loop oracle, path properties, RoPE as a special case, mutants."""

import math

import numpy as np
import pytest
import torch

from posedu.torch import CARoPE, RoPE, attend
from support.path import DOUBLE, layer_of, normal, rotation_weights, texts_alone

D, HEADS, TOKENS = 8, 2, 9


def softplus(z):
    return math.log1p(math.exp(z))


def steps_of(x, weight, first):
    """The angles that one head's tokens add, a row for each token, number by number."""
    rows = []
    for token in x:
        f = 1 / (softplus(sum(a * b for a, b in zip(weight, token, strict=True))) + 1)
        rows.append([f ** (p + first) for p in range(D // 2)])
    return np.array(rows)


def encoding(first=0, layout="half", seed=0):
    return layer_of(
        CARoPE(HEADS * D, HEADS, D, layout=layout, first_exponent=first), seed=seed
    ).encoding


def weights_of(module, q, k, x):
    v = torch.eye(q.shape[2], dtype=DOUBLE).expand(1, HEADS, -1, -1)
    return attend(q, k, v, module, x=x).detach()[0].numpy()


def drawn(seed=1, tokens=TOKENS):
    q, k = normal(2, 1, HEADS, tokens, D, seed=seed)
    return q, k, normal(1, tokens, HEADS * D, seed=seed + 1)


@pytest.mark.parametrize("layout", ("half", "interleaved"))
@pytest.mark.parametrize("first", (0, 1))
def test_the_module_is_the_loop(first, layout):
    module, (q, k, x) = encoding(first, layout), drawn()
    found = weights_of(module, q, k, x)
    for h in range(HEADS):
        own = module.frequency_weight[h].tolist()
        steps = steps_of(x[0].tolist(), own, first)
        expected = rotation_weights(q[0, h].numpy(), k[0, h].numpy(), steps, layout)
        np.testing.assert_allclose(found[h], expected, rtol=0, atol=1e-13)


MUTANTS = {
    "exponents from the other number": dict(first=1),
    "the query's own token left out": dict(first_key=0),
    "clockwise": dict(sign=1),
    "the other layout": dict(layout="interleaved"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_versions_differ(name):
    change = {"first": 0, "layout": "half"} | MUTANTS[name]
    module, (q, k, x) = encoding(), drawn()
    steps = steps_of(
        x[0].tolist(), module.frequency_weight[0].tolist(), change.pop("first")
    )
    wrong = rotation_weights(q[0, 0].numpy(), k[0, 0].numpy(), steps, **change)
    assert np.abs(weights_of(module, q, k, x)[0] - wrong).max() > 1e-2


def test_pair_0_turns_by_one_radian_a_token_or_reads_the_token():
    x = normal(1, TOKENS, HEADS * D)
    for first in (0, 1):
        module = encoding(first)
        log_f = module.remember(x)["log_frequencies"]
        assert (log_f < 0).all()
        steps = (log_f * first).exp()
        assert (steps == 1).all() == (first == 0)


def test_without_weight_it_is_rope_with_a_small_base():
    """f = 1/(1 + log 2) = f^p, so RoPE's base is (1 + log 2)^(d/2): 8.2 for d = 8."""
    module, (q, k, x) = encoding(), drawn()
    torch.nn.init.zeros_(module.frequency_weight)
    base = (1 + math.log(2)) ** (D / 2)
    assert base == pytest.approx(8.22, abs=0.01)
    found = weights_of(module, q, k, x)
    expected = weights_of(RoPE(D, layout="half", base=base), q, k, x)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_tokens_before_the_key_and_their_order_between_do_not_matter():
    """The weights' ratios are those of scores, of keys that see the same path."""
    module, (q, k, x) = encoding(), drawn()
    before = np.log(weights_of(module, q, k, x)[:, -1])
    changed = x.clone()
    changed[:, :3] = normal(1, 3, HEADS * D, seed=9)
    after = np.log(weights_of(module, q, k, changed)[:, -1])
    gaps = np.diff(after)[:, 3:] - np.diff(before)[:, 3:]
    assert np.abs(gaps).max() < 1e-12
    assert np.abs(np.diff(after) - np.diff(before))[:, :2].max() > 1e-3
    swapped = x.clone()
    swapped[:, [4, 5]] = x[:, [5, 4]]
    moved = np.log(weights_of(module, q, k, swapped)[:, -1]) - before
    moved -= moved[:, -1:]
    assert np.abs(np.delete(moved, 4, axis=1)).max() < 1e-12
    assert np.abs(moved[:, 4]).max() > 1e-3


@pytest.mark.parametrize("kv_heads", (2, 1))
def test_pieces_padding_and_packing_are_the_texts_alone(kv_heads):
    module = CARoPE(HEADS * D, HEADS, D, layout="half", first_exponent=1)
    texts_alone(layer_of(module, kv_heads=kv_heads), TOKENS)


def test_gradients():
    module = encoding()
    q, k, x = (t.requires_grad_() for t in drawn(tokens=4))
    v = normal(1, HEADS, 4, 3, seed=5)
    assert torch.autograd.gradcheck(
        lambda q, k, x, _: attend(q, k, v, module, x=x),
        (q, k, x, module.frequency_weight),
    )


def test_in_bfloat16_angles_are_those_of_the_rounded_inputs():
    """Only rounding of q, k, v and of the output is left: a few units of 2⁻⁸."""
    module, (q, k, x) = encoding(), drawn(tokens=200)
    v = normal(1, HEADS, 200, D, seed=5)
    q, k, v, x = (t.bfloat16() for t in (q, k, v, x))
    found = attend(q, k, v, module.bfloat16(), x=x)
    module = module.double()
    exact = attend(q.double(), k.double(), v.double(), module, x=x.double())
    size = v.double().abs().max()
    assert (found - exact).abs().max() < 8 * 2**-8 * size


@pytest.mark.parametrize("first", (2, -1, True, 0.5))
def test_wrong_exponents_are_named(first):
    with pytest.raises((TypeError, ValueError), match="first_exponent"):
        CARoPE(8, 2, 4, layout="half", first_exponent=first)
