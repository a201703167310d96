"""LieRE: matrix exponentials, conditions of relativity, and their normal form."""

import mpmath
import numpy as np
import pytest
import scipy.linalg
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import rotary
from posedu.sympy import rotary as symbolic
from posedu.torch import LieRE, MixedRoPE, RoPE, grid, rotate_blocks
from posedu.torch.rotary import exponential, skew
from posedu.torch.rotary import rotations as rotations_of_torch
from support import bounds, compiling

BLOCKS = (2, 3, 4, 5, 8)
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
DOUBLE = torch.float64
# Generators of counter-clockwise rotations about z and about x.
L_Z = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 0]])
L_X = np.array([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]])

blocks = st.sampled_from(BLOCKS)
far = st.integers(-(2**20), 2**20) | st.floats(-(2.0**20), 2.0**20)
seeds = st.integers(0, 2**32 - 1)
scales = st.integers(-6, 1).map(lambda n: 10.0**n)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def random_skew(seed, *rows, block):
    return rotary.skew(normal(seed, *rows, block * (block - 1) // 2))


def within(actual, expected, atol):
    __tracebackhide__ = True
    assert np.shape(actual) == np.shape(expected)
    excess = np.abs(np.asarray(actual) - np.asarray(expected)) - atol
    assert (excess <= 0).all(), f"{excess.max():.3g} beyond {np.max(atol):.3g}"


def norm(a):
    return np.linalg.norm(a, ord=2, axis=(-2, -1)).max(initial=0.0)


def size_of(positions, generators):
    """Σ_k |x_k| |A_k| of each token, the largest over heads and blocks."""
    norms = np.linalg.norm(generators, ord=2, axis=(-2, -1))
    largest = np.moveaxis(norms, -2, -1).reshape(-1, norms.shape[-2]).max(0)
    return np.abs(positions) @ largest


def rotation(position, generators):
    """R(x) of one block, for generators ``[axes, b, b]``."""
    return rotary.rotations(np.array([position], float), generators[:, None])[0, 0]


def violation(x, y, generators):
    """The difference of R(x)ᵀ R(y) and R(y − x)."""
    r_x, r_y = rotation(x, generators), rotation(y, generators)
    return r_x.T @ r_y - rotation(np.subtract(y, x), generators)


def planes(f):
    """blockdiag_p(f_p J) for each coordinate, ``[axes, d, d]``."""
    turn = np.array([[0.0, -1], [1, 0]])
    return np.stack([np.kron(np.diag(column), turn) for column in f.T])


def orthogonal(seed, d):
    return np.linalg.qr(normal(seed, d, d))[0]


# Generators and their exponentials.


def test_entries_fill_the_upper_triangle_row_by_row():
    expected = [[0, 1, 2], [-1, 0, 3], [-2, -3, 0]]
    assert rotary.skew(np.array([1.0, 2, 3])).tolist() == expected
    assert skew(torch.tensor([1.0, 2, 3])).tolist() == expected
    assert symbolic.skew([1, 2, 3]) == sp.Matrix(expected)
    # A positive entry rotates clockwise.
    turn = rotary.exponential(rotary.skew(np.array([np.pi / 2])))
    np.testing.assert_allclose(turn @ [1, 0], [0, -1], atol=1e-15)


@settings(max_examples=40)
@given(blocks, st.integers(-9, 3), seeds)
def test_exponentials_are_the_series_to_forty_digits(block, exponent, seed):
    a = 10.0**exponent * random_skew(seed, 1, block=block)
    with mpmath.workdps(40):
        exact = mpmath.expm(mpmath.matrix(a[0].tolist())).tolist()
    expected = np.array(exact, dtype=float)[None]
    atol = bounds.rotation(norm(a), block)
    within(rotary.exponential(a), expected, atol)
    within(exponential(torch.tensor(a)), expected, atol)


def test_the_gradient_of_no_turn_is_a_number():
    entries = torch.zeros(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(exponential(skew(entries))[0, 1], entries)
    assert torch.equal(gradient.abs(), torch.tensor([1.0, 0.0, 0.0]))


@pytest.mark.parametrize(("size", "beside"), [(0.0, 1e-15), (1e3, 1e-12)])
def test_a_rounding_beside_skew_is_skew_and_more_is_not(size, beside):
    """The bound is 8 b u (1 + s), here 2.7e-15 for A = 0 and 3.8e-12 for s = 1414."""
    a = size * rotary.skew(np.array([1.0, 0.0, 0.0]))
    rotary.exponential(a + beside / 2 * np.eye(3))
    with pytest.raises(ValueError, match="must be skew"):
        rotary.exponential(a + 2 * beside * np.eye(3))


@given(blocks, st.integers(-9, 6), seeds)
def test_exponentials_of_skew_matrices_are_rotations(block, exponent, seed):
    a = 10.0**exponent * random_skew(seed, 3, block=block)
    for r in (rotary.exponential(a), exponential(torch.tensor(a)).numpy()):
        # To first order RᵀR is off by twice what R is; det R = Π of b such factors.
        atol = 2 * bounds.rotation(norm(a), block)
        within(r.swapaxes(-1, -2) @ r, np.broadcast_to(np.eye(block), a.shape), atol)
        within(np.linalg.det(r), np.ones(3), block * atol)


@given(st.integers(2, 6), seeds)
def test_every_rotation_is_the_exponential_of_a_skew_matrix(d, seed):
    q = orthogonal(seed, d)
    q[:, 0] *= np.sign(np.linalg.det(q))
    a = scipy.linalg.logm(q).real
    np.testing.assert_allclose(a, -a.T, rtol=0, atol=1e-10)
    np.testing.assert_allclose(rotary.exponential(skew_part(a)), q, rtol=0, atol=1e-10)


def test_neither_half_of_the_definition_suffices_and_turns_come_round():
    reflection, shear = np.diag([1.0, -1.0]), np.array([[1.0, 1], [0, 1]])
    assert np.array_equal(reflection.T @ reflection, np.eye(2))
    assert np.linalg.det(reflection) == -1  # no exponential has it
    assert np.linalg.det(shear) == 1 and not np.allclose(shear.T @ shear, np.eye(2))
    # exp is not injective: a full turn, and two half turns, give the identity.
    for a in (2 * np.pi * L_Z, 2 * np.pi * (0.6 * L_Z + 0.8 * L_X)):
        within(rotary.exponential(a), np.eye(3), bounds.rotation(2 * np.pi, 3))


@pytest.mark.parametrize("size", [3e-4, 1e-3, 0.01, 0.04, 0.3])
def test_one_large_block_alone_is_as_exact_as_among_others(size):
    # torch.matrix_exp is not: of one matrix it may take another series, a wrong one.
    a = torch.tensor(size * random_skew(0, 1, block=6)).requires_grad_()
    alone, among = exponential(a), exponential(a.expand(2, 6, 6))
    within(alone[0].detach(), among[0].detach(), bounds.rotation(size, 6))
    gradient = torch.tensor(normal(1, 6, 6))
    slopes = [torch.autograd.grad(r[0], a, gradient)[0] for r in (alone, among)]
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-13)


PLANES = [(b, p) for b in (3, 4) for p in range(b * (b - 1) // 2)]


@pytest.mark.parametrize("block, plane", PLANES)
def test_closed_forms_are_exact_to_the_last_digits_at_any_angle(block, plane):
    rows, columns = np.triu_indices(block, 1)
    i, j = rows[plane], columns[plane]
    # Around 10⁻³ and 2 · 10⁻³ the series take over, one for each half or whole angle.
    for angle in (0, 1e-12, 1e-8, 1e-4, 9.9e-4, 1.01e-3, 1.99e-3, 2.01e-3, 0.1, 3, 700):
        entry = torch.tensor(float(angle), dtype=DOUBLE, requires_grad=True)
        entries = torch.zeros(len(rows), dtype=DOUBLE)
        r = exponential(skew(entries.index_put((torch.tensor(plane),), entry)))
        (slope,) = torch.autograd.grad(r[i, j], entry, retain_graph=True)
        (fall,) = torch.autograd.grad(r[i, i], entry)
        roundings = 8 * bounds.U64 * (1 + angle)
        assert r[i, j].item() == pytest.approx(np.sin(angle), rel=roundings, abs=0)
        assert r[i, i].item() == pytest.approx(np.cos(angle), abs=roundings)
        assert slope.item() == pytest.approx(np.cos(angle), abs=roundings)
        assert fall.item() == pytest.approx(-np.sin(angle), abs=roundings)


@pytest.mark.parametrize("block", [2, 3, 4, 5])
@pytest.mark.parametrize("size", [0, 1e-8, 1e-4, 1e-3, 1, 30])
def test_gradients_of_exponentials(block, size):
    free = block * (block - 1) // 2
    entries = torch.tensor(size * normal(block, 2, free), requires_grad=True)

    def rotate(entries):
        return exponential(skew(entries))

    assert torch.autograd.gradcheck(rotate, (entries,))
    assert torch.autograd.gradgradcheck(rotate, (entries,), fast_mode=block > 4)
    if size == 0:
        assert torch.equal(rotate(entries), torch.eye(block).double().expand(2, -1, -1))


@pytest.mark.parametrize("block", [2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_exponentials_are_the_exact_implementation_s(block, seed):
    free = block * (block - 1) // 2
    entries = np.random.default_rng(seed).integers(-5, 6, free) / 4
    exact = symbolic.exponential(symbolic.skew([sp.Rational(e) for e in entries]))
    a = rotary.skew(entries)
    atol = bounds.rotation(norm(a), block)
    for ours in (rotary.exponential(a), exponential(torch.tensor(a))):
        within(ours, np.array(exact.evalf(30), dtype=float), atol)


def test_isoclinic_parts_commute_and_square_to_multiples_of_one():
    a = symbolic.skew(sp.symbols("a:6", real=True))
    plus, minus = symbolic.isoclinic(a)
    assert plus + minus == a
    assert symbolic.commutator(plus, minus) == sp.zeros(4)
    for part in (plus, minus):
        square = (part * part).expand()
        assert square == square[0, 0] * sp.eye(4)


# When scores see only the offset.


@st.composite
def commuting(draw):
    """Commuting generators ``[axes, 1, d, d]`` in a basis, and their planes."""
    pairs, axes = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    f = np.random.default_rng(draw(seeds)).integers(-3, 4, (pairs, axes)) / 2
    basis = orthogonal(draw(seeds), 2 * pairs)
    generators = basis @ planes(f) @ basis.T
    return (generators - generators.swapaxes(-1, -2))[:, None] / 2, f, basis


@given(commuting(), st.data())
def test_commuting_generators_are_relative(given_generators, data):
    generators, _, _ = given_generators
    (axes, _, d, _), n = generators.shape, 4
    point = st.lists(far, min_size=axes, max_size=axes)
    positions = np.array(data.draw(st.lists(point, min_size=n, max_size=n)), float)
    shift = np.array(data.draw(point), float)
    q, k = normal(data.draw(seeds), 2, n, d)
    scores = []
    for at in (positions, positions + shift):
        turned = [rotary.rotate_by_generators(t, at, generators) for t in (q, k)]
        scores.append(turned[0] @ turned[1].T)
    size = size_of(np.abs(positions) + np.abs(shift), generators).max()
    # What was to be Q F Qᵀ is off by d (d + 1) u |F| for the sums of its product, and
    # by as much for a Q that is orthogonal but for rounding: in each of four rotations.
    uneven = 4 * 2 * d * (d + 1) * bounds.U64 * size
    length = np.linalg.norm(q, axis=-1)[:, None] * np.linalg.norm(k, axis=-1)
    within(*scores, bounds.relative_scores(q, k, size, d) + uneven * length)


@given(blocks, scales, st.lists(far, min_size=2, max_size=5), far, seeds)
def test_one_axis_is_always_relative(block, scale, line, shift, seed):
    entries = scale * normal(seed, 1, 2, block * (block - 1) // 2)
    positions = np.array(line, dtype=float)[:, None]
    q, k = normal(seed + 1, 2, len(line), 2 * block)
    scores = []
    for at in (positions, positions + shift):
        turned = [rotary.liere(t, at, entries=entries, block=block) for t in (q, k)]
        scores.append(turned[0] @ turned[1].T)
    size = size_of(np.abs(positions) + abs(shift), rotary.skew(entries)).max()
    within(*scores, bounds.relative_scores(q, k, size, block))


@given(st.sampled_from([3, 4, 5, 8]), st.floats(1e-3, 1e-1), seeds)
def test_two_generic_axes_fail_by_half_the_commutator(block, t, seed):
    a, b = generators = random_skew(seed, 2, block=block)
    off = violation([t, 0], [0, t], generators)
    # Both sides have third derivatives of norm at most (|A| + |B|)³, so each is its
    # second-order Taylor polynomial but for t³ (|A| + |B|)³ / 6.
    third = (t * (norm(a) + norm(b))) ** 3 / 3
    second = -t * t * (a @ b - b @ a) / 2
    assert norm(off - second) <= third + bounds.rotation(t * norm(a) + t * norm(b), 8)
    quartered = mutants.commutator_quartered(t, t, a, b)
    if norm(second) > 4 * third:
        assert norm(off - quartered) > third


@given(st.sampled_from([3, 4, 5, 8]), st.tuples(far, far), st.booleans(), seeds)
def test_pairs_with_the_origin_hold_for_any_generators(block, point, first, seed):
    # Why a test of relativity must keep away from the origin.
    generators = random_skew(seed, 2, block=block)
    pair = ([0, 0], point) if first else (point, [0, 0])
    size = size_of(np.array(point, float), generators[:, None])
    assert norm(violation(*pair, generators)) <= 2 * bounds.rotation(size, block)


@pytest.mark.parametrize("block", [3, 4, 8, 16])
def test_liere_as_it_starts_is_as_far_from_relative_as_can_be(block):
    torch.manual_seed(block)
    module = LieRE(block, block=block)
    generators = module.generators().detach().numpy()[:, 0]
    off = norm(violation([1, 0], [0, 1], generators))
    assert 1 < off < 2 + 1e-9  # the difference of two rotations has norm ≤ 2
    patches, x = grid(3, 2, coordinates="ends"), torch.randn(6, block)
    scores = []
    for shift in (0.0, 0.5):
        turned = module(x, patches + shift)
        scores.append((turned @ turned.T).detach())
    assert (scores[0] - scores[1]).abs().max() > 0.5


@pytest.mark.parametrize(
    "c, least, most", [(0.01, 1e-4, 3e-4), (0.1, 0.01, 0.03), (1, 0.8, 1.6)]
)
def test_published_violations_against_the_size_of_the_generators(c, least, most):
    """Entries uniform in [0, c), 8 × 8, x = (1, 0) and y = (0, 1).

    Half the commutator: it grows with c² until two rotations cannot be further apart.
    """
    for seed in range(5):
        uniform = np.random.default_rng(seed).uniform(size=(2, 28))
        off = norm(violation([1, 0], [0, 1], rotary.skew(c * uniform)))
        assert least < off < most


def test_the_quarter_turns_are_the_published_counter_example():
    generators = np.pi / 2 * np.stack([L_Z, L_X])
    x, y = [1, 0], [0, 1]
    product = rotation(x, generators).T @ rotation(y, generators)
    by_hand = [[0, 0, -1], [-1, 0, 0], [0, 1, 0]]
    np.testing.assert_allclose(product, by_hand, rtol=0, atol=1e-15)
    offset = rotation([-1, 1], generators)
    # A rotation by π/√2 about the axis (1, 0, −1)/√2.
    c, s = np.cos(np.pi / np.sqrt(2)), np.sin(np.pi / np.sqrt(2))
    up, down, side = (1 + c) / 2, (c - 1) / 2, s / np.sqrt(2)
    exact = [[up, side, down], [-side, c, -side], [down, side, up]]
    np.testing.assert_allclose(offset, exact, rtol=0, atol=1e-15)
    rounded = [[0.1972, 0.5626, -0.8028], [-0.5626, -0.6057, -0.5626]]
    assert offset[:2].round(4).tolist() == rounded
    assert norm(product - offset) > 1


def test_on_a_finite_grid_the_law_can_hold_without_commuting():
    # Angles 6π, 8π and, for both together, 10π: every rotation of the grid is 1.
    generators = np.pi * np.stack([6 * L_Z, 8 * L_X])
    corners = rotary.grid(2, 2, coordinates="index")
    atol = 2 * bounds.rotation(14 * np.pi, 3)
    for x in corners:
        for y in corners:
            assert norm(violation(x, y, generators)) <= atol
    commutator = generators[0] @ generators[1] - generators[1] @ generators[0]
    assert norm(commutator) == pytest.approx(48 * np.pi**2)
    off = violation([0.5, 0], [0, 0.5], generators)
    # Half turns about z and about (−0.8, 0, 0.6): 2 sin of the angle between the axes.
    assert norm(off) == pytest.approx(1.6) and np.abs(off).max() == pytest.approx(1.28)


def test_pairs_on_a_line_through_the_origin_say_nothing_about_the_law():
    generators = random_skew(4, 2, block=5)
    atol = 3 * bounds.rotation(
        size_of(np.array([[4.0, 4.0]]), generators[:, None])[0], 5
    )
    for x, y in (([0, 0], [1, 2]), ([1, 1], [3, 3]), ([-1, 2], [0.5, -1])):
        assert norm(violation(x, y, generators)) <= atol
    assert norm(violation([1, 1], [3, 2], generators)) > 0.1


def test_a_sum_of_skew_matrices_has_an_exponential_however_it_is_rounded():
    # BLAS may round the two triangles differently
    for seed in range(100):
        axes, block = 1 + seed % 7, 2 + seed % 9
        a = random_skew(seed, axes, block=block)
        position = 10 * normal(seed, axes)
        limit = bounds.rotation(size_of(position, a[:, None]), block)
        within(
            rotary.exponential(np.tensordot(position, a, 1)),
            rotation(position, a),
            2 * limit,
        )


def test_rotations_do_not_mind_how_their_sums_are_rounded(monkeypatch):
    a = random_skew(0, 2, 1, block=4)
    a[1] = (1 + 2.0**-20) * a[0]
    place, einsum = 2.0**20 * np.array([[1.0, -1]]), np.einsum
    expected = rotary.rotations(place, a)
    unit = bounds.U64 * size_of(place, a).max()
    upper = np.triu(np.full((4, 4), unit), 1)
    monkeypatch.setattr(np, "einsum", lambda *args: einsum(*args) + upper)
    within(rotary.rotations(place, a), expected, 4 * unit)


# The normal form.


@given(commuting())
def test_the_normal_form_turns_the_same_planes(given_generators):
    generators, f, _ = given_generators
    generators = generators[:, 0]
    basis, frequencies = rotary.normal_form(generators)
    d = len(basis)
    np.testing.assert_allclose(basis.T @ basis, np.eye(d), rtol=0, atol=1e-13)
    # Planes that a generic combination almost mixes up are found less exactly: by the
    # inverse of their distance there, on this lattice of frequencies above 10⁻³.
    atol = 1e4 * d * (1 + np.abs(f).max()) * bounds.U64
    within(basis.T @ generators @ basis, planes(frequencies), atol)

    def unsigned(vectors):
        """Sorted, each as the one of f and −f whose first entry but 0 is positive."""
        rows = (2 * vectors).round().astype(int)
        lead = [next((e for e in row if e), 1) for row in rows]
        return sorted(
            tuple(r if e > 0 else -r) for r, e in zip(rows, lead, strict=True)
        )

    assert unsigned(frequencies) == unsigned(f)


@given(commuting(), seeds)
def test_every_relative_rotation_is_mixed_rope_in_a_fixed_basis(given_generators, seed):
    generators, _, _ = given_generators
    axes, _, d, _ = generators.shape
    basis, f = rotary.normal_form(generators[:, 0])
    x, positions = normal(seed, 4, d), normal(seed + 1, 4, axes)
    turned = rotary.rotate_by_generators(x, positions, generators)
    mixed = rotary.mixed(x @ basis, positions, frequencies=f, layout="interleaved")
    np.testing.assert_allclose(mixed @ basis.T, turned, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "f",
    [
        [[0.0, 0.0]],
        [[0.0, 0.0], [0.0, 0.0]],
        [[1.0, 2.0], [1.0, 2.0]],
        [[1.0, 2.0], [-1.0, -2.0]],
        [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]],
        [[1.0, 2.0], [-1.0, 2.0], [1.0, -2.0], [0.0, 0.0]],
        [[1e-6, 0.0], [0.0, 1e6]],
        [[1e-160, 0.0], [0.0, 2e-160]],
    ],
    ids=str,
)
@pytest.mark.parametrize("turned", [False, True], ids=["as it is", "turned about"])
def test_normal_forms_of_equal_opposite_zero_and_uneven_frequencies(f, turned):
    f = np.array(f)
    basis = orthogonal(len(f), 2 * len(f)) if turned else np.eye(2 * len(f))
    generators = basis @ planes(f) @ basis.T
    generators = (generators - generators.swapaxes(-1, -2)) / 2
    q, frequencies = rotary.normal_form(generators)
    size = np.abs(f).max()
    np.testing.assert_allclose(q.T @ q, np.eye(len(q)), rtol=0, atol=1e-14)
    remade = q @ planes(frequencies) @ q.T
    np.testing.assert_allclose(remade, generators, rtol=0, atol=1e-12 * size)


def test_a_line_has_a_normal_form_whatever_its_generator():
    a = random_skew(0, 1, block=6)
    basis, f = rotary.normal_form(a)
    within(basis @ planes(f) @ basis.T, a, 64 * norm(a) * bounds.U64)
    eigenvalues = np.sort(np.abs(np.linalg.eigvals(a[0]).imag))[::2]
    np.testing.assert_allclose(np.sort(np.abs(f[:, 0])), eigenvalues, rtol=1e-12)


def confused(combinations, d):
    """Generators of which some two planes are one in each of the first combinations."""
    weights = np.random.default_rng(0).normal(size=(combinations, 2))
    f = np.ones((d // 2, 2))
    f[1 : combinations + 1] += 3 * np.stack((-weights[:, 1], weights[:, 0]), axis=-1)
    q = orthogonal(5, d)
    return skew_part(q[:, : 2 * len(f)] @ planes(f) @ q[:, : 2 * len(f)].T)


def skew_part(a):
    return (a - a.swapaxes(-1, -2)) / 2


def off_the_form(a):
    """The normal form's error, and what is promised; its basis is orthogonal."""
    basis, f = rotary.normal_form(a)
    axes, d, _ = a.shape
    form = np.zeros_like(a)
    form[:, : 2 * len(f), : 2 * len(f)] = planes(f)
    promised = 8 * d**3 * axes * bounds.U64 * norm(a)
    bend = norm(basis.T @ basis - np.eye(d)) / (8 * d**2 * bounds.U64)
    assert bend <= 1
    return norm(basis.T @ a @ basis - form), promised


@pytest.mark.parametrize("d", [4, 5, 8, 9])
@pytest.mark.parametrize("combinations", [0, 1])
def test_planes_that_a_combination_confuses_are_told_apart_by_another(combinations, d):
    a = confused(combinations, d)
    assert norm(a[0] @ a[1] - a[1] @ a[0]) < 1e-14 * norm(a) ** 2
    off, promised = off_the_form(a)
    assert off <= promised


def test_a_normal_form_that_every_combination_misses_is_refused():
    a = confused(16, 34)
    assert norm(a[0] @ a[1] - a[1] @ a[0]) < 1e-14 * norm(a) ** 2
    with pytest.raises(ValueError, match="the best of 16 bases is off by"):
        rotary.normal_form(a)


@pytest.mark.parametrize("d", [1, 3, 5, 7])
@pytest.mark.parametrize("resting", [False, True])
def test_in_odd_dimensions_one_direction_rests(d, resting):
    q, f = orthogonal(2, d), normal(3, d // 2, 3)
    if resting and d > 1:
        f[0] = 0
    a = skew_part(q[:, : d - 1] @ planes(f) @ q[:, : d - 1].T)
    off, promised = off_the_form(a)
    assert off <= promised
    basis, found = rotary.normal_form(a)
    assert found.shape == (d // 2, 3)
    assert norm((a @ basis)[:, :, -1:]) <= 8 * d**3 * 3 * bounds.U64 * norm(a)


@pytest.mark.parametrize("off", [1e-9, 1e-6, 1e-3])
def test_generators_that_nearly_commute_are_refused(off):
    a = confused(0, 6) + off * random_skew(1, 2, block=6)
    with pytest.raises(ValueError, match=r"off by \d.*, where rounding explains \d"):
        rotary.normal_form(a)


@given(st.integers(2, 3), st.integers(2, 4), seeds)
def test_generators_that_do_not_commute_have_no_normal_form(axes, pairs, seed):
    generators = random_skew(seed, axes, block=2 * pairs)
    with pytest.raises(ValueError, match="exist if generators commute"):
        rotary.normal_form(generators)


# LieRE.


@st.composite
def free_generators(draw):
    """Entries ``[*heads, axes, blocks, free]`` of LieRE and its block size."""
    block, axes, count = draw(blocks), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    heads, scale = draw(st.sampled_from([(), (1,), (2,)])), draw(scales)
    free = block * (block - 1) // 2
    return scale * normal(draw(seeds), *heads, axes, count, free), block


@given(free_generators(), seeds)
def test_blocks_are_a_dense_exponential_of_all_features(of, seed):
    entries, block = of
    *heads, axes, count, _ = entries.shape
    d = count * block
    x, positions = normal(seed, *heads, 3, d), 10 * normal(seed + 1, 3, axes)
    turned = rotary.liere(x, positions, entries=entries, block=block)
    generators = rotary.skew(entries)
    size = size_of(positions, generators)
    for head in np.ndindex(*heads):
        dense = [scipy.linalg.block_diag(*a) for a in generators[head]]
        for token, position in enumerate(positions):
            r = rotary.exponential(np.tensordot(position, dense, 1))
            one = x[head][token]
            atol = bounds.rotated_blocks(one[None], size[token : token + 1], d, DOUBLE)
            within(turned[head][token], r @ one, atol.item())


@given(free_generators(), seeds)
def test_liere_s_two_implementations_agree(of, seed):
    entries, block = of
    *heads, axes, count, _ = entries.shape
    x, positions = (
        normal(seed, 2, *heads, 3, count * block),
        normal(seed + 1, 2, 3, axes),
    )
    module = LieRE(
        count * block, block=block, axes=axes, heads=heads[0] if heads else None
    ).double()
    with torch.no_grad():
        module.entries.copy_(torch.tensor(entries))
        for at in (positions[0], positions):
            fast = module(torch.tensor(x), torch.tensor(at))
            reference = rotary.liere(x, at, entries=entries, block=block)
            size = size_of(positions, module.generators().numpy()).max() * np.ones(3)
            within(fast, reference, bounds.rotated_blocks(x, size, block, DOUBLE))


@given(st.integers(1, 4), st.integers(1, 3), st.sampled_from([None, 2]), seeds)
def test_blocks_of_two_are_mixed_rope(pairs, axes, heads, seed):
    own = () if heads is None else (heads,)
    f = normal(seed, *own, pairs, axes)
    x, positions = (
        normal(seed + 1, 2, *own, 5, 2 * pairs),
        10 * normal(seed + 2, 5, axes),
    )
    mixed = rotary.mixed(x, positions, frequencies=f, layout="interleaved")
    # A positive entry rotates clockwise, a positive frequency counter-clockwise.
    entries = -f.swapaxes(-1, -2)[..., None]
    atol = bounds.rotated_blocks(x, size_of_mixed(positions, f), 2, DOUBLE)
    within(rotary.liere(x, positions, entries=entries, block=2), mixed, atol)
    given_x = torch.tensor(x), torch.tensor(positions)
    options = dict(heads=heads, frequencies=torch.tensor(f))
    fast = MixedRoPE(2 * pairs, layout="interleaved", **options)(*given_x)
    module = LieRE(2 * pairs, block=2, axes=axes, heads=heads).double()
    module.entries.data = torch.tensor(entries)
    within(module(*given_x).detach(), fast.detach(), atol)


def size_of_mixed(positions, f):
    return np.abs(positions) @ np.abs(f).reshape(-1, f.shape[-1]).max(0)


@given(st.integers(1, 6), far, seeds)
def test_blocks_of_two_on_one_axis_are_rope(pairs, start, seed):
    d = 2 * pairs
    x, positions = normal(seed, 3, d), start + np.arange(3)
    omega = 10000.0 ** (-np.arange(pairs) / pairs)
    turned = rotary.liere(x, positions[:, None], entries=-omega[None, :, None], block=2)
    expected = rotary.rope(x, positions, layout="interleaved")
    atol = bounds.rotated_blocks(x, np.abs(positions), 2, DOUBLE)
    within(turned, expected, atol)
    module = LieRE(d, block=2, axes=1).double()
    module.entries.data = torch.tensor(-omega[None, :, None])
    at = torch.tensor(positions)
    fast = module(torch.tensor(x), at[:, None]).detach()
    within(fast, RoPE(d, layout="interleaved")(torch.tensor(x), at), atol)


@pytest.mark.parametrize("order", ["concatenated", "alternating"])
def test_axial_rope_is_liere_with_one_axis_each(order):
    x, positions = normal(0, 6, 8), rotary.grid(3, 2, coordinates="index")
    f = rotary.axial_frequencies(8, order=order)
    turned = rotary.liere(x, positions, entries=-f.T[..., None], block=2)
    expected = rotary.axial(x, positions, order=order, layout="interleaved")
    np.testing.assert_allclose(turned, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("parameters", [DOUBLE, torch.float32, torch.bfloat16], ids=str)
def test_liere_is_the_reference_in_every_dtype(block, heads, dtype, parameters):
    torch.manual_seed(4)
    module = LieRE(2 * block, block=block, heads=heads).to(parameters)
    entries = module.entries.detach().double().numpy()
    generators = rotary.skew(entries)
    x = torch.randn(3, 2, 6, 2 * block, dtype=DOUBLE).to(dtype)
    for positions in (
        grid(3, 2, coordinates="ends"),
        torch.tensor(normal(5, 3, 6, 2)),
        torch.randint(-1000, 1000, (6, 2)),
    ):
        turned = module(x, positions)
        assert turned.dtype == dtype
        exact, at = x.double().numpy(), positions.numpy()
        expected = rotary.liere(exact, at, entries=entries, block=block)
        size = size_of(at, generators)
        size = size if size.ndim == 1 else size[:, None]
        atol = bounds.rotated_blocks(exact, size, block, dtype)
        within(turned.detach().double().numpy(), expected, atol)


@pytest.mark.parametrize("block", [2, 4, 8])
def test_positions_of_each_head_meet_generators_of_that_head(block):
    module = LieRE(8, block=block, heads=2).double()
    x, positions = torch.randn(2, 5, 8).double(), torch.randn(2, 5, 2).double()
    turned = module(x, positions)
    expected = rotary.liere(
        x.numpy(),
        positions.numpy(),
        entries=module.entries.detach().numpy(),
        block=block,
    )
    np.testing.assert_allclose(turned.detach(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("heads", [None, 1, 2])
@pytest.mark.parametrize("block", [4, 8])
def test_rows_of_a_batch_may_have_positions_of_their_own(block, heads):
    module = LieRE(8, block=block, heads=heads).double()
    x, positions = torch.randn(3, 2, 5, 8).double(), torch.randn(3, 5, 2).double()
    positions[1, :3] = positions[0, 2:]  # some of them shared between rows
    out = module(x, positions)
    for row in range(3):
        torch.testing.assert_close(
            out[row], module(x[row], positions[row]), rtol=0, atol=1e-12
        )


@pytest.mark.parametrize("heads", [None, 2])
def test_an_exponential_is_computed_once_for_each_distinct_position(heads, monkeypatch):
    module = LieRE(16, block=8, heads=heads)
    patches = grid(3, 2, coordinates="ends")
    x, expanded = torch.randn(5, 2, 6, 16), patches.expand(5, 6, 2)
    computed, matrix_exp = [], torch.matrix_exp

    def spy(a):
        computed.append(a.shape[:-2].numel())
        return matrix_exp(a)

    expected = module(x, patches)
    monkeypatch.setattr(torch, "matrix_exp", spy)
    torch.testing.assert_close(module(x, expanded), expected)
    assert sum(computed) == 6 * 2 * (heads or 1)  # patches · blocks · heads


def test_neighboring_heads_share_generators_under_grouped_queries():
    for block in (2, 4, 8):
        module = LieRE(8, block=block, heads=2).double()
        q, k = torch.randn(3, 6, 5, 8).double(), torch.randn(3, 2, 5, 8).double()
        positions = torch.randn(5, 2).double()
        turned_q, turned_k = (t.detach() for t in module.rotate(q, k, positions))
        entries = module.entries.detach().numpy().repeat(3, 0)
        for turned, x, own in (
            (turned_q, q, entries),
            (turned_k, k, entries[::3]),
        ):
            expected = rotary.liere(
                x.numpy(), positions.numpy(), entries=own, block=block
            )
            np.testing.assert_allclose(turned, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("block", [2, 3, 4, 5])
def test_gradients_reach_features_positions_and_entries(block):
    module = LieRE(block, block=block, heads=2, scale=1.0).double()
    x = torch.tensor(normal(6, 2, 3, block), requires_grad=True)
    positions = torch.tensor([[0, 0], [0.5, -1], [1e-5, 0]], dtype=DOUBLE)
    positions.requires_grad_()

    def turn(x, positions, entries):
        at = {"entries": entries}
        return torch.func.functional_call(module, at, (x, positions))

    assert torch.autograd.gradcheck(turn, (x, positions, module.entries))
    nothing = torch.zeros_like(module.entries, requires_grad=True)
    assert torch.autograd.gradcheck(turn, (x, positions, nothing))


def test_liere_starts_uniform_and_may_start_as_nothing():
    torch.manual_seed(7)
    entries = LieRE(64, block=8, heads=4).entries
    assert entries.shape == (4, 2, 8, 28) and entries.requires_grad
    assert entries.min() >= 0 and 6.2 < entries.max() < 2 * np.pi
    deviation = 2 * np.pi / 12**0.5 / entries.numel() ** 0.5
    assert abs(entries.mean().item() - np.pi) < 5 * deviation
    x = torch.randn(3, 64)
    still = LieRE(64, block=64, scale=0)
    assert torch.equal(still(x, torch.randn(3, 2)), x)


@pytest.mark.parametrize("block", [2, 3, 4, 8])
def test_a_token_at_the_origin_is_not_turned(block):
    x, module = torch.randn(2, 24), LieRE(24, block=block)
    positions = torch.tensor([[0.0, 0.0], [0.5, 1.0]])
    turned = module(x, positions)
    assert torch.equal(turned[0], x[0]) and (turned[1] - x[1]).abs().max() > 0.1
    reference = rotary.liere(
        x.numpy(),
        positions.numpy(),
        entries=module.entries.detach().numpy(),
        block=block,
    )
    assert np.array_equal(reference[0], x[0].double().numpy())


def test_blocks_are_multiplied_by_their_own_matrices():
    x = torch.tensor(normal(8, 2, 3, 4, 6))
    matrices = torch.tensor(normal(9, 3, 4, 2, 3, 3))
    turned = rotate_blocks(x, matrices)
    for place in np.ndindex(2, 3, 4):
        for m in range(2):
            here = slice(3 * m, 3 * m + 3)
            expected = matrices[place[1]][place[2]][m] @ x[place][here]
            torch.testing.assert_close(turned[place][here], expected)
    half = rotate_blocks(x.bfloat16(), matrices.float())
    assert half.dtype == torch.bfloat16
    exact = rotate_blocks(x.bfloat16().double(), matrices)
    # One rounding to bfloat16 and some in float32: products are not formed in bfloat16.
    bound = exact.abs() * bounds.roundoff(torch.bfloat16) + 1e-5
    assert ((half.double() - exact).abs() <= bound).all()


# Wrong versions.


def right(x, generators):
    return rotation(x, generators)


def misses(r):
    """The properties of R(x) = exp(Σ_k x_k A_k) that ``r`` lacks."""
    generators, x = random_skew(10, 2, block=3), np.array([0.3, -0.2])
    at, step = r(x, generators), 1e-6

    def slope(k):
        e = step * np.eye(2)[k]
        return (r(e, generators) - r(-e, generators)) / (2 * step)

    def apart(a, b):
        return np.abs(a - b).max() > 1e-8

    found = {
        "orthogonal": apart(at.T @ at, np.eye(3)),
        "nothing at 0": apart(r(0 * x, generators), np.eye(3)),
        "R(−x) = R(x)ᵀ": apart(r(-x, generators), at.T),
        "R(2x) = R(x)²": apart(r(2 * x, generators), at @ at),
        "slopes at 0": any(apart(slope(k), generators[k]) for k in range(2)),
    }
    return {name for name, missed in found.items() if missed}


def test_the_right_version_misses_nothing():
    assert misses(right) == set()


CAUGHT_BY = {
    mutants.generator_not_skew: {"orthogonal", "R(−x) = R(x)ᵀ", "slopes at 0"},
    mutants.upper_half_only: {"orthogonal", "R(−x) = R(x)ᵀ", "slopes at 0"},
    mutants.exponential_of_each_entry: {"orthogonal", "nothing at 0", "R(2x) = R(x)²"},
    mutants.truncated_series: {"orthogonal", "R(2x) = R(x)²"},
    mutants.product_of_exponentials: {"R(−x) = R(x)ᵀ", "R(2x) = R(x)²"},
    mutants.transposed_generator: {"slopes at 0"},
}


@pytest.mark.parametrize("r", mutants.EXPONENTIALS, ids=lambda f: f.__name__)
def test_wrong_versions_are_caught(r):
    assert misses(r) == CAUGHT_BY[r] | (misses(r) & {"slopes at 0"})


# Modules.


@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("block", [2, 4, 8])
def test_it_runs_where_there_is_no_data(block, heads):
    with torch.device("meta"):
        module = LieRE(8, block=block, heads=heads)
        for rows in ((), (3,)):
            x = torch.empty(3, 2, 5, 8)
            assert module(x, torch.empty(*rows, 5, 2)).shape == x.shape
    assert module.entries.is_meta


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("block", [3, 8])
def test_compiled_is_the_same(block):
    torch.compiler.reset()
    module = LieRE(24, block=block, heads=2, scale=1.0).double()
    compiled = compiling.compiled(module, fullgraph=True)
    x = torch.tensor(normal(11, 3, 2, 6, 24), requires_grad=True)
    positions, gradient = grid(3, 2, coordinates="ends"), torch.randn(3, 2, 6, 24)
    results = []
    for implementation in (module, compiled):
        out = implementation(x, positions.expand(3, 6, 2))
        leaves = [x, module.entries]
        results.append([out, *torch.autograd.grad(out, leaves, gradient.double())])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-11)


def test_repr_says_the_conventions():
    assert repr(LieRE(8, block=4, heads=2)) == "LieRE(8, block=4, axes=2, heads=2)"


@pytest.mark.parametrize("heads", [(), (2,)])
def test_the_norm_of_an_exponent_is_that_of_its_block(heads):
    """Entries ±a of a 2 × 2 block have the norm a √2, however many blocks there are."""
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    generators = np.broadcast_to(turn, (*heads, 1, 5, 2, 2)).copy()
    for share, is_taken in ((0.7, True), (0.72, False)):
        at = np.full((*(1 for _ in heads), 3, 1), share * 2.0**29)
        for rotations, of in (
            (rotary.rotations, np.asarray),
            (rotations_of_torch, torch.tensor),
        ):
            if is_taken:
                assert rotations(of(at), of(generators)).shape == (*heads, 3, 5, 2, 2)
                continue
            with pytest.raises(ValueError, match="norms of exponents must be at most"):
                rotations(of(at), of(generators))
