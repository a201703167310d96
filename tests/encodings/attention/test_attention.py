"""Attention: its theorems, its routes, its hooks, and its two implementations."""

import copy
import dataclasses
import math

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from mutants import published_encodings as mutants
from posedu.numpy import attention as reference
from posedu.numpy import bias as biases
from posedu.numpy import gated, rotary
from posedu.sympy import attention as symbolic
from posedu.torch import (
    ALiBi,
    Attention,
    AxialRoPE,
    CoPE,
    Encoding,
    FoX,
    KVCache,
    RoPE,
    Sinusoidal,
    StickBreaking,
    Tokens,
    attend,
)
from posedu.torch.attention import QK_NORMS
from posedu.torch.encoding import softmax
from posedu.torch.routes import choose_route
from support import bounds, compiling

ROUTES = ("sdpa", "flex", "eager")
FOLDED = ("folded", *ROUTES)
DOUBLE = torch.float64
pytestmark = [
    pytest.mark.usefixtures("untraced_flex"),
    pytest.mark.filterwarnings("ignore:flex_attention called without"),
]

sizes = st.fixed_dictionaries(
    {
        "kv_heads": st.integers(1, 3),
        "group": st.integers(1, 3),
        "d": st.integers(1, 4).map(lambda pairs: 2 * pairs),
        "d_model": st.integers(1, 9),
    }
)
seeds = st.integers(0, 2**32 - 1)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def layer(d_model=8, heads=4, seed=0, dtype=DOUBLE, **options):
    torch.manual_seed(seed)
    return Attention(d_model, heads, **options).to(dtype)


def projections(module: Attention) -> reference.Projections:
    """The weights of a module in the form that the reference takes."""

    def by_head(linear, heads):
        return linear.weight.detach().double().numpy().reshape(heads, module.d, -1)

    return reference.Projections(
        q=by_head(module.q, module.heads),
        k=by_head(module.k, module.kv_heads),
        v=by_head(module.v, module.kv_heads),
        o=module.o.weight.detach()
        .double()
        .numpy()
        .reshape(module.d_model, module.heads, module.d),
    )


def random_projections(seed, kv_heads, group, d, d_model):
    heads = kv_heads * group
    return reference.Projections(
        q=normal(seed, heads, d, d_model),
        k=normal(seed + 1, kv_heads, d, d_model),
        v=normal(seed + 2, kv_heads, d, d_model),
        o=normal(seed + 3, d_model, heads, d),
    )


def rope_hooks(layout="half"):
    def rotate(q, k, positions):
        return tuple(rotary.rope(t, positions, layout=layout) for t in (q, k))

    return reference.Hooks(rotate=rotate)


def close(actual, expected, atol=1e-13):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


# Theorems.


@given(sizes, st.integers(0, 7), seeds)
def test_without_an_encoding_attention_is_permutation_equivariant(size, tokens, seed):
    w = random_projections(seed, **size)
    x = normal(seed, tokens, size["d_model"])
    order = np.random.default_rng(seed).permutation(tokens)
    out = reference.attention(x, w)
    close(
        reference.attention(x[order], w),
        out[order],
        1e-12 * (1 + np.abs(out).max(initial=0)),
    )


def test_equivariant_is_not_invariant():
    module, x = layer(causal=False), torch.tensor(normal(0, 1, 5, 8))
    order = torch.tensor([3, 0, 4, 1, 2])
    out, permuted = module(x).detach(), module(x[:, order]).detach()
    close(permuted, out[:, order])
    assert (permuted - out).abs().max() > 0.01


def test_equivariance_over_symbols():
    x = sp.Matrix(3, 2, sp.symbols("x:6"))
    w = [sp.Matrix([[1, 2], [0, 1]]), sp.Matrix([[1, 0], [3, 1]]), sp.eye(2)]
    p = symbolic.permutation_matrix([2, 0, 1])
    difference = symbolic.attention(p * x, *w) - p * symbolic.attention(x, *w)
    assert sp.simplify(difference) == sp.zeros(3, 2)


def test_one_causal_layer_sees_shares_of_the_earlier_tokens_and_two_see_their_order():
    """A multiset, up to a common factor: a set would have no shares."""
    first, second = layer(seed=1), layer(seed=2)
    x = torch.tensor(normal(3, 1, 4, 8))
    order, twice = torch.tensor([2, 0, 1, 3]), torch.tensor([0, 0, 1, 2, 3])
    close(first(x[:, order])[:, -1].detach(), first(x)[:, -1].detach())
    assert (first(x[:, twice])[:, -1] - first(x)[:, -1]).abs().max() > 1e-3
    doubled = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3])
    close(first(x[:, doubled])[:, -1].detach(), first(x)[:, -1].detach())

    def two(x):
        return second(x + first(x))[:, -1].detach()

    assert (two(x[:, order]) - two(x)).abs().max() > 1e-3


@given(st.integers(1, 5), st.integers(1, 6), st.floats(-1e3, 1e3), seeds)
def test_softmax_ignores_a_constant_for_each_row(rows, keys, c, seed):
    logits, constant = normal(seed, rows, keys), c * normal(seed + 1, rows, 1)
    # exp of a logit off by u |logit| is off by that factor.
    atol = 8 * bounds.U64 * (np.abs(logits).max() + np.abs(constant).max() + 2)
    weights = reference.softmax(logits)
    close(reference.softmax(logits + constant), weights, atol)
    close(weights.sum(-1), np.ones(rows), 1e-15 * keys)


def test_softmax_heeds_a_constant_for_each_key():
    logits, c = normal(0, 3, 4), np.array([0.0, 1.0, -1.0, 2.0])
    off = reference.softmax(mutants.bias_of_the_key(logits, c)) - reference.softmax(
        logits
    )
    assert np.abs(off).max() > 0.1


def test_softmax_does_not_overflow_and_gives_zeros_where_nothing_is_seen():
    logits = np.array([[1e4, 1e4, -1e4], [1.0, 2.0, 3.0], [-np.inf, 0.0, 0.0]])
    mask = np.array([[1, 1, 1], [0, 0, 0], [1, 1, 0]], dtype=bool)
    expected = [[0.5, 0.5, 0], [0, 0, 0], [0, 1, 0]]
    close(reference.softmax(logits, mask), expected)
    close(
        softmax(torch.tensor(logits)[None, None], torch.tensor(mask)[None, None])[0, 0],
        expected,
    )


def test_causal_mask_lets_a_token_see_itself_and_the_earlier_ones():
    assert reference.causal_mask(3).tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
    x = torch.tensor(normal(1, 1, 6, 8))
    changed = x.clone()
    changed[:, 3] += 1
    for route in ROUTES:
        module = layer(route=route, encoding=RoPE(2, layout="half"))
        with torch.no_grad():
            out, after = module(x), module(changed)
            alone = module.o(module.v(x[:, :1]))
        moved = (after - out).abs().amax((0, 2))
        assert (moved[:3] == 0).all(), f"{route}: a token saw a later one"
        assert (moved[3:] > 1e-6).all(), f"{route}: a token missed an earlier one"
        assert torch.allclose(out[:, :1], alone), f"{route}: token 0 missed itself"


def test_a_mask_off_by_one_is_seen():
    x = normal(1, 4, 8)
    w = projections(layer())
    right = reference.attention(x, w, mask=reference.causal_mask(4))
    off = reference.attention(x, w, mask=mutants.mask_off_by_one(4))
    close(right[0], np.einsum("mhd,hdn,n->m", w.o, w.v, x[0]))
    assert np.abs(off[0]).max() == 0 and np.abs(right[0]).max() > 0.1


def test_one_causal_head_by_hand():
    # q = k = v = x in one dimension: token 1 weighs the values 1 and 2 by e² and e⁴.
    one = np.ones((1, 1, 1))
    w = reference.Projections(one, one, one, one)
    out = reference.attention(
        np.array([[1.0], [2.0]]), w, mask=reference.causal_mask(2)
    )
    close(out[:, 0], [1, (np.exp(2) + 2 * np.exp(4)) / (np.exp(2) + np.exp(4))])
    exact = symbolic.attention(sp.Matrix([1, 2]), *[sp.eye(1)] * 3, causal=True)
    close(out, np.array(exact.evalf(20), dtype=float))


def test_logits_are_scaled_by_the_root_of_the_head_dimension():
    x, w = normal(2, 3, 4), random_projections(3, 1, 1, 4, 4)
    exact = symbolic.attention(
        sp.Matrix(x), *(sp.Matrix(m[0]) for m in (w.q, w.k, w.v))
    )
    expected = np.array(exact.evalf(20), dtype=float) @ w.o[:, 0].T
    close(reference.attention(x, w), expected)


# The implementations.


def alibi(heads, causal=True):
    sides = "causal" if causal else "symmetric"
    return ALiBi(heads, slopes="geometric", sides=sides)


def alibi_hooks(heads, causal=True):
    sides = "causal" if causal else "symmetric"
    return biases.alibi(heads=heads, slopes="geometric", sides=sides)


def rope(d=2, layout="half"):
    return RoPE(d, layout=layout)


KINDS = [  # name, encoding, hooks, heads, kv_heads, causal
    (name, encoding, hooks, heads, kv_heads, causal)
    for heads, kv_heads in ((1, 1), (4, 4), (4, 2), (4, 1))
    for causal in (True, False)
    for name, encoding, hooks in (
        ("none", None, reference.NO_HOOKS),
        ("rope", rope(4), rope_hooks()),
        ("alibi", alibi(heads, causal), alibi_hooks(heads, causal)),
    )
]
SERVED = [
    (*kind, route)
    for kind in KINDS
    for route in (FOLDED if kind[0] == "alibi" and kind[-1] else ROUTES)
]
of_kinds = pytest.mark.parametrize(
    "name, encoding, hooks, heads, kv_heads, causal, route",
    SERVED,
    ids=["-".join(map(str, (kind[0], *kind[3:]))) for kind in SERVED],
)


@of_kinds
@pytest.mark.usefixtures("traced_flex")
def test_torch_equals_the_reference(
    name, encoding, hooks, heads, kv_heads, causal, route
):
    module = layer(
        8, heads, kv_heads=kv_heads, d=4, encoding=encoding, causal=causal, route=route
    )
    for tokens in (0, 7) if route == "flex" else (0, 1, 7):  # flex traces each
        mask = reference.causal_mask(tokens) if causal else None
        x = normal(tokens, 2, tokens, 8)
        rows = np.random.default_rng(1).uniform(-100, 100, size=(2, tokens))
        for positions in (None, rows):
            given_positions = torch.tensor(rows) if positions is rows else positions
            with torch.no_grad():
                out = module(torch.tensor(x), given_positions).numpy()
            for row in range(2):
                p = rows[row] if positions is rows else positions
                w = projections(module)
                expected = reference.attention(x[row], w, p, mask=mask, hooks=hooks)
                close(out[row], expected)


# Central differences of order 8: an error of h⁸ / 630 times the ninth derivative, and
# of some u / h times the value. At h = 1/256 that is 1e-22 and 3e-14: even a function
# with a ninth derivative of 10⁹, or a value of 100, is differentiated to 1e-11.
STENCIL = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))


def slope(f, h=1 / 256):
    return sum(c * (f(n * h) - f(-n * h)) for n, c in STENCIL) / h


@of_kinds
def test_gradients_equal_those_of_the_reference(
    name, encoding, hooks, heads, kv_heads, causal, route
):
    if route == "flex":
        pytest.skip("no gradient on a CPU")
    encoding = rope(2) if name == "rope" else encoding
    module = layer(
        4, heads, kv_heads=kv_heads, d=2, encoding=encoding, causal=causal, route=route
    )
    tokens, positions = 5, np.array([0.0, 1, -3, 40, 7.5])
    mask = reference.causal_mask(tokens) if causal else None
    x, cotangent, w = normal(4, tokens, 4), normal(5, tokens, 4), projections(module)
    leaf = torch.tensor(x[None], requires_grad=True)
    loss = (module(leaf, torch.tensor(positions)) * torch.tensor(cotangent)).sum()
    leaves = {"x": leaf, **{n: getattr(module, n).weight for n in "qkvo"}}
    gradients = dict(
        zip(leaves, torch.autograd.grad(loss, [*leaves.values()]), strict=True)
    )
    values = {"x": x, **{n: getattr(w, n) for n in "qkvo"}}
    for n, value in values.items():
        for direction in normal(6, 3, *value.shape):
            direction /= np.linalg.norm(direction)

            def moved(step, n=n, direction=direction):
                at = {**values, n: values[n] + step * direction}
                x = at.pop("x")
                w = reference.Projections(**at)
                out = reference.attention(x, w, positions, mask=mask, hooks=hooks)
                return (out * cotangent).sum()

            ours = (gradients[n].numpy().reshape(value.shape) * direction).sum()
            assert ours == pytest.approx(slope(moved), rel=0, abs=1e-11), n


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str
)
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_low_precision_stays_within_the_carried_roundoff(dtype, route, layout):
    encoding = RoPE(2, layout=layout)
    module = layer(4, 2, kv_heads=1, dtype=dtype, route=route, encoding=encoding)
    w = projections(module)
    for start in (0, 1000, 2**20):
        x = torch.tensor(normal(start, 1, 6, 4) / 4).to(dtype)
        positions = range(start, start + 6)
        with torch.no_grad():
            out = module(x, positions)[0].double().numpy()
        exact = x[0].double().numpy()
        mask, hooks = reference.causal_mask(6), rope_hooks(layout)
        expected = reference.attention(exact, w, positions, mask=mask, hooks=hooks)
        atol = bounds.attended(exact, w, positions, dtype, layout)
        assert (np.abs(out - expected) <= atol).all()
        # The bound is not vacuous: it is below the size of the result.
        assert atol.max() < np.abs(expected).max()


@given(sizes, st.integers(0, 6), seeds)
def test_grouped_queries_are_repeated_heads(size, tokens, seed):
    w = random_projections(seed, **size)
    x = normal(seed, tokens, size["d_model"])
    repeated = dataclasses.replace(
        w, k=w.k.repeat(size["group"], 0), v=w.v.repeat(size["group"], 0)
    )
    expected = reference.attention(x, repeated, hooks=rope_hooks())
    assert np.array_equal(reference.attention(x, w, hooks=rope_hooks()), expected)


def test_biases_of_the_projections_are_used():
    module = layer(bias=True)
    assert module.q.bias is not None and layer().q.bias is None
    x = torch.tensor(normal(0, 1, 1, 8))
    expected = module.o(module.v(x))  # one token sees itself alone
    close(module(x).detach(), expected.detach())


# Masks, packed sequences, caches.


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("causal", [True, False])
def test_padding_is_as_if_absent(route, causal):
    module = layer(
        kv_heads=2, causal=causal, route=route, encoding=RoPE(2, layout="half")
    )
    x = torch.tensor(normal(1, 2, 6, 8))
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[0, 4:] = padding[1, 0] = True
    with torch.no_grad():
        out = module(x, key_padding_mask=padding)
        close(out[0, :4], module(x[:1, :4])[0])
        close(out[1, 1:], module(x[1:, 1:], range(1, 6))[0])


@pytest.mark.parametrize("route", ROUTES)
def test_a_query_that_sees_nothing_gives_zeros(route):
    module = layer(route=route)
    x = torch.tensor(normal(1, 2, 3, 8))
    padding = torch.tensor([[True, True, False], [False, False, False]])
    with torch.no_grad():
        out = module(x, key_padding_mask=padding)
    assert (out[0, :2] == 0).all()
    assert out[0, 2].abs().max() > 0.01 and out[1].abs().amin(-1).min() > 0


@pytest.mark.parametrize("route", ["sdpa", "eager"])
def test_a_query_that_sees_nothing_has_no_gradient_and_spoils_none(route):
    module = layer(route=route)
    x = torch.tensor(normal(1, 1, 3, 8), requires_grad=True)
    padding = torch.tensor([[True, False, False]])
    module(x, key_padding_mask=padding).sum().backward()
    assert (x.grad[0, 0] == 0).all()
    assert x.grad.isfinite().all() and x.grad[0, 1:].abs().amin(-1).min() > 0
    assert all(p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("causal", [True, False])
def test_packed_sequences_equal_separate_runs(route, causal):
    module = layer(
        kv_heads=2, causal=causal, route=route, encoding=RoPE(2, layout="half")
    )
    x = torch.tensor(normal(1, 1, 7, 8))
    segments = torch.tensor([[5, 5, 5, 1, 1, 9, 9]])
    positions = torch.tensor([0, 1, 2, 0, 1, 10, 11])
    with torch.no_grad():
        packed = module(x, positions, segments=segments)
        parts = [
            module(x[:, :3], range(3)),
            module(x[:, 3:5], range(2)),
            module(x[:, 5:], range(10, 12)),
        ]
    close(packed, torch.cat(parts, 1))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("causal", [True, False])
def test_packing_and_padding_combine(route, causal):
    module = layer(causal=causal, route=route)
    x = torch.tensor(normal(1, 1, 5, 8))
    segments = torch.tensor([[0, 0, 1, 1, 1]])
    padding = torch.tensor([[False, False, False, False, True]])
    with torch.no_grad():
        packed = module(x, segments=segments, key_padding_mask=padding)
        close(packed[:, :2], module(x[:, :2]))
        close(packed[:, 2:4], module(x[:, 2:4]))


POSITIONS = {
    "default": None,
    "far": torch.arange(7) + 10**6,
    "real": torch.tensor([0.5, -3.0, 7.25, 7.25, 1e3, 2.0, -0.125], dtype=DOUBLE),
    "rows": torch.tensor([[0, 1, 2, 3, 4, 5, 6], [9, 8, 0, 0, -4, 100, 7]]),
}


def fox_weight(heads=4, d_model=8):
    return torch.tensor(normal(9, heads, d_model)).float()


def fox_hooks():
    weight = fox_weight().double().numpy()
    return gated.fox(gate_bias=np.zeros(4), gate_weight=weight)


def fox(heads=4, d_model=8, strength=1.0):
    """FoX whose gates differ between tokens and heads."""
    return FoX(d_model, heads, gate_weight=strength * fox_weight(heads, d_model))


def serving(*encodings):
    """Each encoding with each of its routes."""
    cases = [(e, r) for e in encodings for r in (FOLDED if e.uses("fold") else ROUTES)]
    return pytest.mark.parametrize(
        "encoding, route", cases, ids=[f"{type(e).__name__}-{r}" for e, r in cases]
    )


@serving(rope(layout="interleaved"), alibi(4), fox())
@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
def test_decoding_with_a_cache_is_the_full_run(encoding, positions, route):
    module = layer(kv_heads=2, route=route, encoding=encoding)
    x = torch.tensor(normal(1, 2, 7, 8))
    cuts = [[3, 1, 3], [1] * 7, [7], [2, 0, 5]]
    for steps in cuts[:1] if route == "flex" else cuts:  # flex traces each step anew
        cache, parts = KVCache(), []
        with torch.no_grad():
            full = module(x, positions)
            for step in steps:
                at = slice(len(cache), len(cache) + step)
                here = None if positions is None else positions[..., at]
                parts.append(module(x[:, at], here, cache=cache))
        assert len(cache) == 7
        close(torch.cat(parts, 1), full)


@pytest.mark.parametrize("route", ROUTES)
def test_padding_with_a_cache_covers_every_key(route):
    module = layer(route=route)
    x = torch.tensor(normal(1, 1, 4, 8))
    padding = torch.tensor([[True, False, False, False]])
    cache = KVCache()
    with torch.no_grad():
        full = module(x, key_padding_mask=padding)
        module(x[:, :3], cache=cache, key_padding_mask=padding[:, :3])
        last = module(x[:, 3:], cache=cache, key_padding_mask=padding)
    close(last, full[:, 3:])


def test_positions_of_a_cache_grow_rows_when_asked():
    module, cache = layer(route="eager", encoding=SeesPositions()), KVCache()
    x = torch.tensor(normal(1, 2, 4, 8))
    rows = torch.tensor([[3], [9]])
    module(x[:, :3], cache=cache)
    module(x[:, 3:], rows, cache=cache)
    assert cache.positions.tolist() == [[0, 1, 2, 3], [0, 1, 2, 9]]
    seen = module.encoding.seen
    assert seen.query_positions.tolist() == rows.tolist()
    assert torch.equal(seen.key_positions, cache.positions)


@pytest.mark.parametrize("window", [1, 3, 7, 100])
@serving(Encoding(), rope(), alibi(4), fox())
def test_a_window_hides_what_is_further_back(encoding, route, window):
    hooks = {
        Encoding: reference.NO_HOOKS,
        RoPE: rope_hooks(),
        ALiBi: alibi_hooks(4),
        FoX: fox_hooks(),
    }[type(encoding)]
    module = layer(kv_heads=2, window=window, route=route, encoding=encoding)
    x, w = torch.tensor(normal(1, 1, 7, 8)), projections(module)
    cache = KVCache()
    with torch.no_grad():
        out = module(x)
        parts = [module(x[:, a:b], cache=cache) for a, b in ((0, 3), (3, 4), (4, 7))]
    close(torch.cat(parts, 1), out)
    for width, is_right in ((window, True), (window + 1, window >= 7)):
        mask = reference.causal_mask(7) & ~np.tri(7, k=-width, dtype=bool)
        expected = reference.attention(x[0].numpy(), w, mask=mask, hooks=hooks)
        assert (np.abs(out[0].numpy() - expected).max() < 1e-12) == is_right


@serving(fox(), alibi(4), rope())
def test_padding_anywhere_and_interleaved_segments_are_separate_runs(encoding, route):
    module = layer(kv_heads=2, route=route, encoding=encoding)
    x = torch.tensor(normal(1, 2, 8, 8))
    padding = torch.zeros(2, 8, dtype=torch.bool)
    padding[0, [0, 3, 4]] = padding[1, [2, 7]] = True
    segments = torch.tensor([[0, 1, 0, 0, 1, 2, 1, 0], [5, 5, 5, 5, 5, 5, 5, 5]])
    at = torch.arange(8) * 3
    with torch.no_grad():
        for mask in (padding, torch.zeros_like(padding)):
            out = module(x, at, key_padding_mask=mask, segments=segments)
            for row in range(2):
                for n in segments[row].unique():
                    part = (segments[row] == n) & ~mask[row]
                    alone = module(x[row : row + 1, part], at[part])
                    close(out[row, part], alone[0])


# What a cache keeps, and what it doesn't.


def filled(module, x, positions=None):
    cache = KVCache()
    with torch.no_grad():
        module(x, positions, cache=cache)
    return cache


@pytest.mark.parametrize("start", [None, 0, 2, -3, -100, 100])
@pytest.mark.parametrize("stop", [None, 0, 4, -1, -100, 100])
def test_cropping_is_slicing(start, stop):
    module, x = layer(encoding=fox()), torch.tensor(normal(1, 2, 6, 8))
    cache, whole = filled(module, x), filled(module, x)
    cache.crop(start, stop)
    kept = range(6)[start:stop]
    at = slice(start, stop)
    assert len(cache) == len(kept)
    for name in ("k", "v"):
        assert torch.equal(getattr(cache, name), getattr(whole, name)[:, :, at])
    assert cache.positions.tolist() == [[*kept]]
    assert torch.equal(cache.memory["log_gates"], whole.memory["log_gates"][:, at])
    assert cache.count == 6 - (6 - range(6)[at].stop if stop is not None else 0)


def test_an_empty_cache_is_cropped_and_detached_in_peace():
    cache = KVCache()
    cache.crop(-3)
    cache.detach()
    assert len(cache) == cache.count == 0
    with pytest.raises(ValueError, match="the cache is empty"):
        _ = cache.entries


@serving(rope(), alibi(4), fox())
def test_after_cropping_tokens_are_counted_on(encoding, route):
    module = layer(route=route, encoding=encoding)
    x = torch.tensor(normal(1, 2, 6, 8))
    newest, oldest = filled(module, x[:, :5]), filled(module, x)
    newest.crop(-2)
    oldest.crop(0, 5)
    with torch.no_grad():
        out = module(x[:, 5:], cache=newest)
        close(out, module(x[:, 3:], range(3, 6))[:, 2:])
        close(module(x[:, 5:], cache=oldest), module(x)[:, 5:])
    assert (len(newest), newest.count, newest.positions[0, -1]) == (3, 6, 5)


def test_a_detached_cache_stops_the_gradient():
    for is_detached in (False, True):
        module = layer(encoding=fox())
        x = torch.tensor(normal(1, 2, 6, 8), requires_grad=True)
        cache = KVCache()
        module(x[:, :4], cache=cache)
        if is_detached:
            cache.detach()
        out = module(x[:, 4:], cache=cache).square().sum()
        (gradient,) = torch.autograd.grad(out, x, materialize_grads=True)
        assert (gradient[:, 4:] != 0).all()
        assert (gradient[:, :4] != 0).any() != is_detached


ANY = torch.zeros(2, 3, 8, dtype=DOUBLE)
REFUSED = {
    "width": lambda: ((torch.zeros(2, 3, 9, dtype=DOUBLE),), {}),
    "integers": lambda: ((torch.zeros(2, 3, 8, dtype=torch.long),), {}),
    "dtype": lambda: ((ANY.float(),), {}),
    "batch": lambda: ((ANY[:1],), {}),
    "too few positions": lambda: ((ANY, range(2)), {}),
    "positions of a third row": lambda: ((ANY, torch.zeros(3, 3)), {}),
    "nan": lambda: ((ANY, torch.full((3,), math.nan)), {}),
    "half": lambda: ((ANY, torch.zeros(3, dtype=torch.float16)), {}),
    "short padding": lambda: (
        (ANY,),
        {"key_padding_mask": torch.zeros(2, 3, dtype=torch.bool)},
    ),
    "padding of integers": lambda: (
        (ANY,),
        {"key_padding_mask": torch.zeros(2, 7, dtype=torch.long)},
    ),
    "segments": lambda: ((ANY,), {"segments": torch.zeros(2, 3, dtype=torch.long)}),
}


def unchanged(cache, before):
    return cache.__dict__.keys() == before.keys() and all(
        value is before[name] for name, value in cache.__dict__.items()
    )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("encoding", [rope(), fox()], ids=["rope", "fox"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_call_leaves_the_cache_as_it_was(name, encoding):
    module, x = layer(encoding=encoding), torch.tensor(normal(1, 2, 7, 8))
    cache = filled(module, x[:, :4])
    before = dict(cache.__dict__)
    arguments, options = REFUSED[name]()
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        module(*arguments, **options, cache=cache)
    assert unchanged(cache, before)
    with torch.no_grad():
        close(module(x[:, 4:], cache=cache), module(x)[:, 4:])


@pytest.mark.parametrize(
    "hook", ["remember", "rotate", "values", "bias", "weigh", "mix", "output"]
)
def test_a_hook_that_raises_leaves_the_cache_as_it_was(hook, monkeypatch):
    module = layer(encoding=Encoding(), route="eager")
    cache = filled(module, torch.tensor(normal(1, 2, 4, 8)))
    before = dict(cache.__dict__)

    def refuse(*arguments):
        raise ValueError("not today")

    monkeypatch.setattr(module.encoding, hook, refuse)
    monkeypatch.setattr(module.encoding, "hooks", module.encoding.hooks | {hook})
    with pytest.raises(ValueError, match="not today"):
        module(ANY, cache=cache)
    assert unchanged(cache, before)


@pytest.mark.parametrize(
    "first, second",
    [(fox(), None), (None, fox()), (rope(), alibi(4)), (fox(), rope())],
    ids=lambda e: type(e).__name__,
)
def test_the_cache_of_another_encoding_is_refused(first, second):
    here, there = layer(encoding=first), layer(encoding=second)
    cache = filled(here, torch.tensor(normal(1, 2, 4, 8)))
    before = dict(cache.__dict__)
    names = [type(module.encoding).__name__ for module in (here, there)]
    with pytest.raises(ValueError, match=f"with {names[0]}, not {names[1]}"):
        there(ANY, cache=cache)
    assert unchanged(cache, before)


def test_the_cache_of_a_layer_of_other_sizes_is_refused():
    cache = filled(layer(kv_heads=2), torch.tensor(normal(1, 2, 4, 8)))
    before = dict(cache.__dict__)
    with pytest.raises(ValueError, match=r".* = \[2, 2, 2\], .* got \[2, 4, 2\]"):
        layer()(ANY, cache=cache)
    with pytest.raises(ValueError, match=r".* = \[2, 2, 2\], .* got \[2, 2, 3\]"):
        layer(kv_heads=2, d=3)(ANY, cache=cache)
    assert unchanged(cache, before)


def test_integers_and_reals_meet_in_a_cache_exactly():
    far = 2**24 + 1  # which float32 rounds to 2²⁴
    module = layer(encoding=alibi(4), route="eager")
    x = torch.tensor(normal(1, 1, 3, 8))
    cache = filled(module, x[:, :1], torch.tensor([far]))
    with torch.no_grad():
        real = torch.tensor([far + 1], dtype=DOUBLE)
        out = module(x[:, 1:2], real, cache=cache)
        last = module(x[:, 2:], torch.tensor([far + 2]), cache=cache)
        close(torch.cat((out, last), 1), module(x, range(3))[:, 1:])
    assert cache.positions.tolist() == [[far, far + 1, far + 2]]


@pytest.mark.parametrize("places", [[3, 1, 4], [0.5, -2, 1e3], (2**53 - 1, 0, 1)])
def test_positions_may_be_a_list(places):
    module, x = layer(encoding=alibi(4)), torch.tensor(normal(1, 2, 3, 8))
    as_tensor = torch.tensor(
        places, dtype=None if isinstance(places[0], int) else DOUBLE
    )
    cache = filled(module, x, places)
    assert cache.positions.tolist() == [[*places]]
    with torch.no_grad():
        assert torch.equal(module(x, places), module(x, as_tensor))
        rows = [[*places], [7, 8, 9]]
        assert torch.equal(module(x, rows), module(x, torch.tensor(rows).double()))


# Hooks: a tiny encoding overrides each, in both implementations.


class SeesPositions(Encoding):
    def bias(self, tokens: Tokens):
        self.seen = tokens


def slopes(heads):
    return 2.0 ** (-8 * np.arange(1, heads + 1) / heads)


class Slopes(Encoding):
    """−slope · (i − j), by positions."""

    def bias(self, tokens):
        m = torch.tensor(slopes(tokens.q.shape[1]))
        return -m[:, None, None] * tokens.offsets


class FusedSlopes(Slopes):
    def score_mod(self, tokens):
        m = torch.tensor(slopes(tokens.q.shape[1]))
        i_at, j_at = (
            p.expand(len(tokens.q), -1)
            for p in (tokens.query_positions, tokens.key_positions)
        )
        return lambda score, b, h, i, j: score - m[h] * (i_at[b, i] - j_at[b, j])


class FoldedSlopes(Encoding):
    def fold(self, tokens):
        m = torch.tensor(slopes(tokens.q.shape[1]))[:, None]
        i_at, j_at = tokens.query_positions, tokens.key_positions
        return -m * i_at[:, None], m * j_at[:, None]


class ContentBias(Encoding):
    """A gate of the input and the query-key product: a bias may look at all of it."""

    def bias(self, tokens):
        gate = tokens.x.mean(-1)[:, None, :, None]
        return gate + (tokens.q @ tokens.k.mT).sin()


class KeyMemory(Encoding):
    """A number of each key, that its layer remembers."""

    def remember(self, x):
        return {"of_key": x.square().mean(-1)}

    def bias(self, tokens):
        return -tokens.memory["of_key"][:, None, None]


class Distances(Encoding):
    """Keys that are near in place of keys that are alike."""

    def logits(self, tokens):
        return -torch.cdist(tokens.q, tokens.k) * self.scale(tokens.d)


class Unscaled(Encoding):
    def scale(self, d):
        return 1.0


class Sigmoid(Encoding):
    def weigh(self, logits, tokens):
        return logits.sigmoid().masked_fill(~tokens.mask, 0)


class Doubled(Encoding):
    def mix(self, weights, v, tokens):
        return 2 * super().mix(weights, v, tokens) + tokens.offsets.sin() @ v


class TurnedValues(Encoding):
    """A number of the token on the way in, another on the way out; twice as wide."""

    def values(self, v, positions):
        at = positions[:, None, :, None].double()
        return torch.cat((v * at.cos(), v * at.sin()), -1)

    def output(self, out, positions):
        at = positions[:, None, :, None].double()
        cos, sin = out.chunk(2, -1)
        return cos * at.cos() + sin * at.sin()


class OnlyQueries(Encoding):
    def rotate(self, q, k, positions):
        return q * positions[:, None, :, None].double().cos(), k


class Widened(Encoding):
    """More features than there were: the scale is that of d all the same."""

    def rotate(self, q, k, positions):
        at = positions[:, None, :, None].double()
        one = torch.ones_like(q[..., :1])
        of_keys = at.sin() * torch.ones_like(k[..., :1])
        return torch.cat((q, one), -1), torch.cat((k, of_keys), -1)


def numpy_alibi(tokens):
    offset = tokens.query_positions[:, None] - tokens.key_positions
    return -slopes(len(tokens.q))[:, None, None] * offset


def numpy_content(tokens):
    return tokens.x.mean(-1)[:, None] + np.sin(tokens.q @ tokens.k.swapaxes(-1, -2))


def numpy_distances(tokens):
    apart = tokens.q[:, :, None] - tokens.k[:, None]
    return -np.linalg.norm(apart, axis=-1) / np.sqrt(tokens.d)


def numpy_sigmoid(logits, tokens):
    return np.where(tokens.mask, 1 / (1 + np.exp(-logits)), 0)


def numpy_doubled(weights, v, tokens):
    return 2 * weights @ v + np.sin(tokens.offsets) @ v


def numpy_values(v, p):
    at = p[:, None]
    return np.concatenate((v * np.cos(at), v * np.sin(at)), -1)


def numpy_output(out, p):
    cos, sin = np.split(out, 2, -1)
    return cos * np.cos(p)[:, None] + sin * np.sin(p)[:, None]


def numpy_widened(q, k, p):
    at = np.sin(p)[:, None] * np.ones_like(k[..., :1])
    return tuple(
        np.concatenate(pair, -1) for pair in ((q, np.ones_like(q[..., :1])), (k, at))
    )


DOORS = [
    (Slopes(), reference.Hooks(bias=numpy_alibi), ROUTES),
    (FusedSlopes(), reference.Hooks(bias=numpy_alibi), ROUTES),
    (FoldedSlopes(), reference.Hooks(bias=numpy_alibi), FOLDED),
    (ContentBias(), reference.Hooks(bias=numpy_content), ROUTES),
    (
        KeyMemory(),
        reference.Hooks(bias=lambda tokens: -(tokens.x**2).mean(-1) + 0 * tokens.mask),
        ROUTES,
    ),
    (Distances(), reference.Hooks(logits=numpy_distances), ["eager"]),
    (Unscaled(), reference.Hooks(scale=lambda d: 1.0), ROUTES),
    (Sigmoid(), reference.Hooks(weigh=numpy_sigmoid), ["eager"]),
    (
        Doubled(),
        reference.Hooks(
            mix=lambda w, v, tokens: 2 * w @ v + np.sin(tokens.offsets) @ v
        ),
        ["eager"],
    ),
    (
        TurnedValues(),
        reference.Hooks(values=numpy_values, output=numpy_output),
        ROUTES,
    ),
    (
        OnlyQueries(),
        reference.Hooks(rotate=lambda q, k, p: (q * np.cos(p)[:, None], k)),
        ROUTES,
    ),
    (Widened(), reference.Hooks(rotate=numpy_widened), ROUTES),
    (
        fox(),
        fox_hooks(),
        FOLDED,
    ),
]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    "encoding, hooks, route",
    [(e, d, r) for e, d, routes in DOORS for r in routes],
    ids=lambda v: v if isinstance(v, str) else type(v).__name__,
)
def test_each_hook_acts_alike_in_both_implementations(encoding, hooks, route, causal):
    if encoding.needs_causal and not causal:
        pytest.skip("refused at construction")
    module = layer(causal=causal, route=route, encoding=encoding)
    shut = layer(causal=causal)
    x = normal(1, 2, 5, 8)
    positions = torch.tensor([0.5, 3.0, -2.0, 4.0, 100.0], dtype=DOUBLE)
    mask = reference.causal_mask(5) if causal else None
    with torch.no_grad():
        out = module(torch.tensor(x), positions)
        assert (out - shut(torch.tensor(x), positions)).abs().max() > 1e-3
    for row in range(2):
        w = projections(module)
        expected = reference.attention(
            x[row], w, positions.numpy(), mask=mask, hooks=hooks
        )
        close(out[row], expected)


@serving(Slopes(), FusedSlopes(), FoldedSlopes(), ContentBias(), KeyMemory(), fox())
def test_biases_combine_with_masks_and_caches(encoding, route):
    module = layer(kv_heads=2, route=route, encoding=encoding)
    x = torch.tensor(normal(1, 2, 6, 8))
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[0, 0] = True
    cache = KVCache()
    with torch.no_grad():
        full = module(x, key_padding_mask=padding)
        eager = layer(kv_heads=2, route="eager", encoding=encoding)
        close(full, eager(x, key_padding_mask=padding))
        assert (full[0, 0] == 0).all()
        parts = [
            module(x[:, a:b], cache=cache, key_padding_mask=padding[:, :b])
            for a, b in ((0, 4), (4, 5), (5, 6))
        ]
        close(torch.cat(parts, 1), full)


@pytest.mark.parametrize("route", ["sdpa", "flex"])
@pytest.mark.parametrize(
    "encoding, hook",
    [(Sigmoid(), "weigh"), (Doubled(), "mix"), (Distances(), "logits")],
    ids=str,
)
def test_routes_without_a_hook_refuse_the_encoding(encoding, hook, route):
    with pytest.raises(ValueError, match=f"{hook}.*eager.*{route}"):
        layer(route=route, encoding=encoding)


def test_an_encoding_is_part_of_the_module():
    learned = Encoding()
    learned.gain = nn.Parameter(torch.ones(1))
    assert "encoding.gain" in dict(layer(encoding=learned).named_parameters())
    assert Encoding().hooks == frozenset()
    assert RoPE(2, layout="half").uses("rotate")


def test_hooks_are_those_that_a_class_overrides():
    class Warmed(RoPE):
        def logits(self, tokens):
            return 2 * super().logits(tokens)

    class Plain(Warmed):
        def __init__(self):
            super().__init__(2, layout="half")
            self.hooks -= {"logits"}

    inherited = {"rotate", "move_keys"}
    assert rope().hooks == inherited
    assert Warmed(2, layout="half").hooks == inherited | {"logits"}
    assert Plain().hooks == copy.deepcopy(Plain()).hooks == inherited
    assert choose_route(Warmed(2, layout="half"), None) == "eager"
    assert choose_route(Plain(), None) == "sdpa"
    assert Warmed(2, layout="half").hooks == inherited | {"logits"}
    with pytest.raises(ValueError, match=r"one of locate, .*carry, got 'rotates'"):
        rope().uses("rotates")


# Norms of queries and keys.


def rms_normed(x, eps, gain=None):
    """One vector, written out."""
    mean = sum(float(a) * float(a) for a in x) / len(x)
    return np.array(
        [
            float(a) / math.sqrt(mean + eps) * (1.0 if gain is None else float(gain[n]))
            for n, a in enumerate(x)
        ]
    )


def with_norms(module, x, positions, hooks):
    """Attention of one sequence whose queries and keys are normed one by one."""
    d, eps, kind = module.d, module.qk_norm_eps, module.qk_norm
    w = {
        n: m.weight.detach().numpy()
        for n, m in module.named_children()
        if n != "encoding"
    }
    n = len(x)

    def heads_of(name, count):
        made = np.zeros((count, n, d))
        for i in range(n):
            whole = w[name] @ x[i]
            if kind == "projection" and name != "v":
                whole = rms_normed(whole, eps, w[f"{name}_norm"])
            for h in range(count):
                made[h, i] = whole[h * d : (h + 1) * d]
                if kind == "head" and name != "v":
                    made[h, i] = rms_normed(made[h, i], eps, w[f"{name}_norm"])
        return made

    q, k = heads_of("q", module.heads), heads_of("k", module.kv_heads)
    v = heads_of("v", module.kv_heads)
    q, k = hooks.rotate(q, k, np.asarray(positions, dtype=float))
    if kind == "after":
        q, k = (
            np.array([[rms_normed(row, eps) for row in head] for head in t])
            for t in (q, k)
        )
    out = np.zeros((n, module.heads * d))
    for h in range(module.heads):
        shared = h // module.group
        for i in range(n):
            logits = [q[h, i] @ k[shared, j] / math.sqrt(d) for j in range(i + 1)]
            weights = np.exp(np.array(logits) - max(logits))
            weights /= weights.sum()
            out[i, h * d : (h + 1) * d] = sum(
                weights[j] * v[shared, j] for j in range(i + 1)
            )
    return out @ w["o"].T, k


def normed_layer(kind, *, eps=0.01, route=None, **options):
    torch.manual_seed(0)
    module = Attention(
        16, 4, kv_heads=2, qk_norm=kind, qk_norm_eps=eps, route=route, **options
    ).double()
    for p in module.parameters():
        nn.init.normal_(p, std=0.5)
    return module


@pytest.mark.parametrize("route", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", QK_NORMS)
def test_norms_of_queries_and_keys_are_a_written_out_loop(kind, route):
    """Compare a full run and a cache, which holds the normalized and rotated keys."""
    encoding = rope(4, layout="half")
    module = normed_layer(kind, encoding=encoding, route=route)
    x, at = torch.tensor(normal(1, 1, 6, 16)), [3, 1, 4, 1, 5, 9]
    hooks = reference.Hooks(
        rotate=lambda q, k, p: tuple(rotary.rope(t, p, layout="half") for t in (q, k))
    )
    expected, keys = with_norms(module, x[0].numpy(), at, hooks)
    cache = KVCache()
    with torch.no_grad():
        close(module(x, at)[0], expected)
        parts = [
            module(x[:, a:b], at[a:b], cache=cache) for a, b in ((0, 3), (3, 4), (4, 6))
        ]
    close(torch.cat(parts, 1)[0], expected)
    close(cache.k[0], keys)
    cache.move(encoding, 7)
    moved = with_norms(module, x[0].numpy(), [p + 7 for p in at], hooks)[1]
    close(cache.k[0], moved)
    others = {kind: normed_layer(kind, encoding=encoding) for kind in (None, *QK_NORMS)}
    weights = {n: p for n, p in module.state_dict().items() if "norm" not in n}
    for other, wrong in others.items():
        wrong.load_state_dict(weights, strict=False)
        if other != kind:
            assert np.abs(wrong(x, at)[0].detach().numpy() - expected).max() > 1e-3


def test_gains_are_of_a_head_or_of_a_projection():
    shapes = {
        kind: {
            name: tuple(p.shape)
            for name, p in normed_layer(kind).named_parameters()
            if "norm" in name
        }
        for kind in QK_NORMS
    }
    assert shapes == {
        "head": {"q_norm.weight": (4,), "k_norm.weight": (4,)},
        "projection": {"q_norm.weight": (16,), "k_norm.weight": (8,)},
        "after": {},
    }


def test_without_gains_the_norm_commutes_with_a_rotation():
    """|R x| = |x|; with gains that differ within a pair it does not commute."""
    after = normed_layer("after", encoding=rope(4, layout="half"))
    before = normed_layer("head", encoding=rope(4, layout="half"))
    before.load_state_dict(after.state_dict(), strict=False)
    x = torch.tensor(normal(1, 1, 6, 16))
    assert (after(x) - before(x)).abs().max() > 1e-3
    for norm in (before.q_norm, before.k_norm):
        nn.init.ones_(norm.weight)
    close(after(x).detach(), before(x).detach())


def test_no_norm_is_bit_for_bit_what_it_was():
    torch.manual_seed(0)
    plain = Attention(16, 4, encoding=rope(4, layout="half"))
    torch.manual_seed(0)
    none = Attention(16, 4, encoding=rope(4, layout="half"), qk_norm=None)
    assert plain.state_dict().keys() == none.state_dict().keys()
    x = torch.randn(1, 5, 16)
    q, k, v = (
        linear(x).unflatten(-1, (4, 4)).transpose(1, 2)
        for linear in (none.q, none.k, none.v)
    )
    out = attend(q, k, v, none.encoding, route=none.route)
    assert torch.equal(plain(x), none.o(out.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("kind", QK_NORMS)
def test_norms_keep_low_precision_and_pass_a_gradient(kind):
    module = normed_layer(kind, encoding=rope(4, layout="half"))
    x = torch.tensor(normal(1, 2, 6, 16), requires_grad=True)
    assert torch.autograd.gradcheck(module, (x,))
    module(x).sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in module.parameters())
    low = module.to(torch.bfloat16)
    assert low(x.to(torch.bfloat16)).dtype == torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16):
        assert module.float()(x.float()).isfinite().all()


@pytest.mark.parametrize(
    "options, error, message",
    [
        (
            dict(qk_norm="before"),
            ValueError,
            "qk_norm must be 'head' or 'projection' or",
        ),
        (dict(qk_norm=True), ValueError, "qk_norm must be"),
        (
            dict(qk_norm="head", qk_norm_eps=0),
            ValueError,
            "qk_norm_eps must be above 0",
        ),
        (dict(qk_norm="after", qk_norm_eps="1"), TypeError, "must be a number"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_norms_refused(options, error, message):
    with pytest.raises(error, match=message):
        Attention(16, 4, **options)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "encoding, route",
    [(rope(layout="interleaved"), "sdpa"), (fox(), "folded")],
    ids=["rope-sdpa", "fox-folded"],
)
def test_compiled_is_the_same(encoding, route):
    torch.compiler.reset()
    module = layer(kv_heads=2, route=route, encoding=encoding)
    compiled = compiling.compiled(module, fullgraph=True)
    x = torch.tensor(normal(1, 2, 5, 8), requires_grad=True)
    for positions in (None, torch.tensor([0, 1, 900, 3, 4])):
        out, expected = compiled(x, positions), module(x, positions)
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-13)
        grads = [torch.autograd.grad(o.square().sum(), x)[0] for o in (out, expected)]
        torch.testing.assert_close(*grads, rtol=0, atol=1e-11)


# Requirements of a layer, and of attention without a layer.


def attending(encoding, **options):
    """Attention by four heads of four features; ``x`` has eight."""
    x = torch.zeros(2, 3, 8) if options.pop("with_x", True) else None
    q, k, v = (torch.zeros(2, 4, 3, 4) for _ in range(3))
    return lambda: attend(q, k, v, encoding, x=x, **options)


def making(encoding, **options):
    return lambda: Attention(8, 4, d=4, encoding=encoding, **options)


def test_a_query_whose_logits_are_all_infinite_gets_zeros():
    logits = torch.tensor([[-math.inf] * 3, [0.0, -math.inf, 0.0]], dtype=DOUBLE)
    mask = torch.ones(2, 3, dtype=torch.bool)
    expected = torch.tensor([[0.0, 0.0, 0.0], [0.5, 0.0, 0.5]], dtype=DOUBLE)
    np.testing.assert_array_equal(reference.softmax(logits.numpy()), expected)
    found = softmax(logits.requires_grad_()[None, None], mask[None, None])
    assert torch.equal(found[0, 0], expected)
    (gradient,) = torch.autograd.grad(found[..., 0].sum(), logits)
    assert gradient.isfinite().all() and gradient.any()


CONTRACTS = {
    "heads": (FoX(8, 1), {}, "FoX was made for heads = 1, the layer has heads = 4"),
    "d": (rope(8), {}, "RoPE was made for d = 8, the layer has d = 4"),
    "d of CoPE": (CoPE(2, npos=3, scaling="code"), {}, "made for d = 2, .* d = 4"),
    "d_model": (FoX(6, 4), {}, "made for d_model = 6, the layer has d_model = 8"),
    "causal FoX": (fox(), {"causal": False}, "FoX is causal, the layer is not"),
    "causal ALiBi": (alibi(4), {"causal": False}, "ALiBi is causal, .* causal=True"),
    "causal sticks": (
        StickBreaking(attend_current=True, remainder="drop"),
        {"causal": False},
        "StickBreaking is causal, the layer is not; give causal=True",
    ),
}


@pytest.mark.parametrize("way", [making, attending])
@pytest.mark.parametrize("name", CONTRACTS)
def test_a_layer_that_cannot_give_what_is_needed_is_refused(name, way):
    encoding, options, message = CONTRACTS[name]
    with pytest.raises(ValueError, match=message):
        way(encoding, **options)()


BAD = {
    "causal": (making(None, causal="no"), TypeError, "causal must be .*, got 'no'"),
    "model's": (
        making(Sinusoidal(8, layout="half")),
        ValueError,
        "Sinusoidal uses the hook 'embed' of a model, .* Transformer, or call x = ",
    ),
    "no module": (making(RoPE), TypeError, "encoding must be an Encoding module"),
    "window": (making(None, window=0), ValueError, "window must be a positive"),
    "own window": (
        attending(None, window=-1),
        ValueError,
        "window must be a positive multiple of 1, got -1",
    ),
    "window of an encoder": (
        making(None, window=2, causal=False),
        ValueError,
        "needs causal=True, got window=2 and causal=False",
    ),
    "own window of an encoder": (
        attending(None, window=1, causal=False),
        ValueError,
        "needs causal=True, got window=1 and causal=False",
    ),
    "route": (making(None, route="fast"), ValueError, "route must be 'folded' or"),
    "unfolded": (
        making(rope(4), route="folded"),
        ValueError,
        "RoPE has no bias that is a number of the query plus one of the key",
    ),
    "unfused": (making(fox(), route="fused"), ValueError, "FoX has no kernel"),
    "no x": (attending(fox(), with_x=False), ValueError, "FoX needs .*: give x"),
    "no axes": (
        attending(AxialRoPE(4, order="concatenated", layout="half")),
        ValueError,
        r"AxialRoPE needs positions \[3, 2\] or \[2, 3, 2\], got none",
    ),
    "cache": (
        attending(None, cache=[]),
        TypeError,
        "cache must be a KVCache, got list",
    ),
    "tokens": (
        lambda: attend(*(torch.zeros(1, 2, n, 4) for n in (3, 4, 4))),
        ValueError,
        r"must be \[batch, heads, tokens, d\] and agree",
    ),
    "groups": (
        lambda: attend(*(torch.zeros(1, h, 3, 4) for h in (4, 3, 3))),
        ValueError,
        "heads must be a multiple of kv_heads, got 4 and 3",
    ),
    "dtypes": (
        lambda: attend(*(torch.zeros(1, 1, 3, 4).to(t) for t in (DOUBLE, None, None))),
        TypeError,
        "must agree in dtype, got torch.float64, torch.float32",
    ),
    "x like q": (
        lambda: attend(*[torch.zeros(1, 4, 3, 4)] * 3, fox(), x=torch.zeros(1, 2, 8)),
        ValueError,
        r"x must be \[1, 3, d_model\] like the queries",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_words(name):
    wrong_call, error, message = BAD[name]
    with pytest.raises(error, match=message):
        wrong_call()


def test_the_best_route_that_serves_is_taken():
    routes = {
        type(e).__name__: layer(d=4, encoding=e).route
        for e in (
            Encoding(),
            rope(4),
            fox(),
            alibi(4),
            CoPE(4, npos=3, scaling="code"),
            StickBreaking(attend_current=True, remainder="drop"),
            Sigmoid(),
        )
    }
    assert routes == {
        "Encoding": "sdpa",
        "RoPE": "sdpa",
        "FoX": "folded",
        "ALiBi": "folded",
        "CoPE": "sdpa",
        "StickBreaking": "eager",
        "Sigmoid": "eager",
    }


@serving(Encoding(), rope(), alibi(4), fox())
@pytest.mark.parametrize("kv_heads", [1, 4])
def test_attention_without_projections(encoding, route, kv_heads):
    hooks = {
        Encoding: reference.NO_HOOKS,
        RoPE: rope_hooks(),
        ALiBi: alibi_hooks(4),
        FoX: fox_hooks(),
    }[type(encoding)]
    q, k, v = (
        torch.tensor(normal(n, 2, h, 5, d))
        for n, (h, d) in enumerate(((4, 2), (kv_heads, 2), (kv_heads, 2)))
    )
    x = torch.tensor(normal(3, 2, 5, 8))
    encoding = encoding.double()
    with torch.no_grad():
        out = attend(q, k, v, encoding, x=x, route=route)
    for row in range(2):
        alone = (t[row].numpy() for t in (q, k, v))
        close(out[row], reference.attend(*alone, hooks, x=x[row].numpy()))


def test_the_steps_are_those_of_the_output():
    module, x = layer(encoding=fox(), route="eager"), torch.tensor(normal(1, 2, 5, 8))
    out, taken = module.steps(x)
    assert torch.equal(out, module(x))
    close(taken.weights.sum(-1).detach(), torch.ones(2, 4, 5))
    close((taken.weights @ taken.tokens.v).detach(), taken.out.detach())
    assert taken.tokens.offsets.shape == (1, 1, 5, 5) and taken.tokens.d == 2
    assert layer(encoding=fox()).steps(x)[1].weights is None


# Strong gates at length: sums of 15000 whose differences decide.


def carried(q, k, v, up, of_keys, dtype, scale):
    """Attention with the bias b_j − b_i, its gradients, and error bounds of both.

    A logit is a sum of d + 4 terms, in float32 at least: off by γ (|bias| + scale |q|
    |k|), and by what the last piece of a number leaves: E in all. A weight is then off
    by the factor e^E / Σ w e^−E at most. In ``dtype`` are rounded the weights, what is
    upstream of them, and the sums of either with the vectors: a few u.
    """
    u, u32 = bounds.roundoff(dtype), bounds.roundoff(torch.float32)
    tokens, d = q.shape[-2:]
    mask = reference.causal_mask(tokens)
    bias = np.where(mask, of_keys[..., None, :] - of_keys[..., :, None], 0)
    logits = scale * q @ k.swapaxes(-1, -2) + bias
    size = scale * abs(q) @ abs(k).swapaxes(-1, -2)
    bits = -round(math.log2(torch.finfo(dtype).eps))
    pieces = 2 if bits > 8 else 3
    largest = 2 * abs(of_keys).max(-1)[..., None, None]
    cut = largest * 2.0 ** (-bits * (pieces - 1)) * u
    weights = reference.softmax(logits, np.broadcast_to(mask, logits.shape))
    e = (d + 8) * u32 * (size + abs(bias)) + 2 * cut
    e = np.minimum(e, 1)  # or more, where there is no weight
    least = (weights * np.exp(-e)).sum(-1, keepdims=True)
    relative = np.exp(e) / least - 1 + (tokens + 8) * u32 + 4 * u
    out = weights @ v
    most = abs(up) @ abs(v).swapaxes(-1, -2)
    most = weights * (most + (weights * most).sum(-1, keepdims=True))
    d_logits = weights * (up @ v.swapaxes(-1, -2) - (up * out).sum(-1, keepdims=True))
    e_logits = (2 * relative + 2 * u) * most

    def carry(left, e_left, right):
        value = left @ right
        return value, (e_left + 2 * u * abs(left)) @ abs(right) + u * abs(value)

    turned, e_turned, back = (t.swapaxes(-1, -2) for t in (d_logits, e_logits, weights))
    return {
        "out": carry(weights, relative * weights, v),
        "q": carry(scale * d_logits, scale * e_logits, k),
        "k": carry(scale * turned, scale * e_turned, q),
        "v": carry(back, (relative * weights).swapaxes(-1, -2), up),
        "sums": (-d_logits.sum(-2), e_logits.sum(-2)),
    }


class GivenSums(Encoding):
    """FoX whose sums are given, so that their gradient can be looked at."""

    needs_causal = True

    def __init__(self, sums):
        super().__init__()
        self.sums = nn.Parameter(sums)

    def fold(self, tokens):
        return self.sums.detach(), -self.sums


class RoundedSums(GivenSums):
    """The mutant that rounds the sums before it subtracts them."""

    def fold(self, tokens):
        return tuple(t.to(tokens.q.dtype).double() for t in super().fold(tokens))


@pytest.mark.parametrize("route", ["folded", "sdpa", "eager"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_strong_gates_at_length_stay_within_the_carried_roundoff(dtype, route):
    tokens, d = 300, 16
    q, k, v, up = (torch.tensor(normal(n, 1, 2, tokens, d)).to(dtype) for n in range(4))
    forgetting = torch.tensor(normal(5, 1, 2, tokens)).exp() / 4
    forgetting[..., ::10] = 500
    sums = -forgetting.cumsum(-1)
    exact = (t.double().numpy() for t in (q, k, v, up))
    expected = carried(*exact, -sums.numpy(), dtype, d**-0.5)

    def use(encoding):
        """Return the share of its bound that the error of each result uses."""
        leaves = [t.clone().requires_grad_() for t in (q, k, v)]
        out = attend(*leaves, encoding, route=route)
        gradients = torch.autograd.grad(out, (*leaves, encoding.sums), up)
        found = dict(zip(expected, (out, *gradients), strict=True))
        return {
            name: (np.abs(found[name].detach().double().numpy() - right) / bound).max()
            for name, (right, bound) in expected.items()
        }

    assert max(use(GivenSums(sums)).values()) <= 1
    assert max(use(RoundedSums(sums)).values()) > 1


def test_without_a_cache_and_groups_nothing_is_copied():
    q, k, v = (torch.tensor(normal(seed, 1, 2, 3, 4)) for seed in range(3))
    given = q.data_ptr(), k.data_ptr(), v.data_ptr()

    class Looks(Encoding):
        def weigh(self, logits, tokens):
            seen.append((tokens.q.data_ptr(), tokens.k.data_ptr(), tokens.v.data_ptr()))
            return super().weigh(logits, tokens)

    seen = []
    attend(q, k, v, Looks())
    assert seen == [given]


def test_tokens_and_hooks_stay_as_they_were_made():
    x = np.ones((1, 2, 4))
    mask, at = reference.causal_mask(2), np.arange(2.0)
    tokens = reference.Tokens(x, x, x, 4, at, at, mask)
    for made, name in ((tokens, "x"), (reference.Hooks(), "bias")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, name, None)


def test_what_a_layer_says_is_added_to_the_stream():
    x, w = normal(0, 3, 4), random_projections(1, 1, 2, 2, 4)
    after_attention = x + reference.attention(x, w)
    close(reference.stack(x, [(w, np.sin)]), after_attention + np.sin(after_attention))


def test_several_queries_of_one_head_do_not_look_ahead():
    """One head is not one query, which may attend to all cached keys."""
    module = layer(8, 1, route="sdpa")
    x, cache = torch.tensor(normal(1, 1, 5, 8)), KVCache()
    steps = [module(x[:, at], cache=cache) for at in (slice(2), slice(2, 5))]
    close(torch.cat(steps, 1).detach(), module(x).detach())


def test_a_bias_may_be_finer_than_the_queries():
    """Without features that differ, the softmax of the bias alone weighs."""
    n = 5
    v, q = torch.tensor(normal(1, 1, 4, n, 2)).float(), torch.zeros(1, 4, n, 2)
    bias = -slopes(4)[:, None, None] * (np.arange(n)[:, None] - np.arange(n))
    expected = reference.softmax(bias, reference.causal_mask(n)[None].repeat(4, 0))
    out = attend(q, q, v, Slopes(), route="sdpa")
    # Rounded: a bias below n, twice in a weight; n weights, products and sums.
    atol = 5 * n * bounds.roundoff(torch.float32) * v.abs().max().item()
    close(out[0], expected @ v[0].double().numpy(), atol)


def test_a_finer_bias_of_keys_without_a_query():
    module = layer(dtype=torch.float32, encoding=Slopes(), route="sdpa")
    x, cache = torch.zeros(1, 3, 8), KVCache()
    module(x, cache=cache)
    assert module(x[:, :0], cache=cache).shape == (1, 0, 8)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_bias_for_no_token_at_all(dtype):
    layer = Attention(8, 2, encoding=ALiBi(2, slopes="geometric"), route="sdpa")
    x = torch.zeros(1, 0, 8, dtype=dtype)
    assert layer.to(dtype)(x).shape == x.shape
