"""NeRF's encoding: kernel and aliases, published sizes and code, what is refused."""

import math

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import absolute
from posedu.sympy import absolute as symbolic
from posedu.torch import NeRF, Transformer
from support import bounds

PAPER = dict(unit="half turns", layout="axes", append_input=False)
CODE = dict(unit="radians", layout="octaves", append_input=True)
MIP = dict(unit="radians", layout="half", append_input=False)
UNITS = {"half turns": math.pi, "radians": 1.0}
layouts = st.sampled_from(("axes", "octaves", "half"))
units = st.sampled_from(("half turns", "radians"))


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def module(d_model=12, axes=2, octaves=3, **options):
    return NeRF(d_model, axes=axes, octaves=octaves, **(PAPER | options))


# Properties


@given(st.integers(1, 8), st.integers(1, 3), units, layouts, st.integers(0, 99))
def test_inner_products_are_a_sum_over_axes_of_one_kernel(
    octaves, axes, unit, layout, seed
):
    """An angle is off by 3 roundings (π, product, sum), each cosine by one more.

    Coordinates are below 6, so an angle is at most 6 · 2^ℓ π; a product of two waves
    has two such errors, and so has the kernel's cosine, whose angle is at most twice as
    large.
    """
    x = np.clip(drawn(seed, 5, axes), -6, 6)
    options = dict(octaves=octaves, unit=unit)
    code = absolute.nerf_features(x, layout=layout, append_input=False, **options)
    kernel = absolute.nerf_kernel(x[:, None] - x, **options).sum(-1)
    largest = 6 * UNITS[unit] * 2**octaves
    off = axes * (4 * 3 * largest + (2 * octaves + 8) * octaves) * bounds.U64
    np.testing.assert_allclose(code @ code.T, kernel, rtol=0, atol=off)
    np.testing.assert_allclose((code**2).sum(-1), axes * octaves, rtol=1e-13)


@pytest.mark.parametrize("octaves", range(1, 13))
def test_ends_of_the_cube_have_one_code_and_the_middle_nearly(octaves):
    t = sp.Symbol("t", real=True)
    kernel = symbolic.nerf_kernel(t, octaves=octaves, unit="half turns")
    at = {r: kernel.subs(t, r) for r in (0, 1, 2, sp.Rational(2, 3))}
    assert at[0] == at[2] == octaves
    assert at[1] == octaves - 2
    assert at[sp.Rational(2, 3)] == -sp.Rational(octaves, 2)


def test_without_pi_no_two_points_of_the_cube_have_one_code():
    """The period is 2π: offsets up to 2 differ in the slowest cosine."""
    ends = np.array([[-1.0], [0.0], [1.0]])
    for options, is_alias in ((PAPER, True), (MIP, False)):
        code = absolute.nerf_features(ends, octaves=10, **options)
        assert np.allclose(code[0], code[2], rtol=0, atol=1e-12) == is_alias
    t = np.linspace(0.01, 2, 400)
    slowest = absolute.nerf_kernel(t, octaves=1, unit="radians")
    assert (slowest < 1 - t**2 / 8).all()  # cos t < 1 − t²/8 on (0, 2]
    assert np.isclose(absolute.nerf_kernel(2.0, octaves=9, unit="half turns"), 9)


def test_random_fourier_features_with_these_frequencies():
    """Frequencies 2^(ℓ − 1) in turns along each axis; the layouts differ in order."""
    x = drawn(0, 7, 2)
    b = np.kron(np.eye(2), 2.0 ** np.arange(-1, 3)[:, None])
    options = dict(unit="turns", layout="interleaved", first="sin", amplitude="one")
    expected = absolute.fourier_features(x, b, **options)
    found = absolute.nerf_features(x, octaves=4, **PAPER)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


# Published sizes and code


def test_sizes_of_the_paper_and_of_its_code():
    x = np.zeros((1, 3))
    for octaves, paper, code in ((10, 60, 63), (4, 24, 27)):
        assert absolute.nerf_features(x, octaves=octaves, **PAPER).shape == (1, paper)
        assert absolute.nerf_features(x, octaves=octaves, **CODE).shape == (1, code)
        assert module(64, 3, octaves).width == paper
        assert module(64, 3, octaves, append_input=True).width == code


def test_worked_numbers():
    code = absolute.nerf_features([[0.5, 0.25]], octaves=2, **PAPER)
    half = 0.5**0.5
    expected = [[1, 0, 0, -1, half, half, 1, 0]]
    np.testing.assert_allclose(code, expected, rtol=0, atol=1e-15)


def test_the_orders_of_the_paper_and_of_both_programs_written_out():
    x = drawn(1, 4, 3)
    a, b, c = x.T
    eq4 = [
        f(2.0**octave * np.pi * p) for p in (a, b, c) for octave in (0, 1)
        for f in (np.sin, np.cos)
    ]  # fmt: skip
    nerf = [x] + [f(x * 2.0**octave) for octave in (0, 1) for f in (np.sin, np.cos)]
    doubled = np.concatenate([x, 2 * x], -1)
    mip = np.sin(np.concatenate([doubled, doubled + np.pi / 2], -1))
    for options, expected in (
        (PAPER, np.stack(eq4, -1)),
        (CODE, np.concatenate(nerf, -1)),
        (MIP, mip),
    ):
        found = absolute.nerf_features(x, octaves=2, **options)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
        fast = NeRF(16, axes=3, octaves=2, **options)
        tables = fast.table(torch.tensor(x), dtype=torch.float64)
        np.testing.assert_allclose(tables.numpy(), expected, rtol=0, atol=1e-14)
        for row, point in zip(expected, x.tolist(), strict=True):
            exact = symbolic.nerf_features(point, octaves=2, **options).evalf(30)
            np.testing.assert_allclose(
                np.array(exact, float).ravel(), row, rtol=0, atol=1e-14
            )


@pytest.mark.parametrize("wrong", mutants.NERF, ids=lambda f: f.__name__)
def test_wrong_versions_have_another_kernel(wrong):
    x = np.linspace(-1, 1, 9)
    kernel = absolute.nerf_kernel(x[:, None] - x, octaves=6, unit="half turns")
    code = absolute.nerf_features(x[:, None], octaves=6, **PAPER)
    np.testing.assert_allclose(code @ code.T, kernel, rtol=0, atol=1e-12)
    code = wrong(x, 6)
    assert np.abs(code @ code.T - kernel).max() > 0.1


# The module


def test_other_features_of_a_wider_model_stay():
    x, at = torch.tensor(drawn(0, 2, 4, 20)), torch.tensor(drawn(1, 2, 4, 2))
    one = module(20)
    out = one(x, at)
    assert torch.equal(out[..., 12:], x[..., 12:])
    code = one.table(at, dtype=torch.float64)
    torch.testing.assert_close(out[..., :12] - x[..., :12], code, rtol=0, atol=1e-14)
    reference = absolute.embed_nerf(x.numpy(), at.numpy(), octaves=3, **PAPER)
    np.testing.assert_allclose(out.numpy(), reference, rtol=0, atol=1e-13)


def test_positions_have_gradients():
    at = torch.tensor(drawn(0, 3, 2), requires_grad=True)
    for options in (PAPER, CODE):
        one = module(18, **options)
        x = torch.zeros(3, 18, dtype=torch.float64)
        assert torch.autograd.gradcheck(lambda at, one=one, x=x: one(x, at), at)


def test_a_cast_of_the_model_rounds_no_angle():
    at = torch.tensor(drawn(0, 5, 2))
    one = module(12)
    before = one.table(at)
    assert torch.equal(one.to(torch.bfloat16).table(at), before)
    x = torch.zeros(5, 12, dtype=torch.bfloat16)
    assert torch.equal(one(x, at), before.bfloat16())


def test_a_model_takes_points():
    torch.manual_seed(0)
    model = Transformer(16, 2, 2, encoding=module(16)).double()
    x, at = torch.randn(1, 6, 16).double(), torch.tensor(drawn(1, 6, 2))
    full, caches = model(x, at), model.caches()
    parts = [model(x[:, s], at[s], caches=caches) for s in (slice(4), slice(4, 6))]
    torch.testing.assert_close(torch.cat(parts, 1), full, rtol=0, atol=1e-12)


def test_nothing_and_one_token():
    for tokens in (0, 1):
        x, at = np.ones((tokens, 12)), np.ones((tokens, 2))
        assert module()(torch.tensor(x), torch.tensor(at)).shape == (tokens, 12)
        assert absolute.embed_nerf(x, at, octaves=3, **PAPER).shape == (tokens, 12)


def test_the_input_stands_before_the_code_in_a_batch():
    """The last axis grows, whatever comes before it."""
    at = np.random.default_rng(0).uniform(-1, 1, (4, 3, 2))
    options = PAPER | {"octaves": 3, "append_input": True}
    code = absolute.nerf_features(at, **options)
    assert code.shape == (4, 3, 14) and np.array_equal(code[..., :2], at)
    found = module(14, append_input=True)._code(torch.tensor(at))
    np.testing.assert_allclose(found, code, rtol=0, atol=1e-14)


def test_repr_says_the_conventions():
    assert repr(module()) == (
        "NeRF(12, axes=2, octaves=3, unit='half turns', layout='axes', "
        "append_input=False)"
    )


# What is refused

X, AT = np.ones((3, 12)), np.zeros((3, 2))
REFUSED = {
    "unit": (
        lambda: module(unit="turns"),
        ValueError,
        "unit must be 'half turns' or 'radians', got 'turns'",
    ),
    "layout": (
        lambda: absolute.nerf_features(AT, octaves=1, **(PAPER | {"layout": "pairs"})),
        ValueError,
        "layout must be 'axes' or 'octaves' or 'half', got 'pairs'",
    ),
    "symbolic layout": (
        lambda: symbolic.nerf_features([0], octaves=1, **(PAPER | {"layout": "full"})),
        ValueError,
        "layout must be",
    ),
    "input": (lambda: module(append_input=1), TypeError, "append_input must be"),
    "octaves": (lambda: module(octaves=0), ValueError, "octaves must be a positive"),
    "octaves of the reference": (
        lambda: absolute.nerf_kernel(1.0, octaves=2.5, unit="radians"),
        TypeError,
        "octaves must be an integer",
    ),
    "narrow": (
        lambda: module(11),
        ValueError,
        "d_model must be at least 12, the width of the code, got 11",
    ),
    "narrow reference": (
        lambda: absolute.embed_nerf(X, AT, octaves=4, **PAPER),
        ValueError,
        r"x must have at least 16 features, the width of the code, got shape \[3, 12\]",
    ),
    "narrow symbolic": (
        lambda: symbolic.embed_nerf(sp.zeros(3, 1), [0, 0], octaves=1, **PAPER),
        ValueError,
        "x must have at least 4 features",
    ),
    "numbers for points": (
        lambda: absolute.nerf_features(0.5, octaves=1, **PAPER),
        ValueError,
        r"positions must be points, \[..., axes\], got shape \[\]",
    ),
    "a range": (
        lambda: module().table(range(3)),
        ValueError,
        r"positions must be \[..., tokens, 2\], got a range",
    ),
    "other axes": (
        lambda: module()(torch.ones(3, 12), torch.zeros(3, 3)),
        ValueError,
        r"positions must be \[tokens, 2\]",
    ),
    "far": (
        lambda: module().table(torch.tensor([[2.0**30, 0.0]], dtype=torch.float64)),
        ValueError,
        r"angles must be at most 2\*\*29",
    ),
    "far reference": (
        lambda: absolute.nerf_features([[2.0**28]], octaves=2, **PAPER),
        ValueError,
        r"angles must be at most 2\*\*29",
    ),
    "half precision": (
        lambda: module()(torch.ones(3, 12), torch.zeros(3, 2).half()),
        TypeError,
        "positions are torch.float16",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        call()
