"""RoPE in several coordinates: grids, axial and mixed RoPE, and mutants."""

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import rotary
from posedu.sympy import rotary as symbolic
from posedu.torch import AxialRoPE, MixedRoPE, RoPE, grid
from posedu.torch.rotary import axial_frequencies
from support import bounds, compiling

LAYOUTS = ("interleaved", "half")
ORDERS = ("concatenated", "alternating")
COORDINATES = ("index", "centers", "ends")
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
DOUBLE = torch.float64

layouts, orders = st.sampled_from(LAYOUTS), st.sampled_from(ORDERS)
far = st.integers(-(2**20), 2**20) | st.floats(-(2.0**20), 2.0**20)
seeds = st.integers(0, 2**32 - 1)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def within(actual, expected, atol):
    __tracebackhide__ = True
    assert np.shape(actual) == np.shape(expected)
    excess = np.abs(np.asarray(actual) - np.asarray(expected)) - atol
    assert (excess <= 0).all(), f"{excess.max():.3g} beyond {np.max(atol):.3g}"


@st.composite
def points(draw, axes, least=1, most=5):
    """Some positions with ``axes`` coordinates, and an offset for all of them."""
    point = st.tuples(*[far] * axes)
    places = draw(st.lists(point, min_size=least, max_size=most))
    return np.array(places, dtype=float), np.array(draw(point), dtype=float)


@st.composite
def frequency_vectors(draw):
    """Frequency vectors ``[*heads, pairs, axes]`` of any size up to some radians."""
    heads = draw(st.sampled_from([(), (1,), (3,)]))
    pairs, axes = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    scale = 10.0 ** draw(st.integers(-6, 0))
    return scale * normal(draw(seeds), *heads, pairs, axes)


def size_of(positions, f):
    """Σ_k |x_k| |A_k| of each token, the largest over heads and pairs."""
    largest = np.abs(f).reshape(-1, f.shape[-1]).max(0)
    return np.abs(positions) @ largest


# Grids.

WIDE = {
    "index": [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]],
    "centers": np.array([[1, 1.5], [3, 1.5], [5, 1.5], [1, 4.5], [3, 4.5], [5, 4.5]])
    / 6,
    "ends": [[0, 0], [0.5, 0], [1, 0], [0, 1], [0.5, 1], [1, 1]],
}


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_patches_of_an_image_go_row_by_row_as_x_and_y(coordinates):
    for implementation in (rotary.grid, grid):
        np.testing.assert_allclose(
            implementation(3, 2, coordinates=coordinates),
            WIDE[coordinates],
            rtol=0,
            atol=1e-16,
        )


def test_one_count_is_a_line_and_three_are_a_video():
    for implementation in (rotary.grid, grid):
        assert implementation(3, coordinates="index").tolist() == [[0], [1], [2]]
        video = implementation(3, 2, 4, coordinates="index")
        assert video.shape == (24, 3)
        assert video[0].tolist() == [0, 0, 0]
        assert video[1 + 3 * (1 + 2 * 3)].tolist() == [1, 1, 3]
        for coordinates, only in (("index", 0), ("centers", 0.5), ("ends", 0)):
            assert implementation(1, 1, coordinates=coordinates).tolist() == [
                [only, only]
            ]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_grids_of_both_implementations_are_equal_and_lie_in_their_range(counts):
    for coordinates in COORDINATES:
        cells = rotary.grid(*counts, coordinates=coordinates)
        assert np.array_equal(cells, grid(*counts, coordinates=coordinates).numpy())
        assert len(np.unique(cells, axis=0)) == np.prod(counts) == len(cells)
        for axis, count in zip(cells.T, counts, strict=True):
            steps = np.diff(np.unique(axis))
            if coordinates == "index":
                assert set(axis) == set(range(count))
            elif coordinates == "centers":
                np.testing.assert_allclose(steps, 1 / count, atol=1e-15)
                assert axis.mean() == pytest.approx(0.5)
            elif count > 1:
                assert (axis.min(), axis.max()) == (0, 1)


def test_a_grid_lives_where_it_is_asked_for():
    assert grid(3, 2, coordinates="ends", device=torch.device("meta")).is_meta


# Axial frequencies.


def test_published_frequencies():
    concatenated = rotary.axial_frequencies(8, order="concatenated")
    np.testing.assert_allclose(concatenated, [[1, 0], [0.1, 0], [0, 1], [0, 0.1]])
    alternating = rotary.axial_frequencies(8, order="alternating")
    np.testing.assert_allclose(alternating, [[1, 0], [0, 1], [0.1, 0], [0, 0.1]])
    # t = 0 … d/4 − 1 of 100^(−4t/d): d/4 frequencies an axis, 100 itself not reached.
    of_x = rotary.axial_frequencies(64, order="concatenated")[:16, 0]
    np.testing.assert_allclose(of_x, 100 ** (-np.arange(16) / 16))
    video = rotary.axial_frequencies(12, order="alternating", axes=3, base=10000)
    np.testing.assert_allclose(video, np.vstack([np.eye(3), np.eye(3) / 100]))


@given(st.integers(1, 6), st.integers(1, 3), orders, st.floats(1.01, 1e6))
def test_frequencies_of_the_three_implementations(pairs, axes, order, base):
    d, options = 2 * axes * pairs, dict(order=order, base=base, axes=axes)
    f = rotary.axial_frequencies(d, **options)
    fast = axial_frequencies(d, **options).numpy()
    np.testing.assert_allclose(fast, f, rtol=8 * bounds.U64)
    options["base"] = sp.Rational(base)
    exact = np.array(symbolic.axial_frequencies(d, **options).evalf(20), dtype=float)
    np.testing.assert_allclose(f, exact, rtol=8 * bounds.U64)
    assert ((f > 0).sum(-1) == 1).all() and (f[f > 0] <= 1).all()


@given(st.integers(1, 5), st.integers(1, 3), layouts, seeds)
def test_the_two_orders_are_a_permutation_of_the_pairs_apart(pairs, axes, layout, seed):
    d = 2 * axes * pairs
    x, positions = normal(seed, 4, d), normal(seed + 1, 4, axes)
    one, other = (
        rotary.axial(x, positions, order=o, layout=layout, axes=axes) for o in ORDERS
    )
    order = np.arange(axes * pairs).reshape(axes, pairs).T.ravel()
    a, b = rotary.pairs(d, layout=layout)
    moved = np.empty(d, dtype=int)
    moved[a], moved[b] = a[order], b[order]
    turned = rotary.axial(
        x[:, np.argsort(moved)],
        positions,
        order="concatenated",
        layout=layout,
        axes=axes,
    )[:, moved]
    assert np.array_equal(turned, other)
    assert axes == 1 or pairs == 1 or not np.array_equal(one, other)


# Special cases.


@given(st.integers(1, 6), layouts, orders, st.floats(1.01, 1e6), seeds)
def test_axial_of_one_axis_is_rope(pairs, layout, order, base, seed):
    x, positions = normal(seed, 4, 2 * pairs), 100 * normal(seed + 1, 4)
    options = dict(layout=layout, base=base)
    line = rotary.axial(x, positions[:, None], order=order, axes=1, **options)
    assert np.array_equal(line, rotary.rope(x, positions, **options))
    module = AxialRoPE(2 * pairs, order=order, axes=1, **options)
    fast = module(torch.tensor(x), torch.tensor(positions)[:, None])
    rope = RoPE(2 * pairs, **options)(torch.tensor(x), torch.tensor(positions))
    assert torch.equal(fast, rope)


@given(st.integers(1, 4), seeds)
def test_axial_is_rope_by_x_and_rope_by_y(pairs, seed):
    x, positions = normal(seed, 5, 4 * pairs), 100 * normal(seed + 1, 5, 2)
    options = dict(layout="interleaved", base=100)
    halves = [
        rotary.rope(half, line, **options)
        for half, line in zip(np.split(x, 2, 1), positions.T, strict=True)
    ]
    turned = rotary.axial(x, positions, order="concatenated", layout="interleaved")
    assert np.array_equal(turned, np.hstack(halves))


@given(st.integers(1, 4), st.integers(1, 3), orders, layouts, seeds)
def test_mixed_with_a_frequency_on_one_axis_each_is_axial(
    pairs, axes, order, layout, seed
):
    d = 2 * axes * pairs
    x, positions = normal(seed, 2, 3, 4, d), 10 * normal(seed + 1, 4, axes)
    f = rotary.axial_frequencies(d, order=order, axes=axes)
    axial = rotary.axial(x, positions, order=order, layout=layout, axes=axes)
    mixed = rotary.mixed(x, positions, frequencies=f, layout=layout)
    assert np.array_equal(axial, mixed)
    arguments = torch.tensor(x), torch.tensor(positions)
    fast = AxialRoPE(d, order=order, layout=layout, axes=axes)(*arguments)
    general = MixedRoPE(d, layout=layout, frequencies=torch.tensor(f))(*arguments)
    size = size_of(positions, f)
    within(fast.numpy(), axial, bounds.rotated_blocks(x, size, 2, DOUBLE))
    within(general.detach(), fast.numpy(), bounds.rotated_blocks(x, size, 2, DOUBLE))


# Theorems.


@given(frequency_vectors(), layouts, st.data())
def test_scores_see_only_the_offset(f, layout, data):
    *heads, pairs, axes = f.shape
    positions, shift = data.draw(points(axes, least=2))
    q, k = normal(data.draw(seeds), 2, *heads, len(positions), 2 * pairs)
    scores = []
    for at in (positions, positions + shift):
        options = dict(frequencies=f, layout=layout)
        turned = [rotary.mixed(t, at, **options) for t in (q, k)]
        scores.append(turned[0] @ turned[1].swapaxes(-1, -2))
    size = size_of(np.abs(positions) + np.abs(shift), f).max()
    within(*scores, bounds.relative_scores(q, k, size))


@given(frequency_vectors(), st.data())
def test_rotations_compose_and_invert(f, data):
    f = f.reshape(-1, f.shape[-1])
    positions, shift = data.draw(points(f.shape[-1], most=1))
    there = size_of(np.abs(positions) + np.abs(shift), f).max()
    basis = np.eye(2 * len(f))

    def matrix(at):
        every = np.tile(at, (2 * len(f), 1))
        turned = rotary.mixed(basis, every, frequencies=f, layout="interleaved")
        return turned.T

    r, s = matrix(positions), matrix(shift)
    atol = 2 * bounds.rotation(there) + there * bounds.U64
    within(r @ s, matrix(positions + shift), atol)
    within(r.T, matrix(-positions), 0)
    within(r.T @ r, np.eye(len(r)), atol)
    assert np.linalg.det(r) == pytest.approx(1, abs=16 * len(r) * bounds.U64)
    assert np.array_equal(matrix(0 * shift), basis)


@given(st.integers(1, 3), orders, layouts, st.data())
def test_the_modules_are_relative_too(pairs, order, layout, data):
    d = 4 * pairs
    positions, shift = map(torch.tensor, data.draw(points(2, least=2)))
    q, k = torch.tensor(normal(data.draw(seeds), 2, 3, len(positions), d))
    torch.manual_seed(0)
    for module in (
        AxialRoPE(d, order=order, layout=layout),
        MixedRoPE(d, layout=layout, heads=3).double(),
    ):
        scores = []
        for at in (positions, positions + shift):
            turned = module.rotate(q, k, at)
            scores.append((turned[0] @ turned[1].mT).detach().numpy())
        size = (positions.abs() + shift.abs()).sum(-1).max().item()
        within(*scores, bounds.relative_scores(q.numpy(), k.numpy(), size))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_token_at_the_origin_is_not_turned_and_sees_where_the_patches_are(layout):
    module = MixedRoPE(8, layout=layout, heads=2).double()
    patches = grid(3, 2, coordinates="index")
    x = torch.tensor(normal(0, 2, 7, 8))
    scores = []
    for shift in ([0, 0], [5, -2]):
        positions = torch.cat((torch.zeros(1, 2), patches + torch.tensor(shift)))
        turned = module(x, positions)
        assert torch.equal(turned[:, 0], x[:, 0])
        scores.append((turned @ turned.mT).detach())
    torch.testing.assert_close(*(s[:, 1:, 1:] for s in scores), rtol=0, atol=1e-13)
    assert (scores[0][:, 0, 1:] - scores[1][:, 0, 1:]).abs().max() > 0.1


# The start of mixed RoPE.


@pytest.mark.parametrize("heads", [None, 3])
def test_mixed_starts_as_axial_in_a_frame_of_each_head_s_own(heads):
    torch.manual_seed(1)
    d = 12
    f = MixedRoPE.initial_frequencies(d, heads=heads).numpy().reshape(-1, d // 2, 2)
    lengths = np.linalg.norm(f, axis=-1)
    np.testing.assert_allclose(
        lengths, np.tile(10.0 ** (-np.arange(3) / 3), (len(f), 2))
    )
    x, positions = normal(0, 5, d), 10 * normal(1, 5, 2)
    for own in f:
        c, s = own[0]
        frame = np.array([[c, s], [-s, c]])  # by −φ, where (c, s) points to φ
        mixed = rotary.mixed(x, positions, frequencies=own, layout="half")
        axial = rotary.axial(
            x, positions @ frame.T, order="concatenated", layout="half", base=10
        )
        np.testing.assert_allclose(mixed, axial, rtol=0, atol=1e-12)


def test_the_frames_are_uniform():
    torch.manual_seed(2)
    first = MixedRoPE.initial_frequencies(4, heads=4000)[:, 0]
    # Each component has mean 0 and variance 1/2, each square mean 1/2, variance 1/8.
    assert (first.mean(0).abs() < 5 * (1 / 2 / 4000) ** 0.5).all()
    assert ((first.square().mean(0) - 1 / 2).abs() < 5 * (1 / 8 / 4000) ** 0.5).all()
    signs = {tuple(s) for s in first.sign().int().tolist()}
    assert signs == {(1, 1), (1, -1), (-1, 1), (-1, -1)}


def test_frequencies_are_trained_in_the_default_dtype_or_the_given_one():
    module = MixedRoPE(8, layout="half", heads=2)
    assert module.frequencies.dtype == torch.float32
    assert module.frequencies.shape == (2, 4, 2) and module.frequencies.requires_grad
    start = torch.randn(3, 1, dtype=DOUBLE)
    line = MixedRoPE(6, layout="half", frequencies=start)
    assert torch.equal(line.frequencies, start) and line.axes == 1
    with torch.no_grad():
        line.frequencies += 1
    assert not torch.equal(line.frequencies, start), "the start is a copy"
    assert not [*AxialRoPE(8, order="alternating", layout="half").state_dict()]


# Implementations.


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("parameters", [DOUBLE, torch.float32, torch.bfloat16], ids=str)
def test_mixed_is_the_reference_in_every_dtype(layout, heads, dtype, parameters):
    torch.manual_seed(3)
    module = MixedRoPE(8, layout=layout, heads=heads).to(parameters)
    f = module.frequencies.detach().double().numpy()
    x = torch.randn(3, 2, 6, 8, dtype=DOUBLE).to(dtype)
    for positions in (
        grid(3, 2, coordinates="index"),
        torch.tensor(normal(4, 3, 6, 2) * 1000),
        torch.randint(-(2**20), 2**20, (6, 2)),
    ):
        turned = module(x, positions)
        assert turned.dtype == dtype
        exact, at = x.double().numpy(), positions.numpy()
        expected = rotary.mixed(exact, at, frequencies=f, layout=layout)
        size = size_of(at, f)
        size = size if size.ndim == 1 else size[:, None]
        atol = bounds.rotated_blocks(exact, size, 2, dtype)
        within(turned.detach().double().numpy(), expected, atol)


@pytest.mark.parametrize("heads", [None, 2])
def test_rows_of_a_batch_may_have_positions_of_their_own(heads):
    module = MixedRoPE(8, layout="half", heads=heads).double()
    x, positions = torch.randn(3, 2, 5, 8).double(), torch.randn(3, 5, 2).double()
    out = module(x, positions)
    for row in range(3):
        assert torch.equal(out[row], module(x[row], positions[row]))


def test_neighboring_heads_share_frequencies_under_grouped_queries():
    module = MixedRoPE(8, layout="half", heads=2).double()
    q, k = torch.randn(3, 6, 5, 8).double(), torch.randn(3, 2, 5, 8).double()
    positions = torch.randn(5, 2).double()
    turned_q, turned_k = module.rotate(q, k, positions)
    for head in range(6):
        own = module.frequencies[head // 3]
        alone = MixedRoPE(8, layout="half", frequencies=own)
        torch.testing.assert_close(turned_q[:, head], alone(q[:, head], positions))
        if head < 2:
            own = MixedRoPE(8, layout="half", frequencies=module.frequencies[head])
            torch.testing.assert_close(turned_k[:, head], own(k[:, head], positions))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_reach_features_positions_and_frequencies(layout):
    start = torch.tensor(normal(5, 2, 3, 2))
    module = MixedRoPE(6, layout=layout, heads=2, frequencies=start)
    x = torch.tensor(normal(6, 2, 4, 6), requires_grad=True)
    positions = torch.tensor(normal(7, 4, 2), requires_grad=True)

    def turn(x, positions, f):
        return torch.func.functional_call(module, {"frequencies": f}, (x, positions))

    assert torch.autograd.gradcheck(turn, (x, positions, module.frequencies))
    assert torch.autograd.gradgradcheck(turn, (x, positions, module.frequencies))


@pytest.mark.parametrize("order", ORDERS)
def test_axial_is_the_exact_implementation(order):
    d, x = 8, np.linspace(-1, 1, 8)
    for layout in LAYOUTS:
        for at in ((0, 0), (3, -1), (sp.Rational(1, 2), 2**20)):
            options = dict(order=order, layout=layout)
            exact = symbolic.axial(sp.Matrix(x.tolist()), at, **options).evalf(30)
            turned = rotary.axial(x[None], [[float(t) for t in at]], **options)
            size = np.array([sum(abs(float(t)) for t in at)])
            atol = bounds.rotated_blocks(x[None], size, 2, DOUBLE)
            within(turned, np.array(exact, dtype=float).T, atol)
    assert symbolic.mixed_rotation([0, 0], sp.ones(d // 2, 2), layout="half") == sp.eye(
        d
    )


def test_tables_have_heads_before_tokens_and_float64_angles():
    module = MixedRoPE(8, layout="half", heads=3)
    cos, sin = module.table(torch.tensor([[2**20, 0.0]]))
    assert cos.shape == sin.shape == (3, 1, 4) and cos.dtype == torch.float32
    angle = 2**20 * module.frequencies[:, None, :, 0].double()
    assert torch.equal(cos, angle.cos().float())
    fine, _ = module.table(torch.zeros(2, 1, 7, 2), dtype=DOUBLE)
    assert fine.shape == (2, 3, 7, 4) and fine.dtype == DOUBLE


# Wrong versions.


def right(x, positions):
    return rotary.axial(x, positions, order="concatenated", layout="interleaved")


def misses(axial, d=16):
    """The properties of axial RoPE that ``axial`` lacks, on a grid of 5 × 3."""
    patches = rotary.grid(5, 3, coordinates="index")
    x, ones, half = normal(8, 15, d), np.ones((15, d)), d // 4

    def scores(positions):
        return axial(x, positions) @ axial(x, positions).T

    def angles(cell):
        turned = axial(ones, patches)[[cell]]
        return np.angle(rotary.to_complex(turned, layout="interleaved"))[0] - np.pi / 4

    right, down = angles(1), angles(5)
    theta = 100 ** (-np.arange(half) / half)
    found = {
        "relative": np.ptp([scores(patches), scores(patches - 7)], 0).max() > 1e-9,
        "the first half looks at x": np.abs(right[half:]).max() > 1e-9,
        "the second half looks at y": np.abs(down[:half]).max() > 1e-9,
        "frequencies of x": np.abs(right[:half] - theta).max() > 1e-9,
        "frequencies of y": np.abs(down[half:] - theta).max() > 1e-9,
        "cells are told apart": len({*map(tuple, axial(ones, patches).round(9))}) < 15,
    }
    return {name for name, missed in found.items() if missed}


def test_the_right_version_misses_nothing():
    assert misses(right) == set()


CAUGHT_BY = {
    mutants.axes_swapped: {"the first half looks at x", "the second half looks at y"},
    mutants.one_frequency_too_many: {"the first half looks at x", "frequencies of y"},
    mutants.exponent_of_all_pairs: {"frequencies of x", "frequencies of y"},
    mutants.axes_summed: {"cells are told apart"},
    mutants.index_in_row_order: {"the first half looks at x", "frequencies of y"},
}


@pytest.mark.parametrize("axial", mutants.AXIAL, ids=lambda f: f.__name__)
def test_wrong_versions_are_caught(axial):
    assert CAUGHT_BY[axial] <= misses(axial)


def test_a_square_grid_hides_swapped_axes():
    # Why no test here uses one: as a set, the tokens of a square image are the same.
    def turned(implementation, width, height):
        patches = rotary.grid(width, height, coordinates="index")
        return {
            tuple(r)
            for r in implementation(np.ones((len(patches), 8)), patches).round(9)
        }

    assert turned(right, 3, 3) == turned(mutants.axes_swapped, 3, 3)
    assert turned(right, 5, 3) != turned(mutants.axes_swapped, 5, 3)


# Modules.


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", ["axial", "mixed"])
def test_compiled_is_the_same(kind):
    torch.compiler.reset()
    module = {
        "axial": AxialRoPE(8, order="alternating", layout="half"),
        "mixed": MixedRoPE(8, layout="interleaved", heads=2).double(),
    }[kind]
    compiled = compiling.compiled(module, fullgraph=True)
    x = torch.tensor(normal(9, 3, 2, 6, 8), requires_grad=True)
    leaves = [x, *module.parameters()]
    positions, gradient = grid(3, 2, coordinates="index"), torch.randn(3, 2, 6, 8)
    results = []
    for implementation in (module, compiled):
        out = implementation(x, positions)
        results.append([out, *torch.autograd.grad(out, leaves, gradient.double())])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-12)


def test_repr_says_the_conventions():
    axial = AxialRoPE(12, order="alternating", layout="half", axes=3)
    assert repr(axial) == (
        "AxialRoPE(12, order='alternating', layout='half', base=100, axes=3)"
    )
    mixed = MixedRoPE(8, layout="half", heads=2)
    assert repr(mixed) == "MixedRoPE(8, layout='half', heads=2, axes=2)"
