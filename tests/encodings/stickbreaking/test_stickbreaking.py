"""Stick-breaking: its theorems, its numerics, its tiles, and every remainder."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from posedu.book.timing import peak_memory
from posedu.crosscheck import stickbreaking
from posedu.numpy import stickbreaking as reference
from posedu.numpy.attention import Tokens
from posedu.numpy.attention import attend as attend_reference
from posedu.torch import Attention, KVCache, StickBreaking, attend
from posedu.torch import stickbreaking as fast

U64, U32 = 2.0**-53, 2.0**-24
REMAINDERS = ("drop", "own", "sink", "renormalize")
currents = st.booleans()
rows = st.lists(st.floats(-30, 30), min_size=1, max_size=12).map(np.array)


def last_row(logits, attend_current=True):
    """The weights of the last query, whose stick passes every key."""
    square = np.zeros((len(logits), len(logits)))
    square[-1] = logits
    weights, log_rest = reference.break_stick_log(square, attend_current=attend_current)
    return weights[-1], log_rest[-1]


def spent(row):
    """P_j = Σ softplus(z_l) from key j on, in more digits than float64 has."""
    return np.cumsum(np.logaddexp(0, row.astype(np.longdouble))[::-1])[::-1]


def errors_of(row, u, block):
    """``eq-stick-bound``: how far off each weight may be, relative, in tiles.

    log A_j is the logit less P_j: each softplus is good to 4u of itself (exponential
    and log1p to a unit in the last place each), a tile adds with b − 1 roundings, what
    was spent is carried n/b − 1 times, each u of at most P_j; the difference rounds by
    u (P_j − z_j), and the exponential, which turns what is absolute before into
    something relative, by 2u.
    """
    block = min(block, len(row))
    tiles = -(-len(row) // block)
    return u * ((block + tiles + 3) * spent(row) + np.abs(row) + 2)


def error_of(row, u):
    """The largest of a row in one tile."""
    return float(errors_of(row, u, len(row)).max())


@given(rows, currents)
def test_products_and_log_space_agree(row, current):
    square = np.tile(row, (len(row), 1))
    weights, rest = reference.break_stick(square, attend_current=current)
    log_weights, log_rest = reference.break_stick_log(square, attend_current=current)
    # Of the product form: 1 − β has the relative error u/(1 − β) = u (1 + e^z)
    bound = error_of(row, U64) + 2 * U64 * (1 + np.exp(row)).sum()
    assert (np.abs(weights - log_weights) <= bound).all()
    assert (np.abs(rest - np.exp(log_rest)) <= bound).all()


@given(rows, currents)
def test_a_row_and_its_remainder_make_one_stick(row, current):
    square = np.tile(row, (len(row), 1))
    weights, log_rest = reference.break_stick_log(square, attend_current=current)
    bound = 2 * error_of(row, U64) + len(row) * U64
    assert (np.abs(weights.sum(-1) + np.exp(log_rest) - 1) <= bound).all()


def test_each_head_breaks_its_own_stick():
    logits = np.random.default_rng(0).normal(size=(3, 4, 4))
    weights, rest = reference.break_stick(logits, attend_current=True)
    for h, of_head in enumerate(logits):
        alone = reference.break_stick(of_head, attend_current=True)
        assert np.array_equal(weights[h], alone[0])
        assert np.array_equal(rest[h], alone[1])


def test_the_first_token_gets_nothing_unless_it_sees_itself():
    weights, log_rest = reference.break_stick_log(np.ones((3, 3)), attend_current=False)
    assert not weights[0].any() and log_rest[0] == 0
    weights, _ = reference.break_stick_log(np.ones((3, 3)), attend_current=True)
    assert weights[0, 0] > 0 and not np.triu(weights, 1).any()


@given(st.floats(-4, 4), st.integers(1, 40))
def test_constant_logits_are_a_geometric_law(z, n):
    """A_ij = β (1 − β)^(i − 1 − j): ALiBi's line with the slope softplus(z)."""
    weights, log_rest = last_row(np.full(n + 1, z), attend_current=False)
    beta = 1 / (1 + math.exp(-z))
    law = beta * (1 - beta) ** np.arange(n - 1, -1, -1.0)
    np.testing.assert_allclose(weights[:-1], law, rtol=1e-12)
    assert log_rest == pytest.approx(-n * math.log1p(math.exp(z)), rel=1e-12)


@given(rows, st.data())
def test_a_weight_never_depends_on_older_keys(row, data):
    cut = data.draw(st.integers(0, len(row) - 1))
    changed = row.copy()
    changed[:cut] = data.draw(st.floats(-30, 30))
    np.testing.assert_array_equal(last_row(row)[0][cut:], last_row(changed)[0][cut:])


@given(st.floats(-10, 10), st.floats(-10, 10))
def test_order_shows_without_any_position(a, b):
    """The key with logit a gets σ(a) as the nearer of two, σ(a)(1 − σ(b)) else."""
    nearer = last_row(np.array([b, a]))[0][1]
    farther = last_row(np.array([a, b]))[0][0]
    sigma = 1 / (1 + np.exp(-np.array([a, b])))
    assert nearer == pytest.approx(sigma[0], rel=1e-12)
    assert farther == pytest.approx(sigma[0] * (1 - sigma[1]), rel=1e-9)
    assert farther < nearer


def reversed_stick(logits):
    """Notes on the web: each key waits for the *older* keys, not for the nearer."""
    beta = 1 / (1 + np.exp(-logits))
    left = np.concatenate(([1.0], np.cumprod(1 - beta)[:-1]))
    return beta * left


@given(rows.filter(lambda r: len(r) > 1 and np.ptp(r) > 1))
def test_the_reversed_stick_depends_on_older_keys(row):
    changed = row.copy()
    changed[0] += 1
    assert (reversed_stick(row)[1:] != reversed_stick(changed)[1:]).any()
    np.testing.assert_array_equal(last_row(row)[0][1:], last_row(changed)[0][1:])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("z", [-110.0, -40.0, 40.0, 110.0])
def test_extreme_logits_stay_finite_and_within_one_stick(dtype, z):
    logits = torch.full((8, 8), z, dtype=dtype)
    weights, log_rest = fast.break_stick_log(logits, attend_current=True)
    assert weights.isfinite().all() and log_rest.isfinite().all()
    u = torch.finfo(dtype).eps / 2
    bound = error_of(logits[0].double().numpy(), u)
    assert (weights.sum(-1) <= 1 + bound).all()


@pytest.mark.parametrize("z", [-12.0, -17.0])
def test_very_negative_logits_over_16k_keys_still_cost(z):
    """log1p: in float32 log(1 + e^−17) is exactly 0, and the remainder exactly 1."""
    keys = 16384
    logits = torch.full((1, keys), z)
    _, log_rest = fast.break_stick_log(logits, attend_current=True)
    exact = -keys * math.log1p(math.exp(z))
    assert log_rest.item() == pytest.approx(exact, rel=keys * U32)
    naive = -(1 + logits.exp()).log().sum().item()
    assert abs(naive - exact) > 0.005 * abs(exact)


def test_a_tiny_remainder_keeps_its_digits():
    """r = ∏ (1 − β) is 1.6e−28 at eight logits of 8; 1 − Σ A loses all of it."""
    weights, log_rest = last_row(np.full(8, 8.0))
    exact = math.exp(-8 * math.log1p(math.exp(8.0)))
    assert math.exp(log_rest) == pytest.approx(exact, rel=1e-12)
    assert abs((1 - weights.sum()) - exact) > 1e6 * exact


def tile_weights(row, block, dtype):
    """Weights of one query with exact logits: of some keys by values that pick them
    out, of all as the gradient by values."""
    keys = torch.tensor(row, dtype=dtype)[None, None, :, None]
    at = np.arange(len(row))[:: len(row) // 64 + 1]
    values = torch.zeros(1, 1, len(row), len(at), dtype=dtype)
    values[0, 0, at, range(len(at))] = 1
    out, _ = fast.stick_breaking_tiles(
        torch.ones(1, 1, 1, 1, dtype=dtype), keys, values.requires_grad_(),
        attend_current=True, block=block,
    )  # fmt: skip
    out.backward(torch.ones_like(out))
    picked, whole = out.detach().flatten(), values.grad[0, 0, :, 0]
    return at, picked.double().numpy(), whole.double().numpy()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1.0, 12.0, 110.0])
@pytest.mark.parametrize(("keys", "block"), [(8, 256), (300, 16), (5000, 256)])
def test_weights_in_tiles_are_within_the_bound_in_every_type(dtype, size, keys, block):
    rng = np.random.default_rng(keys)
    for row in (rng.uniform(-size, size, keys), np.full(keys, -size)):
        row = torch.tensor(row).to(dtype).double().numpy()
        true = np.exp(row - spent(row))
        working = torch.promote_types(dtype, torch.float32)
        relative = errors_of(row, torch.finfo(working).eps / 2, block)
        if dtype == torch.bfloat16:  # what is returned is rounded to it
            relative = relative + 2.0**-8
        bound = relative * true + torch.finfo(dtype).tiny
        at, picked, whole = tile_weights(row, block, dtype)
        assert (np.abs(picked - true[at]) <= bound[at]).all()
        assert (np.abs(whole - true) <= bound).all()
        # All of a row: ``eq-stick-row``
        assert true @ spent(row) <= 1 + np.logaddexp(0, row).max() + 1e-12


def test_one_running_sum_is_not_within_the_bound_of_tiles():
    row = np.full(7500, -6.5)
    cost = np.logaddexp(0, row).astype(np.float32)
    running = np.cumsum(cost[::-1], dtype=np.float32)[::-1]
    true = np.exp(row - spent(row))
    bound = errors_of(row, U32, 128) * true
    assert (np.abs(np.exp(row - running) - true) > bound).any()
    _, _, tiled = tile_weights(row, 128, torch.float32)
    assert (np.abs(tiled - true) <= bound).all()


def draw_normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def heads(seed, queries, keys, d=4, kv_heads=2, dtype=torch.float64, size=1.0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return (size * torch.randn(*shape, generator=generator)).to(dtype)

    return normal(2, 4, queries, d), *(normal(2, kv_heads, keys, d) for _ in "kv")


def expected(q, k, v, padding, current):
    """The reference's output and log remainder, with heads repeated."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (t.double().numpy() for t in (q, k, v))
    k, v = k.repeat(group, 1), v.repeat(group, 1)
    logits = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    mask = np.broadcast_to(~padding.numpy()[:, None, None], logits.shape)
    weights, log_rest = reference.break_stick_log(
        logits, attend_current=current, mask=mask
    )
    return weights @ v, log_rest, logits


@settings(max_examples=40)
@given(
    st.integers(0, 2**31),
    st.integers(0, 20),
    st.integers(0, 12),
    st.integers(1, 9),
    currents,
    st.sampled_from((torch.float64, torch.float32, torch.bfloat16)),
    st.sampled_from((0.1, 1.0, 4.0)),
)
def test_tiles_are_the_reference(seed, queries, past, block, current, dtype, size):
    keys = queries + past
    q, k, v = heads(seed, queries, keys, dtype=dtype, size=size)
    padding = torch.rand(2, keys, generator=torch.Generator().manual_seed(seed)) < 0.3
    out, log_rest = fast.stick_breaking_tiles(
        q, k, v, attend_current=current, key_padding_mask=padding, block=block
    )
    wanted, wanted_rest, logits = expected(q, k, v, padding, current)
    assert out.dtype == q.dtype and out.shape == q.shape
    if not out.numel() or not keys:
        return
    u = U64 if dtype == torch.float64 else U32
    # A logit is off by (d + 3) u Σ|q||k|/√d, and so is every softplus
    slip = 7 * u * np.abs(logits).max() * 4
    row = logits.reshape(-1, keys)
    worst = np.logaddexp(0, row).sum(-1).max()
    relative = (keys + 1) * slip + u * ((keys + 4) * worst + np.abs(row).max() + 4)
    top = float(v.double().abs().max())
    bound = top * relative + torch.finfo(dtype).eps * top
    assert np.abs(out.double().numpy() - wanted).max() <= bound
    assert np.abs(log_rest.double().numpy() - wanted_rest).max() <= relative + 1e-30


@pytest.mark.parametrize("current", [False, True])
def test_the_written_gradient_is_right(current):
    q, k, v = (t.requires_grad_() for t in heads(0, 5, 7, d=3))
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[0, 2:4] = True

    def tiled(q, k, v):
        return fast.stick_breaking_tiles(
            q, k, v, attend_current=current, key_padding_mask=padding, block=3
        )

    assert torch.autograd.gradcheck(tiled, (q, k, v), atol=1e-9, rtol=1e-7)


def test_the_written_gradient_is_that_of_the_open_form():
    q, k, v = (t.requires_grad_() for t in heads(1, 40, 40, kv_heads=4))
    out, log_rest = fast.stick_breaking_tiles(q, k, v, attend_current=False, block=16)
    weights, open_rest = fast.break_stick_log(q @ k.mT / 2, attend_current=False)
    up, up_rest = torch.randn_like(out), torch.randn_like(log_rest)
    mine = torch.autograd.grad((out, log_rest), (q, k, v), (up, up_rest))
    theirs = torch.autograd.grad((weights @ v, open_rest), (q, k, v), (up, up_rest))
    for left, right in zip(mine, theirs, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-12)


@given(st.integers(0, 2**31), st.sampled_from((1e-8, 1e-3, 0.1, 0.9)))
@settings(max_examples=20)
def test_stopping_early_costs_at_most_the_stick_left(seed, stop):
    q, k, v = heads(seed, 50, 50, kv_heads=4, size=3.0)
    full, _ = fast.stick_breaking_tiles(q, k, v, attend_current=False, block=4)
    short, _ = fast.stick_breaking_tiles(
        q, k, v, attend_current=False, block=4, stop=stop
    )
    longest = v.norm(dim=-1).amax(-1)[..., None]
    assert ((full - short).norm(dim=-1) <= stop * longest + 1e-12).all()


@pytest.mark.parametrize("remainder", REMAINDERS)
def test_stopping_early_costs_the_stick_left_times_the_way_to_its_taker(remainder):
    """``eq-stick-stop``: what is not looked at goes to whoever gets the remainder."""
    length, older, stop = 300, 300 - 256, 0.5  # a tile is 256 keys
    q, k = torch.ones(1, 4, length, 4).double(), torch.full((1, 4, length, 4), -2.5)
    _, _, v = heads(0, length, length, kv_heads=4)
    v = v[:1]
    v[:, :, :older] *= 1e-3
    shape = {"heads": 4, "d": 4} if remainder == "sink" else {}
    sink = {"sink": torch.ones(4, 4)} if remainder == "sink" else {}
    full, short = (
        attend(
            q, k.double(), v,
            StickBreaking(
                attend_current=True, remainder=remainder, stop=s, **shape, **sink
            ),
            route="fused",
        )[:, :, -older:]
        for s in (0.0, stop)
    )  # fmt: skip
    takers = {"drop": 0 * short, "own": v[:, :, -older:], "renormalize": short}
    taker = takers.get(remainder, torch.ones_like(short))
    way = (v[:, :, None, :older] - taker[..., None, :]).norm(dim=-1).amax(-1)
    cost = (full - short).norm(dim=-1)
    assert cost.any() and (cost <= stop * way).all()
    longest = v[:, :, :older].norm(dim=-1).max()
    assert (cost > stop * longest).any() == (remainder != "drop")


def test_stopping_early_skips_keys():
    q, k, v = heads(0, 64, 64, kv_heads=4, size=4.0)
    v[:, :, :8] = torch.nan
    short, _ = fast.stick_breaking_tiles(
        q, k, v, attend_current=False, block=4, stop=0.5
    )
    assert short[:, :, -4:].isfinite().all()


@pytest.mark.parametrize("current", [False, True])
@pytest.mark.parametrize("remainder", REMAINDERS)
def test_routes_agree_and_a_cache_changes_nothing(remainder, current):
    shape = {"heads": 4, "d": 4} if remainder == "sink" else {}
    encoding = StickBreaking(attend_current=current, remainder=remainder, **shape)
    if remainder == "sink":
        assert not encoding.sink.any()
        torch.nn.init.normal_(encoding.sink)
    x = torch.randn(2, 9, 16, dtype=torch.float64)
    padding = torch.zeros(2, 9, dtype=torch.bool)
    padding[0, :3] = True
    outs = []
    for route in ("eager", "fused"):
        torch.manual_seed(0)
        layer = Attention(16, 4, kv_heads=2, encoding=encoding, route=route).double()
        outs.append(layer(x, key_padding_mask=padding))
        cache, steps = KVCache(), []
        for start, end in ((0, 4), *((i, i + 1) for i in range(4, 9))):
            seen = padding[:, :end]
            steps.append(layer(x[:, start:end], key_padding_mask=seen, cache=cache))
        outs.append(torch.cat(steps, 1))
    for out in outs[1:]:
        torch.testing.assert_close(out, outs[0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("current", [False, True])
@pytest.mark.parametrize("remainder", REMAINDERS)
def test_the_module_is_the_reference(remainder, current):
    shape = {"heads": 4, "d": 4} if remainder == "sink" else {}
    module = StickBreaking(
        attend_current=current, remainder=remainder, **shape
    ).double()
    sink = None
    if remainder == "sink":
        sink = torch.nn.init.normal_(module.sink).detach().numpy()
    q, k, v = heads(3, 6, 6, kv_heads=4)
    hooks = reference.stick_breaking(
        attend_current=current, remainder=remainder, sink=sink
    )
    wanted = [
        attend_reference(*(t[b].numpy() for t in (q, k, v)), hooks) for b in range(2)
    ]
    for route in ("eager", "fused"):
        out = attend(q, k, v, module, route=route).detach().numpy()
        np.testing.assert_allclose(out, np.stack(wanted), rtol=0, atol=1e-14)


@pytest.mark.parametrize("queries", [1, 2, 5])
@pytest.mark.parametrize("current", [False, True])
@pytest.mark.parametrize("remainder", REMAINDERS)
def test_the_last_queries_weigh_as_they_do_among_all(remainder, current, queries):
    """The hooks take fewer queries than keys: the rest is the query's own token's."""
    q, k, v = (draw_normal(s, 2, 5, 4) for s in range(3))
    sink = draw_normal(3, 2, 4) if remainder == "sink" else None
    hooks = reference.stick_breaking(
        attend_current=current, remainder=remainder, sink=sink
    )

    def mixed(queries):
        last, at = q[:, 5 - queries :], np.arange(5.0)
        mask = np.tri(queries, 5, 5 - queries, dtype=bool)
        tokens = Tokens(last, k, v, 4, at[5 - queries :], at, mask)
        weights = hooks.weigh(last @ k.swapaxes(-1, -2) / 2, tokens)
        return hooks.mix(weights, v, tokens)

    np.testing.assert_allclose(mixed(queries), mixed(5)[:, 5 - queries :], atol=1e-14)


def test_an_empty_batch_may_stop_early():
    encoding = StickBreaking(attend_current=True, remainder="drop", stop=0.1)
    nothing = torch.zeros(0, 2, 4, 8)
    assert attend(nothing, nothing, nothing, encoding, route="fused").shape == (
        nothing.shape
    )


def test_a_query_that_sees_no_key_gets_zeros_whatever_becomes_of_the_rest():
    q, k, v = heads(0, 4, 4, kv_heads=4)
    nothing = torch.ones(2, 4, dtype=torch.bool)
    for remainder in ("drop", "renormalize"):
        module = StickBreaking(attend_current=True, remainder=remainder)
        for route in ("eager", "fused"):
            out = attend(q, k, v, module, key_padding_mask=nothing, route=route)
            assert not out.any()


def test_memory_grows_linearly_with_the_length():
    """The exponent of L fitted over two doublings; that of the eager route is 2."""

    def bytes_for(length, form):
        q, k, v = (torch.randn(1, 1, length, 8, requires_grad=True) for _ in "qkv")
        return peak_memory(lambda: form(q, k, v).sum().backward(), torch.device("cpu"))

    def tiled(q, k, v):
        return fast.stick_breaking_tiles(q, k, v, attend_current=False, block=64)[0]

    def openly(q, k, v):
        return fast.break_stick_log(q @ k.mT, attend_current=False)[0] @ v

    lengths = np.array([512, 1024, 2048])
    tiles = [bytes_for(n, tiled) for n in lengths.tolist()]
    assert np.polyfit(np.log(lengths), np.log(tiles), 1)[0] < 1.1
    whole = [bytes_for(n, openly) for n in lengths.tolist()]
    assert np.polyfit(np.log(lengths), np.log(whole), 1)[0] > 1.9


def test_softplus_is_uncut_where_float64_sees_it():
    z = torch.linspace(-50, 60, 1101, dtype=torch.float64)
    np.testing.assert_allclose(fast.softplus(z), np.logaddexp(0, z.numpy()), rtol=1e-15)
    np.testing.assert_allclose(fast.softplus(z), reference.softplus(z.numpy()), 1e-15)
    theirs = torch.nn.functional.softplus(z) - torch.from_numpy(
        np.logaddexp(0, z.numpy())
    )
    assert theirs.abs().max() > 1e-9


@pytest.fixture(scope="module")
def broken():
    return stickbreaking.break_sticks(np.array([1.0, 8.0, 12.0, 60.0, 110.0]), rows=64)


def test_log1p_keeps_rows_within_their_bound(broken):
    assert (broken.weight["log1p"] <= broken.bound).all()
    assert (broken.excess["log1p"] <= broken.bound).all()
    assert (broken.bound > 0).all() and broken.bound.max() < 1e-2


def test_each_published_form_breaks_a_stick_where_it_should(broken):
    tail = broken.bound.max()
    in_base_2 = broken.weight["cut at 15 in base 2"]
    assert (in_base_2[:2] < 1e-6).all()  # below 15 ln 2 nothing is cut
    assert 1e-5 < in_base_2.max() <= 2.0**-15 + tail
    assert broken.weight["cut at 15"].max() < 1e-6 + tail
    written = broken.weight["as written"]
    assert written[-1] > 0.99 and written[:-1].max() < 1e-6 + tail
    for form in ("base 2, stored in bf16", "log1p, stored in bf16"):
        assert broken.excess[form].max() > 0.1


def test_broken_sticks_are_shown_by_form(broken):
    head, *rows = broken.rows()
    assert [row[0] for row in rows] == [*stickbreaking.FORMS] and len(head) == 3
    assert "stored in bf16” the weights of a row add up to as much as 1." in str(broken)


@pytest.mark.parametrize("form", stickbreaking.FORMS)
def test_a_form_s_error_is_relative_to_the_softplus(form):
    z = torch.tensor([-20.0, 1.0, 12.0, 100.0])
    low, middle, above, huge = stickbreaking.softplus_error(
        stickbreaking.FORMS[form], z
    )
    u = 2.0**-8 if "bf16" in form else U32
    assert (low == 1) == ("log1p" not in form)
    assert middle <= 8 * u and huge == (np.inf if form == "as written" else huge)
    if u == U32:
        assert (above > 8 * u) == ("base 2" in form)


def square(*shape):
    return torch.zeros(shape)


BAD = [
    (lambda: reference.break_stick_log(np.zeros((3, 2)), attend_current=True),
     ValueError, "at least as many keys as queries, got 2 and 3"),
    (lambda: reference.break_stick_log(np.zeros(3), attend_current=True),
     ValueError, r"\[..., queries, keys\], got shape \[3\]"),
    (lambda: reference.break_stick(np.full((2, 2), np.inf), attend_current=True),
     ValueError, "finite, got inf; hide keys with mask"),
    (lambda: reference.break_stick(
        np.array([[0.0, np.inf], [np.nan, 0.0]]), attend_current=True),
     ValueError, "finite, got inf; hide"),
    (lambda: reference.break_stick(np.zeros((2, 2), int), attend_current=True),
     TypeError, "floats, got dtype int64"),
    (lambda: reference.break_stick(
        np.zeros((2, 2)), attend_current=True, mask=np.ones((2, 3), bool)),
     ValueError, r"mask must be \[2, 2\], got shape \[2, 3\]"),
    (lambda: reference.stick_breaking(attend_current=True, remainder="keep"),
     ValueError, "remainder must be 'drop' or .*, got 'keep'"),
    (lambda: reference.stick_breaking(attend_current=True, remainder="sink"),
     ValueError, "needed there, got remainder='sink' and no sink"),
    (lambda: reference.stick_breaking(
        attend_current=True, remainder="drop", sink=np.zeros((1, 4))),
     ValueError, "needed there, got remainder='drop' and a sink"),
    (lambda: attend_reference(
        np.zeros((1, 2, 4)), np.zeros((1, 2, 3)), np.zeros((1, 2, 4)),
        reference.stick_breaking(attend_current=True, remainder="drop")),
     ValueError, r"agree in tokens and d, got shapes \[1, 2, 4\], \[1, 2, 3\]"),
    (lambda: fast.stick_breaking_tiles(
        square(1, 3, 4, 2), *(square(1, 2, 4, 2) for _ in "kv"), attend_current=True),
     ValueError, "heads a multiple of kv_heads"),
    (lambda: fast.stick_breaking_tiles(
        square(1, 2, 5, 2), *(square(1, 2, 4, 2) for _ in "kv"), attend_current=True),
     ValueError, "at least as many keys as queries, got 4 and 5"),
    (lambda: fast.stick_breaking_tiles(
        *(square(1, 2, 4, 2) for _ in "qkv"), attend_current=True, stop=1.0),
     ValueError, r"stop must be in \[0, 1\), got 1.0"),
    (lambda: fast.stick_breaking_tiles(
        *(square(1, 2, 4, 2) for _ in "qkv"), attend_current=True, block=0),
     ValueError, "block must be a positive multiple of 1, got 0"),
    (lambda: fast.stick_breaking_tiles(
        *(square(1, 2, 4, 2).long() for _ in "qkv"), attend_current=True),
     TypeError, "q must hold floats, got torch.int64"),
    *((lambda mask=mask: fast.stick_breaking_tiles(
        *(square(2, 2, 4, 2) for _ in "qkv"), attend_current=True,
        key_padding_mask=mask),
       ValueError, r"key_padding_mask must be boolean \[2, 4\], got torch")
      for mask in (square(2, 6).bool(), square(2, 3).bool(), square(1, 4).bool(),
                   square(2, 4))),
    (lambda: fast.break_stick_log(square(3, 2), attend_current=True),
     ValueError, "at least as many keys as queries, got 2 and 3"),
    (lambda: StickBreaking(attend_current=True, remainder="sink"),
     ValueError, "needs heads and d"),
    (lambda: StickBreaking(attend_current=True, remainder="drop", heads=2, d=4),
     ValueError, "heads, d and sink are for remainder='sink', got remainder='drop'"),
    (lambda: StickBreaking(attend_current=True, remainder="drop", stop=-0.5),
     ValueError, r"stop must be in \[0, 1\), got -0.5"),
    (lambda: Attention(
        8, 2, encoding=StickBreaking(attend_current=True, remainder="drop"),
        route="sdpa"),
     ValueError, "uses the hook 'weigh'"),
    (lambda: Attention(
        8, 2, encoding=StickBreaking(attend_current=True, remainder="drop"),
        causal=False),
     ValueError, "StickBreaking is causal, the layer is not"),
    (lambda: StickBreaking(
        attend_current=True, remainder="sink", heads=2, d=4, sink=square(2, 3)),
     ValueError, r"sink must be \[2, 4\], got shape \[2, 3\]"),
    (lambda: Attention(8, 2, route="fused"), ValueError, "no kernel of its own"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), BAD)
def test_bad_input_is_refused(call, error, words, unchecked):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("others", [(2, 2, 3, 4), (1, 0, 3, 4), (1, 2, 3, 5)])
def test_tiles_want_keys_like_the_queries(others, unchecked):
    q, k = torch.zeros(1, 2, 3, 4), torch.zeros(others)
    with pytest.raises(ValueError, match="with heads a multiple of kv_heads"):
        fast.stick_breaking_tiles(q, k, k, attend_current=False)


def test_a_compiler_is_told_the_shapes_that_the_tiles_return():
    q, k, v = (torch.zeros(1, 2, n, d) for n, d in ((3, 4), (5, 4), (5, 6)))
    options = None, True, 2, 0.0
    shapes = [t.shape for t in torch.ops.posedu.stick_breaking(q, k, v, *options)]
    with FakeTensorMode() as mode:
        fakes = map(mode.from_tensor, (q, k, v))
        told = torch.ops.posedu.stick_breaking(*fakes, *options)
    assert [t.shape for t in told] == shapes


def test_segments_need_another_route(unchecked):
    encoding = StickBreaking(attend_current=True, remainder="drop")
    layer = Attention(8, 2, encoding=encoding, route="fused")
    with pytest.raises(ValueError, match="another route than 'fused'"):
        layer(torch.zeros(1, 3, 8), segments=torch.zeros(1, 3, dtype=torch.long))
