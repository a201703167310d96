"""RoPE: properties, numbers, implementations, and mutants."""

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import rotary
from posedu.numpy.frequencies import frequencies as geometric
from posedu.sympy import rotary as symbolic
from posedu.sympy.frequencies import frequencies as exact_frequencies
from posedu.torch import RoPE, convert_layout, rotate_pairs
from posedu.torch.rotary import rope_linear_attention
from support import bounds, compiling

LAYOUTS = ("interleaved", "half")
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

layouts = st.sampled_from(LAYOUTS)
bases = st.floats(1.01, 1e7) | st.just(10000)
even = st.integers(1, 32).map(lambda pairs: 2 * pairs)
far = st.integers(-(2**20), 2**20) | st.floats(-(2.0**20), 2.0**20)
seeds = st.integers(0, 2**32 - 1)


@st.composite
def variants(draw):
    """A head dimension and the options of a rotation of it."""
    d = draw(even)
    rotary_dim = draw(st.none() | st.integers(1, d // 2).map(lambda pairs: 2 * pairs))
    return d, dict(layout=draw(layouts), base=draw(bases), rotary_dim=rotary_dim)


def close(actual, expected, atol):
    __tracebackhide__ = True
    assert np.shape(actual) == np.shape(expected)
    excess = np.abs(actual - np.asarray(expected)) - atol
    assert (excess <= 0).all(), (
        f"off by {excess.max():.3g} more than {np.max(atol):.3g}"
    )


def roundoff(*positions, terms=8):
    """Bound the error of identities: angles at these positions, and a few sums."""
    return sum(bounds.angle(abs(p)).item() for p in positions) + terms * bounds.U64


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


# Properties.


@given(variants(), far, far, seeds)
def test_dense_elementwise_and_complex_forms_agree(variant, i, j, seed):
    d, options = variant
    x, positions = normal(seed, 2, d), [i, j]
    turned = rotary.rope(x, positions, **options)
    atol = np.abs(x).max() * (roundoff(i, j) + d * bounds.U64)
    close(rotary.rope_dense(x, positions, **options), turned, atol)
    if options.pop("rotary_dim") is None:
        z = rotary.rope_complex(x, positions, **options)
        close(z, rotary.to_complex(turned, layout=options["layout"]), 2 * atol)


@given(variants(), far, far)
def test_rotations_compose_to_the_offset(variant, i, j):
    d, options = variant
    r_i, r_j = (rotary.rotation(p, d, **options) for p in (i, j))
    close(r_i.T @ r_j, rotary.rotation(j - i, d, **options), roundoff(i, j, j - i))
    close(r_i @ r_j, rotary.rotation(i + j, d, **options), roundoff(i, j, i + j))


@given(variants(), far, seeds)
def test_a_rotation_keeps_lengths_and_orientation(variant, i, seed):
    d, options = variant
    r, x = rotary.rotation(i, d, **options), normal(seed, 1, d)
    close(r.T @ r, np.eye(d), roundoff())
    assert np.linalg.det(r) == pytest.approx(1, abs=8 * d * bounds.U64)
    norms = [np.linalg.norm(t) for t in (x, rotary.rope(x, [i], **options))]
    assert norms[1] == pytest.approx(norms[0], rel=16 * bounds.U64)
    assert np.array_equal(rotary.rotation(0, d, **options), np.eye(d))


def offset_spread(scores):
    """The dependence of equal vectors' scores at 0, 1, 2, … on more than i − j."""
    return max(np.ptp(np.diag(scores, o)) for o in range(-len(scores) + 1, len(scores)))


def shift_spread(scores, q, k):
    """The change of scores when every position moves by the same amount."""
    positions = np.arange(len(q))
    here, there = (scores(q, k, positions + shift) for shift in (0, 37))
    return np.abs(here - there).max()


def rope_scores(q, k, positions):
    q, k = (rotary.rope(t, positions, layout="half") for t in (q, k))
    return q @ k.T


@given(variants(), st.integers(2, 8), far, seeds)
def test_scores_see_only_the_offset(variant, tokens, start, seed):
    d, options = variant
    q, k = normal(seed, 2, tokens, d)
    scores = []
    for first in (0, start):
        positions = first + np.arange(tokens)
        turned = [rotary.rope(t, positions, **options) for t in (q, k)]
        scores.append(turned[0] @ turned[1].T)
    size = np.linalg.norm(q, axis=-1)[:, None] * np.linalg.norm(k, axis=-1)
    close(*scores, size * roundoff(start, start + tokens, tokens, terms=4 * d))


@given(even, bases, far)
def test_layouts_are_conjugate_by_the_permutation(d, base, i):
    order = rotary.layout_permutation(d)
    assert order.tolist() == [*range(0, d, 2), *range(1, d, 2)]
    interleaved, half = (rotary.rotation(i, d, layout=x, base=base) for x in LAYOUTS)
    assert np.array_equal(interleaved[np.ix_(order, order)], half)
    exact = np.array(symbolic.layout_matrix(d), dtype=float)
    assert np.array_equal(exact @ interleaved @ exact.T, half)


@given(
    d=st.integers(1, 8).map(lambda pairs: 2 * pairs),
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    partial=st.booleans(),
    source=layouts,
    seed=seeds,
)
def test_converted_weights_give_equal_scores(d, kv_heads, group, partial, source, seed):
    target = LAYOUTS[1 - LAYOUTS.index(source)]
    rotary_dim = max(2, d // 4 * 2) if partial else None
    heads, tokens, d_model = kv_heads * group, 5, 6
    x, positions = normal(seed, tokens, d_model), np.array([0, 1, -4, 300, 7.5])

    def projections(n):
        return normal(seed + n, n * d, d_model), normal(seed + n + 1, n * d)

    def scores(q, k, layout):
        options = dict(layout=layout, rotary_dim=rotary_dim)
        turned = []
        for (weight, bias), n in ((q, heads), (k, kv_heads)):
            by_head = (x @ weight.T + bias).reshape(tokens, n, d).swapaxes(0, 1)
            turned.append(rotary.rope(by_head, positions, **options))
        return turned[0] @ turned[1].repeat(group, 0).swapaxes(1, 2)

    def convert(pair, n):
        options = dict(source=source, target=target, rotary_dim=rotary_dim)
        reference = [rotary.convert_layout(t, n, **options) for t in pair]
        for given_weight, converted in zip(pair, reference, strict=True):
            fast = convert_layout(torch.tensor(given_weight), n, **options)
            assert np.array_equal(fast.numpy(), converted)
            back = dict(source=target, target=source, rotary_dim=rotary_dim)
            assert np.array_equal(
                rotary.convert_layout(converted, n, **back), given_weight
            )
        return reference

    q, k = projections(heads), projections(kv_heads)
    before = scores(q, k, source)
    after = scores(convert(q, heads), convert(k, kv_heads), target)
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-11)
    if (rotary_dim or d) > 2:
        assert np.abs(scores(q, k, target) - before).max() > 1e-6, "unconverted"
        mixed = scores(convert(q, heads), k, target)
        assert np.abs(mixed - before).max() > 1e-6, "only queries converted"


def test_converting_to_the_same_layout_copies():
    weight = torch.arange(8.0)
    for layout in LAYOUTS:
        same = convert_layout(weight, 2, source=layout, target=layout)
        assert torch.equal(same, weight) and same.data_ptr() != weight.data_ptr()
        reference = rotary.convert_layout(
            weight.numpy(), 2, source=layout, target=layout
        )
        assert np.array_equal(reference, weight.numpy())


def test_converted_by_hand():
    rows = np.arange(8.0)
    halves = rotary.convert_layout(rows, 1, source="interleaved", target="half")
    assert halves.tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    pairs = rotary.convert_layout(rows, 1, source="half", target="interleaved")
    assert pairs.tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    first = dict(source="interleaved", target="half", rotary_dim=4)
    assert rotary.convert_layout(rows, 1, **first).tolist() == [0, 2, 1, 3, 4, 5, 6, 7]


def test_positions_are_told_apart():
    # The fastest pair alone distinguishes integers, as 2π is irrational; cf. 355/113.
    fastest = rotary.rope(
        np.tile([1.0, 0.0], (100_000, 1)), range(100_000), layout="half"
    )
    angle = np.sort(np.arctan2(fastest[:, 1], fastest[:, 0]))
    assert np.diff(angle).min() > 2e-5


@given(even, st.integers(-4096, 4096), seeds)
def test_decay_bound_holds(d, offset, seed):
    q, k = normal(seed, 2, 1, d)
    h = rotary.to_complex(q, layout="half") * rotary.to_complex(k, layout="half").conj()
    steps = np.abs(np.diff(h[0], append=0)).max()
    score = (rotary.rope(q, [offset], layout="half") @ k.T).item()
    bound = d / 2 * rotary.decay_bound(offset, d) * steps
    assert abs(score) <= bound * (1 + 1e-9)


def test_decay_bound_needs_its_boundary_term():
    d, ones = 64, np.ones((1, 64))
    score = (rotary.rope(ones, [5], layout="half") @ ones.T).item()
    z = rotary.to_complex(ones, layout="half")[0]
    h = z * z.conj()  # equal in every pair, so that only the boundary changes
    assert abs(score) <= d / 2 * rotary.decay_bound(5, d) * np.abs(h[-1])
    assert abs(score) > mutants.bound_without_boundary(h, 5, d)


@given(even, st.integers(0, 4096))
def test_decay_bound_is_attained_by_contents_made_for_the_offset(d, offset):
    phases = np.exp(1j * offset * geometric(d))
    sums = np.cumsum(phases)
    steps = sums.conj() / np.abs(sums)
    h = np.cumsum(steps[::-1])[::-1]
    bound = d / 2 * rotary.decay_bound(offset, d)
    # d/2 products of sums of at most d/2 units, each of whose terms is rounded.
    assert abs((h * phases).sum().real - bound) <= d**3 * 2.0**-53


def test_a_norm_without_gain_commutes_and_a_gain_does_not():
    x, positions = normal(0, 5, 8), np.arange(5)

    def rms(t):
        return t / np.sqrt((t**2).mean(-1, keepdims=True))

    def rope(t):
        return rotary.rope(t, positions, layout="half")

    np.testing.assert_allclose(rms(rope(x)), rope(rms(x)), atol=1e-14)
    per_pair = np.tile([0.5, 1.0, 1.5, 2.0], 2)
    np.testing.assert_allclose(per_pair * rope(x), rope(per_pair * x), atol=1e-14)
    per_feature = np.linspace(0.5, 2, 8)
    assert np.abs(per_feature * rope(x) - rope(per_feature * x)).max() > 0.1


@given(st.integers(1, 6), st.integers(1, 4), even, layouts, st.booleans(), seeds)
def test_linear_attention_is_the_double_loop(tokens, d_v, d, layout, causal, seed):
    q, k = normal(seed, 2, tokens, d)
    v, positions = normal(seed, tokens, d_v), 3.5 * np.arange(tokens) - 2

    def phi(x):
        return np.array([f + 1 if f > 0 else np.exp(f) for f in x])

    expected = np.zeros((tokens, d_v))
    for i in range(tokens):
        r_i = rotary.rotation(positions[i], d, layout=layout)
        seen = range(i + 1 if causal else tokens)
        total = sum(phi(q[i]) @ phi(k[j]) for j in seen)
        for j in seen:
            r_j = rotary.rotation(positions[j], d, layout=layout)
            expected[i] += (r_i @ phi(q[i])) @ (r_j @ phi(k[j])) * v[j] / total
    options = dict(layout=layout, causal=causal)
    out = rotary.rope_linear_attention(q, k, v, positions, **options)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-12)


def test_causal_linear_attention_keeps_two_sums_and_no_keys():
    q, k, v = normal(0, 2, 3, 5, 8), normal(1, 2, 3, 5, 8), normal(2, 2, 3, 5, 4)
    positions = normal(3, 2, 5)
    options = dict(layout="interleaved")
    out = rotary.rope_linear_attention(q, k, v, positions, causal=True, **options)

    def phi(x):
        return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))

    turned = [rotary.rope(phi(t), positions, **options) for t in (q, k)]
    outer, keys = np.zeros((2, 3, 8, 4)), np.zeros((2, 3, 8))
    for i in range(5):
        outer += turned[1][..., i, :, None] * v[..., i, None, :]
        keys += phi(k)[..., i, :]
        total = (phi(q)[..., i, :] * keys).sum(-1)
        step = np.einsum("bhd,bhdv->bhv", turned[0][..., i, :], outer)
        np.testing.assert_allclose(out[..., i, :], step / total[..., None], atol=1e-12)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("tokens", [0, 1, 5, 128, 300])
def test_linear_attention_of_both_implementations_agrees(tokens, layout, causal):
    """Beyond 128 tokens, causal attention has sums of earlier tiles."""
    q, k, v = (normal(s, 2, 3, tokens, 8) for s in range(3))
    at = np.stack((np.arange(tokens), 2 * np.arange(tokens) + 7))
    options = dict(layout=layout, base=100.0)
    options |= {"causal": True} if causal else {}  # the default is not
    expected = rotary.rope_linear_attention(q, k, v, at, **options)
    tensors = [torch.tensor(t) for t in (q, k, v)]
    found = rope_linear_attention(*tensors, torch.tensor(at), **options)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)
    low = [t.bfloat16() for t in tensors]
    out = rope_linear_attention(*low, torch.tensor(at), **options)
    assert out.dtype == torch.bfloat16


def test_gradients_of_linear_attention():
    q, k, v = (torch.tensor(normal(s, 130, 4), requires_grad=True) for s in range(3))
    w = torch.tensor(normal(3, 130, 4))

    def loss(q, k, v):
        options = dict(layout="half", causal=True)
        if isinstance(q, np.ndarray):
            out = rotary.rope_linear_attention(q, k, v, range(130), **options)
            return (out * w.numpy()).sum()
        return (rope_linear_attention(q, k, v, range(130), **options) * w).sum()

    gradients = torch.autograd.grad(loss(q, k, v), (q, k, v))
    numbers = [t.detach().numpy() for t in (q, k, v)]
    for n, gradient in enumerate(gradients):
        direction, step = normal(4 + n, 130, 4), 1e-5
        ends = [
            loss(*(t + s * step * direction * (m == n) for m, t in enumerate(numbers)))
            for s in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / (2 * step)
        assert float((gradient * torch.tensor(direction)).sum()) == pytest.approx(
            slope, rel=1e-6, abs=1e-6
        )


def test_linear_attention_weights_are_not_a_convex_combination():
    q, k = normal(1, 2, 12, 8) * 2
    ones = np.ones((12, 1))
    sums = rotary.rope_linear_attention(q, k, ones, 50 * np.arange(12), layout="half")
    assert sums.min() < 0.9


# Published numbers.


def test_the_complex_form_has_the_paper_s_base_by_default():
    x, positions = np.ones((2, 8)), [1, 100]
    given = rotary.rope_complex(x, positions, layout="half", base=10000)
    assert np.array_equal(rotary.rope_complex(x, positions, layout="half"), given)


def test_decay_bound_has_the_paper_s_base_by_default():
    offsets = [1, 50, 1000]
    given = rotary.decay_bound(offsets, 128, base=10000)
    assert np.array_equal(rotary.decay_bound(offsets, 128), given)


def test_decay_bound_has_the_published_values():
    bound = rotary.decay_bound([0, 50, 250, 1000, 4096], 128)
    assert bound[:2].round(1).tolist() == [32.5, 12.6]
    assert bound[2:].round(2).tolist() == [6.55, 4.47, 4.88]
    rises = np.diff(rotary.decay_bound(np.arange(1, 257), 128)) > 0
    assert (rises.sum(), rises.size) == (115, 255)


def test_equal_queries_and_keys_have_the_published_scores():
    ones = np.ones((5, 128))
    turned = rotary.rope(ones, [0, 50, 250, 1000, 4096], layout="half")
    scores = turned @ np.ones(128)
    assert scores.round(1).tolist() == [128, 69.9, 39.3, 20.4, -6.8]
    every = rotary.rope(np.ones((1708, 128)), range(1708), layout="half").sum(-1)
    assert (every < 0).argmax() == 1707


def test_scores_of_random_vectors_do_not_decay():
    d, samples = 128, 4000
    q, k = normal(2, 2, samples, 1, d)
    for offset in (0, 10, 100, 1000):
        scores = (rotary.rope(q, [offset], layout="half") * k).sum((1, 2))
        # The variance of a score is d at every offset; of 4000 samples it is good to
        # √(2 / 4000) of itself, times the kurtosis of a product of normals: 5 σ here.
        assert scores.var() == pytest.approx(d, rel=5 * np.sqrt(2.5 / samples))
        assert abs(scores.mean()) < 5 * np.sqrt(d / samples)


def test_a_peak_can_sit_at_any_offset():
    q = normal(3, 1, 64)
    k = rotary.rope(q, [-777], layout="half")
    scores = rotary.rope(np.tile(k, (2000, 1)), range(2000), layout="half") @ q[0]
    assert scores.argmax() == 777
    assert scores.max() == pytest.approx((q**2).sum(), rel=1e-12)


def test_worked_example_of_one_pair():
    quarter = np.pi / 2
    for layout in LAYOUTS:
        turned = rotary.rope(
            np.array([[1.0, 0.0], [0.0, 1.0]]), [quarter] * 2, layout=layout
        )
        np.testing.assert_allclose(turned, [[0, 1], [-1, 0]], atol=1e-15)
    matrix = rotary.rotation(1, 4, layout="half")
    c, s, c_slow, s_slow = np.cos(1), np.sin(1), np.cos(0.01), np.sin(0.01)
    by_hand = [
        [c, 0, -s, 0],
        [0, c_slow, 0, -s_slow],
        [s, 0, c, 0],
        [0, s_slow, 0, c_slow],
    ]
    np.testing.assert_allclose(matrix, by_hand, atol=1e-15)


def test_partial_rotary_squeezes_the_whole_spectrum():
    x, positions = normal(4, 3, 16), [0, 5, 900]
    turned = rotary.rope(x, positions, layout="interleaved", rotary_dim=4)
    assert np.array_equal(turned[:, 4:], x[:, 4:])
    alone = rotary.rope(x[:, :4], positions, layout="interleaved")
    assert np.array_equal(turned[:, :4], alone)
    assert np.abs(mutants.exponent_over_d(x, positions, 4) - turned).max() > 0.1


# Frequencies and an attention factor of one's own: YaRN, arXiv 2309.00071.


def yarn(d, factor, length, *, fast=32, slow=1, base=10000.0):
    """NTK-by-parts as the paper has it (§3.2, §3.4), and the attention factor.

    γ rises with the turns r in the training length from 0 at ``slow`` to 1 at ``fast``.
    """
    theta = base ** (-2 * np.arange(d // 2) / d)
    turns = length * theta / (2 * np.pi)
    gamma = np.clip((turns - slow) / (fast - slow), 0, 1)
    return (1 - gamma) * theta / factor + gamma * theta, 0.1 * np.log(factor) + 1


def yarn_by_index(d, factor, length, *, fast=32, slow=1, base=10000.0):
    """The ramp of the authors' code: straight in the pair's index, so in log r."""
    theta = base ** (-2 * np.arange(d // 2) / d)

    def pair(turns):
        return d * np.log(length / (2 * np.pi * turns)) / (2 * np.log(base))

    low, high = np.floor(pair(fast)), np.ceil(pair(slow))
    gamma = 1 - np.clip((np.arange(d // 2) - low) / (high - low), 0, 1)
    return (1 - gamma) * theta / factor + gamma * theta


def llama_3_1(d, factor=8, length=8192, low=1, high=4, base=500000.0):
    """Frequencies by cases of the wavelength, as Meta's code has them."""
    scaled = []
    for w in geometric(d, base=base):
        wavelength = 2 * np.pi / w
        if wavelength < length / high:
            scaled.append(w)
        elif wavelength > length / low:
            scaled.append(w / factor)
        else:
            smooth = (length / wavelength - low) / (high - low)
            scaled.append((1 - smooth) * w / factor + smooth * w)
    return np.array(scaled)


def test_yarn_keeps_the_fast_pairs_and_slows_the_slow_ones():
    omega, factor = yarn(128, 16, 4096)
    theta = geometric(128)
    turns = 4096 * theta / (2 * np.pi)
    np.testing.assert_allclose(omega[turns >= 32], theta[turns >= 32], rtol=1e-14)
    np.testing.assert_allclose(omega[turns <= 1], theta[turns <= 1] / 16, rtol=1e-14)
    assert factor == pytest.approx(1.2772588722239782, rel=1e-15)
    ratio = yarn_by_index(128, 16, 4096) / omega
    assert ratio.max() == pytest.approx(3, rel=0.1) and 36 <= ratio.argmax() <= 40
    ours, _ = yarn(128, 8, 8192, fast=4, base=500000.0)
    np.testing.assert_allclose(llama_3_1(128), ours, rtol=1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rotary_dim", [None, 32])
def test_yarn_is_the_same_in_both_fast_implementations_and_its_formula(
    layout, rotary_dim
):
    d, r = 128, rotary_dim or 128
    omega, factor = yarn(r, 16, 4096)
    options = dict(layout=layout, frequencies=omega, attention_factor=factor)
    x, positions = normal(0, 2, 5, d), np.array([0, 1, 4095, 40000, 65535])
    ours = rotary.rope(x, positions, **options)
    turn = factor * np.exp(1j * positions[:, None] * omega)
    expected = rotary.to_complex(x[..., :r], layout=layout) * turn
    a, b = rotary.pairs(r, layout=layout)
    atol = 2 * factor * bounds.rotated(x[..., :r], positions, torch.float64, layout)
    close(ours[..., a], expected.real, atol[..., a])
    close(ours[..., b], expected.imag, atol[..., b])
    assert np.array_equal(ours[..., r:], x[..., r:]), "what does not turn stays"
    for given_frequencies in (torch.tensor(omega), omega.tolist()):
        module = RoPE(d, **options | {"frequencies": given_frequencies})
        fast = module(torch.tensor(x), torch.tensor(positions)).numpy()
        close(fast[..., :r], ours[..., :r], atol)
        assert np.array_equal(fast[..., r:], x[..., r:])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_yarn_is_the_exact_implementation_s(layout):
    omega, factor = yarn(6, 16, 512)
    x = np.linspace(-1, 1, 8)
    options = dict(layout=layout, attention_factor=sp.Float(factor))
    exact_omega = [sp.Rational(w) for w in omega]
    for position in (0, -7, 2**20, sp.Rational(5, 2)):
        exact = symbolic.rope(
            sp.Matrix(x.tolist()), position, frequencies=exact_omega, **options
        ).evalf(30)
        ours = rotary.rope(
            x[None], [float(position)], layout=layout, frequencies=omega,
            attention_factor=factor,
        )[0]  # fmt: skip
        atol = 2 * factor * roundoff(float(position), terms=4)
        close(ours, np.array(exact, dtype=float).ravel(), atol)


def test_yarn_s_scores_are_relative_and_its_factor_counts_twice():
    omega, factor = yarn(16, 16, 512)
    q, k = normal(0, 2, 5, 16)

    def scores(start, **options):
        at = start + np.arange(5)
        turned = (rotary.rope(t, at, layout="half", **options) for t in (q, k))
        return np.matmul(next(turned), next(turned).T)

    plain = scores(0, frequencies=omega)
    scaled = scores(0, frequencies=omega, attention_factor=factor)
    np.testing.assert_allclose(scaled, factor**2 * plain, rtol=0, atol=1e-13)
    moved = scores(900, frequencies=omega, attention_factor=factor)
    np.testing.assert_allclose(moved, scaled, rtol=0, atol=1e-11)
    assert np.abs(scaled - factor * plain).max() > 0.1, "on one side alone"


def test_its_own_geometric_frequencies_change_nothing():
    x, positions = normal(0, 4, 12), [0, 3, -5, 900]
    for r in (12, 4):
        omega = geometric(r)
        plain = rotary.rope(x, positions, layout="half", rotary_dim=r)
        given = rotary.rope(x, positions, layout="half", frequencies=omega)
        assert np.array_equal(given, plain)


def test_the_fast_part_of_the_spectrum_alone_is_p_rope():
    x, positions = normal(0, 3, 16), [0, 5, 900]
    ours = rotary.rope(
        x, positions, layout="interleaved", frequencies=geometric(16)[:2]
    )
    np.testing.assert_allclose(
        ours, mutants.exponent_over_d(x, positions, 4), atol=1e-13
    )


def test_given_frequencies_are_a_copy_that_no_cast_rounds():
    omega = torch.nn.Parameter(torch.tensor([1.0, 1 / 3], dtype=torch.float64))
    rope = RoPE(4, layout="half", frequencies=omega)
    before = rope.table(range(5), dtype=torch.float64)[0]
    omega.data.zero_()
    rope = rope.to(torch.bfloat16)
    assert torch.equal(rope.table(range(5), dtype=torch.float64)[0], before)
    assert not list(rope.parameters()) and not rope.state_dict()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_with_an_attention_factor(layout):
    rope = RoPE(6, layout=layout, frequencies=[0.7, 0.1], attention_factor=1.3)
    x = torch.tensor(normal(10, 3, 6), requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: rope(x, range(3)), (x,))


BAD_FREQUENCIES = [
    ({"frequencies": []}, ValueError, "finite numbers, got|0 frequencies rotate 0"),
    ({"frequencies": [1.0, np.nan]}, ValueError, "frequencies must be finite"),
    ({"frequencies": np.ones((2, 2))}, ValueError, r"\[pairs\], got shape \[2, 2\]"),
    ({"frequencies": 1.0}, ValueError, r"\[pairs\], got shape \[\]"),
    ({"frequencies": [1.0, "1"]}, TypeError,
     "frequencies must be (numbers|real numbers, got dtype)"),
    ({"frequencies": [1.0] * 5}, ValueError, "at most d = 8, got 10"),
    ({"frequencies": [1.0], "rotary_dim": 4}, ValueError,
     "1 frequencies rotate 2 features, got rotary_dim = 4"),
    ({"attention_factor": np.inf}, ValueError,
     "attention_factor must be finite, got inf"),
    ({"attention_factor": "1"}, TypeError,
     "attention_factor must be a number, got '1'"),
    ({"attention_factor": True}, TypeError,
     "attention_factor must be a number, got True"),
]  # fmt: skip


@pytest.mark.parametrize("options, error, words", BAD_FREQUENCIES)
def test_bad_frequencies_are_refused(options, error, words, unchecked):
    x = np.zeros((3, 8))
    for call in (
        lambda: rotary.rope(x, range(3), layout="half", **options),
        lambda: RoPE(8, layout="half", **options),
    ):
        with pytest.raises(error, match=words):
            call()


@pytest.mark.parametrize("options, error, words", [BAD_FREQUENCIES[n] for n in (0, 6)])
def test_bad_frequencies_are_refused_by_the_exact_implementation(options, error, words):
    with pytest.raises(error, match=words):
        symbolic.rope(sp.zeros(8, 1), 0, layout="half", **options)


# Wrong versions.


def right(x, positions):
    return rotary.rope(x, positions, layout="interleaved")


def misses(rope, d=16):
    """The properties of RoPE that ``rope`` lacks."""
    x, positions = normal(5, 12, d), np.arange(12)
    dense = rotary.rope_dense(x, positions, layout="interleaved")
    basis = np.array([rope(np.tile(row, (2, 1)), [0, 3])[1] for row in np.eye(d)])
    turned = rope(x, positions)
    same = rope(np.tile(x[:1], (12, 1)), positions)
    first = rope(np.tile(np.eye(d)[0], (2, 1)), [0, 1])[1]
    found = {
        "norm": np.abs((turned**2).sum(-1) - (x**2).sum(-1)).max() > 1e-9,
        "identity at 0": np.abs(rope(x, np.zeros(12)) - x).max() > 1e-9,
        "relative": offset_spread(same @ same.T) > 1e-9,
        "determinant": abs(np.linalg.det(basis) - 1) > 1e-9,
        "fastest is one radian": abs(np.arctan2(first[1], first[0])) - 1 > 1e-9,
        "direction": np.abs(turned - dense).max() > 1e-9,
    }
    return {name for name, missed in found.items() if missed}


def test_the_right_version_misses_nothing():
    assert misses(right) == set()


CAUGHT_BY = {
    mutants.tables_mixed: {"norm", "relative"},
    mutants.index_from_zero: {"fastest is one radian"},
    mutants.rotated_backwards: {"direction"},
    mutants.index_is_distance: {"relative"},
    mutants.reflected: {"identity at 0"},
}


@pytest.mark.parametrize("rope", mutants.ROPE, ids=lambda f: f.__name__)
def test_published_wrong_versions_are_caught(rope):
    assert CAUGHT_BY[rope] <= misses(rope)


def test_turning_backwards_is_caught_by_nothing_but_the_direction():
    # Why relativity and norms do not suffice as tests.
    assert misses(mutants.rotated_backwards) == {"direction"}


@pytest.mark.parametrize("scores", mutants.NOT_RELATIVE, ids=lambda f: f.__name__)
def test_wrong_scores_are_not_relative(scores):
    q, k = normal(6, 2, 9, 8)
    assert shift_spread(rope_scores, q, k) < 1e-12
    assert shift_spread(scores, q, k) > 0.05


def test_turning_both_by_the_difference_loses_the_position():
    q, k = normal(7, 2, 6, 8)
    positions = np.arange(6)
    np.testing.assert_allclose(
        mutants.by_difference(q, k, positions), q @ k.T, atol=1e-13
    )
    assert np.abs(rope_scores(q, k, positions) - q @ k.T).max() > 0.1


def test_rotated_values_make_the_output_absolute():
    q, k, v = normal(8, 3, 6, 8)

    def output(q, k, v, positions):
        return rope_scores(q, k, positions) @ v

    for attend, relative in ((output, True), (mutants.values_rotated, False)):
        here, there = (attend(q, k, v, np.arange(6) + shift) for shift in (0, 11))
        assert np.allclose(here, there, atol=1e-11) == relative


@pytest.mark.parametrize("cosine", mutants.PRECISION, ids=lambda f: f.__name__)
def test_published_precision_is_lost_where_ours_is_not(cosine):
    d, positions = 128, np.arange(2**20 - 4096, 2**20)
    exact = np.cos(positions[:, None] * geometric(d))
    cos, _ = RoPE(d, layout="half").table(torch.tensor(positions))
    assert np.abs(cos.double().numpy() - exact).max() < 2**-25 + 1e-9
    cos, _ = RoPE(d, layout="half").table(range(2**20 - 4096, 2**20))
    assert np.abs(cos.double().numpy() - exact).max() < 2**-25 + 1e-9
    assert np.abs(cosine(positions, d) - exact).max() > 0.05


def test_bf16_holds_about_half_of_the_first_positions():
    held = torch.arange(1024).to(torch.bfloat16).unique()
    assert len(held) == 513


# The implementations.


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(
    tokens=st.integers(0, 9),
    start=st.integers(-(2**20), 2**20),
    step=st.integers(-3, 3).filter(bool),
    variant=variants(),
    as_range=st.booleans(),
    seed=seeds,
)
def test_torch_equals_the_reference(
    dtype, tokens, start, step, variant, as_range, seed
):
    d, options = variant
    layout, r = options["layout"], options["rotary_dim"] or d
    positions = range(start, start + tokens * step, step)
    given_positions = positions if as_range else torch.tensor(list(positions)).long()
    x = torch.tensor(normal(seed, 2, tokens, d)).to(dtype).requires_grad_()
    gradient = torch.tensor(normal(seed + 1, 2, tokens, d)).to(dtype)
    out = RoPE(d, **options)(x, given_positions)
    (back,) = torch.autograd.grad(out, x, gradient)
    assert out.dtype == back.dtype == dtype
    # The adjoint of a rotation is the rotation back.
    for ours, source, sign in ((out.detach(), x.detach(), 1), (back, gradient, -1)):
        exact = source.double().numpy()
        expected = rotary.rope(exact, sign * np.array(positions), **options)
        atol = bounds.rotated(exact[..., :r], positions, dtype, layout)
        close(ours.double().numpy()[..., :r], expected[..., :r], atol)
        assert np.array_equal(ours.double().numpy()[..., r:], exact[..., r:])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rotary_dim", [None, 16])
def test_torch_equals_the_reference_to_1e_13(layout, rotary_dim):
    q, k = normal(9, 2, 3, 4, 33, 64)
    options = dict(layout=layout, rotary_dim=rotary_dim)
    module = RoPE(64, **options)
    for positions in (range(33), torch.arange(33), torch.rand(3, 33).double() * 33):
        turned = module.rotate(torch.tensor(q), torch.tensor(k)[:, :2], positions)
        reference = np.asarray(positions)
        for ours, x in zip(turned, (q, k[:, :2]), strict=True):
            expected = rotary.rope(x, reference, **options)
            np.testing.assert_allclose(ours.numpy(), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("d, rotary_dim", [(2, None), (4, None), (6, None), (6, 4)])
def test_reference_equals_the_exact_implementation(layout, d, rotary_dim):
    x = np.linspace(-1, 1, d)
    options = dict(layout=layout, rotary_dim=rotary_dim)
    for position in (0, 1, -7, 2**20, sp.Rational(5, 2)):
        exact = symbolic.rope(sp.Matrix(x.tolist()), position, **options).evalf(30)
        turned = rotary.rope(x[None], [float(position)], **options)[0]
        atol = 2 * roundoff(float(position), terms=4)
        close(turned, np.array(exact, dtype=float).ravel(), atol)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_dense_implementation_is_the_exact_matrix(layout):
    exact = symbolic.rotation(5, exact_frequencies(6), layout=layout).evalf(30)
    dense = rotary.rotation(5, 6, layout=layout)
    close(dense, np.array(exact, dtype=float), roundoff(5))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rotary_dim", [None, 4])
def test_gradients_of_gradients_and_of_positions(layout, rotary_dim):
    rope = RoPE(6, layout=layout, rotary_dim=rotary_dim)
    x = torch.tensor(normal(10, 3, 6), requires_grad=True)
    positions = torch.tensor([0.5, -3.25, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: rope(x, positions.detach()), (x,))
    assert torch.autograd.gradgradcheck(lambda x: rope(x, positions.detach()), (x,))
    assert torch.autograd.gradcheck(rope, (x, positions))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rotary_dim", [None, 4])
def test_writing_into_a_buffer_is_the_same(layout, dtype, rotary_dim):
    rope = RoPE(8, layout=layout, rotary_dim=rotary_dim)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    cos, sin = rope.table(range(50, 57), dtype=wide)
    eps = torch.finfo(dtype).eps
    for x in (
        torch.randn(2, 3, 7, 8).to(dtype),
        torch.randn(2, 7, 3, 8).to(dtype).transpose(1, 2),
        torch.randn(2, 3, 8, 7).to(dtype).mT,
    ):
        out = torch.full((2, 3, 7, 8), torch.nan, dtype=dtype)
        assert rotate_pairs(x, cos, sin, layout=layout, out=out) is out
        assert torch.equal(out, rope(x, range(50, 57)))
        # Another order of memory may fuse a product and a sum: one rounding apart.
        torch.testing.assert_close(
            out, rope(x.contiguous(), range(50, 57)), rtol=2 * eps, atol=4 * eps
        )
        x.requires_grad_()
        with pytest.raises(ValueError, match="out= records no gradient"):
            rotate_pairs(x, cos, sin, layout=layout, out=out)
        with torch.no_grad():
            assert not rotate_pairs(x, cos, sin, layout=layout, out=out).requires_grad


@pytest.mark.parametrize("layout", LAYOUTS)
def test_half_precision_in_parts_is_the_same_as_at_once(layout):
    rope = RoPE(64, layout=layout)
    x = torch.randn(1, 16, 300, 64).to(torch.bfloat16)
    whole = rope(x, range(300))
    for i in (0, 63, 64, 127, 299):
        assert torch.equal(
            whole[:, :, i], rope(x[:, :, i : i + 1], range(i, i + 1))[:, :, 0]
        )


def test_rows_of_a_batch_may_have_positions_of_their_own():
    rope = RoPE(4, layout="half")
    x = torch.randn(2, 3, 5, 4, dtype=torch.float64)
    positions = torch.tensor([[0, 1, 2, 3, 4], [7, -1, 7, 900, 2]])
    out = rope(x, positions)
    for row in range(2):
        assert torch.equal(out[row], rope(x[row], positions[row]))


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "layout, options",
    [
        ("half", {"rotary_dim": 4}),
        ("interleaved", {"frequencies": [1.0, 0.3], "attention_factor": 1.25}),
    ],
)
def test_compiled_is_the_same(layout, options):
    torch.compiler.reset()
    rope = RoPE(8, layout=layout, **options)
    compiled = compiling.compiled(rope, fullgraph=True)
    x = torch.tensor(normal(11, 2, 5, 8), requires_grad=True)
    for positions in (range(7, 12), torch.arange(5) + 3, torch.rand(2, 5).double()):
        out, expected = compiled(x, positions), rope(x, positions)
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-13)
        gradient = torch.tensor(normal(12, 2, 5, 8))
        back, exact = (torch.autograd.grad(o, x, gradient)[0] for o in (out, expected))
        torch.testing.assert_close(back, exact, rtol=0, atol=1e-13)


def test_one_number_has_no_pairs(unchecked):
    with pytest.raises(ValueError, match="got a single number"):
        rotary.to_complex(np.float64(1.0), layout="half")


def test_repr_says_the_conventions():
    text = repr(RoPE(8, layout="half", rotary_dim=4, base=500000))
    assert text == "RoPE(8, layout='half', base=500000, rotary_dim=4)"
    text = repr(RoPE(8, layout="half", frequencies=[1.0], attention_factor=1.25))
    assert "frequencies given, attention_factor=1.25, rotary_dim=2" in text
    assert not list(RoPE(8, layout="half").state_dict())
