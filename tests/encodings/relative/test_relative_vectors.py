"""Shaw, Music Transformer, Inkling: published numbers, an oracle, errors."""

import math
from itertools import product

import numpy as np
import pytest
import sympy as sp
import torch

from mutants import published_encodings as mutants
from posedu.book.timing import peak_memory
from posedu.numpy import relative as reference
from posedu.numpy.attention import attend, causal_mask, softmax, steps
from posedu.sympy import relative as symbolic
from posedu.torch import (
    Attention,
    Inkling,
    MusicTransformer,
    Shaw,
    relative,
    toeplitz_bias,
)
from posedu.torch import attend as attend_torch
from posedu.torch.encoding import Tokens

pytestmark = pytest.mark.usefixtures("untraced_flex")

DOUBLE = torch.float64
ROUTES = ("eager", "sdpa", "flex")


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


# Rows


def test_rows_are_tensor2tensor_s():
    """clip(j − i, −2, 2) + 2 of ``_generate_relative_positions_matrix``."""
    offsets = np.arange(5)[:, None] - np.arange(5)
    rows = reference.shaw_rows(offsets, past=2, future=2)
    assert rows.tolist() == [
        [2, 3, 4, 4, 4],
        [1, 2, 3, 4, 4],
        [0, 1, 2, 3, 4],
        [0, 0, 1, 2, 3],
        [0, 0, 0, 1, 2],
    ]
    for slip in mutants.SHAW_ROWS:
        assert (slip(5, 2) != rows).any()


def test_rows_of_wav2vec2_bert_are_64_before_and_8_behind():
    rows = reference.shaw_rows([100, 64, 63, 0, -8, -9], past=64, future=8)
    assert rows.tolist() == [0, 0, 1, 64, 72, 72]


@pytest.mark.parametrize("past", [0, 3])
@pytest.mark.parametrize("future", [0, 2])
def test_rows_of_all_implementations_agree_and_round_down(past, future):
    offsets = [-7, -2.5, -2, -1, -0.25, 0, 0.75, 1, 2.99, 3, 8]
    rows = reference.shaw_rows(offsets, past=past, future=future).tolist()
    exact = [
        symbolic.shaw_row(sp.Rational(t), past=past, future=future) for t in offsets
    ]
    assert rows == exact
    at = torch.tensor(offsets)
    q = torch.zeros(1, 1, len(offsets), 1, dtype=DOUBLE)
    table = torch.arange(past + 1 + future, dtype=DOUBLE)[:, None]
    encoding = Shaw(1, past=past, future=future, key_table=table, values=False)
    found = read(encoding, q + 1, at)[0, 0, :, offsets.index(0)]
    assert found.tolist() == rows


def read(encoding, q, positions):
    """The bias of these queries, keys at the same positions."""
    at = positions.to(DOUBLE)[None]
    tokens = Tokens(
        q=q,
        grouped_k=q,
        grouped_v=q,
        d=q.shape[-1],
        query_positions=at,
        key_positions=at,
        causal=False,
    )
    return encoding.bias(tokens)


# Skewing


def test_skewing_is_what_is_printed():
    products = np.arange(1.0, 10).reshape(3, 3)
    expected = [[3, 0, 4], [5, 6, 0], [7, 8, 9]]
    assert reference.skew(products).tolist() == expected
    assert symbolic.skew(sp.Matrix(products.astype(int))).tolist() == expected


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_skewing_of_all_implementations_agrees_up_to_the_diagonal(n):
    products = normal(n, 2, n, n)
    rows, columns = np.tril_indices(n)
    by_offset = products[:, rows, n - 1 - (rows - columns)]
    np.testing.assert_array_equal(reference.skew(products)[:, rows, columns], by_offset)
    if n:
        fast = toeplitz_bias.skew(torch.tensor(products), n).numpy()
        np.testing.assert_array_equal(fast[:, rows, columns], by_offset)


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 1), (0, 0), (0, 1, 1)])
def test_skewing_nothing_leaves_nothing(shape):
    assert reference.skew(np.zeros(shape)).shape == shape
    assert reference.unskew(np.zeros(shape), 0).shape == shape


@pytest.mark.parametrize("sizes", [(1, 1), (1, 5), (4, 4), (3, 7), (5, 2), (0, 3)])
@pytest.mark.parametrize("is_whole", [True, False])
def test_skewing_of_rectangles(sizes, is_whole):
    """Products of a text's last queries, with all offsets or those from 0 on."""
    queries, keys = sizes
    future = max(queries - 1, 0) if is_whole else 0
    i, j = np.indices(sizes)
    offset = keys - queries + i - j
    known = offset >= -future
    products = normal(0, 2, queries, keys + future)
    by_pair = np.where(known, products[:, i, np.where(known, keys - 1 - offset, 0)], 0)
    found = reference.skew(products, keys)
    np.testing.assert_array_equal(np.where(known, found, 0), by_pair)
    back = reference.unskew(by_pair, future)
    again = reference.skew(back, keys)
    np.testing.assert_array_equal(np.where(known, again, 0), by_pair)
    if queries:
        fast = toeplitz_bias.skew(torch.tensor(products), keys).numpy()
        np.testing.assert_array_equal(np.where(known, fast, 0), by_pair)
        fast = toeplitz_bias.unskew(torch.tensor(by_pair), future).numpy()
        np.testing.assert_array_equal(fast, back)


@pytest.mark.parametrize("slip", mutants.SKEWS)
def test_other_ways_to_skew_are_none(slip):
    products = normal(0, 5, 5)
    right, other = reference.skew(products), slip(products)
    assert np.abs(np.tril(right - other)).max() > 0.1


@pytest.mark.parametrize("sizes", [(1, 1), (1, 5), (4, 4), (3, 7), (5, 2)])
@pytest.mark.parametrize("causal", [True, False])
def test_unskewing_is_the_transpose(sizes, causal):
    queries, keys = sizes
    if causal and queries > keys:
        return
    torch.manual_seed(0)
    future = 0 if causal else queries - 1
    weights = torch.randn(2, queries, keys, dtype=DOUBLE)
    if causal:
        weights = weights.tril(keys - queries)
    products = torch.randn(2, queries, keys + future, dtype=DOUBLE)
    one = (toeplitz_bias.skew(products, keys) * weights).sum()
    other = (products * toeplitz_bias.unskew(weights, future)).sum()
    assert (one - other).abs() < 1e-13


# Whole encodings, held against vectors of each query and key


def by_pairs(q, k, v, key_vector, value_vector, mask, shift=0.0):
    """Attend with a vector for each query, key and head: [heads, L, L, d]."""
    logits = np.einsum("hid,hijd->hij", q, k[:, None] + key_vector)
    logits = logits / math.sqrt(q.shape[-1]) + shift
    weights = softmax(logits, np.broadcast_to(mask, logits.shape))
    return np.einsum("hij,hijd->hid", weights, v[:, None] + value_vector)


def of_offsets(table, first, positions, beyond):
    """Vectors of a table that begins with the offset ``first``, [heads, L, L, d]."""
    table = np.broadcast_to(table, (2, *table.shape[-2:]))
    n, rows, d = len(positions), *table.shape[1:]
    out = np.zeros((2, n, n, d))
    for i, j in product(range(n), repeat=2):
        row = first - math.floor(positions[i] - positions[j])
        if beyond == "clip":
            row = min(max(row, 0), rows - 1)
        if 0 <= row < rows:
            out[:, i, j] = table[:, row]
    return out


COUNTING = tuple(range(7))
PLACES = (COUNTING, tuple(range(-3, 4)), (9, 0, -2.5, 7.75, 8, 30, 4))


def implementations(encoding, hooks, inputs, positions, causal):
    """NumPy's, then PyTorch's on every route that serves."""
    q, k, v, *x = inputs
    named = {"x": x[0]} if x else {}
    yield attend(q, k, v, hooks, positions=positions, causal=causal, **named)
    tensors = [torch.tensor(t)[None] for t in (q, k, v)]
    named = {"x": torch.tensor(x[0])[None]} if x else {}
    for route in ROUTES if not encoding.uses("mix") else ("eager",):
        for given in (None, [*positions]) if positions == COUNTING else ([*positions],):
            out = attend_torch(
                *tensors,
                encoding,
                positions=given,
                causal=causal,
                route=route,
                **named,
            )
            yield out[0].detach().numpy()


@pytest.mark.parametrize("positions", PLACES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("reach", [(2, 2), (1, 0), (0, 3), (20, 20)])
@pytest.mark.parametrize("own", [(), (2,)])
def test_shaw_adds_a_vector_to_each_key_and_value(positions, causal, reach, own):
    past, future = reach
    q, k, v = (normal(s, 2, 7, 4) for s in range(3))
    shape = (*own, past + 1 + future, 4)
    tables = {"key_table": normal(3, *shape), "value_table": normal(4, *shape)}
    vectors = [of_offsets(t, past, positions, "clip") for t in tables.values()]
    mask = causal_mask(7) if causal else np.ones((7, 7), bool)
    wanted = by_pairs(q, k, v, *vectors, mask)
    options = dict(past=past, future=future)
    fast = Shaw(
        4,
        heads=own[0] if own else None,
        **options,
        **{n: torch.tensor(t) for n, t in tables.items()},
    )
    hooks = reference.shaw(**options, **tables)
    for out in implementations(fast, hooks, (q, k, v), positions, causal):
        np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-13)
    keys = reference.shaw(**options, key_table=tables["key_table"])
    fast = Shaw(4, values=False, **options).double()
    fast.key_table.data = torch.tensor(tables["key_table"])
    wanted = by_pairs(q, k, v, vectors[0], 0.0, mask)
    for out in implementations(fast, keys, (q, k, v), positions, causal):
        np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("positions", PLACES)
@pytest.mark.parametrize("table_length", [1, 3, 20])
@pytest.mark.parametrize("beyond", ["zero", "clip"])
def test_music_transformer_adds_nothing_beyond_its_table_or_the_last(
    positions, table_length, beyond
):
    q, k, v = (normal(s, 2, 7, 4) for s in range(3))
    tables = {
        n: normal(s, table_length, 4) for s, n in ((3, "key_table"), (4, "value_table"))
    }
    vectors = [
        of_offsets(t, table_length - 1, positions, beyond) for t in tables.values()
    ]
    wanted = by_pairs(q, k, v, *vectors, causal_mask(7))
    fast = MusicTransformer(
        4,
        table_length=table_length,
        beyond=beyond,
        values=True,
        **{n: torch.tensor(t) for n, t in tables.items()},
    )
    hooks = reference.music_transformer(beyond=beyond, **tables)
    for out in implementations(fast, hooks, (q, k, v), positions, True):
        np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("positions", PLACES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("floor", "limit"), [(None, None), (2.5, None), (None, 2.0)])
def test_inkling_adds_a_mixture_of_basis_curves(positions, causal, floor, limit):
    """Compare with transformers 5.23.0: τ on query and bias, 0 beyond the table."""
    q, k, v = (normal(s, 2, 7, 4) for s in range(3))
    x, weight, distance_basis = normal(3, 7, 8), normal(4, 6, 8), normal(5, 3, 4)
    r, scale = (x @ weight.T).reshape(7, 2, 3), normal(6, 2, 3)
    if limit is not None:  # Inkling2ScaledL2Clip
        r = r * scale
        norm = np.linalg.norm(r, axis=-1, keepdims=True)
        r = np.where(norm + 1e-6 > limit, r * limit / (norm + 1e-6), r)
        assert 0 < (norm > limit).mean() < 1
    bias, tau = np.zeros((2, 7, 7)), np.ones(7)
    for i, j in product(range(7), repeat=2):
        t = math.floor(positions[i] - positions[j])
        if 0 <= t < 4:
            bias[:, i, j] = r[i] @ distance_basis[:, t]
        if floor is not None and positions[i] + 1 > floor:
            tau[i] = 1 + 0.1 * math.log((positions[i] + 1) / floor)
    logits = tau[:, None] * (q @ k.swapaxes(1, 2) / 4 + bias)
    mask = causal_mask(7) if causal else np.ones((7, 7), bool)
    wanted = softmax(logits, np.broadcast_to(mask, logits.shape)) @ v
    options = dict(divisor="width", floor=floor, limit=limit)
    fast = Inkling(
        2,
        8,
        table_length=4,
        d_rel=3,
        distance_basis=torch.tensor(distance_basis),
        **options,
    ).double()
    fast.r_proj.weight.data = torch.tensor(weight)
    own = {}
    if limit is not None:
        fast.r_scale.data, own = torch.tensor(scale), {"r_scale": scale}
    hooks = reference.inkling(
        r_proj_weight=weight, distance_basis=distance_basis, **options, **own
    )
    for out in implementations(fast, hooks, (q, k, v, x), positions, causal):
        np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-13)


def test_inkling_has_sixteen_profiles_of_1024_distances():
    made = Inkling(2, 8, divisor="width")
    assert (
        made.distance_basis.shape == (16, 1024) and made.r_proj.out_features == 2 * 16
    )


def test_the_temperature_of_inkling_2():
    """1 + 0.1 ln max(1, (i + 1)/128000), its configuration's numbers."""
    options = dict(floor=128000, alpha=0.1)
    positions = [0, 127999, 255999, 2**20 - 1]
    wanted = [1, 1, 1 + 0.1 * math.log(2), 1 + 0.1 * math.log(8.192)]
    exact = {name: sp.sympify(value) for name, value in options.items()}
    for tau in (
        reference.log_temperature(positions, **options),
        relative.log_temperature(torch.tensor(positions), **options).numpy(),
        [float(symbolic.log_temperature(sp.Integer(t), **exact)) for t in positions],
    ):
        np.testing.assert_allclose(tau, wanted, rtol=1e-15)


def test_repr_has_the_arguments():
    made = Inkling(2, 8, divisor="width", table_length=7)
    assert "divisor='width', table_length=7, " in repr(made)


def test_divisors_differ_by_the_root():
    assert Inkling(2, 8, divisor="width").scale(16) == 1 / 16
    assert Inkling(2, 8, divisor="root").scale(16) == 1 / 4


def test_a_bias_of_the_projection_is_a_profile_of_every_query():
    encoding = Inkling(
        2, 8, divisor="root", table_length=3, d_rel=2, r_bias=True
    ).double()
    with torch.no_grad():
        encoding.r_proj.weight.zero_()
        encoding.r_proj.bias.copy_(torch.arange(4.0))
        encoding.distance_basis.copy_(torch.eye(2, 3))
    q = torch.randn(1, 2, 5, 4, dtype=DOUBLE)
    at = torch.arange(5)[None]
    tokens = Tokens(
        q=q,
        grouped_k=q,
        grouped_v=q,
        d=4,
        query_positions=at,
        key_positions=at,
        causal=True,
        x=torch.randn(1, 5, 8, dtype=DOUBLE),
    )
    found = encoding.products(tokens, slice(None))
    expected = torch.tensor([[0.0, 1.0, 0.0], [0.0, 3.0, 2.0]], dtype=DOUBLE)
    assert (found == expected[None, :, None]).all()  # farthest first


@pytest.mark.parametrize(
    ("keys", "values"), [(True, True), (True, False), (False, True)]
)
def test_hooks_without_a_table_stay_shut(keys, values):
    shaw = Shaw(4, past=1, future=1, keys=keys, values=values)
    assert (shaw.uses("bias"), shaw.uses("mix")) == (keys, values)
    if keys:
        music = MusicTransformer(4, table_length=2, beyond="zero", values=values)
        assert music.uses("bias") and music.uses("mix") == values


# Properties


def test_rows_of_keys_are_known_up_to_a_common_vector():
    q, k, v = (normal(s, 2, 6, 4) for s in range(3))
    tables = {"key_table": normal(3, 5, 4), "value_table": normal(4, 5, 4)}
    same = reference.shaw(past=2, future=2, **tables)
    moved = {name: t + normal(5, 4) for name, t in tables.items()}
    key_moved = {**tables, "key_table": moved["key_table"]}
    value_moved = {**tables, "value_table": moved["value_table"]}
    out = attend(q, k, v, same)
    other = attend(q, k, v, reference.shaw(past=2, future=2, **key_moved))
    np.testing.assert_allclose(other, out, rtol=0, atol=1e-13)
    other = attend(q, k, v, reference.shaw(past=2, future=2, **value_moved))
    shifted = out + normal(5, 4)
    np.testing.assert_allclose(other, shifted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("causal", [True, False])
def test_gradients_of_the_key_table_sum_to_zero(causal):
    torch.manual_seed(0)
    encoding = Shaw(4, past=2, future=1)
    layer = Attention(8, 2, encoding=encoding, causal=causal).double()
    with torch.no_grad():
        encoding.key_table.normal_()
    layer(torch.randn(2, 9, 8, dtype=DOUBLE)).square().sum().backward()
    gradient = encoding.key_table.grad
    assert gradient.abs().max() > 0.1 > 1e-13 > gradient.sum(0).abs().max()


def test_no_vector_for_each_query_and_key_is_made():
    n, d = 512, 64
    encoding = Shaw(d, past=16, future=16)
    layer = Attention(d, 1, encoding=encoding, causal=False)
    x = torch.randn(1, n, d)

    def train():
        layer(x).sum().backward()

    assert peak_memory(train, torch.device("cpu")) < n * n * d * 4 / 2


def test_inkling_warms_queries_at_any_positions():
    encoding = Inkling(2, 8, divisor="root", floor=2, alpha=1.0)
    q = torch.ones(1, 2, 4, 4)
    tau = 1 + np.log([1, 1, 1.5, 2])
    for positions in (range(4), [0, 1, 2, 3], torch.arange(4)[None]):
        warm, k = encoding.rotate(q, q, positions)
        np.testing.assert_allclose(warm[0, 1, :, 2], tau, rtol=1e-6)
        assert k is q


@pytest.mark.parametrize("kind", ["shaw", "music", "inkling"])
def test_lengths_from_none_on(kind):
    encoding = {
        "shaw": lambda: Shaw(4, past=1, future=1),
        "music": lambda: MusicTransformer(4, table_length=2, beyond="zero"),
        "inkling": lambda: Inkling(2, 8, divisor="root", table_length=2, d_rel=1),
    }[kind]()
    layer = Attention(8, 2, encoding=encoding)
    for n in (0, 1):
        assert layer(torch.randn(1, n, 8)).shape == (1, n, 8)


def test_a_query_alone_reads_its_own_row():
    table = normal(0, 3, 4)
    q = normal(1, 1, 1, 4)
    taken = steps(q, q, q, reference.shaw(past=1, future=1, value_table=table))
    np.testing.assert_allclose(taken.out, q + table[1], rtol=0, atol=1e-15)


Z8, Z5 = np.zeros((2, 8)), np.zeros((5, 4))
BAD = [
    (
        lambda: reference.music_transformer(key_table=np.zeros(3), beyond="zero"),
        ValueError,
        r"key_table must be \[rows, d\] or \[heads, rows, d\], got shape \[3\]",
    ),
    (lambda: Shaw(4, past=-1, future=0), ValueError, "past must be at least 0"),
    (lambda: Shaw(4, past=1.0, future=0), TypeError, "past must be an integer"),
    (lambda: Shaw(4, past=1, future=True), TypeError, "future must be an integer"),
    (
        lambda: Shaw(4, past=1, future=1, keys=False, values=False),
        ValueError,
        "keys or values must be True, got neither",
    ),
    (
        lambda: Shaw(4, past=1, future=1, key_table=torch.zeros(2, 4)),
        ValueError,
        r"key_table must be \[3, 4\], got shape \[2, 4\]",
    ),
    (
        lambda: Shaw(4, past=1, future=1, values=False, value_table=torch.zeros(3, 4)),
        ValueError,
        "value_table must be None",
    ),
    (
        lambda: Attention(8, 2, encoding=Shaw(8, past=1, future=1)),
        ValueError,
        "made for d = 8, the layer has d = 4",
    ),
    (
        lambda: attend_torch(
            *[torch.zeros(1, 2, 3, 4)] * 2,
            torch.zeros(1, 2, 3, 5),
            Shaw(4, past=1, future=1),
        ),
        ValueError,
        "value_table has 4 features, values have 5",
    ),
    (lambda: reference.shaw(past=1, future=1), ValueError, "key_table, value_table or"),
    (lambda: symbolic.shaw(past=1, future=1), ValueError, "key_table, value_table or"),
    (
        lambda: reference.shaw(past=1, future=1, key_table=Z5),
        ValueError,
        r"key_table must be \[3, d\] or \[heads, 3, d\], got shape \[5, 4\]",
    ),
    (
        lambda: reference.shaw(past=1, future=1, key_table=Z5.astype(int)),
        TypeError,
        "key_table must hold floats",
    ),
    (
        lambda: attend(
            *[np.zeros((3, 2, 4))] * 3,
            reference.shaw(past=2, future=2, key_table=np.zeros((2, 5, 4))),
        ),
        ValueError,
        r"\[3, rows, 4\] for 3 heads of 4 features, got shape \[2, 5, 4\]",
    ),
    (
        lambda: reference.shaw_rows([math.nan], past=1, future=1),
        ValueError,
        "offsets must be finite",
    ),
    (
        lambda: MusicTransformer(4, table_length=0, beyond="zero"),
        ValueError,
        "table_length must be a positive",
    ),
    (
        lambda: MusicTransformer(4, table_length=2, beyond="none"),
        ValueError,
        "beyond must be 'zero' or 'clip'",
    ),
    (
        lambda: Attention(
            8,
            2,
            encoding=MusicTransformer(4, table_length=2, beyond="zero"),
            causal=False,
        ),
        ValueError,
        "MusicTransformer is causal, the layer is not",
    ),
    (
        lambda: Inkling(2, 8, divisor="root").bias(
            Tokens(
                *[torch.zeros(1, 2, 3, 4)] * 3,
                d=4,
                query_positions=torch.arange(3)[None],
                key_positions=torch.arange(3)[None],
                causal=True,
            )
        ),
        ValueError,
        r"x must be \[batch, tokens, 8\], got none",
    ),
    (
        lambda: reference.music_transformer(key_table=Z5[:0], beyond="zero"),
        ValueError,
        r"key_table must be \[rows, d\] .* got shape \[0, 4\]",
    ),
    (lambda: reference.skew(np.zeros(3)), ValueError, r"\[..., queries, offsets\]"),
    (lambda: reference.skew(np.zeros((2, 3)), 4), ValueError, "4 keys need as many"),
    (lambda: reference.skew(np.zeros((2, 3)), -1), ValueError, "keys must be from 0"),
    (lambda: reference.unskew(np.zeros(3), 0), ValueError, r"\[..., queries, keys\]"),
    (
        lambda: reference.unskew(np.zeros((2, 3)), -1),
        ValueError,
        "future must be from 0",
    ),
    (
        lambda: reference.music_transformer(
            key_table=Z5, value_table=Z5[1:], beyond="zero"
        ),
        ValueError,
        r"value_table must be \[5, d\]",
    ),
    (lambda: Inkling(2, 8, divisor="d"), ValueError, "divisor must be 'root' or"),
    (
        lambda: Inkling(2, 8, divisor="root", floor=0),
        ValueError,
        "floor must be positive, or None",
    ),
    (
        lambda: Inkling(2, 8, divisor="root", floor=5e-324),
        ValueError,
        "floor must be at least 1e-250",
    ),
    (
        lambda: reference.log_temperature(np.arange(3), floor=2, alpha=1e300),
        ValueError,
        r"alpha must be at most 4.7e\+36 in size for floor=2",
    ),
    (
        lambda: relative.log_temperature(torch.arange(3), floor=2, alpha=-1e300),
        ValueError,
        "alpha must be at most",
    ),
    (
        lambda: Inkling(2, 8, divisor="root", limit=0.0),
        ValueError,
        "limit must be positive, or None",
    ),
    (
        lambda: reference.inkling(
            r_proj_weight=np.zeros((4, 8)), distance_basis=Z8, divisor="root", limit=8.0
        ),
        ValueError,
        "limit and r_scale go together, got limit = 8.0 and no r_scale",
    ),
    (
        lambda: reference.inkling(
            r_proj_weight=np.zeros((4, 8)),
            distance_basis=Z8,
            divisor="root",
            r_scale=np.ones((2, 3)),
            limit=8.0,
        ),
        ValueError,
        r"r_scale must be \[2, 2\], got shape \[2, 3\]",
    ),
    (
        lambda: Inkling(2, 8, divisor="root", alpha=math.inf),
        ValueError,
        "alpha must be finite",
    ),
    (
        lambda: attend_torch(
            *[torch.zeros(1, 2, 3, 4)] * 3, Inkling(2, 8, divisor="root")
        ),
        ValueError,
        "Inkling needs the layer's input: give x",
    ),
    (
        lambda: reference.inkling(
            r_proj_weight=np.zeros((5, 8)), distance_basis=Z8, divisor="root"
        ),
        ValueError,
        r"\[heads · 2, d_model\], got shape \[5, 8\]",
    ),
    (
        lambda: reference.inkling(
            r_proj_weight=np.zeros((4, 8)), distance_basis=Z8[:, :0], divisor="root"
        ),
        ValueError,
        r"distance_basis must be \[d_rel, table_length\]",
    ),
    (
        lambda: reference.inkling(
            r_proj_weight=np.zeros((4, 8)),
            r_proj_bias=np.zeros(3),
            distance_basis=Z8,
            divisor="root",
        ),
        ValueError,
        r"r_proj_bias must be \[4\], got shape \[3\]",
    ),
    (
        lambda: attend(
            *[np.zeros((2, 3, 4))] * 3,
            reference.inkling(
                r_proj_weight=np.zeros((6, 8)), distance_basis=Z8, divisor="root"
            ),
            x=np.zeros((3, 8)),
        ),
        ValueError,
        r"r_proj_weight must be \[4, 8\] for 2 heads",
    ),
]


@pytest.mark.parametrize(("call", "error", "words"), BAD)
def test_bad_input_is_refused(call, error, words, unchecked):
    with pytest.raises(error, match=words):
        call()
