"""Sinusoidal encodings: properties, numbers, implementations, and mutants."""

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import absolute
from posedu.numpy.frequencies import frequencies as geometric
from posedu.numpy.frequencies import wavelengths
from posedu.sympy import absolute as symbolic
from posedu.sympy.frequencies import frequencies as exact_frequencies
from posedu.torch import Sinusoidal
from support import bounds, compiling

LAYOUTS = ("interleaved", "half")
SPACINGS = ("paper", "tensor2tensor")
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

variants = st.fixed_dictionaries(
    {
        "layout": st.sampled_from(LAYOUTS),
        "spacing": st.sampled_from(SPACINGS),
        "base": st.floats(1.01, 1e7) | st.just(10000),
    }
)
even = st.integers(1, 32).map(lambda pairs: 2 * pairs)
far = st.integers(-(2**20), 2**20) | st.floats(-(2.0**20), 2.0**20)


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


def unpacked(table, layout):
    """The sines and the cosines of a table."""
    d = table.shape[-1]
    if layout == "interleaved":
        return table[..., 0::2], table[..., 1::2]
    return table[..., : d // 2], table[..., d // 2 :]


# Properties.


@given(far, far, even, variants)
def test_a_shift_is_one_matrix_for_every_position(i, t, d, options):
    moved = absolute.offset_matrix(t, d, **options) @ absolute.sinusoidal(
        i, d, **options
    )
    close(moved, absolute.sinusoidal(i + t, d, **options), roundoff(i, t, i + t))


@given(far, far, even, variants)
def test_offset_matrices_are_rotations_that_compose(s, t, d, options):
    m_s, m_t = (absolute.offset_matrix(o, d, **options) for o in (s, t))
    close(m_s.T @ m_s, np.eye(d), roundoff())
    assert np.linalg.det(m_s) == pytest.approx(1, abs=8 * d * bounds.U64)
    close(m_s @ m_t, absolute.offset_matrix(s + t, d, **options), roundoff(s, t, s + t))
    close(m_s.T, absolute.offset_matrix(-s, d, **options), 0)


@given(st.floats(-1e4, 1e4), st.integers(2, 12), even, variants)
def test_inner_products_see_the_offset_without_its_sign(start, tokens, d, options):
    positions = start + np.arange(tokens)
    pe = absolute.sinusoidal(positions, d, **options)
    omega = geometric(d, base=options["base"], spacing=options["spacing"])
    offset = positions[:, None] - positions
    expected = np.cos(offset[..., None] * omega).sum(-1)
    close(pe @ pe.T, expected, d * roundoff(*positions[[0, -1]], terms=d))
    close(expected, expected.T, 0)
    close(np.diag(pe @ pe.T), np.full(tokens, d / 2), d * d * bounds.U64)


@given(even, st.floats(1.01, 1e7))
def test_wavelengths_are_geometric_between_the_published_ends(d, base):
    paper = wavelengths(d, base=base)
    assert paper[0] == 2 * np.pi
    assert paper[-1] == pytest.approx(2 * np.pi * base ** ((d - 2) / d), rel=1e-14)
    if d > 2:
        slow = wavelengths(d, base=base, spacing="tensor2tensor")
        assert slow[0] == 2 * np.pi
        assert slow[-1] == pytest.approx(2 * np.pi * base, rel=1e-15)
        for lengths in (paper, slow):
            ratios = lengths[1:] / lengths[:-1]
            np.testing.assert_allclose(ratios, ratios[0], rtol=1e-13)


@given(far, even, variants)
def test_a_wavelength_is_one_full_turn(i, d, options):
    kind = {key: options[key] for key in ("base", "spacing")}
    here = unpacked(absolute.sinusoidal(i, d, **options), options["layout"])
    for p, length in enumerate(wavelengths(d, **kind)):
        later = absolute.sinusoidal(i + length, d, **options)
        for member, moved in zip(here, unpacked(later, options["layout"]), strict=True):
            turn = roundoff(i, i + length) * geometric(d, **kind)[p]
            close(member[p], moved[p], turn + 16 * bounds.U64)


def test_layouts_hold_the_same_numbers():
    positions = np.array([-2.5, 0, 7])
    a = unpacked(absolute.sinusoidal(positions, 6, layout="interleaved"), "interleaved")
    b = unpacked(absolute.sinusoidal(positions, 6, layout="half"), "half")
    np.testing.assert_array_equal(a, b)


def test_integers_have_encodings_of_their_own():
    # The fastest pair alone distinguishes integers: its period 2π is irrational.
    fastest = absolute.sinusoidal(np.arange(100_000), 2, layout="half")
    angle = np.sort(np.arctan2(fastest[:, 0], fastest[:, 1]))
    # 355/113 is within 3e-7 of π: no two of these are closer than 710 and 2π · 113.
    assert np.diff(angle).min() > 2e-5


def test_projections_keep_it_relative_only_if_they_commute_with_shifts():
    d, i, t = 4, 3.0, 5.0
    m = absolute.offset_matrix(t, d, layout="interleaved")
    pe = absolute.sinusoidal([i, i + 2, i + t, i + 2 + t], d, layout="interleaved")
    kept = np.zeros((4, 4))
    kept[:2, :2], kept[2:, 2:] = [[0.7, -0.4], [0.4, 0.7]], [[-1.2, 0.3], [-0.3, -1.2]]
    broken = kept + np.diag([1.0, 0, 0, 0])
    for a, relative in ((kept, True), (broken, False)):
        assert np.allclose(m.T @ a @ m, a, atol=1e-14) == relative
        assert np.isclose(pe[0] @ a @ pe[1], pe[2] @ a @ pe[3], atol=1e-14) == relative


@pytest.mark.parametrize("spacing", SPACINGS)
def test_a_relative_score_ignores_content(spacing):
    """All scores that moving both tokens by one does not change.

    With h = (1, PE), a score is h(i)ᵀ K h(j): the first row and column of K are what
    the head makes of the contents. Up to its corner, content with content, they vanish,
    and d dimensions are left.
    """
    d = 4
    pe = absolute.sinusoidal(range(d + 2), d, layout="half", base=20, spacing=spacing)
    h = np.column_stack((np.ones(d + 2), pe))
    moved = np.kron(h[1:], h[1:]) - np.kron(h[:-1], h[:-1])
    _, size, vectors = np.linalg.svd(moved)
    rank = h.shape[1] ** 2 - (1 + d)
    off = moved.size * bounds.U64 * size[0]  # of a singular value
    assert size[rank] < off < size[rank - 1]
    relative = vectors[rank:].reshape(-1, d + 1, d + 1)
    assert np.abs(relative[:, 0, 1:]).max() < off / size[rank - 1]
    assert np.abs(relative[:, 1:, 0]).max() < off / size[rank - 1]


# Published numbers.


def test_worked_numbers_for_four_features():
    published = """0 1 0 1
                   .8415 .5403 .0100 1.0000
                   .9093 -.4161 .0200 .9998
                   .1411 -.9900 .0300 .9996"""
    rows = np.array([row.split() for row in published.splitlines()], dtype=float)
    close(absolute.sinusoidal(range(4), 4, layout="interleaved"), rows, 0.5e-4 + 1e-12)


def test_worked_formula_for_four_features():
    # PE(1) … PE(6) as printed on the slides: sin and cos of p / 10000^(2·0/4), then of
    # p / 10000^(2·1/4).
    for p in range(7):
        fast, slow = p / 10000 ** (2 * 0 / 4), p / 10000 ** (2 * 1 / 4)
        printed = [np.sin(fast), np.cos(fast), np.sin(slow), np.cos(slow)]
        close(absolute.sinusoidal(p, 4, layout="interleaved"), printed, 4 * bounds.U64)
        exact = symbolic.sinusoidal(p, exact_frequencies(4), layout="interleaved")
        close(np.array(exact.evalf(), dtype=float).ravel(), printed, 4 * bounds.U64)


def test_slides_show_the_first_features_of_twenty_not_of_four():
    four = absolute.sinusoidal(range(4), 4, layout="interleaved").T
    twenty = absolute.sinusoidal(range(4), 20, layout="interleaved").T[:4]
    assert np.abs(four - mutants.SLIDES)[:2].max() < 0.5e-3 + 1e-12
    assert np.abs(four - mutants.SLIDES)[2:].max() > 0.8
    close(twenty, mutants.SLIDES, 0.5e-3 + 1e-12)


def test_slowest_wavelength_of_the_base_model():
    assert wavelengths(512)[-1] == pytest.approx(60_611.5, abs=0.05)
    slow = wavelengths(512, spacing="tensor2tensor")[-1]
    assert slow == pytest.approx(62_831.85, abs=0.005)


# Wrong versions: each misses what the right one has.


def gram_spread(table):
    """The deviation of ⟨PE(p), PE(q)⟩ from a function of p − q."""
    gram = table @ table.T
    return max(np.ptp(np.diag(gram, o)) for o in range(len(gram)))


def shift_residual(table):
    """The deviation of PE(i) → PE(i + 1) from a single linear map."""
    m, *_ = np.linalg.lstsq(table[:-1], table[1:], rcond=None)
    return np.abs(table[:-1] @ m - table[1:]).max()


def misses(table_of, d=32):
    """The properties of a sinusoidal encoding that ``table_of`` lacks."""
    near = table_of(np.arange(600), d)
    turn = 2 * np.pi * 10000 ** ((d - 2) / d)
    ends = table_of(np.array([0, turn / 2, turn]), d)
    found = {
        "norm": np.ptp((near**2).sum(-1)) > 1e-9,
        "gram": gram_spread(near) > 1e-9,
        "shift": shift_residual(near) > 1e-9,
        "distinct": len(np.unique(near.round(9), axis=0)) < len(near),
        "half-turn": np.abs(ends[1, -2:] - [0, -1]).max() > 1e-9,
        "full turn": np.abs(ends[2, -2:] - [0, 1]).max() > 1e-9,
    }
    return {name for name, missed in found.items() if missed}


def test_the_right_version_misses_nothing():
    def right(positions, d):
        return absolute.sinusoidal(positions, d, layout="interleaved")

    assert misses(right) == set()


CAUGHT_BY = {
    mutants.exponent_doubled: "half-turn",
    mutants.missing_minus: "half-turn",
    mutants.divided_by_inverse: "half-turn",
    mutants.members_differ: "gram",
    mutants.raw_channel: "gram",
    mutants.parity_of_position: "shift",
    mutants.clipped_table: "distinct",
}


@pytest.mark.parametrize("table_of", mutants.SINUSOIDAL, ids=lambda f: f.__name__)
def test_published_wrong_versions_are_caught(table_of):
    assert CAUGHT_BY[table_of] in misses(table_of)


def test_sine_of_an_encoding_is_not_the_next_one():
    pe = absolute.sinusoidal(range(9), 8, layout="half")
    for k in range(1, 9):
        assert np.abs(mutants.shifted_by_sine(pe[0]) - pe[k]).max() > 0.1


def test_wavelengths_do_not_start_at_two():
    claimed = mutants.wavelengths_from_two(64)
    assert claimed[0] < wavelengths(64)[0] / 3
    after = absolute.sinusoidal(claimed[0], 64, layout="half")
    assert (
        np.abs(after - absolute.sinusoidal(0, 64, layout="half"))[[0, 32]].max() > 0.9
    )


def test_encodings_exist_beyond_every_training_length():
    far_away = 10**6 + np.arange(64)
    right = absolute.sinusoidal(far_away, 32, layout="interleaved")
    assert shift_residual(right) < 1e-9
    assert len(np.unique(right.round(9), axis=0)) == len(far_away)
    assert len(np.unique(mutants.clipped_table(far_away, 32), axis=0)) == 1


def test_inner_products_are_not_monotone_and_blind_to_the_sign():
    pe = absolute.sinusoidal(np.arange(-64, 65), 32, layout="half")
    scores = pe @ pe[64]
    np.testing.assert_allclose(scores, scores[::-1], atol=1e-12)
    assert (np.diff(scores[64:]) > 0).any() and scores.argmax() == 64


# The implementations.


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(
    tokens=st.integers(0, 9),
    start=st.integers(-(2**20), 2**20),
    step=st.integers(-3, 3).filter(bool),
    d=even,
    options=variants,
    as_range=st.booleans(),
    seed=st.integers(0, 9),
)
def test_torch_equals_the_reference(
    dtype, tokens, start, step, d, options, as_range, seed
):
    positions = range(start, start + tokens * step, step)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, tokens, d, generator=generator, dtype=torch.float64).to(dtype)
    x.requires_grad_()
    given_positions = positions if as_range else torch.tensor(list(positions)).long()
    out = Sinusoidal(d, **options)(x, given_positions)
    assert out.dtype == dtype
    exact = x.detach().double().numpy()
    expected = absolute.embed_sinusoidal(exact, positions, **options)
    close(
        out.detach().double().numpy(), expected, bounds.added(exact, positions, dtype)
    )
    gradient = torch.randn(out.shape, generator=generator).to(dtype)
    (back,) = torch.autograd.grad(out, x, gradient)
    assert torch.equal(back, gradient)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("spacing", SPACINGS)
def test_torch_equals_the_reference_to_1e_13(layout, spacing):
    x = np.random.default_rng(0).normal(size=(3, 33, 64))
    options = dict(layout=layout, spacing=spacing)
    expected = absolute.embed_sinusoidal(x, np.arange(33), **options)
    module = Sinusoidal(64, **options)
    for positions in (range(33), torch.arange(33), torch.arange(33).double()):
        out = module(torch.tensor(x), positions)
        np.testing.assert_allclose(out.numpy(), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("d", [2, 4, 6])
def test_reference_equals_the_exact_implementation(layout, spacing, d):
    x, options = np.linspace(-1, 1, d), dict(layout=layout, spacing=spacing)
    for position in (0, 1, -7, 2**20, sp.Rational(5, 2)):
        exact = symbolic.embed_sinusoidal(
            sp.Matrix(x.tolist()), position, **options
        ).evalf(30)
        row = absolute.embed_sinusoidal(x[None], [float(position)], **options)[0]
        close(
            row,
            np.array(exact, dtype=float).ravel(),
            roundoff(float(position), terms=4),
        )


def test_solved_offset_matrix_is_the_reference_one():
    omega = exact_frequencies(6)
    exact = np.array(symbolic.offset_matrix(5, omega).evalf(30), dtype=float)
    close(absolute.offset_matrix(5, 6, layout="interleaved"), exact, roundoff(5))


def test_commutant_is_the_block_rotations():
    v, w, t = sp.symbols("v w t", positive=True)
    a = symbolic.commutant([v, w], t)
    for r in range(4):
        for c in range(4):
            if r // 2 != c // 2:
                assert a[r, c] == 0
    for block in (a[:2, :2], a[2:, 2:]):
        assert block[0, 0] == block[1, 1] and block[0, 1] == -block[1, 0]
        assert block[0, 0].free_symbols and block[0, 1].free_symbols


def test_rows_of_a_batch_may_have_positions_of_their_own():
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    positions = torch.tensor([[0, 1, 2], [7, -1, 7]])
    out = Sinusoidal(4, layout="half")(x, positions)
    for row in range(2):
        alone = Sinusoidal(4, layout="half")(x[row], positions[row])
        assert torch.equal(out[row], alone)
    expected = absolute.embed_sinusoidal(x.numpy(), positions.numpy(), layout="half")
    close(out.numpy(), expected, bounds.added(x.numpy(), positions, torch.float64))


def test_real_positions_have_a_gradient():
    positions = torch.tensor([0.5, -3.25], dtype=torch.float64, requires_grad=True)
    x = torch.zeros(2, 6, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda p: Sinusoidal(6, layout="half")(x, p), (positions,)
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_table_is_rounded_last(dtype):
    positions = range(1_000_000, 1_000_064)
    exact = absolute.sinusoidal(positions, 64, layout="half")
    ours = Sinusoidal(64, layout="half").table(positions, dtype=dtype).double().numpy()
    close(ours, exact, bounds.table(np.array(positions), dtype))
    for published in mutants.PRECISION:
        off = published(np.array(positions), 64) - exact[:, 32:]
        assert np.abs(off).max() > 0.02, published.__name__


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_compiled_is_the_same(layout):
    torch.compiler.reset()
    module = Sinusoidal(8, layout=layout)
    compiled = compiling.compiled(module, fullgraph=True)
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    for positions in (range(1000, 1005), torch.arange(5), torch.rand(2, 5)):
        expected = module(x, positions)
        torch.testing.assert_close(compiled(x, positions), expected, rtol=0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_compiled_once_for_ranges_with_other_ends():
    torch.compiler.reset()
    module = Sinusoidal(8, layout="half")
    compiled = compiling.compiled(module, fullgraph=True)
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    for positions in (range(5), range(70, 75), range(5, 0, -1), range(0, 10, 2)):
        expected = module(x, positions)
        torch.testing.assert_close(compiled(x, positions), expected, rtol=0, atol=1e-13)


def test_repr_says_the_conventions():
    text = repr(Sinusoidal(8, layout="half", base=500))
    assert text == "Sinusoidal(8, layout='half', base=500, spacing='paper')"
