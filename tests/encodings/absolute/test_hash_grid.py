"""The hash grid: levels, hash, collisions, interpolation, gradients, errors."""

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import absolute
from posedu.sympy import absolute as symbolic
from posedu.torch import HashGrid
from support import bounds

PAPER = dict(coarsest=16, finest=512, resolution="cells")
SMALL = dict(levels=3, table_size=16, coarsest=2, finest=9)
resolutions = pytest.mark.parametrize("resolution", ["cells", "vertices"])


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def square(n):
    """All vertices of n columns and rows."""
    return np.stack(np.meshgrid(np.arange(n), np.arange(n)), -1).reshape(-1, 2)


def module(d_model=8, axes=2, features=2, resolution="cells", **options):
    return HashGrid(
        d_model,
        axes=axes,
        features=features,
        resolution=resolution,
        **(SMALL | options),
    )


def code_of(one, at):
    """The reference's code with the module's entries."""
    return absolute.hash_grid_features(
        at,
        one.entries.detach().double().numpy(),
        levels=one.levels,
        table_size=one.table_size,
        coarsest=one.coarsest,
        finest=one.finest,
        resolution=one.resolution,
    )


# Levels


def test_numbers_that_the_paper_s_settings_store_for_a_picture():
    """Two features for each row of 16 levels from 16 to 512 cells."""
    for bits, stored in ((12, 95474), (14, 285310), (16, 749224), (19, 1423328)):
        options = PAPER | dict(levels=16, table_size=2**bits)
        grids = absolute.grid_levels(axes=2, **options)
        assert 2 * sum(grid.rows for grid in grids) == stored
        one = HashGrid(32, axes=2, features=2, **options)
        assert one.entries.numel() == stored
    assert not any(grid.hashed for grid in grids)


@resolutions
@given(st.integers(1, 40), st.integers(0, 600), st.integers(1, 20))
@settings(max_examples=20, deadline=None)
def test_resolutions_are_rounded_in_whole_numbers(resolution, coarsest, more, levels):
    finest = coarsest + more if levels > 1 else coarsest
    options = dict(
        levels=levels, table_size=64, coarsest=coarsest, finest=finest,
        resolution=resolution,
    )  # fmt: skip
    grids = absolute.grid_levels(axes=2, **options)
    one = HashGrid(levels, axes=2, features=1, **options)
    for level, grid in enumerate(grids):
        exact = sp.Integer(coarsest) * sp.Rational(finest, coarsest) ** sp.Rational(
            level, max(levels - 1, 1)
        )
        if resolution == "cells":
            assert int(grid.scale) == sp.floor(exact)
            assert grid.vertices == grid.scale + 1
        else:
            assert grid.vertices == sp.ceiling(exact)
            assert abs(grid.scale + 1 - float(exact)) < 64 * bounds.U64 * finest
    assert one._vertices == [grid.vertices for grid in grids]
    assert one._rows == [grid.rows for grid in grids]


def test_a_floor_of_a_float_power_may_be_one_too_low():
    """The third root of 125 is 4.999999999999999 in floats: 1/3 is below a third."""
    assert int(125 ** (1 / 3)) == 4
    options = dict(levels=4, table_size=4, coarsest=1, finest=125, resolution="cells")
    assert absolute.grid_levels(axes=1, **options)[1].scale == 5
    assert HashGrid(4, axes=1, features=1, **options)._vertices[1] == 6


def test_the_ends_of_the_code_s_grid_are_half_a_cell_inside():
    """tiny-cuda-nn: 0 is halfway between vertices 0 and 1, if the scale is whole."""
    options = dict(levels=1, table_size=64, coarsest=8, finest=8, resolution="vertices")
    (grid,) = absolute.grid_levels(axes=2, **options)
    assert (grid.scale, grid.shift, grid.vertices) == (7.0, 0.5, 8)
    entries = np.arange(64.0)[:, None]
    code = absolute.hash_grid_features([[0.0, 0.0]], entries, **options)
    assert code == (0 + 1 + 8 + 9) / 4


# The hash


def test_worked_hashes():
    v = np.array([[0, 0], [1, 0], [0, 1], [3, 2], [5, 7]])
    factor = 2_654_435_761
    expected = [(x ^ (y * factor % 2**32)) % 1024 for x, y in v.tolist()]
    assert absolute.grid_hash(v, 1024).tolist() == expected
    assert [symbolic.grid_hash(row, 1024) for row in v.tolist()] == expected
    assert factor % 2 == 1 and 805_459_861 % 2 == 1
    assert round(2**32 / factor, 6) == round((1 + 5**0.5) / 2, 6)


@pytest.mark.parametrize("bits", range(1, 11))
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_no_two_of_t_consecutive_vertices_of_a_line_collide(bits, axes):
    rng = np.random.default_rng(bits)
    for axis in range(axes):
        line = rng.integers(0, 2**20, axes) * np.ones((2**bits, 1), int)
        line[:, axis] += np.arange(2**bits)
        assert absolute.count_collisions(absolute.grid_hash(line, 2**bits)) == 0


def test_a_diagonal_may_collide():
    """The theorem is on rows and columns: not on other lines."""
    t = np.arange(64)
    diagonal = absolute.grid_hash(np.stack((t, t), -1), 64)
    assert absolute.count_collisions(diagonal) > 0


@pytest.mark.parametrize(
    ("side", "bits", "pairs"), [(33, 10, 160), (65, 12, 636), (129, 10, 127516)]
)
def test_collisions_counted(side, bits, pairs):
    """Fewer than at random near load 1, nearly as many at high load."""
    found = absolute.count_collisions(absolute.grid_hash(square(side), 2**bits))
    random = side**2 * (side**2 - 1) / 2 / 2**bits
    assert found == pairs < random
    assert (found < random / 3) == (side**2 < 2 * 2**bits)
    rows = absolute.grid_hash(square(side), 2**bits)
    assert found == sum(int((rows[n + 1 :] == row).sum()) for n, row in enumerate(rows))


@given(st.integers(0, 99), st.integers(0, 30))
def test_the_wrap_does_not_matter_where_t_is_a_power_of_two(seed, bits):
    v = np.random.default_rng(seed).integers(0, 2**20, (50, 3))
    plain = v[:, 0] ^ (v[:, 1] * 2_654_435_761) ^ (v[:, 2] * 805_459_861)
    assert (absolute.grid_hash(v, 2**bits) == plain % 2**bits).all()
    wrapped = plain % 2**32
    assert (plain % 1000 != wrapped % 1000).mean() > 0.8


@pytest.mark.parametrize("wrong", mutants.HASHES, ids=lambda f: f.__name__)
def test_wrong_hashes_give_other_rows(wrong):
    v = square(65)
    right = absolute.grid_hash(v, 1024)
    given = wrong(v, 1024)
    assert (given != right).mean() > 0.3
    if wrong is mutants.hashed_by_even_factor:
        column = np.stack((np.zeros(1024, int), np.arange(1024)), -1)
        assert absolute.count_collisions(wrong(column, 1024)) > 0


def test_negative_vertices_count_from_the_end_of_the_word():
    v = np.array([[-1, -2], [3, -5]])
    assert (absolute.grid_hash(v, 64) == absolute.grid_hash(v % 2**32, 64)).all()
    at = drawn(0, 50, 2) - 3
    one = module(6)
    np.testing.assert_allclose(
        one.table(torch.tensor(at), dtype=torch.float64).detach().numpy(),
        code_of(one, at),
        rtol=0,
        atol=1e-18,
    )


# Codes


@resolutions
def test_three_implementations_agree_at_random_points(resolution):
    one, at = module(6, resolution=resolution), np.random.default_rng(0).random((40, 2))
    reference = code_of(one, at)
    fast = one.table(torch.tensor(at), dtype=torch.float64).detach().numpy()
    np.testing.assert_allclose(fast, reference, rtol=0, atol=1e-18)
    entries = one.entries.detach().double().numpy()
    exact = [
        symbolic.hash_grid_features(
            [sp.Rational(float(c)) for c in point],
            entries.tolist(),
            resolution=resolution,
            **SMALL,
        ).evalf(30)
        for point in at[:4]
    ]
    found = np.array(exact, float).reshape(4, 6)
    np.testing.assert_allclose(found, reference[:4], rtol=0, atol=1e-17)


def test_a_vertex_has_its_row_and_a_middle_the_mean():
    options = dict(levels=1, table_size=16, coarsest=3, finest=3, resolution="cells")
    entries = drawn(0, 16, 2)
    at = np.array([[1 / 3, 2 / 3], [0.5, 0.5], [1.0, 1.0]])
    code = absolute.hash_grid_features(at, entries, **options)
    expected = [entries[1 + 2 * 4], entries[[5, 6, 9, 10]].mean(0), entries[15]]
    np.testing.assert_allclose(code, expected, rtol=0, atol=1e-14)


@given(st.integers(0, 99))
def test_codes_are_continuous(seed):
    """Across the sides of cells, and beyond the unit square: slope times distance."""
    options = SMALL | dict(levels=2, finest=3)
    total = sum(g.rows for g in absolute.grid_levels(
        axes=2, resolution="cells", **options))  # fmt: skip
    entries = drawn(seed, total, 1)
    at = np.random.default_rng(seed).integers(-3, 7, (20, 2)) / 6
    sides = [
        absolute.hash_grid_features(at + step, entries, resolution="cells", **options)
        for step in (-1e-9, 0, 1e-9)
    ]
    slope = 4 * 3 * np.abs(entries).max()
    assert np.abs(np.diff(sides, axis=0)).max() <= 2 * slope * 1e-9


def test_the_gradient_of_a_shared_row_is_the_sum():
    options = dict(levels=1, table_size=4, coarsest=8, finest=8)
    one = module(2, **options).double()
    at = torch.tensor(square(9) / 8)
    one.table(at, dtype=torch.float64).sum().backward()
    shared = absolute.grid_hash(square(9), 4)
    expected = np.bincount(shared, minlength=4)[:, None] * np.ones(2)
    np.testing.assert_allclose(one.entries.grad.numpy(), expected, rtol=0, atol=1e-12)


def test_positions_and_entries_have_gradients():
    at = torch.tensor(np.random.default_rng(0).random((3, 2)), requires_grad=True)
    one, x = module().double(), torch.zeros(3, 8, dtype=torch.float64)

    def run(at, entries):
        return torch.func.functional_call(one, {"entries": 1e4 * entries}, (x, at))

    entries = one.entries.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(run, (at, entries))


def test_entries_start_small_and_other_features_stay():
    one = module(20)
    largest = one.entries.abs().max()
    assert 5e-5 < largest <= 1e-4
    x, at = torch.tensor(drawn(0, 2, 4, 20)), torch.rand(2, 4, 2)
    assert torch.equal(one(x, at)[..., 6:], x[..., 6:])


def test_nothing_and_one_token_and_repr():
    for tokens in (0, 1):
        assert module()(torch.ones(tokens, 8), torch.ones(tokens, 2)).shape == (
            tokens,
            8,
        )
    assert repr(module()) == (
        "HashGrid(8, axes=2, features=2, levels=3, table_size=16, coarsest=2, "
        "finest=9, resolution='cells')"
    )


REFUSED = {
    "table": (
        lambda: module(table_size=12),
        ValueError,
        "table_size must be a power of two, got 12",
    ),
    "order": (
        lambda: module(coarsest=9, finest=2),
        ValueError,
        "finest must be at least coarsest = 9, got 2",
    ),
    "one level": (
        lambda: module(levels=1),
        ValueError,
        "one level has one resolution, got coarsest = 2 and finest = 9",
    ),
    "axes": (lambda: module(axes=4), ValueError, "axes must be 1, 2 or 3, got 4"),
    "levels": (lambda: module(levels=0), ValueError, "levels must be a positive"),
    "spread": (lambda: module(spread=-1.0), ValueError, "spread must be finite and"),
    "features": (lambda: module(features=0), ValueError, "features must be a positive"),
    "resolution": (
        lambda: module(resolution="points"),
        ValueError,
        "resolution must be 'cells' or 'vertices', got 'points'",
    ),
    "narrow": (lambda: module(5), ValueError, "d_model must be at least 6"),
    "entries": (
        lambda: absolute.hash_grid_features(
            [[0.0, 0.0]], np.ones((5, 2)), resolution="cells", **SMALL
        ),
        ValueError,
        r"entries must be \[41, features\], the rows of all levels, got shape \[5, 2\]",
    ),
    "entries symbolic": (
        lambda: symbolic.hash_grid_features(
            [0, 0], sp.ones(50, 2), resolution="cells", **SMALL
        ),
        ValueError,
        "entries must have 41 rows, those of all levels, got 50",
    ),
    "a symbol": (
        lambda: symbolic.hash_grid_features(
            [sp.Symbol("x"), 0], sp.ones(41, 2), resolution="cells", **SMALL
        ),
        ValueError,
        "position must be numbers",
    ),
    "hash of floats": (
        lambda: absolute.grid_hash(np.ones((2, 2)), 4),
        TypeError,
        "vertices must be integers, got dtype float64",
    ),
    "hash of a number": (
        lambda: absolute.grid_hash(np.int64(3), 4),
        ValueError,
        r"vertices must be \[..., axes\]",
    ),
    "collisions of floats": (
        lambda: absolute.count_collisions(np.ones(3)),
        TypeError,
        "rows must be integers",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        call()
