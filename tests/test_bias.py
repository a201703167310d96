"""ALiBi and T5: published numbers, exact buckets, forms, and what is refused."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import sympy as sp
import torch
import wrong
from hypothesis import given
from hypothesis import strategies as st

from posedu.numpy import bias as reference
from posedu.numpy.attention import attend, causal_mask, steps
from posedu.sympy import bias as symbolic
from posedu.torch import T5, ALiBi, Attention, bias
from posedu.torch import attend as attend_torch

DOUBLE = torch.float64
RULES = ("authors", "geometric")


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def faces_of_slopes(heads, rule):
    yield reference.alibi_slopes(heads, slopes=rule)
    yield bias.alibi_slopes(heads, slopes=rule).numpy()
    exact = symbolic.alibi_slopes(heads, slopes=rule)
    yield np.array([float(m) for m in exact])


EIGHT = [2.0**-n for n in range(1, 9)]
PUBLISHED = {
    8: EIGHT,
    12: [*EIGHT, *(2.0 ** -(n + 0.5) for n in range(4))],
    6: [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125],
    16: [2.0 ** (-n / 2) for n in range(1, 17)],
}


@pytest.mark.parametrize("heads", PUBLISHED)
def test_slopes_are_the_published_ones(heads):
    for slopes in faces_of_slopes(heads, "authors"):
        np.testing.assert_allclose(slopes, PUBLISHED[heads], rtol=4e-16)


@given(st.integers(1, 130), st.sampled_from(RULES))
def test_slopes_of_all_faces_agree(heads, rule):
    first, *others = faces_of_slopes(heads, rule)
    assert len(first) == heads and (first > 0).all() and (first <= 0.5**0).all()
    for slopes in others:
        np.testing.assert_allclose(slopes, first, rtol=1e-15)


@given(st.integers(0, 7))
def test_the_rules_agree_for_powers_of_two_alone(power):
    heads = 2**power
    same = [reference.alibi_slopes(heads, slopes=rule) for rule in RULES]
    np.testing.assert_array_equal(*same)
    other = [reference.alibi_slopes(3 * heads, slopes=rule) for rule in RULES]
    assert np.abs(other[0] - other[1]).max() > 1e-3


@pytest.mark.parametrize(
    "slopes", [wrong.alibi_slopes_reversed, wrong.alibi_slopes_by_the_nth_root]
)
def test_published_slips_have_other_slopes(slopes):
    assert np.abs(slopes(8) - reference.alibi_slopes(8, slopes="authors")).max() > 0.1


def test_the_bias_is_minus_slope_times_distance():
    positions = np.array([0.0, 1.5, 3.0, 10.0])
    q = normal(0, 2, 4, 3)
    doors = reference.alibi(heads=2, slopes="authors")
    taken = steps(q, q, q, doors, positions=positions, mask=causal_mask(4))
    content = q @ q.swapaxes(-1, -2) / math.sqrt(3)
    expected = [
        [[-m * (i - j) for j in positions] for i in positions] for m in EIGHT[3::4]
    ]
    np.testing.assert_allclose(taken.logits - content, expected, rtol=0, atol=1e-15)


def test_one_sided_heads_see_one_side():
    doors = reference.alibi(heads=4, slopes="authors", sides="one-sided")
    q = normal(0, 4, 5, 2)
    weights = steps(q, q, q, doors).weights
    assert (np.triu(weights[:2], 1) == 0).all() and (
        np.tril(weights[2:], -1) == 0
    ).all()
    assert (np.tril(weights[:2]) > 0).sum() == (np.triu(weights[2:]) > 0).sum() == 30


@pytest.mark.parametrize("sides", ["causal", "symmetric", "one-sided"])
def test_alibi_in_a_layer_is_the_reference_on_every_route(sides):
    causal = sides == "causal"
    q, k, v = (normal(s, 6, 9, 4) for s in range(3))
    positions = np.array([-3.0, 0, 0.5, 2, 7, 7, 8, 100, 101])
    options = {"slopes": "authors", "sides": sides}
    doors = reference.alibi(heads=6, **options)
    wanted = attend(q, k, v, doors, positions=positions, causal=causal)
    given_tensors = [torch.tensor(t)[None] for t in (q, k, v)]
    encoding = ALiBi(6, **options)
    for route in ("eager", "sdpa", "flex", *(["folded"] if causal else [])):
        out = attend_torch(
            *given_tensors,
            encoding,
            positions=torch.tensor(positions),
            causal=causal,
            route=route,
        )
        np.testing.assert_allclose(out[0], wanted, rtol=0, atol=1e-14)


def test_the_default_route_of_alibi_folds_only_the_causal_form():
    assert Attention(8, 2, encoding=ALiBi(2, slopes="authors")).route == "folded"
    both = ALiBi(2, slopes="authors", sides="symmetric")
    assert Attention(8, 2, encoding=both, causal=False).route == "sdpa"


def test_twice_the_bias_is_another_function():
    """In an MLP over biases m j and −m (i − j) differ; in a softmax they do not."""
    q = normal(0, 2, 6, 4)
    doors = reference.alibi(heads=2, slopes="authors")
    taken = steps(q, q, q, doors, mask=causal_mask(6))
    row = taken.logits + normal(1, 2, 6, 1)
    np.testing.assert_allclose(
        doors.weigh(row, taken.tokens), taken.weights, atol=1e-15
    )
    assert np.abs(np.tanh(row) - np.tanh(taken.logits)).max() > 0.1


# T5


STARTS = {
    False: [
        *range(16),
        16,
        19,
        21,
        24,
        27,
        31,
        35,
        40,
        46,
        52,
        59,
        67,
        77,
        87,
        99,
        113,
    ],
    True: [*range(8), 8, 12, 16, 23, 32, 46, 64, 91],
}


@pytest.mark.parametrize("bidirectional", [False, True])
def test_buckets_start_where_published(bidirectional):
    offsets = np.arange(300)
    bucket = reference.t5_buckets(offsets, bidirectional=bidirectional)
    starts = [int(np.argmax(bucket == b)) for b in range(bucket.max() + 1)]
    assert starts == STARTS[bidirectional]
    back = reference.t5_buckets(-offsets[1:], bidirectional=bidirectional)
    if bidirectional:
        np.testing.assert_array_equal(back, bucket[1:] + 16)
        assert 16 not in {*bucket, *back}
    else:
        assert not back.any()


def by_fractions(n, single, distance):
    """e + t for the last t with (n/e)^e ≥ (distance/e)^t, in fractions."""
    if n < single:
        return n
    size, step = Fraction(n, single) ** single, Fraction(distance, single)
    return single + max(t for t in range(single) if size >= step**t)


@given(st.integers(1, 20), st.integers(1, 400), st.booleans(), st.integers(0, 2**31))
def test_buckets_of_all_faces_are_exact(single, beyond, bidirectional, seed):
    distance, buckets = single + beyond, (4 if bidirectional else 2) * single
    options = {
        "bidirectional": bidirectional,
        "buckets": buckets,
        "distance": distance,
    }
    offsets = np.random.default_rng(seed).integers(-2 * distance, 2 * distance, 20)
    offsets = np.concatenate((offsets, [0, single, distance - 1, distance]))
    bucket = reference.t5_buckets(offsets, **options)
    fast = bias.t5_buckets(torch.tensor(offsets), **options).numpy()
    np.testing.assert_array_equal(fast, bucket)
    for offset, b in zip(offsets.tolist(), bucket.tolist(), strict=True):
        n = abs(offset) if bidirectional else max(offset, 0)
        expected = by_fractions(n, single, distance)
        assert b == expected + (2 * single if bidirectional and offset < 0 else 0)
        assert symbolic.t5_bucket(sp.Integer(offset), **options) == b


def where_logarithms_are_whole():
    """Pairs of e and distance = e r^k, k a divisor of e."""
    for single in (1, 2, 3, 4, 6, 8, 12, 16, 32):
        for ratio, power in product(range(2, 12), range(1, single + 1)):
            if single % power == 0 and single * ratio**power <= 4096:
                yield single, single * ratio**power
    yield from ((4, 4 * ratio**4) for ratio in (10, 17, 31))


def test_whole_logarithms_are_not_rounded_down():
    """In float32, or without room for the last digit of float64, they are."""
    for single, distance in where_logarithms_are_whole():
        options = {"bidirectional": False, "buckets": 2 * single, "distance": distance}
        offsets = np.arange(distance + 2)
        bucket = reference.t5_buckets(offsets, **options)
        fast = bias.t5_buckets(torch.tensor(offsets), **options).numpy()
        np.testing.assert_array_equal(fast, bucket, err_msg=f"{single}, {distance}")


def test_real_distances_are_rounded_down():
    offsets = np.array([0.99, 15.5, 18.999, 19.0, -0.5])
    bucket = reference.t5_buckets(offsets, bidirectional=False)
    assert bucket.tolist() == [0, 15, 16, 17, 0]
    fast = bias.t5_buckets(torch.tensor(offsets), bidirectional=False)
    assert fast.tolist() == bucket.tolist()


def test_t5_has_no_root_of_d():
    q, k, v = (normal(s, 2, 5, 16) for s in range(3))
    doors = reference.t5(table=np.zeros((2, 8)), bidirectional=True, distance=5)
    taken = steps(q, k, v, doors)
    np.testing.assert_array_equal(taken.logits, q @ k.swapaxes(-1, -2))


def test_one_table_serves_a_stack():
    encoding = T5(2, bidirectional=False, table=torch.randn(2, 32))
    layers = [Attention(8, 2, encoding=encoding) for _ in range(3)]
    assert len({id(layer.encoding.table) for layer in layers}) == 1
    x = torch.randn(1, 40, 8)
    for layer in layers:
        x = x + layer(x)
    x.square().sum().backward()
    grad = encoding.table.grad
    heard = STARTS[False].index(40)  # 39 is the largest distance
    assert (grad[:, :heard].abs() > 0).all() and not grad[:, heard:].any()


BAD = [
    (lambda: reference.alibi_slopes(0, slopes="authors"), ValueError, "heads must be"),
    (lambda: reference.alibi(heads=4, slopes="paper"), ValueError, "'authors' or"),
    (
        lambda: ALiBi(3, slopes="authors", sides="one-sided"),
        ValueError,
        "multiple of 2",
    ),
    (lambda: ALiBi(2, slopes="authors", sides="both"), ValueError, "sides must be"),
    (
        lambda: Attention(8, 2, encoding=ALiBi(4, slopes="authors")),
        ValueError,
        "made for heads = 4, the layer has heads = 2",
    ),
    (
        lambda: Attention(8, 2, encoding=ALiBi(2, slopes="authors"), causal=False),
        ValueError,
        "ALiBi is causal, the layer is not",
    ),
    (
        lambda: attend(
            *[normal(0, 3, 4, 2)] * 3, reference.alibi(heads=2, slopes="authors")
        ),
        ValueError,
        r"\[3, 4, 4\] for 3 heads, got shape \[2, 4, 4\]",
    ),
    (lambda: T5(2, bidirectional=True, buckets=6), ValueError, "multiple of 4, got 6"),
    (lambda: T5(2, bidirectional=False, distance=16), ValueError, "above the 16"),
    (
        lambda: T5(2, bidirectional=False, table=torch.zeros(3, 32)),
        ValueError,
        r"table must be \[2, 32\], got shape \[3, 32\]",
    ),
    (
        lambda: reference.t5(table=np.zeros(4), bidirectional=False),
        ValueError,
        r"\[heads, buckets\]",
    ),
    (
        lambda: reference.t5_buckets([0.0, np.nan], bidirectional=False),
        ValueError,
        "offsets must be finite",
    ),
]


@pytest.mark.parametrize(("call", "error", "words"), BAD)
def test_bad_input_is_refused(call, error, words, unchecked):
    with pytest.raises(error, match=words):
        call()
