"""Distance biases: published numbers, exact buckets, equivalent forms, errors."""

import math
import warnings
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import bias as reference
from posedu.numpy.absolute import sinusoidal
from posedu.numpy.attention import attend, causal_mask, softmax, steps
from posedu.sympy import bias as symbolic
from posedu.sympy.attention import steps as symbolic_steps
from posedu.torch import T5, ALiBi, Attention, KERPLELog, KERPLEPower, Sandwich, bias
from posedu.torch import attend as attend_torch

pytestmark = pytest.mark.usefixtures("untraced_flex")

DOUBLE = torch.float64
RULES = ("authors", "geometric")


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def implementations_of_slopes(heads, rule, **options):
    yield reference.alibi_slopes(heads, slopes=rule, **options)
    yield bias.alibi_slopes(heads, slopes=rule, **options).numpy()
    exact = symbolic.alibi_slopes(heads, slopes=rule, **options)
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
    for slopes in implementations_of_slopes(heads, "authors"):
        np.testing.assert_allclose(slopes, PUBLISHED[heads], rtol=4e-16)


@pytest.mark.parametrize("integer", [np.int8, np.int64, np.uint16])
@pytest.mark.parametrize("implementation", [reference, bias])
def test_sizes_may_be_integers_of_numpy(implementation, integer, unchecked):
    slopes = implementation.alibi_slopes(integer(6), slopes="authors")
    assert slopes.tolist() == pytest.approx(PUBLISHED[6])
    offsets = np.arange(-200, 200)
    for bidirectional in (False, True):
        expected = reference.t5_buckets(
            offsets, bidirectional=bidirectional, buckets=32, distance=100
        )
        found = implementation.t5_buckets(
            offsets if implementation is reference else torch.tensor(offsets),
            bidirectional=bidirectional,
            buckets=integer(32),
            distance=integer(100),
        )
        np.testing.assert_array_equal(np.asarray(found), expected)


@given(st.integers(1, 130), st.sampled_from(RULES))
def test_slopes_of_all_implementations_agree(heads, rule):
    first, *others = implementations_of_slopes(heads, rule)
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


def mpt_slopes(heads, bias_max):
    """llm-foundry's ``gen_slopes``: those of the next power of two, odd ones first."""
    power = 2 ** math.ceil(math.log2(heads))
    slopes = 1 / 2 ** (np.arange(1, power + 1) * bias_max / power)
    if power != heads:
        slopes = np.concatenate((slopes[1::2], slopes[::2]))[:heads]
    return slopes


@pytest.mark.parametrize("heads", [1, 6, 8, 12])
@pytest.mark.parametrize("bias_max", [4, 8, 16])
def test_mpt_s_largest_exponent(heads, bias_max):
    expected = mpt_slopes(heads, bias_max)
    for found in implementations_of_slopes(heads, "authors", bias_max=bias_max):
        np.testing.assert_allclose(found, expected, rtol=1e-15)
    encoding = ALiBi(heads, slopes="authors", bias_max=bias_max)
    (of_offset,) = encoding.of_offsets(torch.tensor([1])).mT
    np.testing.assert_allclose(of_offset, -expected, rtol=1e-15)


def test_what_slopes_a_module_has_is_shown():
    own = ALiBi(2, slopes=torch.tensor([0.5, 0.25]))
    assert repr(own) == "ALiBi(2, slopes=[0.5, 0.25], sides='causal')"
    rule = ALiBi(2, slopes="geometric", bias_max=4)
    assert repr(rule) == "ALiBi(2, slopes='geometric', sides='causal', bias_max=4)"


def falcon_slopes(heads, d):
    """Falcon-RW's in transformers 5.23.0: rounded to bf16, over √d with the scores."""
    slopes = torch.tensor(reference.alibi_slopes(heads, slopes="authors"))
    return slopes.bfloat16().double() / math.sqrt(d)


@pytest.mark.parametrize("sides", ["causal", "symmetric", "one-sided"])
@pytest.mark.parametrize("route", ["eager", "sdpa", None])
def test_slopes_of_one_s_own(sides, route):
    own = falcon_slopes(6, 4)
    encoding = ALiBi(6, slopes=own, sides=sides)
    q, k, v = (normal(s, 6, 9, 4) for s in range(3))
    hooks = reference.alibi(heads=6, slopes=own.numpy(), sides=sides)
    causal = sides == "causal"
    tensors = (torch.tensor(t)[None] for t in (q, k, v))
    found = attend_torch(*tensors, encoding, causal=causal, route=route)[0]
    expected = attend(q, k, v, hooks, causal=causal)
    np.testing.assert_allclose(found.detach(), expected, rtol=0, atol=1e-13)
    if sides == "causal":
        offsets = np.arange(9)[:, None] - np.arange(9)
        z = q @ k.swapaxes(-1, -2) / 2 - own.numpy()[:, None, None] * offsets
        by_formula = softmax(z, np.broadcast_to(causal_mask(9), z.shape)) @ v
        np.testing.assert_allclose(expected, by_formula, rtol=0, atol=1e-13)
    loaded = ALiBi(6, slopes=torch.ones(6).double(), sides=sides)
    loaded.load_state_dict(encoding.state_dict())
    assert torch.equal(loaded.slopes, own) and not loaded.slopes.requires_grad


def test_slopes_of_one_s_own_in_symbols():
    a, b = sp.symbols("a b", positive=True)
    hooks = symbolic.alibi(heads=2, slopes=[a, b])
    q = (sp.zeros(3, 1),) * 2
    tokens = symbolic_steps(q, q, q, hooks, positions=(0, 2, 5)).tokens
    first, second = hooks.bias(tokens)
    assert first[2, 0] == -5 * a and second[2, 1] == -3 * b


@pytest.mark.parametrize("route", ["folded", "sdpa", "eager"])
@pytest.mark.parametrize("slopes", ["geometric", torch.tensor([0.9, 0.2, -0.1, 0.4])])
def test_slopes_are_trained_where_asked(slopes, route):
    """Their gradient is that of the logits, written out."""
    encoding = ALiBi(4, slopes=slopes, trained=True).double()
    q, k, v = (torch.tensor(normal(s, 1, 4, 9, 4)) for s in range(3))
    upstream = torch.tensor(normal(3, 1, 4, 9, 4))
    out = attend_torch(q, k, v, encoding, route=route)
    (found,) = torch.autograd.grad(out, encoding.slopes, upstream)
    m = encoding.slopes.detach().requires_grad_()
    offset = torch.arange(9)[:, None] - torch.arange(9)
    z = q @ k.mT / 2 - m[:, None, None] * offset
    by_formula = z.masked_fill(offset < 0, -torch.inf).softmax(-1) @ v
    (expected,) = torch.autograd.grad(by_formula, m, upstream)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert not [*ALiBi(4, slopes="geometric").parameters()]


@pytest.mark.parametrize(
    "slopes", [mutants.alibi_slopes_reversed, mutants.alibi_slopes_by_the_nth_root]
)
def test_published_slips_have_other_slopes(slopes):
    assert np.abs(slopes(8) - reference.alibi_slopes(8, slopes="authors")).max() > 0.1


def test_the_bias_is_minus_slope_times_distance():
    positions = np.array([0.0, 1.5, 3.0, 10.0])
    q = normal(0, 2, 4, 3)
    hooks = reference.alibi(heads=2, slopes="authors")
    taken = steps(q, q, q, hooks, positions=positions, mask=causal_mask(4))
    content = q @ q.swapaxes(-1, -2) / math.sqrt(3)
    expected = [
        [[-m * (i - j) for j in positions] for i in positions] for m in EIGHT[3::4]
    ]
    np.testing.assert_allclose(taken.logits - content, expected, rtol=0, atol=1e-15)


WINDOWS = {1: (1.54, 1.4, 9), 4: (15.5, 11, 74), 8: (255.5, 177, 1179)}


@pytest.mark.parametrize("head", WINDOWS)
def test_of_equal_contents_a_head_sees_as_far_as_published(head):
    """Mean distance, half-life, and where all but a hundredth of the weight is."""
    t = np.arange(8192)
    slope = reference.alibi_slopes(8, slopes="authors")[head - 1]
    weights = softmax(-slope * t)
    mean, half_life, most = WINDOWS[head]
    assert weights @ t == pytest.approx(mean, abs=0.05)
    assert np.log(2) / slope == pytest.approx(half_life, abs=0.5)
    assert weights[:most].sum() == pytest.approx(0.99, abs=0.002)


def test_one_sided_heads_see_one_side():
    hooks = reference.alibi(heads=4, slopes="authors", sides="one-sided")
    q = normal(0, 4, 5, 2)
    weights = steps(q, q, q, hooks).weights
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
    hooks = reference.alibi(heads=6, **options)
    wanted = attend(q, k, v, hooks, positions=positions, causal=causal)
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
    """An MLP over biases distinguishes m j from −m (i − j); a softmax does not."""
    q = normal(0, 2, 6, 4)
    hooks = reference.alibi(heads=2, slopes="authors")
    taken = steps(q, q, q, hooks, mask=causal_mask(6))
    row = taken.logits + normal(1, 2, 6, 1)
    np.testing.assert_allclose(
        hooks.weigh(row, taken.tokens), taken.weights, atol=1e-15
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


@pytest.mark.parametrize(
    "buckets, bidirectional, distance, starts",
    [
        (6, True, 128, [0, 1, 12]),
        (6, True, 20, [0, 1, 5]),
        (10, True, 64, [0, 1, 2, 7, 21]),
        (3, False, 9, [0, 1, 3]),
        (5, False, 128, [0, 1, 2, 8, 32]),
        (7, False, 32, [0, 1, 2, 3, 6, 10, 18]),
    ],
)
def test_odd_numbers_of_buckets_are_those_of_transformers(
    buckets, bidirectional, distance, starts
):
    """Starts in ``T5Attention._relative_position_bucket`` of transformers 5.23.0."""
    options = dict(bidirectional=bidirectional, buckets=buckets, distance=distance)
    offsets = np.arange(-299, 300)
    bucket = reference.t5_buckets(offsets, **options)
    fast = bias.t5_buckets(torch.tensor(offsets), **options).numpy()
    np.testing.assert_array_equal(fast, bucket)
    earlier, later = bucket[299:], bucket[298::-1]
    assert [*np.searchsorted(earlier, range(len(starts)))] == starts
    expected = earlier[1:] + len(starts) if bidirectional else 0
    np.testing.assert_array_equal(later, expected)


def by_fractions(n, single, scaled, distance):
    """e + t for the last t with (n/e)^s ≥ (distance/e)^t, in fractions."""
    if n < single:
        return n
    size, step = Fraction(n, single) ** scaled, Fraction(distance, single)
    return single + max(t for t in range(scaled) if size >= step**t)


@pytest.mark.parametrize(
    ("buckets", "distance", "offset", "bucket"),
    [(82, 5810, 2210, 73), (73, 905, 347, 61), (32, 2**31 - 1, 2**30, 31)],
)
def test_distances_just_before_a_bucket_are_not_in_it(
    buckets, distance, offset, bucket
):
    """The first two lie 1e-9 of a bucket before the next; a tolerance moved them."""
    options = dict(bidirectional=False, buckets=buckets, distance=distance)
    assert by_fractions(offset, buckets // 2, -(-buckets // 2), distance) == bucket
    assert reference.t5_buckets(np.array([offset]), **options) == bucket
    assert bias.t5_buckets(torch.tensor([offset]), **options) == bucket


def test_a_transposed_view_of_offsets_warns_of_no_copy():
    offsets = torch.arange(6).reshape(2, 3).mT
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(action="error"):
            found = bias.t5_buckets(offsets, bidirectional=True)
    finally:
        torch.set_warn_always(False)
    assert found.tolist() == offsets.tolist()


def test_the_farthest_earlier_offset_has_the_last_bucket():
    """The size of int64's least number is no int64."""
    far = torch.tensor([-(2**63)])
    assert bias.t5_buckets(far, bidirectional=True).item() == 31


@given(st.integers(2, 40), st.integers(1, 400), st.booleans(), st.integers(0, 2**31))
def test_buckets_of_all_implementations_are_exact(side, beyond, bidirectional, seed):
    single = side // 2
    distance, buckets = single + beyond, (2 if bidirectional else 1) * side
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
        expected = by_fractions(n, single, side - single, distance)
        assert b == expected + (side if bidirectional and offset < 0 else 0)
        assert symbolic.t5_bucket(sp.Integer(offset), **options) == b


def where_logarithms_are_whole():
    """Pairs of e and distance = e r^k, k a divisor of e."""
    for single in (1, 2, 3, 4, 6, 8, 12, 16, 32):
        for ratio, power in product(range(2, 12), range(1, single + 1)):
            if single % power == 0 and single * ratio**power <= 4096:
                yield single, single * ratio**power
    yield from ((4, 4 * ratio**4) for ratio in (10, 17, 31))


def test_whole_logarithms_are_not_rounded_down():
    """Logarithms in float32, or in float64, would be rounded down."""
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
    hooks = reference.t5(table=np.zeros((2, 8)), bidirectional=True, distance=5)
    taken = steps(q, k, v, hooks)
    np.testing.assert_array_equal(taken.logits, q @ k.swapaxes(-1, -2))


def test_t5_s_bias_over_scaled_products_is_mpnet_s():
    """scores / √d, then the bias: MPNet; with √d times the table, x-transformers."""
    q, k, v = (normal(s, 2, 5, 16) for s in range(3))
    table = normal(3, 2, 8)
    options = dict(bidirectional=True, distance=5, scale="root")
    taken = steps(q, k, v, reference.t5(table=table, **options))
    offsets = np.arange(5)[:, None] - np.arange(5)
    bucket = reference.t5_buckets(offsets, bidirectional=True, buckets=8, distance=5)
    expected = q @ k.swapaxes(-1, -2) / 4 + table[:, bucket]
    np.testing.assert_allclose(taken.logits, expected, rtol=0, atol=1e-14)
    module = T5(2, buckets=8, table=torch.tensor(table), **options)
    assert "scale='root'" in repr(module)
    tensors = (torch.tensor(t)[None] for t in (q, k, v))
    out = attend_torch(*tensors, module, causal=False)[0]
    np.testing.assert_allclose(out.detach(), taken.out, rtol=0, atol=1e-14)


def test_one_table_serves_a_stack():
    encoding = T5(2, bidirectional=False, table=torch.randn(2, 32))
    layers = [Attention(8, 2, encoding=encoding) for _ in range(3)]
    assert len({id(layer.encoding.table) for layer in layers}) == 1
    x = torch.randn(1, 40, 8)
    for layer in layers:
        x = x + layer(x)
    x.square().sum().backward()
    grad = encoding.table.grad
    reached_starts = STARTS[False].index(40)  # 39 is the largest distance
    assert (grad[:, :reached_starts].abs() > 0).all() and not grad[
        :, reached_starts:
    ].any()


# KERPLE


def made(encoding, implementation, **options):
    """The bias of tokens 0 … 5 in NumPy and in PyTorch, by the module's parameters."""
    q, d = normal(0, encoding.heads, 6, 4), 4
    given = {n: p.detach().numpy() for n, p in encoding.named_parameters()}
    hooks = implementation(**given, **options)
    logits = steps(q, q, q, hooks).logits
    tensors = [torch.tensor(q)[None]] * 3
    layer = attend_torch(*tensors, encoding, causal=False)
    np.testing.assert_allclose(
        layer[0].detach(), steps(q, q, q, hooks).out, atol=1e-14, rtol=0
    )
    return logits - q @ q.swapaxes(1, 2) / math.sqrt(d)


T = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
R1, R2 = torch.tensor([0.5, 2.0]).double(), torch.tensor([1.0, 0.25]).double()


@pytest.mark.parametrize(("scaling", "share"), [("code", 1.0), ("paper", 0.5)])
def test_the_logarithm_is_inside_the_scaling_or_outside(scaling, share):
    encoding = KERPLELog(2, scaling=scaling, r1=R1, r2=R2)
    found = made(encoding, reference.kerple_log, scaling=scaling)
    expected = [-0.5 * np.log(1 + T), -2 * np.log(1 + T / 4)]
    np.testing.assert_allclose(found, share * np.array(expected), atol=1e-14)


@pytest.mark.parametrize(("scaling", "share"), [("code", 1.0), ("paper", 0.5)])
def test_the_power_is_inside_the_scaling_or_outside(scaling, share):
    encoding = KERPLEPower(2, scaling=scaling, r1=R1, r2=R2)
    found = made(encoding, reference.kerple_power, scaling=scaling)
    expected = [-0.5 * T, -2 * T**0.25]
    np.testing.assert_allclose(found, share * np.array(expected), atol=1e-14)


def test_the_form_of_three_parameters_takes_distances_to_a_power():
    encoding = KERPLELog(2, scaling="code", powers=True, r1=R1, r2=R2, r3=R2)
    found = made(encoding, reference.kerple_log, scaling="code")
    expected = [-0.5 * np.log(1 + T), -2 * np.log(1 + T**0.25 / 4)]
    np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize(("scaling", "share"), [("code", 1.0), ("paper", 0.5)])
def test_the_form_with_a_weight_multiplies_the_products(scaling, share):
    r3, r4 = torch.tensor([0.25, 1.0]).double(), torch.tensor([0.5, 1.5]).double()
    starts = {"r1": R1, "r2": R2, "r3": r3, "r4": r4}
    encoding = KERPLEPower(2, scaling=scaling, weight=True, **starts)
    q = normal(0, 2, 6, 4)
    found = made(encoding, reference.kerple_power, scaling=scaling)
    weight = np.exp([-0.25 * T**0.5, -(T**1.5)])
    products = q @ q.swapaxes(1, 2) / 2
    expected = products * (weight - 1) + share * np.array([-0.5 * T, -2 * T**0.25])
    np.testing.assert_allclose(found, expected, atol=1e-14)
    assert Attention(8, 2, encoding=encoding).route == "eager"
    plain = KERPLEPower(2, scaling=scaling)
    assert Attention(8, 2, encoding=plain).route == "sdpa"
    given = attend_torch(*[torch.tensor(q)[None]] * 3, encoding, positions=range(6))
    counted = attend_torch(*[torch.tensor(q)[None]] * 3, encoding)
    torch.testing.assert_close(given, counted, rtol=0, atol=1e-14)


def test_far_distances_keep_their_last_digit():
    """2²⁴ + 1 is no float32."""
    t, starts = 2**24 + 1, {"scaling": "code", "r1": R1, "r2": R2}
    log, power = KERPLELog(2, **starts), KERPLEPower(2, **starts)
    found = [m.of_offsets(torch.tensor([t]))[0].item() for m in (log, power)]
    np.testing.assert_allclose(found, [-0.5 * np.log1p(t), -0.5 * t], rtol=1e-14)


def test_a_power_is_a_kernel_up_to_the_square():
    """The smallest eigenvalue on what sums to 0: published for 2.2 and 40 tokens."""
    distance = np.abs(np.subtract.outer(np.arange(40.0), np.arange(40)))
    rest = np.eye(40) - 1 / 40

    def smallest(power):
        return np.linalg.eigvalsh(-rest @ distance**power @ rest)[0]

    assert smallest(2.2) == pytest.approx(-881, abs=0.5)
    assert min(smallest(power) for power in (0.5, 1.0, 1.5, 2.0)) > -1e-9


def test_a_power_of_one_is_alibi():
    m = reference.alibi_slopes(4, slopes="authors")
    power = reference.kerple_power_bias(np.arange(9), r1=m, r2=1.0)
    np.testing.assert_allclose(power, -np.outer(m, np.arange(9)), rtol=1e-15)


def test_what_starts_positive_stays_so_and_always_learns():
    """The authors' code lets no number fall below 0.01; ours are logarithms."""
    torch.manual_seed(0)
    for encoding in (
        KERPLELog(50, scaling="code", powers=True),
        KERPLEPower(50, scaling="code", weight=True),
    ):
        for name, p in encoding.named_parameters():
            most = {"log_r1": 2.0 if "Log" in type(encoding).__name__ else 1.0}
            r = p.exp() if name.startswith("log_") else 2 * p.sigmoid()
            upper = most.get(name, 1.0 if name.startswith("log_") else 2.0)
            assert (r >= 0.0099).all() and (r <= upper).all() and r.max() > 0.8 * upper
        with torch.no_grad():
            for p in encoding.parameters():
                p -= 8.0
        out = attend_torch(*torch.randn(3, 1, 50, 6, 2).double(), encoding)
        grads = torch.autograd.grad(out.square().sum(), [*encoding.parameters()])
        assert out.isfinite().all() and all((g != 0).all() for g in grads)


def test_the_copy_of_nemo_knows_no_distance():
    t = np.arange(9)
    assert not mutants.kerple_of_nemo(t).any()
    assert (np.diff(reference.kerple_log_bias(t, r1=1.0, r2=1.0)) < 0).all()


def test_inside_the_root_is_another_bias():
    t = np.arange(9)
    inside = mutants.kerple_inside_the_root(t, 1.0, 1.0, 64)
    np.testing.assert_allclose(
        8 * inside, reference.kerple_log_bias(t, r1=1.0, r2=1.0), rtol=1e-15
    )


# Sandwich


SANDWICH = {0: 64, 1: 62.55, 2: 58.80, 4: 50.24, 8: 46.87, 16: 41.66} | {
    **{64: 31.13, 256: 21.56, 1024: 13.09, 4096: -3.27}
}


def test_the_sum_is_the_published_one():
    found = reference.sandwich_sum([*SANDWICH], width=128, index_from=1)
    np.testing.assert_allclose(found, [*SANDWICH.values()], atol=0.005)
    for copy in mutants.sandwich_without_cosines, mutants.sandwich_of_lecture_notes:
        assert np.abs(copy(np.array([*SANDWICH])) - found).max() > 1
    same = mutants.sandwich_of_lecture_notes(np.array([*SANDWICH]), width=64)
    np.testing.assert_allclose(same, found, atol=1e-12)


def test_the_sum_falls_like_the_published_logarithm():
    """The sum falls by 6.95 per factor of e, where 64 waves are near the integral."""
    t = np.geomspace(20, 2000, 200)
    found = reference.sandwich_sum(t, width=128, index_from=1)
    slope = np.polyfit(np.log(t), found, 1)[0]
    assert 128 / (2 * np.log(1e4)) == pytest.approx(6.95, abs=0.005)
    assert slope == pytest.approx(-6.95, abs=0.35)


@pytest.mark.parametrize("index_from", [0, 1])
@pytest.mark.parametrize("diagonal", ["kept", "zero"])
def test_heads_divide_by_their_ratio(index_from, diagonal):
    options = {"width": 12, "index_from": index_from, "diagonal": diagonal}
    encoding = Sandwich(4, **options)
    found = made(encoding, reference.sandwich, heads=4, **options)
    total = reference.sandwich_sum(T, width=12, index_from=index_from)
    less = 6 if diagonal == "zero" else 0
    expected = [(total - less) / ratio for ratio in (2, 4, 6, 8)]
    np.testing.assert_allclose(found, expected, atol=1e-14)
    assert (found[:, 0, 0] == 0).all() == (diagonal == "zero")
    own = encoding.of_offsets(torch.tensor(T))  # no softmax can tell the diagonals
    np.testing.assert_allclose(own, expected, atol=1e-14)


def test_counted_from_zero_it_is_a_product_of_two_sinusoidal_encodings():
    pe = sinusoidal(np.arange(40), 16, layout="half")
    offsets = np.subtract.outer(np.arange(40), np.arange(40))
    from_zero, from_one = (
        reference.sandwich_sum(offsets, width=16, index_from=k) for k in (0, 1)
    )
    np.testing.assert_allclose(pe @ pe.T, from_zero, atol=1e-13)
    assert np.abs(from_one - from_zero).max() > 1


def test_far_positions_keep_their_distance():
    torch.manual_seed(0)
    encoding = Sandwich(2, width=64, index_from=1, diagonal="zero")
    q = torch.randn(1, 2, 5, 4)
    near, far = (
        attend_torch(q, q, q, encoding, positions=start + torch.arange(5))
        for start in (0, 2**40)
    )
    torch.testing.assert_close(near, far, rtol=0, atol=1e-6)


@pytest.mark.parametrize("route", ["eager", "sdpa"])
def test_half_precision_does_not_reach_the_bias(route):
    """bfloat16 steps from 64 to 64.5; weights, sum and result round to 2⁻⁹ each."""
    table = 64 + torch.linspace(0, 1, 32)[None]
    encoding = T5(1, bidirectional=False, table=table)
    q, v = torch.zeros(1, 1, 40, 2), torch.rand(1, 1, 40, 2).bfloat16()
    exact = attend_torch(q.double(), q.double(), v.double(), encoding)
    half = attend_torch(q.bfloat16(), q.bfloat16(), v, encoding, route=route)
    assert (half - exact).abs().max() < 4 * 2.0**-9


def test_the_kerple_paper_s_t5_starts_again_at_zero():
    n = np.arange(300)
    right = reference.t5_buckets(n, bidirectional=False)
    printed = mutants.t5_bucket_of_the_kerple_paper(n)
    assert (printed[:16] == right[:16]).all() and printed[16] == 0 != right[16]


BAD = [
    (lambda: reference.alibi_slopes(0, slopes="authors"), ValueError, "heads must be"),
    (lambda: reference.alibi(heads=4, slopes="paper"), ValueError, "'authors' or"),
    (
        lambda: ALiBi(3, slopes="authors", sides="one-sided"),
        ValueError,
        "multiple of 2",
    ),
    (lambda: ALiBi(2, slopes="authors", sides="both"), ValueError, "sides must be"),
    (lambda: ALiBi(2, slopes="paper"), ValueError, "slopes must be 'authors' or"),
    (lambda: ALiBi(2, slopes=[0.5, 0.25]), TypeError, "slopes must be a torch.Tensor"),
    (lambda: ALiBi(2, slopes=torch.ones(3)), ValueError, r"slopes must be \[2\]"),
    (
        lambda: ALiBi(2, slopes=torch.ones(2), bias_max=4),
        ValueError,
        "bias_max is for slopes by a rule, got 4",
    ),
    (lambda: ALiBi(2, slopes="authors", bias_max=0), ValueError, "bias_max must be"),
    *(
        (
            lambda face=face: face.alibi_slopes(2, slopes="authors", bias_max=0),
            ValueError,
            "bias_max must be",
        )
        for face in (reference, bias)
    ),
    (
        lambda: reference.alibi(heads=3, slopes=np.ones(3), sides="one-sided"),
        ValueError,
        "heads must be a positive multiple of 2",
    ),
    (
        lambda: reference.alibi(heads=2, slopes=np.ones(3)),
        ValueError,
        "slopes must be 2 finite numbers",
    ),
    (
        lambda: symbolic.alibi(heads=2, slopes=[1]),
        ValueError,
        "slopes must be 2 expressions, got 1",
    ),
    (lambda: T5(2, bidirectional=False, scale="two"), ValueError, "'one' or 'root'"),
    (
        lambda: reference.t5(table=np.zeros((2, 4)), bidirectional=False, scale=1),
        ValueError,
        "scale must be 'one' or 'root', got 1",
    ),
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
    (lambda: T5(2, bidirectional=True, buckets=7), ValueError, "multiple of 2, got 7"),
    (lambda: T5(2, bidirectional=True, buckets=2), ValueError, "at least 4, got 2"),
    (lambda: T5(2, bidirectional=False, buckets=1), ValueError, "at least 2, got 1"),
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
    (lambda: KERPLELog(2, scaling="both"), ValueError, "scaling must be 'code' or"),
    (
        lambda: KERPLELog(2, scaling="code", r1=torch.zeros(2)),
        ValueError,
        r"r1 must be positive, got \[0.0, 0.0\]",
    ),
    (
        lambda: KERPLELog(2, scaling="code", r3=torch.ones(2)),
        ValueError,
        "r3 is for powers=True",
    ),
    (
        lambda: KERPLEPower(2, scaling="code", r2=torch.full((2,), 2.0)),
        ValueError,
        r"r2 must be in \(0, 2\)",
    ),
    (
        lambda: KERPLEPower(2, scaling="code", r4=torch.ones(2)),
        ValueError,
        "r3 and r4 are for weight=True",
    ),
    (
        lambda: KERPLEPower(2, scaling="code", r1=torch.ones(3)),
        ValueError,
        r"r1 must be \[2\], got shape \[3\]",
    ),
    (
        lambda: reference.kerple_log_bias([1.0], r1=1.0, r2=-1.0),
        ValueError,
        "r2 must be positive and finite",
    ),
    (
        lambda: reference.kerple_power_bias([1.0], r1=1.0, r2=2.5),
        ValueError,
        "r2 must be at most 2, got 2.5",
    ),
    (
        lambda: reference.kerple_log(
            log_r1=np.zeros((2, 1)), log_r2=np.zeros(2), scaling="code"
        ),
        ValueError,
        r"log_r1 must be \[heads\], got shape \[2, 1\]",
    ),
    (
        lambda: reference.kerple_power(
            log_r1=np.zeros(2), logit_r2=np.zeros(2), log_r3=np.zeros(2), scaling="code"
        ),
        ValueError,
        "needs both log_r3 and logit_r4",
    ),
    (
        lambda: Sandwich(2, width=7, index_from=1, diagonal="kept"),
        ValueError,
        "width must be a positive multiple of 2, got 7",
    ),
    (
        lambda: Sandwich(2, width=8, index_from=2, diagonal="kept"),
        ValueError,
        "index_from must be 0 or 1, got 2",
    ),
    (
        lambda: Sandwich(2, width=8, index_from=True, diagonal="kept"),
        TypeError,
        "index_from must be an integer, got True",
    ),
    (
        lambda: reference.sandwich(
            heads=2, width=8, index_from=1, diagonal="kept", compression=0
        ),
        ValueError,
        "compression must be above 0, got 0",
    ),
    (
        lambda: Sandwich(2, width=8, index_from=1, diagonal="subtracted"),
        ValueError,
        "diagonal must be 'kept' or 'zero'",
    ),
]


@pytest.mark.parametrize(("call", "error", "words"), BAD)
def test_bad_input_is_refused(call, error, words, unchecked):
    with pytest.raises(error, match=words):
        call()
