"""Attention: its theorems, its routes, its doors, and its two faces."""

import dataclasses

import bounds
import numpy as np
import pytest
import sympy as sp
import torch
import wrong
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from posedu.numpy import attention as reference
from posedu.numpy import rotary
from posedu.numpy.absolute import embed_sinusoidal
from posedu.sympy import attention as symbolic
from posedu.torch import Attention, Encoding, KVCache, RoPE, Sinusoidal, Tokens
from posedu.torch.encoding import softmax

ROUTES = ("sdpa", "flex", "eager")
DOUBLE = torch.float64
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without")

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
    """The weights of a module as the reference wants them."""

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


def rope_doors(layout="half"):
    def rotate(q, k, positions):
        return tuple(rotary.rope(t, positions, layout=layout) for t in (q, k))

    return reference.Doors(rotate=rotate)


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


def test_one_causal_layer_sees_the_earlier_tokens_as_a_set_and_two_do_not():
    first, second = layer(seed=1), layer(seed=2)
    x = torch.tensor(normal(3, 1, 4, 8))
    order = torch.tensor([2, 0, 1, 3])
    close(first(x[:, order])[:, -1].detach(), first(x)[:, -1].detach())

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
    off = reference.softmax(wrong.bias_of_the_key(logits, c)) - reference.softmax(
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
    off = reference.attention(x, w, mask=wrong.mask_off_by_one(4))
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


# The faces.


ENCODINGS = {
    "none": (lambda d, d_model: None, reference.SHUT),
    "rope": (lambda d, d_model: RoPE(d, layout="half"), rope_doors()),
    "sinusoidal": (
        lambda d, d_model: Sinusoidal(d_model, layout="half"),
        reference.Doors(embed=lambda x, p: embed_sinusoidal(x, p, layout="half")),
    ),
}
KINDS = [
    (name, heads, kv_heads, causal)
    for name in ENCODINGS
    for heads, kv_heads in ((1, 1), (4, 4), (4, 2), (4, 1))
    for causal in (True, False)
]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name, heads, kv_heads, causal", KINDS)
def test_torch_equals_the_reference(name, heads, kv_heads, causal, route):
    make, doors = ENCODINGS[name]
    module = layer(
        8,
        heads,
        kv_heads=kv_heads,
        d=4,
        encoding=make(4, 8),
        causal=causal,
        route=route,
    )
    for tokens in (0, 1, 2, 7):
        mask = reference.causal_mask(tokens) if causal else None
        x = normal(tokens, 2, tokens, 8)
        rows = np.random.default_rng(1).uniform(-100, 100, size=(2, tokens))
        for positions in (None, range(50, 50 + tokens), rows):
            given_positions = torch.tensor(rows) if positions is rows else positions
            with torch.no_grad():
                out = module(torch.tensor(x), given_positions).numpy()
            for row in range(2):
                p = rows[row] if positions is rows else positions
                w = projections(module)
                expected = reference.attention(x[row], w, p, mask=mask, doors=doors)
                close(out[row], expected)


# Central differences of order 8: an error of h⁸ / 630 times the ninth derivative, and
# of some u / h times the value. At h = 1/256 that is 1e-22 and 3e-14: even a function
# with a ninth derivative of 10⁹, or a value of 100, is differentiated to 1e-11.
STENCIL = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))


def slope(f, h=1 / 256):
    return sum(c * (f(n * h) - f(-n * h)) for n, c in STENCIL) / h


@pytest.mark.parametrize("route", ["sdpa", "eager"])
@pytest.mark.parametrize("name, heads, kv_heads, causal", KINDS)
def test_gradients_equal_those_of_the_reference(name, heads, kv_heads, causal, route):
    make, doors = ENCODINGS[name]
    module = layer(
        4,
        heads,
        kv_heads=kv_heads,
        d=2,
        encoding=make(2, 4),
        causal=causal,
        route=route,
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
                out = reference.attention(x, w, positions, mask=mask, doors=doors)
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
        mask, doors = reference.causal_mask(6), rope_doors(layout)
        expected = reference.attention(exact, w, positions, mask=mask, doors=doors)
        atol = bounds.attended(exact, w, positions, dtype, layout)
        assert (np.abs(out - expected) <= atol).all()
        # The bound says something: it is below the size of the result.
        assert atol.max() < np.abs(expected).max()


@given(sizes, st.integers(0, 6), seeds)
def test_grouped_queries_are_repeated_heads(size, tokens, seed):
    w = random_projections(seed, **size)
    x = normal(seed, tokens, size["d_model"])
    repeated = dataclasses.replace(
        w, k=w.k.repeat(size["group"], 0), v=w.v.repeat(size["group"], 0)
    )
    expected = reference.attention(x, repeated, doors=rope_doors())
    assert np.array_equal(reference.attention(x, w, doors=rope_doors()), expected)


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


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("steps", [[1] * 7, [3, 1, 3], [7], [2, 0, 5]], ids=str)
@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
@pytest.mark.parametrize(
    "encoding", [RoPE(2, layout="interleaved"), Sinusoidal(8, layout="half")], ids=repr
)
def test_decoding_with_a_cache_is_the_full_run(encoding, positions, steps, route):
    module = layer(kv_heads=2, route=route, encoding=encoding)
    x = torch.tensor(normal(1, 2, 7, 8))
    cache, parts = KVCache(), []
    with torch.no_grad():
        full = module(x, positions)
        for step in steps:
            at = slice(len(cache), len(cache) + step)
            here = None if positions is None else positions[..., at]
            parts.append(module(x[:, at], here, cache=cache))
    assert len(cache) == 7
    close(torch.cat(parts, 1), full, 1e-13)


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


# Doors: a tiny encoding opens each, in both faces.


class SeesPositions(Encoding):
    def bias(self, tokens: Tokens):
        self.seen = tokens


def slopes(heads):
    return 2.0 ** (-8 * np.arange(1, heads + 1) / heads)


class ALiBi(Encoding):
    """−slope · (i − j), by positions."""

    def bias(self, tokens):
        offset = (
            tokens.query_positions[..., :, None] - tokens.key_positions[..., None, :]
        )
        m = torch.tensor(slopes(tokens.q.shape[1]))
        return -m[:, None, None] * offset.unsqueeze(-3)


class FusedALiBi(ALiBi):
    def score_mod(self, tokens):
        m = torch.tensor(slopes(tokens.q.shape[1]))
        i_at, j_at = tokens.query_positions, tokens.key_positions
        return lambda score, b, h, i, j: score - m[h] * (i_at[i] - j_at[j])


class ContentBias(Encoding):
    """A gate of the input and the query-key product: a bias may look at all of it."""

    def bias(self, tokens):
        gate = tokens.x.mean(-1)[:, None, :, None]
        return gate + (tokens.q @ tokens.k.mT).sin()


class Sigmoid(Encoding):
    def weigh(self, logits, mask):
        weights = logits.sigmoid()
        return weights if mask is None else weights.masked_fill(~mask, 0)


class Doubled(Encoding):
    def mix(self, weights, v):
        return 2 * super().mix(weights, v) + v.cumsum(-2)


class Shifted(Encoding):
    def embed(self, x, positions):
        return x + torch.as_tensor(positions).sin()[..., None]


class OnlyQueries(Encoding):
    def rotate(self, q, k, positions):
        return q * torch.as_tensor(positions).cos()[:, None], k


def numpy_alibi(tokens):
    offset = tokens.query_positions[:, None] - tokens.key_positions
    return -slopes(len(tokens.q))[:, None, None] * offset


def numpy_content(tokens):
    return tokens.x.mean(-1)[:, None] + np.sin(tokens.q @ tokens.k.swapaxes(-1, -2))


def numpy_sigmoid(logits, mask):
    weights = 1 / (1 + np.exp(-logits))
    return weights if mask is None else np.where(mask, weights, 0)


DOORS = [
    (ALiBi(), reference.Doors(bias=numpy_alibi), ROUTES),
    (FusedALiBi(), reference.Doors(bias=numpy_alibi), ROUTES),
    (ContentBias(), reference.Doors(bias=numpy_content), ROUTES),
    (Sigmoid(), reference.Doors(weigh=numpy_sigmoid), ["eager"]),
    (
        Doubled(),
        reference.Doors(mix=lambda w, v: 2 * w @ v + v.cumsum(-2)),
        ["eager"],
    ),
    (Shifted(), reference.Doors(embed=lambda x, p: x + np.sin(p)[:, None]), ROUTES),
    (
        OnlyQueries(),
        reference.Doors(rotate=lambda q, k, p: (q * np.cos(p)[:, None], k)),
        ROUTES,
    ),
]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    "encoding, doors, route",
    [(e, d, r) for e, d, routes in DOORS for r in routes],
    ids=lambda v: v if isinstance(v, str) else type(v).__name__,
)
def test_each_door_acts_alike_in_both_faces(encoding, doors, route, causal):
    module = layer(causal=causal, route=route, encoding=encoding)
    shut = layer(causal=causal, route=route)
    x = normal(1, 2, 5, 8)
    positions = torch.tensor([0.5, 3.0, -2.0, 4.0, 100.0], dtype=DOUBLE)
    mask = reference.causal_mask(5) if causal else None
    with torch.no_grad():
        out = module(torch.tensor(x), positions)
        assert (out - shut(torch.tensor(x), positions)).abs().max() > 1e-3
    for row in range(2):
        w = projections(module)
        expected = reference.attention(
            x[row], w, positions.numpy(), mask=mask, doors=doors
        )
        close(out[row], expected)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("encoding", [ALiBi(), FusedALiBi(), ContentBias()], ids=repr)
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
@pytest.mark.parametrize("encoding", [Sigmoid(), Doubled()], ids=repr)
def test_routes_without_a_door_refuse_the_encoding(encoding, route):
    door = "weigh" if isinstance(encoding, Sigmoid) else "mix"
    with pytest.raises(ValueError, match=f"{door}.*eager.*{route}"):
        layer(route=route, encoding=encoding)


def test_an_encoding_is_part_of_the_module():
    learned = Encoding()
    learned.scale = nn.Parameter(torch.ones(1))
    assert "encoding.scale" in dict(layer(encoding=learned).named_parameters())
    assert [d for d in ("embed", "rotate", "bias") if Encoding().opens(d)] == []
    assert RoPE(2, layout="half").opens("rotate")


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("route", ["sdpa", "eager"])
@pytest.mark.parametrize(
    "encoding", [RoPE(2, layout="interleaved"), Sinusoidal(8, layout="half")], ids=repr
)
def test_compiled_is_the_same(encoding, route):
    torch.compiler.reset()
    module = layer(kv_heads=2, route=route, encoding=encoding)
    compiled = torch.compile(module, fullgraph=True)
    x = torch.tensor(normal(1, 2, 5, 8), requires_grad=True)
    for positions in (None, torch.tensor([0, 1, 900, 3, 4])):
        out, expected = compiled(x, positions), module(x, positions)
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-13)
        grads = [torch.autograd.grad(o.square().sum(), x)[0] for o in (out, expected)]
        torch.testing.assert_close(*grads, rtol=0, atol=1e-11)
