"""Golden gate RoPE: directions, frequency vectors, three implementations, mutants."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from posedu.numpy import rotary
from posedu.numpy.rotary.golden_gate import golden_root
from posedu.sympy import rotary as symbolic
from posedu.torch import GoldenGateRoPE, MixedRoPE
from posedu.torch.rotary import golden_directions, golden_gate_frequencies
from support import bounds

PHI = (1 + np.sqrt(5)) / 2
RECIPES = (("angles", 2), ("quantiles", 1), ("quantiles", 2), ("quantiles", 3))
BOTH = ("angles", "quantiles")
ENDS = dict(slowest=0.2, fastest=20.0)
recipes = st.sampled_from(RECIPES)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def gaps(directions):
    """Gaps between neighboring directions in the plane, modulo π."""
    angles = np.sort(np.arctan2(directions[:, 1], directions[:, 0]) % np.pi)
    return np.diff(np.append(angles, angles[0] + np.pi))


# Directions.


@given(st.integers(1, 300), recipes)
def test_directions_of_numpy_and_pytorch_agree_and_have_length_1(count, recipe):
    recipe, axes = recipe
    u = rotary.golden_directions(count, recipe=recipe, axes=axes)
    fast = golden_directions(count, recipe=recipe, axes=axes).numpy()
    assert u.shape == (count, axes)
    np.testing.assert_allclose(fast, u, rtol=0, atol=16 * bounds.U64)
    np.testing.assert_allclose(np.linalg.norm(u, axis=1), 1, rtol=4 * bounds.U64)


@pytest.mark.parametrize("recipe, axes", RECIPES)
def test_directions_are_the_exact_ones(recipe, axes):
    """The products i g^(−a) of the reference are rounded, each by less than i u."""
    u = rotary.golden_directions(64, recipe=recipe, axes=axes)
    for i in (1, 2, 3, 64):
        exact = symbolic.golden_direction(i, recipe=recipe, axes=axes).evalf(20)
        error = np.abs(u[i - 1] - np.array(exact, dtype=float)[0]).max()
        assert error <= 8 * (1 + i) * bounds.U64


@pytest.mark.parametrize("axes", [1, 2, 3, 7, 5000])
def test_the_root_is_a_root(axes):
    g = Fraction(golden_root(axes))
    n = min(axes, 7)
    if n == axes:
        step = Fraction(2.0**-52)
        value = [x ** (n + 1) - x - 1 for x in (g - step, g + step)]
        assert value[0] < 0 < value[1]
    assert 1 < g <= Fraction(PHI)


@pytest.mark.parametrize("recipe, axes", RECIPES)
def test_more_directions_leave_the_first_ones_as_they_are(recipe, axes):
    many, few = (
        rotary.golden_directions(n, recipe=recipe, axes=axes) for n in (40, 13)
    )
    assert np.array_equal(many[:13], few)


def test_published_gaps():
    """The largest gap over the mean gap, for 16, 32 and 64 directions in the plane."""
    found = {
        recipe: [
            gaps(rotary.golden_directions(n, recipe=recipe)).max() * n / np.pi
            for n in (16, 32, 64)
        ]
        for recipe in BOTH
    }
    np.testing.assert_allclose(found["angles"], [1.44, 1.78, 1.36], atol=0.005)
    np.testing.assert_allclose(found["quantiles"], [2.14, 2.28, 3.41], atol=0.005)


def test_the_golden_angle_of_the_whole_circle_is_less_even():
    """2π/φ² is for arrows; a frequency vector and its opposite are one direction."""
    worst = {}
    for name, step in (("half circle", np.pi / PHI), ("circle", 2 * np.pi / PHI**2)):
        angle = step * np.arange(1, 201)
        u = np.stack((np.cos(angle), np.sin(angle)), -1)
        worst[name] = max(gaps(u[:n]).max() * n / np.pi for n in range(2, 201))
    u = rotary.golden_directions(200, recipe="angles")
    ours = max(gaps(u[:n]).max() * n / np.pi for n in range(2, 201))
    assert ours == pytest.approx(worst["half circle"]) and ours < 2
    assert worst["circle"] > 2.25


# Frequency vectors.


@given(st.integers(1, 40), recipes, st.none() | st.integers(1, 4))
def test_frequencies_of_the_implementations(pairs, recipe, heads):
    recipe, axes = recipe
    options = dict(recipe=recipe, axes=axes, heads=heads, **ENDS)
    f = rotary.golden_gate_frequencies(2 * pairs, **options)
    fast = golden_gate_frequencies(2 * pairs, **options).numpy()
    assert f.shape == (*[heads] * (heads is not None), pairs, axes)
    np.testing.assert_allclose(fast, f, rtol=0, atol=20 * 32 * bounds.U64)
    length = np.linalg.norm(f, axis=-1).reshape(-1, pairs)
    np.testing.assert_allclose(length[:, 0], 0.2, rtol=8 * bounds.U64)
    ratio = 100 ** (1 / max(pairs - 1, 1))
    np.testing.assert_allclose(length[:, 1:] / length[:, :-1], ratio, rtol=1e-13)
    u = rotary.golden_directions(pairs * (heads or 1), recipe=recipe, axes=axes)
    np.testing.assert_allclose(f.reshape(-1, axes), length.reshape(-1, 1) * u)


def test_heads_go_on_where_the_one_before_ends():
    options = dict(recipe="angles", **ENDS)
    f = rotary.golden_gate_frequencies(8, heads=3, **options)
    for head in range(3):
        exact = symbolic.golden_gate_frequencies(
            8,
            head=head,
            recipe="angles",
            slowest=sp.Rational(1, 5),
            fastest=sp.Integer(20),
        )
        exact = np.array(exact.evalf(20), dtype=float)
        np.testing.assert_allclose(f[head], exact, rtol=1e-13)
    assert np.array_equal(f[0], rotary.golden_gate_frequencies(8, **options))
    assert abs(f[0] - f[1]).max() > 0.1


# Rotations.


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("recipe, axes", RECIPES)
def test_it_is_mixed_rope_with_fixed_vectors(recipe, axes, layout):
    options = dict(recipe=recipe, axes=axes, heads=2, **ENDS)
    x, at = normal(0, 2, 5, 12), normal(1, 5, axes)
    module = GoldenGateRoPE(12, layout=layout, **options)
    assert not list(module.parameters()) and not list(module.buffers())
    ours = module(torch.tensor(x), torch.tensor(at)).numpy()
    f = rotary.golden_gate_frequencies(12, **options)
    mixed = MixedRoPE(12, layout=layout, heads=2, frequencies=f)
    theirs = mixed(torch.tensor(x), torch.tensor(at)).detach().numpy()
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    reference = rotary.golden_gate(x, at, layout=layout, **options)
    np.testing.assert_allclose(ours, reference, rtol=0, atol=1e-12)
    scores = np.einsum("htd,hsd->hts", reference, reference)
    moved = rotary.golden_gate(x, at + normal(2, axes), layout=layout, **options)
    moved = np.einsum("htd,hsd->hts", moved, moved)
    np.testing.assert_allclose(scores, moved, rtol=0, atol=1e-11)


def test_the_symbolic_implementation_rotates_a_head_s_column():
    options = dict(recipe="quantiles", layout="half", axes=3)
    x, at = normal(3, 2, 1, 4), np.array([[1.0, -2.0, 0.5]])
    y = rotary.golden_gate(x, at, heads=2, slowest=0.5, fastest=2.0, **options)
    for head in range(2):
        exact = symbolic.golden_gate(
            sp.Matrix(x[head, 0]),
            [1, -2, sp.Rational(1, 2)],
            slowest=sp.Rational(1, 2),
            fastest=sp.Integer(2),
            head=head,
            **options,
        )
        np.testing.assert_allclose(y[head, 0], np.array(exact.evalf(20), float).ravel())


def test_on_one_axis_it_is_rope_with_frequencies_of_both_signs():
    f = rotary.golden_gate_frequencies(16, recipe="quantiles", axes=1, **ENDS)[:, 0]
    assert set(np.sign(f)) == {-1.0, 1.0}
    assert np.array_equal(abs(f), np.sort(abs(f)))


def test_cached_keys_are_moved_by_a_further_rotation():
    module = GoldenGateRoPE(12, layout="half", recipe="angles", heads=2, **ENDS)
    k, at = torch.tensor(normal(0, 1, 2, 5, 12)), torch.tensor(normal(1, 5, 2))
    shift = torch.tensor(normal(2, 1, 5, 2))
    moved = module.move_keys(module(k, at), shift)
    torch.testing.assert_close(moved, module(k, at + shift), rtol=0, atol=1e-11)


# Wrong arguments.

WRONG = [
    (dict(recipe="golden"), ValueError, "recipe must be 'angles' or 'quantiles'"),
    (dict(axes=3), ValueError, "recipe='angles' is for the plane, axes=2, got axes=3"),
    (dict(axes=0), ValueError, "axes must be"),
    (dict(slowest=0.0), ValueError, "slowest must be above 0"),
    (dict(slowest=21.0), ValueError, "slowest must be at most fastest"),
    (dict(fastest=float("inf")), ValueError, "fastest must be"),
    (dict(fastest="20"), TypeError, "fastest must be"),
    (dict(heads=0), ValueError, "heads must be"),
    (dict(d=7), ValueError, "d must be"),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("wrong, error, message", WRONG)
def test_wrong_arguments_are_refused(wrong, error, message):
    given = dict(d=8, recipe="angles", **ENDS) | wrong
    for function in (
        rotary.golden_gate_frequencies,
        golden_gate_frequencies,
        partial(GoldenGateRoPE, layout="half"),
    ):
        with pytest.raises(error, match=message):
            function(**given)
    if "heads" not in wrong:
        with pytest.raises(error, match=message):
            symbolic.golden_gate_frequencies(**given)


def test_heads_of_x_must_be_a_multiple():
    x, at = normal(0, 3, 5, 8), normal(1, 5, 2)
    options = dict(recipe="angles", layout="half", heads=2, **ENDS)
    with pytest.raises(ValueError, match="a multiple of 2 heads"):
        rotary.golden_gate(x, at, **options)
    with pytest.raises(ValueError, match="a multiple of 2 heads"):
        GoldenGateRoPE(8, **options)(torch.tensor(x), torch.tensor(at))
