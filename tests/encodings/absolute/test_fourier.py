"""Fourier features, fixed and learned: properties, implementations, errors."""

import copy
import math
import pickle

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import absolute
from posedu.numpy.absolute.sinusoidal import embed_sinusoidal
from posedu.numpy.frequencies import frequencies as geometric
from posedu.sympy import absolute as symbolic
from posedu.torch import FourierLearned, FourierRandom, Transformer, grid
from support import bounds

PAPER = dict(unit="turns", layout="half", first="cos", amplitude="one")
LI = dict(unit="radians", layout="half", first="cos", amplitude="features")
conventions = st.fixed_dictionaries(
    {
        "unit": st.sampled_from(("turns", "radians")),
        "layout": st.sampled_from(("interleaved", "half")),
        "first": st.sampled_from(("cos", "sin")),
        "amplitude": st.sampled_from(("one", "pairs", "features")),
    }
)
LENGTHS = {"one": lambda m: m, "pairs": lambda m: 1, "features": lambda m: 1 / 2}


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def random(d_model=8, axes=2, sigma=1.0, **options):
    return FourierRandom(d_model, axes=axes, sigma=sigma, **(PAPER | options))


def learned(d_model=8, axes=2, sigma=1.0, features=6, width=5, **options):
    sizes = dict(features=features, width=width)
    return FourierLearned(d_model, axes=axes, sigma=sigma, **sizes, **(LI | options))


def by_reference(module, implementation, number, x, positions):
    """The features of another implementation, with the module's parameters."""
    more = {
        n.replace(".", "_"): number(t.tolist())
        for n, t in module.double().state_dict().items()
    }
    if isinstance(module, FourierLearned):
        return implementation.embed_fourier_learned(
            x, positions, **LI, groups=1, **more
        )
    return implementation.embed_fourier_random(x, positions, **PAPER, **more)


def angle_error(positions, frequencies, unit):
    """Bound the float64 error of an angle b · x, or of 2π b · x for full turns.

    Each product, sum and multiple is off by u of what it adds up to: axes + 3 of them.
    """
    turn = 2 * math.pi if unit == "turns" else 1.0
    size = np.abs(positions) @ np.abs(frequencies).T
    return (frequencies.shape[1] + 3) * bounds.U64 * turn * size


# Properties


@given(
    st.integers(1, 9),
    st.integers(1, 3),
    conventions,
    st.integers(0, 99),
    st.floats(-9, 9),
)
def test_inner_products_are_those_of_the_offset(pairs, axes, options, seed, shift):
    f, x = drawn(seed, pairs, axes), drawn(seed + 1, 5, axes)
    here, there = (absolute.fourier_features(p, f, **options) for p in (x, x + shift))
    turn = 2 * math.pi if options["unit"] == "turns" else 1
    offsets = x[:, None] - x
    length = LENGTHS[options["amplitude"]](pairs)
    expected = length * np.cos(turn * offsets @ f.T).mean(-1)
    off = 4 * angle_error(np.abs(x).max(0) + abs(shift), f, options["unit"]).max()
    off = length * (off + (2 * pairs + 8) * bounds.U64)
    for r in (here, there):
        np.testing.assert_allclose(r @ r.T, expected, rtol=0, atol=off)
    np.testing.assert_allclose((here**2).sum(-1), length, rtol=1e-14)


@pytest.mark.parametrize("unit", ["turns", "radians"])
def test_the_mean_over_normal_frequencies_is_the_kernel(unit):
    b, r = sp.Symbol("b", real=True), sp.Symbol("r", positive=True)
    sigma = sp.Symbol("sigma", positive=True)
    turn = 2 * sp.pi if unit == "turns" else 1
    mean = sp.simplify(symbolic.mean_over_normal(sp.cos(turn * b * r), b, sigma))
    for at, width in ((sp.Rational(1, 5), 2), (3, sp.Rational(1, 7))):
        exact = float(mean.subs({r: at, sigma: width}).evalf(30))
        kernel = absolute.gaussian_kernel(float(at), sigma=float(width), unit=unit)
        assert kernel == pytest.approx(exact, rel=1e-13)


def test_a_mean_over_normal_numbers_is_that_of_drawn_ones():
    """Compare with the mean of 200,000 samples, to within 5 standard errors."""
    b, sigma = sp.Symbol("b", real=True), sp.Rational(3, 4)
    function = 2 + 3 * sp.cos(2 * b) ** 2 - sp.sin(b) * sp.sin(3 * b) + sp.sin(b)
    exact = float(symbolic.mean_over_normal(function, b, sigma))
    values = sp.lambdify(b, function, "numpy")(0.75 * drawn(0, 200_000))
    assert abs(values.mean() - exact) < 5 * values.std() / 200_000**0.5
    assert symbolic.mean_over_normal(sp.Integer(3), b, sigma) == 3


def test_what_is_no_sum_of_waves_has_no_mean_here():
    b = sp.Symbol("b", real=True)
    for function in (b, b**2, sp.cos(b**2), b * sp.cos(b), sp.cos(sp.cos(b))):
        with pytest.raises(ValueError, match="is no wave in b"):
            symbolic.mean_over_normal(function, b, 1)


def test_the_estimate_has_no_bias_and_the_derived_variance():
    """4000 estimates of 64 frequencies each.

    Their mean is off by at most 5 standard errors, once in two million; so is their
    mean square, whose own deviation is at most √(1 / 4000) of the fourth moments.
    """
    many, m, sigma, r = 4000, 64, 0.7, np.array([0.1, 0.25, 0.6])
    b = sigma * drawn(0, many, m)
    estimates = np.cos(2 * np.pi * b[..., None] * r).mean(1)
    k = absolute.gaussian_kernel(r, sigma=sigma, unit="turns")
    variance = (1 - k**2) ** 2 / (2 * m)
    off = estimates - k
    assert (np.abs(off.mean(0)) < 5 * np.sqrt(variance / many)).all()
    fourth = (off**4).mean(0)
    assert (np.abs((off**2).mean(0) - variance) < 5 * np.sqrt(fourth / many)).all()


@given(st.integers(0, 99), conventions)
def test_a_network_of_twice_as_many_units_gives_its_features_back(seed, options):
    """GELU(z) − GELU(−z) = z: 4 roundings of numbers up to 1 for each unit.

    And 4 of each angle, on either side, for products are not added in one order.
    """
    f, x, at = drawn(seed, 3, 2), drawn(seed, 4, 6), drawn(seed + 1, 4, 2)
    one = np.eye(6)
    given_back = absolute.embed_fourier_learned(
        x,
        at,
        frequencies=f,
        hidden_weight=np.concatenate((one, -one)),
        hidden_bias=np.zeros(12),
        out_weight=np.concatenate((one, -one), 1),
        out_bias=np.zeros(6),
        groups=1,
        **options,
    )
    expected = absolute.embed_fourier_random(x, at, frequencies=f, **options)
    turn = 2 * np.pi if options["unit"] == "turns" else 1
    angle = turn * (np.abs(at) @ np.abs(f).T).max()
    bound = (48 + 8 * angle) * bounds.U64
    np.testing.assert_allclose(given_back, expected, rtol=0, atol=bound)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("spacing", ["paper", "tensor2tensor"])
def test_the_sinusoidal_encoding_has_these_features(layout, spacing):
    x, omega = drawn(0, 7, 8), geometric(8, spacing=spacing)
    options = dict(unit="radians", layout=layout, first="sin", amplitude="one")
    found = absolute.embed_fourier_random(x, range(7), frequencies=omega, **options)
    expected = embed_sinusoidal(x, range(7), layout=layout, spacing=spacing)
    np.testing.assert_array_equal(found, expected)
    module = FourierRandom(8, frequencies=torch.tensor(omega), **options)
    fast = module(torch.tensor(x), range(7))
    np.testing.assert_allclose(fast.numpy(), expected, rtol=0, atol=1e-14)


def test_groups_are_encoded_each_by_itself():
    module = learned(groups=2, axes=4).double()
    alone = FourierLearned(
        4, features=6, width=5, frequencies=module.frequencies.detach(), **LI
    ).double()
    alone.load_state_dict(module.state_dict())
    at = torch.tensor(drawn(0, 3, 4))
    parts = [alone.table(part, dtype=torch.float64) for part in at.split(2, -1)]
    found = module.table(at, dtype=torch.float64)
    torch.testing.assert_close(found, torch.cat(parts, -1), rtol=0, atol=1e-15)


# Published numbers and code


def test_worked_numbers_of_one_frequency():
    for unit, x in (("turns", 0.125), ("radians", math.pi / 4)):
        half = absolute.fourier_features(
            [0.0, x], np.ones(1), **(PAPER | {"unit": unit})
        )
        np.testing.assert_allclose(half, [[1, 0], [0.5**0.5] * 2], atol=1e-15)


def test_order_of_the_features():
    f, x = np.array([1.0, 2.0]), 0.05
    c, s = np.cos(2 * np.pi * f * x), np.sin(2 * np.pi * f * x)
    orders = {
        ("half", "cos"): [*c, *s],
        ("half", "sin"): [*s, *c],
        ("interleaved", "cos"): [c[0], s[0], c[1], s[1]],
        ("interleaved", "sin"): [s[0], c[0], s[1], c[1]],
    }
    for (layout, first), expected in orders.items():
        options = PAPER | dict(layout=layout, first=first)
        found = absolute.fourier_features(x, f, **options)
        np.testing.assert_array_equal(found, expected)


def test_the_code_of_random_features_written_out():
    x, b = drawn(0, 5, 2), drawn(1, 3, 2)
    angle = (2 * np.pi * x) @ b.T
    published = np.concatenate((np.sin(angle), np.cos(angle)), -1)
    for amplitude, divisor in (("one", 1), ("pairs", np.linalg.norm(np.ones(3)))):
        options = PAPER | dict(first="sin", amplitude=amplitude)
        found = absolute.fourier_features(x, b, **options)
        np.testing.assert_allclose(found, published / divisor, rtol=0, atol=1e-14)


def test_the_code_of_learned_features_written_out():
    module = learned(d_model=6, groups=3, axes=6, features=8).double()
    at = torch.tensor(drawn(0, 5, 3, 2))
    angle = at @ module.frequencies.mT
    r = torch.cat((angle.cos(), angle.sin()), -1) / 8**0.5
    y = module.out(torch.nn.functional.gelu(module.hidden(r))).reshape(5, 6)
    found = module.table(at.reshape(5, 6), dtype=torch.float64)
    torch.testing.assert_close(found, y, rtol=0, atol=1e-14)


def test_published_wrong_versions_have_another_kernel():
    b, r = drawn(0, 4000, 1), np.linspace(0, 1, 9)[:, None]
    kernel = absolute.gaussian_kernel(r[:, 0], sigma=1.0, unit="turns")
    right = absolute.fourier_features(r, b, **(PAPER | {"first": "sin"}))
    for features, is_right in ((right, True), (mutants.without_two_pi(r, b), False)):
        estimate = features @ features[0] / len(b)
        # Five standard deviations of the mean of 4000.
        assert (np.abs(estimate - kernel).max() < 5 / np.sqrt(8000)) == is_right


def test_published_deviations_differ_but_at_one():
    assert len(set(mutants.deviations(2.0))) == 3
    assert set(mutants.deviations(1.0)) == {1.0}
    assert mutants.deviations(10.0) == (0.1, 100.0, 0.01)


# Draws, casts, what is saved


def test_frequencies_depend_on_the_seed_alone():
    torch.manual_seed(1)
    one = random(seed=3)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    two = random(seed=3)
    assert torch.equal(one.frequencies, two.frequencies)
    assert torch.equal(state, torch.get_rng_state())
    assert not torch.equal(one.frequencies, random(seed=4).frequencies)
    wide = random(seed=3, sigma=10.0).frequencies
    torch.testing.assert_close(wide, 10 * one.frequencies)


def test_the_deviation_is_that_of_the_coordinates():
    """Compare mean and mean square of 20,000 numbers, to within 5 standard errors."""
    f = random(20_000, axes=2, sigma=3.0).frequencies / 3
    assert f.mean().abs() < 5 / 20_000**0.5
    assert (f.square().mean() - 1).abs() < 5 * (2 / 20_000) ** 0.5


def test_fixed_frequencies_are_saved_and_not_trained():
    module = random()
    assert [*module.state_dict()] == ["frequencies"] and not [*module.parameters()]
    other = random(seed=1)
    other.load_state_dict(module.state_dict())
    assert torch.equal(other.frequencies, module.frequencies)
    for same in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(same.frequencies, module.frequencies)


@pytest.mark.parametrize("make", [random, learned])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_cast_rounds_no_frequency(make, dtype):
    module = make(sigma=10.0)
    at = grid(8, 8, coordinates="centers")
    f = module.frequencies.detach().clone()
    features = module.features(at).detach()
    module.features(at).sum().backward() if make is learned else None
    module.to(dtype)
    assert torch.equal(module.frequencies, f) and module.frequencies.dtype == f.dtype
    assert torch.equal(module.features(at), features)
    rounded = copy.deepcopy(f).to(dtype).double()
    if make is learned:
        assert module.hidden.weight.dtype == dtype
        assert module.frequencies.grad.dtype == f.dtype
    far = torch.tensor([[0.9, 0.9]], dtype=torch.float64)
    turn = 2 * math.pi if module.unit == "turns" else 1
    assert (turn * far @ (rounded - f).mT).abs().max() > 1e-3  # what a cast would lose
    x = torch.zeros(64, 8, dtype=dtype)
    assert module(x, at).dtype == dtype
    assert module.double().frequencies.dtype == torch.float64
    assert torch.equal(module.frequencies.float(), f)


def test_frequencies_are_wide_whatever_the_default_dtype_is():
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert random().frequencies.dtype == torch.float32
        assert learned().frequencies.dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


# The implementations


@pytest.mark.parametrize("make", [random, learned])
def test_rows_of_a_batch_may_have_positions_of_their_own(make):
    module = make().double()
    x, at = torch.tensor(drawn(0, 2, 3, 8)), torch.tensor(drawn(1, 2, 3, 2))
    out = module(x, at)
    # The products of a row may be added in another order, at most with two roundings
    # of an angle's terms and one of the sum.
    angles = 2 * math.pi * (at.abs() @ module.frequencies.detach().abs().mT).max()
    bound = torch.finfo(torch.float64).eps * (2 * angles + out.abs().max()).item()
    for row in range(2):
        torch.testing.assert_close(
            out[row], module(x[row], at[row]), rtol=0, atol=bound
        )
    other = module(x[0], at[1]) - out[0]
    assert other.abs().max() > 1e10 * bound
    found = by_reference(module, absolute, np.array, x.numpy(), at.numpy())
    np.testing.assert_allclose(out.detach().numpy(), found, rtol=0, atol=1e-13)


@pytest.mark.parametrize("make", [random, learned])
def test_positions_may_be_numbers(make):
    module = make(axes=None).double()
    assert module.axes is None and module.position_shape == ()
    x = torch.tensor(drawn(0, 5, 8))
    out = module(x, range(3, 8))
    torch.testing.assert_close(out, module(x, [3, 4, 5, 6, 7]), rtol=0, atol=0)
    expected = by_reference(module, absolute, np.array, x.numpy(), range(3, 8))
    np.testing.assert_allclose(out.detach().numpy(), expected, rtol=0, atol=1e-13)
    token = sp.Matrix(x[1].tolist())
    exact = by_reference(module, symbolic, sp.Matrix, token, 4).evalf(30)
    np.testing.assert_allclose(
        np.array(exact, dtype=float).ravel(), expected[1], rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("make", [random, learned])
def test_positions_and_parameters_have_gradients(make):
    module = make().double()
    at = torch.tensor(drawn(0, 3, 2), requires_grad=True)
    x = torch.zeros(3, 8, dtype=torch.float64)
    names = [n for n, _ in module.named_parameters()]

    def run(at, *values):
        given = dict(zip(names, values, strict=True))
        return torch.func.functional_call(module, given, (x, at))

    inputs = (at, *(p.detach().requires_grad_() for p in module.parameters()))
    assert torch.autograd.gradcheck(run, inputs)


@pytest.mark.parametrize("make", [random, learned])
def test_a_model_takes_points(make):
    torch.manual_seed(0)
    model = Transformer(8, 2, 2, encoding=make()).double()
    x, at = torch.randn(1, 6, 8).double(), torch.tensor(drawn(1, 6, 2))
    full = model(x, at)
    caches = model.caches()
    parts = [model(x[:, s], at[s], caches=caches) for s in (slice(4), slice(4, 6))]
    torch.testing.assert_close(torch.cat(parts, 1), full, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="needs positions"):
        model(x)


def test_nothing_and_one_token():
    for module in (random(), learned()):
        for tokens in (0, 1):
            assert module(torch.ones(tokens, 8), torch.ones(tokens, 2)).shape == (
                tokens,
                8,
            )


def test_repr_says_the_conventions():
    assert repr(random()) == (
        "FourierRandom(8, axes=2, unit='turns', layout='half', first='cos', "
        "amplitude='one')"
    )
    assert "axes=2" in repr(learned()) and "groups=1" in repr(learned())


# What is refused

F8 = np.ones((4, 2))
X8, AT = np.ones((3, 8)), np.zeros((3, 2))
W = dict(
    frequencies=np.ones((2, 2)),
    hidden_weight=np.ones((5, 4)),
    hidden_bias=np.ones(5),
    out_weight=np.ones((8, 5)),
    out_bias=np.ones(8),
)
REFUSED = {
    "unit": (
        lambda: random(unit="degrees"),
        ValueError,
        "unit must be 'turns' or 'radians'",
    ),
    "first": (
        lambda: absolute.fourier_features(0, np.ones(1), **(PAPER | {"first": "tan"})),
        ValueError,
        "first must be 'cos' or 'sin'",
    ),
    "amplitude": (
        lambda: symbolic.fourier_features(0, [1], **(PAPER | {"amplitude": "two"})),
        ValueError,
        "amplitude must be 'one' or 'pairs' or 'features'",
    ),
    "odd": (lambda: random(7), ValueError, "d_model must be a positive multiple of 2"),
    "sigma": (lambda: random(sigma=-1.0), ValueError, "sigma must be finite and not"),
    "huge": (
        lambda: random(sigma=1e39),
        ValueError,
        r"numbers of deviation 1e\+39 must be finite",
    ),
    "neither": (
        lambda: FourierRandom(8, **PAPER),
        ValueError,
        "either `sigma`, to draw frequencies, or `frequencies` must be given",
    ),
    "both": (
        lambda: random(frequencies=torch.ones(4, 2)),
        ValueError,
        "got sigma = 1.0 and frequencies",
    ),
    "seed": (lambda: random(seed=-1), ValueError, "seed must be at least 0"),
    "pairs": (
        lambda: random(sigma=None, frequencies=torch.ones(3, 2)),
        ValueError,
        r"frequencies must be \[4, 2\], got shape \[3, 2\]",
    ),
    "not finite": (
        lambda: FourierRandom(2, frequencies=torch.full((1,), math.nan), **PAPER),
        ValueError,
        "frequencies must be finite",
    ),
    "integers": (
        lambda: FourierRandom(2, frequencies=torch.ones(1).long(), **PAPER),
        TypeError,
        "frequencies must hold floats",
    ),
    "groups": (
        lambda: learned(groups=3),
        ValueError,
        "d_model must be a positive multiple of 3",
    ),
    "axes of groups": (
        lambda: learned(axes=3, groups=2),
        ValueError,
        "axes must be a positive multiple of 2",
    ),
    "groups of numbers": (
        lambda: learned(axes=None, groups=2),
        ValueError,
        "positions that are numbers have one group",
    ),
    "a range for points": (
        lambda: random().table(range(3)),
        ValueError,
        r"positions must be \[..., tokens, 2\], got a range",
    ),
    "another width": (
        lambda: random()(torch.ones(3, 6), torch.zeros(3, 2)),
        ValueError,
        r"x must be \[..., tokens, 8\], got shape \[3, 6\]",
    ),
    "numbers for points": (
        lambda: random()(torch.ones(3, 8), torch.zeros(3)),
        ValueError,
        r"positions must be \[tokens, 2\]",
    ),
    "half precision": (
        lambda: random()(torch.ones(3, 8), torch.zeros(3, 2).half()),
        TypeError,
        "positions are torch.float16",
    ),
    "reference: width": (
        lambda: absolute.embed_fourier_random(X8[:, :6], AT, frequencies=F8, **PAPER),
        ValueError,
        r"x must be \[..., tokens, 8\] for 4 frequencies",
    ),
    "reference: points": (
        lambda: absolute.fourier_features(np.zeros((3, 3)), F8, **PAPER),
        ValueError,
        r"positions must be \[..., 2\] for frequencies \[4, 2\]",
    ),
    "reference: no frequency": (
        lambda: absolute.fourier_features(AT, np.ones((0, 2)), **PAPER),
        ValueError,
        r"frequencies must be \[pairs\] or \[pairs, axes\]",
    ),
    "reference: infinite": (
        lambda: absolute.fourier_features(AT, np.full((1, 2), np.inf), **PAPER),
        ValueError,
        "frequencies must be finite",
    ),
    "reference: network": (
        lambda: absolute.embed_fourier_learned(
            X8, AT, groups=1, **(LI | W | {"hidden_bias": np.ones(4)})
        ),
        ValueError,
        r"must be \[width, 4\], \[width\], \[own, width\] and \[own\], got shapes",
    ),
    "reference: groups": (
        lambda: absolute.embed_fourier_learned(X8, AT, groups=0, **LI, **W),
        ValueError,
        "groups must be positive",
    ),
    "reference: width of groups": (
        lambda: absolute.embed_fourier_learned(X8, AT, groups=2, **LI, **W),
        ValueError,
        r"x must be \[..., tokens, 16\] for 2 groups of 8 features",
    ),
    "kernel": (
        lambda: absolute.gaussian_kernel(0.5, sigma=0.0, unit="turns"),
        ValueError,
        "sigma must be above 0",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        call()
