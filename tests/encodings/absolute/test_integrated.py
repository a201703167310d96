"""The integrated encoding: means over Gaussians, moments of cones, what is refused."""

import math

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import absolute
from posedu.numpy.rotary import rope
from posedu.sympy import absolute as symbolic
from posedu.torch import Integrated, NeRF
from support import bounds

CODE = dict(unit="radians", layout="half")
PI = dict(unit="half turns", layout="axes")
layouts = st.sampled_from(("axes", "octaves", "half"))
units = st.sampled_from(("half turns", "radians"))


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def module(d_model=12, axes=2, octaves=3, **options):
    return Integrated(d_model, axes=axes, octaves=octaves, **(CODE | options))


# Properties


@given(st.integers(1, 8), st.integers(1, 3), units, layouts, st.integers(0, 99))
def test_a_certain_position_has_nerf_s_code(octaves, axes, unit, layout, seed):
    x = drawn(seed, 4, axes)
    options = dict(octaves=octaves, unit=unit, layout=layout)
    certain = np.concatenate((x, np.zeros_like(x)), -1)
    np.testing.assert_array_equal(
        absolute.integrated_features(certain, **options),
        absolute.nerf_features(x, append_input=False, **options),
    )


def test_the_code_is_the_mean_over_drawn_positions():
    """400,000 samples, to within 5 standard errors (one in two million)."""
    mean, deviation = np.array([0.3, -1.2]), np.array([0.1, 0.7])
    samples = mean + deviation * drawn(0, 400_000, 2)
    codes = absolute.nerf_features(samples, octaves=4, append_input=False, **CODE)
    exact = absolute.integrated_features([*mean, *deviation], octaves=4, **CODE)
    assert (np.abs(codes.mean(0) - exact) < 5 * codes.std(0) / 400_000**0.5).all()


def test_the_mean_by_integration():
    """The trapezoidal rule over ten deviations, exact to roundings for a Gaussian."""
    mean, deviation = 1 / 3, 3 / 4
    x, step = np.linspace(mean - 10, mean + 10, 4001, retstep=True)
    density = np.exp(-(((x - mean) / deviation) ** 2) / 2)
    density *= step / (deviation * np.sqrt(2 * np.pi))
    waves = np.stack((np.sin(x), np.sin(2 * x), np.cos(x), np.cos(2 * x)))
    found = absolute.integrated_features([mean, deviation], octaves=2, **CODE)
    np.testing.assert_allclose(waves @ density, found, rtol=0, atol=1e-14)


@given(st.integers(0, 99), units)
def test_more_uncertainty_shortens_the_code(seed, unit):
    mean, deviation = drawn(seed, 2), np.abs(drawn(seed + 1, 2))
    longer = absolute.integrated_features(
        [*mean, *deviation], octaves=5, unit=unit, layout="half"
    )
    shorter = absolute.integrated_features(
        [*mean, *(1.5 * deviation)], octaves=5, unit=unit, layout="half"
    )
    assert (shorter**2).sum() < (longer**2).sum() <= 10 * (1 + 8 * bounds.U64)


def test_the_sign_of_a_deviation_does_not_count():
    at = np.array([[0.3, -0.7, 0.2, 0.4]])
    other = at * [1, 1, -1, -1]
    for options in (CODE, PI):
        one, two = (
            absolute.integrated_features(p, octaves=3, **options) for p in (at, other)
        )
        np.testing.assert_array_equal(one, two)


@given(st.integers(0, 99))
@settings(max_examples=15)
def test_rope_at_an_uncertain_position_is_damped(seed):
    """E R_θx q = e^(−θ²σ²/2) R_θμ q: 20,000 draws, to within 5.5 standard errors."""
    rng = np.random.default_rng(seed)
    q, mean, deviation = rng.normal(size=4), rng.uniform(-9, 9), rng.uniform(0, 2)
    omega = np.array([1.0, 0.3])
    samples = mean + deviation * rng.normal(size=20_000)
    rotated = rope(
        np.broadcast_to(q, (20_000, 4)), samples, layout="half", frequencies=omega
    )
    damping = np.exp(-((omega * deviation) ** 2) / 2)
    exact = np.tile(damping, 2) * rope(
        q[None], [mean], layout="half", frequencies=omega
    )
    error = rotated.std(0) / 20_000**0.5
    assert (np.abs(rotated.mean(0) - exact[0]) < 5.5 * error + 1e-12).all()


# Published formulas and wrong versions


def test_the_program_written_out():
    """google/mipnerf, integrated_pos_enc: sin y and sin(y + π/2), times e^(−var/2)."""
    mean, deviation = drawn(0, 5, 3), np.abs(drawn(1, 5, 3))
    scales = np.array([1.0, 2.0, 4.0])
    y = (mean[:, None, :] * scales[:, None]).reshape(5, -1)
    var = (deviation[:, None, :] ** 2 * scales[:, None] ** 2).reshape(5, -1)
    both = np.sin(np.concatenate((y, y + np.pi / 2), -1))
    published = np.exp(-np.concatenate((var, var), -1) / 2) * both
    at = np.concatenate((mean, deviation), -1)
    found = absolute.integrated_features(at, octaves=3, **CODE)
    np.testing.assert_allclose(found, published, rtol=0, atol=1e-14)
    fast = module(18, 3).table(torch.tensor(at), dtype=torch.float64)
    np.testing.assert_allclose(fast.numpy(), published, rtol=0, atol=1e-14)


def test_the_variance_of_a_sine():
    m, s = sp.symbols("mu sigma", positive=True)
    x = sp.Symbol("x", real=True)
    moved = sp.sin(m + x)
    square = symbolic.mean_over_normal(sp.expand_trig(moved) ** 2, x, s)
    mean = symbolic.mean_over_normal(sp.expand_trig(moved), x, s)
    v = s**2
    published = (1 - sp.exp(-2 * v) * sp.cos(2 * m)) / 2 - (
        sp.exp(-v / 2) * sp.sin(m)
    ) ** 2
    difference = (square - mean**2 - published).rewrite(sp.cos)
    assert sp.simplify(sp.expand_trig(sp.simplify(difference))) == 0


@pytest.mark.parametrize("wrong", mutants.INTEGRATED, ids=lambda f: f.__name__)
def test_wrong_versions_are_not_the_mean(wrong):
    mean, deviation = np.linspace(-1, 1, 5), np.full(5, 0.4)
    at = np.stack((mean, deviation), -1)
    right = absolute.integrated_features(at, octaves=4, **CODE)
    given = wrong(mean, deviation, 2.0 ** np.arange(4))
    assert given.shape == right.shape and np.abs(given - right).max() > 0.02


# Cones

CONE = sp.symbols("near far radius", positive=True)
MOMENTS = symbolic.cone_moments(*CONE[:2], radius=CONE[2])


def test_moments_of_a_cone_are_the_published_ones():
    m, h, r = sp.symbols("m h r", positive=True)
    size = 3 * m**2 + h**2
    fifteen = sp.Rational(4, 15)
    published = (
        m + 2 * m * h**2 / size,
        h**2 / 3 - fifteen * h**4 * (12 * m**2 - h**2) / size**2,
        r**2 * (m**2 / 4 + sp.Rational(5, 12) * h**2 - fifteen * h**4 / size),
    )
    found = symbolic.cone_moments(m - h, m + h, radius=r)
    for one, other in zip(found, published, strict=True):
        assert sp.simplify(one - other) == 0


@given(st.floats(0, 9), st.floats(0.01, 5), st.floats(0.01, 2))
@settings(max_examples=15)
def test_both_forms_of_the_moments_agree(near, length, radius):
    """In 40 digits the integrals lose none that float64 has.

    The stable form is off by 30 roundings of its largest term, half² at most.
    """
    far = near + length
    at = [sp.Rational(t) for t in (near, far, radius)]
    exact = [moment.subs(zip(CONE, at, strict=True)) for moment in MOMENTS]
    found = absolute.cone_moments(near, far, radius=radius)
    half, reach = (far - near) / 2, far * radius
    sizes = far, half**2 + half * far * 2**-20, reach**2
    for number, value, size in zip(found, exact, sizes, strict=True):
        assert abs(float(number) - float(value.evalf(40))) <= 64 * bounds.U64 * size


def test_moments_of_drawn_points():
    rng = np.random.default_rng(0)
    near, far, radius, n = 1.0, 3.0, 0.2, 400_000
    t = (near**3 + rng.random(n) * (far**3 - near**3)) ** (1 / 3)
    across = radius * t * np.sqrt(rng.random(n)) * np.cos(2 * np.pi * rng.random(n))
    for found, samples in zip(
        absolute.cone_moments(near, far, radius=radius),
        (t, (t - t.mean()) ** 2, across**2),
        strict=True,
    ):
        assert abs(samples.mean() - found) < 5 * samples.std() / n**0.5


def test_unrolled_powers_lose_all_digits_in_float32():
    near, far = np.float32(100.0), np.float32(100.01)
    _, right, _ = absolute.cone_moments(float(near), float(far), radius=1.0)
    _, along, _ = mutants.cone_by_powers(near, far, np.float32(1))
    assert abs(along / right - 1) > 1
    _, along, _ = mutants.cone_by_powers(np.float64(near), np.float64(far), 1.0)
    assert abs(along / right - 1) > 1e-5  # float64 loses digits, too
    mid, half = (far + near) / 2, (far - near) / 2
    size = 3 * mid**2 + half**2
    along = (
        half**2 / 3 - np.float32(4 / 15) * half**4 * (12 * mid**2 - half**2) / size**2
    )
    assert along.dtype == np.float32 and abs(along / right - 1) < 1e-6


def test_half_the_sum_is_not_half_the_length():
    right = absolute.cone_moments(2.0, 3.0, radius=1.0)
    wrong = mutants.cone_of_sums(2.0, 3.0, 1.0)
    assert wrong[0] > 3 and wrong[1] > 2 * right[1]


# The module


def test_other_features_of_a_wider_model_stay():
    x, at = torch.tensor(drawn(0, 2, 4, 20)), torch.tensor(drawn(1, 2, 4, 4))
    one = module(20)
    out = one(x, at)
    assert torch.equal(out[..., 12:], x[..., 12:])
    reference = absolute.embed_integrated(x.numpy(), at.numpy(), octaves=3, **CODE)
    np.testing.assert_allclose(out.numpy(), reference, rtol=0, atol=1e-13)


def test_without_deviations_it_is_nerf():
    nerf = NeRF(12, axes=2, octaves=3, append_input=False, **CODE)
    at = torch.tensor(drawn(0, 5, 2))
    certain = torch.cat((at, torch.zeros_like(at)), -1)
    assert torch.equal(module().table(certain), nerf.table(at))


def test_means_and_deviations_have_gradients():
    at = torch.tensor(drawn(0, 3, 4), requires_grad=True)
    one, x = module(), torch.zeros(3, 12, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda at: one(x, at), at)


def test_nothing_and_one_token_and_repr():
    for tokens in (0, 1):
        x, at = np.ones((tokens, 12)), np.ones((tokens, 4))
        assert module()(torch.tensor(x), torch.tensor(at)).shape == (tokens, 12)
        assert absolute.embed_integrated(x, at, octaves=3, **CODE).shape == (tokens, 12)
    assert repr(module()) == (
        "Integrated(12, axes=2, octaves=3, unit='radians', layout='half')"
    )


def test_a_huge_deviation_leaves_nothing():
    code = absolute.integrated_features([0.3, 1e6], octaves=3, **PI)
    assert (code == 0).all()
    at = torch.tensor([[0.3, 0.4, 1e6, 1e6]], dtype=torch.float64)
    assert (module().table(at) == 0).all()


REFUSED = {
    "odd": (
        lambda: absolute.integrated_features([0.0, 1.0, 2.0], octaves=1, **CODE),
        ValueError,
        "positions must have as many means as standard deviations",
    ),
    "odd symbolic": (
        lambda: symbolic.integrated_features([0], octaves=1, **CODE),
        ValueError,
        "position must have as many means as standard deviations, got 1 numbers",
    ),
    "means alone": (
        lambda: module()(torch.ones(3, 12), torch.zeros(3, 2)),
        ValueError,
        r"positions must be \[tokens, 4\]",
    ),
    "unit": (lambda: module(unit="turns"), ValueError, "unit must be 'half turns'"),
    "layout": (lambda: module(layout="pairs"), ValueError, "layout must be 'axes'"),
    "narrow": (lambda: module(11), ValueError, "d_model must be at least 12"),
    "backward cone": (
        lambda: absolute.cone_moments(2.0, 1.0, radius=1.0),
        ValueError,
        "near must be at least 0 and below far, got near = 2.0, far = 1.0",
    ),
    "behind": (
        lambda: absolute.cone_moments(-1.0, 1.0, radius=1.0),
        ValueError,
        "near must be at least 0",
    ),
    "radius": (
        lambda: absolute.cone_moments(0.0, 1.0, radius=0.0),
        ValueError,
        "radius must be above 0",
    ),
    "not finite": (
        lambda: absolute.integrated_features([0.0, math.inf], octaves=1, **CODE),
        ValueError,
        "positions must be finite",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        call()
