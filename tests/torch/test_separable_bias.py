"""Separable biases, carried by queries and keys: exact, in O(L) memory, isolated."""

import math
from math import isnan

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posedu.torch import ALiBi, Attention, Encoding, FoX, KVCache, attend
from posedu.torch._tensors import split_exactly
from posedu.torch.separable_bias import (
    _first_keys,
    _tiles,
    attend_folded,
    by_features,
    by_tiles,
)
from posedu.torch.tiled_attention import Limits

DOUBLE = torch.float64
HALVES = (torch.bfloat16, torch.float16)
seeds = st.integers(0, 2**31)


def normal(seed, *shape, size=1.0):
    return torch.tensor(size * np.random.default_rng(seed).normal(size=shape))


def in_the_open(q, k, v, of_queries, of_keys, scale, mask=None):
    """Float64, every step by its formula."""
    q, k, v = (t.to(DOUBLE) for t in (q, k, v))
    z = scale * q @ k.mT + (of_queries[..., :, None] + of_keys[..., None, :])
    if mask is None:
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
    return z.masked_fill(~mask, -math.inf).softmax(-1) @ v


def falling(seed, heads, n, slope):
    """Sums of a bias that falls by about ``slope`` for each token."""
    steps = slope * (1 + 0.1 * np.random.default_rng(seed).random((1, heads, n)))
    c = torch.tensor(-steps).cumsum(-1)
    return c, -c


def roundoff(q, k, v, bias_range, scale, dtype):
    """A bound on the error of the output.

    A logit is a sum of d + 3 products in float32 or better: off by at most (d + 6) u of
    |q||k| scale plus the bias of keys that weigh something, at most ``bias_range``. A
    weight is then off by twice that and by n u, a mixture by its largest value; with
    the rounding of weights, features and output to the dtype.
    """
    wide = torch.promote_types(dtype, torch.float32)
    u, stored = torch.finfo(wide).eps / 2, torch.finfo(dtype).eps / 2
    size = scale * q.norm(dim=-1).max() * k.norm(dim=-1).max() + bias_range
    logit = (q.shape[-1] + 6) * u * size
    return float(v.abs().max() * (2 * logit + 4 * u * len(k[0, 0]) + 3 * stored))


def tiles(q, k, v, of_queries, of_keys, *, limits, scale):
    """Attend by tiles, which are causal and need no query terms."""
    assert limits == Limits(causal=True)
    return by_tiles(q, k, v, of_keys, scale=scale)


FORMS = pytest.mark.parametrize("form", [by_features, tiles])


@pytest.mark.parametrize("dtype", [DOUBLE, torch.float32, *HALVES], ids=str)
@pytest.mark.parametrize("slope", [1e-3, 0.1, 0.7, 5.0])
@FORMS
def test_both_forms_are_exact_to_rounding_where_sums_are_large(form, slope, dtype):
    n, d = 300, 16
    q, k, v = (normal(s, 1, 2, n, d).to(dtype) for s in range(3))
    numbers = falling(3, 2, n, slope)
    out = form(q, k, v, *numbers, limits=Limits(causal=True), scale=0.25).to(DOUBLE)
    expected = in_the_open(q, k, v, *numbers, 0.25)
    # Of keys that weigh more than u, none is farther down than this.
    largest_logit = 2 * 0.25 * q.norm(dim=-1).max() * k.norm(dim=-1).max() + 40
    bound = roundoff(q, k, v, float(largest_logit), 0.25, dtype)
    assert (out - expected).abs().max() <= bound
    assert bound < expected.abs().max() / 4


def strong_gates():
    """q, k, v and the sums of log gates of 4,096 tokens, of size up to 6,000.

    With them the exact output of the last 128 queries, and a bound on its error.
    """
    q, k, v = (normal(s, 1, 1, 4096, 16, size=0.5).float() for s in range(3))
    c = falling(3, 1, 4096, 1.5)[0]
    exact = in_the_open(*last_rows(q, k, v, c, -c), 0.25, LAST_MASK)
    return q, k, v, c, exact, bound_of_strong_gates(q, k, v, c)


LAST_MASK = torch.ones(128, 4096, dtype=torch.bool).tril(4096 - 128)


def last_rows(q, k, v, of_queries, of_keys):
    return q[:, :, -128:], k, v, of_queries[..., -128:], of_keys


def bound_of_strong_gates(q, k, v, c):
    """A bound on the error of each of the last queries' output in float32.

    As in :func:`roundoff`, a logit is off by (d + 6) u of |q||k| scale plus its bias;
    here each is counted by its weight. Keys below 2R + 40, R the largest product, weigh
    less than u together, and adding them rounds nothing else: only newer keys are
    summed.
    """
    u = torch.finfo(torch.float32).eps / 2
    product = float(0.25 * q.norm(dim=-1).max() * k.norm(dim=-1).max())
    bias = (c[..., -128:, None] - c[..., None, :]).abs()
    z = 0.25 * q[:, :, -128:].to(DOUBLE) @ k.to(DOUBLE).mT - bias
    weights = z.masked_fill(~LAST_MASK, -math.inf).softmax(-1)
    logit = (q.shape[-1] + 6) * u * (product + (weights * bias).sum(-1))
    newer = (bias[0, 0, -1] <= 2 * product + 40).sum()
    return (v.abs().max() * (2 * logit + 4 * u * newer + 3 * u))[..., None]


def test_large_sums_of_keys_alone_lose_nothing():
    """FoX's form "key": a query's term is free, so no logit is as large as the sums."""
    q, k, v, c, exact, bound = strong_gates()
    limits = Limits(causal=True)
    out = by_features(q, k, v, 0 * c, -c, limits=limits, scale=0.25)
    assert ((out[:, :, -128:] - exact).abs() <= bound).all()
    in_float32 = (-c).float().to(DOUBLE)
    rows = last_rows(q, k, v, 0 * c, in_float32)
    rounded = in_the_open(*rows, 0.25, LAST_MASK)
    assert ((rounded - exact).abs() > bound).any()


def test_a_chunk_onto_a_cache_loses_nothing_of_large_sums():
    """A query's own key is counted from the end of the keys, not from their start."""
    q, k, v, c, exact, bound = strong_gates()
    chunk = q[:, :, -128:]
    limits = Limits(causal=True)
    out = by_features(chunk, k, v, 0 * c[..., -128:], -c, limits=limits, scale=0.25)
    assert ((out - exact).abs() <= bound).all()


@pytest.mark.parametrize("form", ["difference", "key"])
def test_a_step_of_generation_loses_nothing_of_large_sums(form):
    q, k, v, c, exact, bound = strong_gates()
    log_gates = c.diff(dim=-1, prepend=torch.zeros(1, 1, 1, dtype=DOUBLE)).mT
    encoding, cache = FoX(1, 1, form=form, gate="fixed").double(), KVCache()
    encoding.log_gates = lambda x: x
    with torch.no_grad():
        for tokens in slice(None, -1), slice(-1, None):
            new = (t[:, :, tokens] for t in (q, k, v))
            x = log_gates[:, tokens]
            out = attend(*new, encoding, x=x, cache=cache, route="folded")
    assert ((out - exact).abs() <= bound)[:, :, -1].all()


def test_a_sum_in_the_dtype_itself_is_far_off():
    """One bf16 feature, or c_j in one piece, is not enough."""
    n, d = 300, 16
    q, k, v = (normal(s, 1, 2, n, d).bfloat16() for s in range(3))
    c, minus = falling(3, 2, n, 0.7)
    expected = in_the_open(q, k, v, c, minus, 0.25)
    wrong = in_the_open(q, k, v, 0 * c, minus.bfloat16().to(DOUBLE), 0.25)
    assert (wrong - expected).abs().max() > 0.1


@given(seeds, st.integers(1, 40), st.sampled_from((torch.float32, *HALVES)))
def test_pieces_sum_up_and_their_differences_are_exact(seed, n, dtype):
    rng = np.random.default_rng(seed)
    t = normal(seed, 1, 2, n, size=10.0 ** rng.integers(-3, 4))
    t[:, 1] *= 2.0**-9  # one head, in another unit
    pieces = split_exactly(t, dtype, 3)
    total = sum(p.to(DOUBLE) for p in pieces)
    largest = t.abs().amax(-1, keepdim=True)
    bits = -round(math.log2(torch.finfo(dtype).eps))
    tiny = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    # Two pieces leave half a unit of the second, of which the third rounds u off.
    assert ((total - t).abs() <= 2.0 ** (-1 - 3 * bits) * largest + tiny).all()
    rest, unit = t, 2.0 ** (largest.log2().floor() + 1)
    for piece in pieces[:-1]:
        rest, unit = rest - piece.to(DOUBLE), 2.0**-bits * unit
        assert (rest.abs() <= unit / 2 + tiny).all()
        exact = piece.to(DOUBLE)[..., :, None] - piece.to(DOUBLE)[..., None, :]
        wide = piece.float()[..., :, None] - piece.float()[..., None, :]
        assert torch.equal(exact, wide.to(DOUBLE))


def test_an_old_key_that_its_content_lifts_is_looked_at():
    """R = 100: the first key is 195 below the others and 200 above by its content."""
    n = 300
    q = torch.full((1, 1, n, 1), 10.0, dtype=DOUBLE)
    k, v, b = -q, normal(0, 1, 1, n, 2), torch.full((1, 1, n), 195.0, dtype=DOUBLE)
    k[..., 0, :], b[..., 0] = 10.0, 0.0
    out = by_tiles(q, k, v, b, scale=1.0)
    expected = in_the_open(q, k, v, 0 * b, b, 1.0)
    assert (out - expected).abs().max() <= roundoff(q, k, v, 400.0, 1.0, DOUBLE)


def test_pieces_of_nothing_are_nothing():
    assert [p.shape for p in split_exactly(torch.zeros(2, 0), torch.float32, 2)] == [
        (2, 0),
        (2, 0),
    ]


@FORMS
def test_gradients_are_those_of_the_open_form(form):
    n, d = 200, 4
    leaves = [normal(s, 1, 2, n, d).requires_grad_() for s in range(3)]
    gates = (0.3 * normal(4, 1, 2, n).abs()).requires_grad_()
    c = -gates.cumsum(-1)
    upstream = normal(5, 1, 2, n, d)
    ours = form(*leaves, c, -c, limits=Limits(causal=True), scale=0.5)
    open_form = in_the_open(*leaves, c, -c, 0.5)
    got = torch.autograd.grad(ours, [*leaves, gates], upstream, retain_graph=True)
    wanted = torch.autograd.grad(open_form, [*leaves, gates], upstream)
    for a, b in zip(got, wanted, strict=True):
        assert b.abs().max() > 0.1
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


@given(seeds, st.sampled_from((0.05, 0.5, 3.0)), st.sampled_from((0.1, 3.0)))
@settings(max_examples=20)
def test_what_tiles_leave_out_weighs_at_most_u(seed, slope, size):
    n, scale = 600, 0.5
    q, k = (normal(seed + s, 1, n, 4, size=size) for s in range(2))
    _, b = falling(seed, 1, n, slope)
    u = torch.finfo(torch.float32).eps / 2
    first = _first_keys(q, k, b[0], scale, u)
    z = scale * q @ k.mT + b[0][:, None, :]
    z = z.masked_fill(torch.ones(n, n).triu(1) > 0, -math.inf)
    weights = z.softmax(-1)
    for h, rows, keys in _tiles(first):
        assert weights[h, rows, : keys.start].sum(-1).max() <= u


def test_tiles_skip_most_keys_of_a_strong_bias_and_none_without():
    q = k = normal(0, 1, 2048, 8)
    strong, none = (falling(0, 1, 2048, s)[1][0] for s in (1.0, 0.0))
    u = 2.0**-24
    skipped = sum(keys.start for _, _, keys in _tiles(_first_keys(q, k, strong, 1, u)))
    assert skipped > 0.7 * sum(range(0, 2048, 128))
    assert sum(k.start for _, _, k in _tiles(_first_keys(q, k, none, 1, u))) == 0


def test_a_bound_on_content_that_is_forgotten_would_lose_a_key():
    """The mutant of the pruning bound: 2R left out, a far key with a large product."""
    n = 600
    q, k = torch.zeros(1, n, 1, dtype=DOUBLE), torch.zeros(1, n, 1, dtype=DOUBLE)
    q[:], k[0, 0] = 10.0, 10.0
    b = falling(0, 1, n, 0.1)[1][0]
    right = _first_keys(q, k, b, 1.0, 2.0**-24)
    wrong = _first_keys(0 * q, k, b, 1.0, 2.0**-24)
    assert right[0][4] == 0 < wrong[0][4]
    weights = (q @ k.mT + b[:, None])[0, 512, :513].softmax(-1)
    assert weights[0] > 0.5


def layer(encoding, route, **options):
    torch.manual_seed(0)
    return Attention(32, 4, kv_heads=2, encoding=encoding, route=route, **options)


@pytest.mark.parametrize("n", [1, 7, 1100])
@pytest.mark.parametrize(
    "encoding",
    [
        ALiBi(4, slopes="authors"),
        FoX(32, 4),
        FoX(32, 4, gate="fixed", gate_bias=(3.0, 1e4)),
    ],
    ids=["alibi", "fox", "weak and strong heads"],
)
def test_the_route_is_the_eager_one(encoding, n):
    x = normal(1, 2, n, 32)
    rows = torch.stack((torch.arange(n), 3 + 2 * torch.arange(n)))
    with torch.no_grad():
        wanted = layer(encoding, "eager").double()(x, rows)
        got = layer(encoding, "folded").double()(x, rows)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-13)


class Unfolded(Encoding):
    """Opens ``fold``, and has no such numbers today."""

    def fold(self, tokens):
        return None


def test_no_numbers_are_no_bias():
    x = normal(1, 2, 7, 32)
    with torch.no_grad():
        wanted = layer(None, "sdpa").double()(x)
        got = layer(Unfolded(), "folded").double()(x)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-13)


def test_masks_keep_the_route_right():
    x = normal(1, 2, 40, 32)
    padding = torch.zeros(2, 40, dtype=torch.bool)
    padding[0, :9] = padding[1, 20:23] = True
    segments = torch.arange(40).div(10, rounding_mode="floor").expand(2, -1)
    for options in ({"key_padding_mask": padding}, {"segments": segments}):
        with torch.no_grad():
            a, b = (
                layer(FoX(32, 4), route, window=25).double()(x, **options)
                for route in ("eager", "folded")
            )
        torch.testing.assert_close(a, b, rtol=0, atol=1e-13)


def peak(run):
    """Bytes held at most while ``run`` goes on, by the profiler's count."""
    with torch.profiler.profile(profile_memory=True) as profile:
        run()
    held = most = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


@pytest.mark.parametrize(
    "strength", [(1.0, 1.0), (1e5, 1e5)], ids=["tiles", "features"]
)
def test_memory_grows_with_the_length_and_not_with_its_square(strength):
    def bytes_at(n):
        torch.manual_seed(0)
        q, k, v = (torch.randn(1, 2, n, 16, requires_grad=True) for _ in range(3))
        encoding = FoX(32, 2, gate="fixed", gate_bias=strength)
        x = torch.randn(1, n, 32)
        return peak(
            lambda: attend(q, k, v, encoding, x=x, route="folded").sum().backward()
        )

    short, long = bytes_at(1024), bytes_at(4096)
    assert long < 6 * short  # 4 for L, 16 for L²


def test_a_number_that_is_none_shows_in_every_later_token():
    q = normal(0, 1, 1, 300, 4)
    b = falling(0, 1, 300, 0.5)[1]
    b[..., 150] = math.nan
    out = by_tiles(q, q, q, b, scale=1.0)
    assert out[:, :, :128].isfinite().all() and out[:, :, 150:].isnan().all()


def test_short_sequences_go_to_the_stock_kernel(monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("tiles for a short sequence")

    monkeypatch.setattr("posedu.torch.separable_bias.by_tiles", refuse)
    q = normal(0, 1, 1, 100, 4)
    attend_folded(
        q, q, q, *falling(0, 1, 100, 5.0), limits=Limits(causal=True), scale=1.0
    )


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("encoding", [ALiBi(2, slopes="authors"), FoX(8, 2)])
def test_long_sequences_are_batched_where_no_head_can_be_looked_at(encoding):
    module = Attention(8, 2, encoding=encoding, route="folded").to(DOUBLE)
    x = normal(0, 2, 1, 800, 8)
    found = torch.vmap(torch.func.grad(lambda x: module(x).sin().sum()))(x)
    for one, row in zip(x.requires_grad_(), found, strict=True):
        (expected,) = torch.autograd.grad(module(one).sin().sum(), one)
        torch.testing.assert_close(row, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("place", [0, 400, 899])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_number_that_is_not_finite_stays_in_its_own_rows(place, value):
    """Tiles skip keys by a bound of the products, and none where that is NaN."""
    q, k, v = torch.randn(3, 1, 2, 900, 4, generator=torch.Generator().manual_seed(0))
    b = 5.0 * torch.arange(-900, 0).to(DOUBLE).expand(1, 2, -1)
    whole = by_tiles(q, k, v, b, scale=0.5)
    for tensor in (q, k, v):
        broken = tensor.clone()
        broken[0, 0, place, 1] = value
        given = [broken if t is tensor else t for t in (q, k, v)]
        out = by_tiles(*given, b, scale=0.5)
        close = torch.isclose(out, whole, rtol=0, atol=1e-5).all(-1)
        tile = place // 128 * 128  # in a tile, a weight of 0 meets the number
        assert close[0, 1].all() and close[0, 0, :tile].all()
        if isnan(value):
            assert not out[0, 0, place].isfinite().all()
