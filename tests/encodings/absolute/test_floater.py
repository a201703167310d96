"""FLOATER: the solver's order, its gradients, and positions from a neural ODE."""

import math

import numpy as np
import pytest
import sympy as sp
import torch

from mutants import published_encodings as mutants
from posedu.numpy import attend, floater
from posedu.numpy.absolute import flow, released_field, runge_kutta, sinusoidal
from posedu.numpy.frequencies import frequencies
from posedu.sympy import absolute as symbolic
from posedu.torch import FLOATER, Attention, KVCache, Transformer
from posedu.torch import attend as attend_fast
from posedu.torch._ode import integrate as follow
from posedu.torch.absolute import VectorField

DOUBLE = torch.float64
TABLEAUX = pytest.mark.parametrize("tableau", ["3/8", "classical"])
POSITIONS = [0, 3, -2.5, 1.25, 7, -1, 3]
OPTIONS = dict(tableau="3/8", delta=0.3, steps=2)


def encoding(*, seed=0, d=4, **options):
    """Make an encoding of two heads whose biases are not 0."""
    torch.manual_seed(seed)
    made = FLOATER(2, d, **{**OPTIONS, **options}).double()
    with torch.no_grad():
        for bias in (made.field.inner_bias, made.field.outer_bias):
            bias.normal_()
    return made


def arrays(module):
    return {
        name.replace(".", "_"): p.detach().numpy()
        for name, p in module.named_parameters()
    }


def released(module):
    """Its h, in NumPy."""
    a = arrays(module)
    names = ("inner", "inner_bias", "outer", "outer_bias")
    return released_field(*(a[f"field_{name}"] for name in names))


def smooth(t, p):
    """A right side that is no line and reads the time."""
    return np.sin(p) + np.cos(3 * t) * p[..., ::-1]


# The solver


@TABLEAUX
def test_both_tableaux_have_order_four_and_not_five(tableau):
    counts = [len(symbolic.order_errors(tableau, n)) for n in range(1, 6)]
    assert counts == [1, 1, 2, 4, 9]
    for order in range(1, 5):
        assert not any(symbolic.order_errors(tableau, order))
    errors = symbolic.order_errors(tableau, 5)
    assert any(errors)
    # of τ⁴ alone Simpson's rules: 1/120 and 1/270 of s⁵, over 4!
    simpson = {"classical": 120, "3/8": 270}[tableau] * 24
    assert sp.Rational(1, simpson) in errors


@TABLEAUX
def test_the_error_falls_with_the_fourth_power_of_the_step(tableau):
    start = np.array([0.3, 1.1])
    options = dict(tableau=tableau, delta=1.0)
    exact = flow(smooth, start, 2, **options, steps=640)
    errors = [
        np.abs(flow(smooth, start, 2, **options, steps=n) - exact).max()
        for n in (10, 20, 40, 80)
    ]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(np.abs(orders - 4) < 0.25)


@pytest.mark.parametrize("step", mutants.FLOATER_STEPS)
def test_wrong_steps_have_not_order_four(step):
    start = np.array([0.3, 1.1])
    exact = flow(smooth, start, 1, tableau="3/8", delta=1.0, steps=640)
    errors = []
    for n in (20, 40):
        p = start
        for k in range(n):
            p = step(smooth, k / n, p, 1 / n)
        errors.append(np.abs(p - exact).max())
    assert math.log2(errors[0] / errors[1]) < 2.5


@TABLEAUX
def test_the_implementations_take_the_same_step(tableau):
    """Take a step for a polynomial field, in exact numbers and in float64."""
    t, x, y, step = map(sp.Rational, ("1/3", "1/2", "-3/4", "1/5"))

    def h(time, p):
        return sp.Matrix([p[1] ** 2 + time, p[0] * p[1] - time**2])

    def h_of_arrays(time, p):
        u, v = p[..., 0], p[..., 1]
        return np.stack((v**2 + time, u * v - time**2), -1)

    exact = symbolic.runge_kutta(h, t, sp.Matrix([x, y]), step, tableau=tableau)
    p = np.array([0.5, -0.75])
    found = runge_kutta(h_of_arrays, 1 / 3, p, 0.2, tableau=tableau)
    np.testing.assert_allclose(found, np.array(exact.T, dtype=float)[0], rtol=1e-15)


@TABLEAUX
def test_the_modules_follow_the_reference(tableau):
    made = encoding(tableau=tableau)
    found = made.table(POSITIONS, dtype=DOUBLE).detach().numpy()
    options = {**OPTIONS, "tableau": tableau}
    expected = flow(released(made), made.start.detach().numpy(), POSITIONS, **options)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


@TABLEAUX
def test_torchdiffeq_calls_the_three_eighths_rule_rk4(tableau):
    torchdiffeq = pytest.importorskip("torchdiffeq")
    made = encoding(tableau=tableau)
    times = torch.arange(6, dtype=DOUBLE) * made.delta
    options = {"step_size": made.delta / made.steps}
    theirs = torchdiffeq.odeint(
        made.field, made.start, times, method="rk4", options=options
    )
    off = (theirs - made.table(range(6), dtype=DOUBLE)).abs().max()
    assert (off < 1e-13) == (tableau == "3/8")


# Gradients


@TABLEAUX
def test_gradients_are_those_of_finite_differences(tableau):
    """Compare gradients of p at integer and other positions of both signs."""
    made = encoding(tableau=tableau, d=2)
    at = torch.tensor(POSITIONS, dtype=DOUBLE)
    given = [p.detach().clone().requires_grad_() for p in made.parameters()]
    names = [name for name, _ in made.named_parameters()]
    assert names == ["start", *(f"field.{n}" for n, _ in made.field.named_parameters())]

    def run(start, *field):
        options = {**OPTIONS, "tableau": tableau, "farthest": 9, "largest": 1e9}
        return follow(start, field, at, **options)

    assert torch.autograd.gradcheck(run, given)


@TABLEAUX
def test_gradients_of_attention_are_the_references_slopes(tableau):
    """The reference's central difference along each parameter's gradient."""
    made = encoding(tableau=tableau)
    rng = np.random.default_rng(1)
    q, k, v, upstream = rng.normal(size=(4, 2, 5, 4))
    at = [0, 2, -1, 0.5, 4]
    out = attend_fast(*(torch.tensor(t)[None] for t in (q, k, v)), made, positions=at)[
        0
    ]
    parameters = dict(made.named_parameters())
    gradients = torch.autograd.grad(out, [*parameters.values()], torch.tensor(upstream))
    options = {**OPTIONS, "tableau": tableau}
    for name, gradient in zip(parameters, gradients, strict=True):
        key, step = name.replace(".", "_"), 1e-5
        towards = gradient.numpy() / gradient.norm().item()
        ends = []
        for sign in (-1, 1):
            moved = arrays(made)
            moved[key] = moved[key] + sign * step * towards
            hooks = floater(**moved, **options)
            found = attend(q, k, v, hooks, positions=at)
            ends.append((found * upstream).sum())
        slope = (ends[1] - ends[0]) / (2 * step)
        assert slope == pytest.approx(gradient.norm().item(), rel=1e-6)


def test_the_shares_of_many_stages_are_all_summed():
    """Gradients count a repeated position twice, also for many stages."""
    made = encoding()
    far = made.table([60, 60], dtype=DOUBLE)[0].sum()
    one = torch.autograd.grad(far, [*made.parameters()])
    both = torch.autograd.grad(
        made.table([60, 60], dtype=DOUBLE).sum(), [*made.parameters()]
    )
    for single, double in zip(one, both, strict=True):
        torch.testing.assert_close(double, 2 * single)
    p = made.start
    for n in range(120):
        time, step = n * 0.15, 0.15
        a = made.field(time, p)
        b = made.field(time + step / 3, p + step / 3 * a)
        c = made.field(time + step * 2 / 3, p + step * (b - a / 3))
        d = made.field(time + step, p + step * (a - b + c))
        p = p + step / 8 * (a + 3 * b + 3 * c + d)
    recorded = torch.autograd.grad(p.sum(), [*made.parameters()])
    torch.testing.assert_close(one, recorded, rtol=1e-9, atol=1e-9)


def test_a_second_derivative_is_refused():
    made = encoding()
    (gradient,) = torch.autograd.grad(
        made.table([1, 2]).square().sum(), made.start, create_graph=True
    )
    with pytest.raises(NotImplementedError, match="no second derivative"):
        gradient.sum().backward()


# Positions


def test_a_position_has_the_same_vector_whatever_else_is_asked_for():
    made = encoding()
    together = made.table(POSITIONS, dtype=DOUBLE)
    for n, position in enumerate(POSITIONS):
        alone = made.table([position], dtype=DOUBLE)[0]
        torch.testing.assert_close(together[n], alone)


def test_positions_between_nodes_join_them():
    made = encoding()
    around = made.table([1 - 1e-9, 1, 1 + 1e-9], dtype=DOUBLE)
    assert (around.diff(dim=0).abs() < 1e-7).all()


def test_a_batch_has_rows_of_its_own_and_a_cache_continues():
    made = encoding()
    layer = Attention(8, 2, encoding=made).double()
    x = torch.randn(2, 6, 8, dtype=DOUBLE)
    at = torch.tensor([[0, 1, 2, 3, 4, 5], [9, -4, 2, 2, 0, 30]])
    whole = layer(x, at)
    for row in range(2):
        torch.testing.assert_close(
            whole[row : row + 1], layer(x[row : row + 1], at[row])
        )
    cache = KVCache()
    parts = [layer(x[:, s], at[:, s], cache=cache) for s in (slice(4), slice(4, 6))]
    torch.testing.assert_close(torch.cat(parts, 1), whole)


def test_there_is_no_last_row():
    """Beyond the 255 positions of the released code the flow goes on."""
    made = encoding(delta=0.01)
    assert made.table([1000]).isfinite().all()


def test_grouped_keys_have_the_first_features_of_their_states():
    made = encoding()
    zeros = torch.zeros(1, 1, 2, 4, dtype=DOUBLE)
    _, k = made.rotate(torch.zeros(1, 2, 2, 4, dtype=DOUBLE), zeros, [3, 5])
    v = made.values(zeros, [3, 5])
    p = made.table([3, 5], dtype=DOUBLE)
    torch.testing.assert_close(k[0, 0], p[:, 1, :4])
    torch.testing.assert_close(v[0, 0], p[:, 2, :4])


# The flow that is the sinusoid


def turning(d, delta):
    """Ω over the time of a position, interleaved."""
    omega = frequencies(d) / delta
    zeros = np.zeros((d, d))
    zeros[range(0, d, 2), range(1, d, 2)] = omega
    zeros[range(1, d, 2), range(0, d, 2)] = -omega
    return zeros


def bound_of_turning(positions, steps):
    """Bound the error of RK4 for the fastest pair, which rotates by z in each step.

    A step multiplies by R(iz) in place of exp(iz); they differ by at most z⁵/120, the
    first term left out of an alternating series, and neither is longer than 1.
    """
    return positions * steps * (1 / steps) ** 5 / 120


def test_a_linear_flow_is_the_sinusoid():
    d, positions, steps = 16, np.arange(100), 5
    pe = sinusoidal(positions, d, layout="interleaved")
    turn = turning(d, 0.01)
    for tableau in ("3/8", "classical"):
        options = dict(tableau=tableau, delta=0.01, steps=steps)
        found = flow(lambda t, p: p @ turn.T, pe[0], positions, **options)
        off = np.abs(found - pe).max()
        assert 0.2 * bound_of_turning(99, steps) < off < bound_of_turning(99, steps)


def test_the_released_field_holds_the_sinusoid_where_it_is():
    """Biases keep every hidden unit above 0 on the orbit, where h is then Ω p."""
    d, positions = 16, np.arange(100)
    pe, turn = sinusoidal(positions, d, layout="interleaved"), turning(16, 0.01)
    h = released_field(
        np.eye(d, d + 1),
        np.full(d, 2.0),
        np.pad(turn, ((0, 0), (0, 1))),
        -turn @ np.full(d, 2.0),
    )
    options = dict(tableau="3/8", delta=0.01)
    off = np.abs(flow(h, pe[0], positions, **options) - pe).max()
    assert off < bound_of_turning(99, 5)
    far = -5 * np.ones(d)
    assert np.abs(h(0.0, far) - turn @ far).max() > 1


def test_the_papers_slope_is_not_the_sinusoids():
    tau, d, step = 1.3, 8, 1e-6
    ends = (sinusoidal(tau + s * step, d, layout="interleaved") for s in (1, -1))
    slope = np.subtract(*ends).reshape(-1, 2) / (2 * step)
    omega = frequencies(d)[:, None]
    published = mutants.slope_of_the_floater_paper(tau, d)
    np.testing.assert_allclose(published * omega**2, slope, atol=1e-8)
    assert np.abs(published - slope).max() > 1


# What layers share


def test_one_flow_serves_all_layers_and_each_has_its_starts():
    first = FLOATER(8, 64, tableau="3/8", delta=0.01)
    others = [
        FLOATER(8, 64, tableau="3/8", delta=0.01, field=first.field) for _ in range(2)
    ]
    model = Transformer(512, 8, 3, encoding=[first, *others], expansion=1)
    own = {n: p for n, p in model.named_parameters() if "encoding" in n}
    assert sum(p.numel() for n, p in own.items() if "field" in n) == 526_336
    assert sum(n.endswith("start") for n in own) == 3


def test_it_starts_as_the_released_code():
    torch.manual_seed(0)
    made = FLOATER(4, 64, tableau="3/8", delta=0.01)
    assert not made.field.inner_bias.any() and not made.field.outer_bias.any()
    assert made.field.inner.std().item() == pytest.approx((2 / 513) ** 0.5, rel=0.02)
    edge = math.sqrt(6 / (4 * 256))
    assert 0.98 * edge < made.start.abs().max().item() <= edge


def test_a_start_that_is_given_is_copied():
    start = torch.ones(3, 8)
    made = FLOATER(2, 4, tableau="3/8", delta=0.01, start=start)
    start += 1
    assert torch.equal(made.start, torch.ones(3, 8))


# What is refused

GOOD = arrays(encoding()) | OPTIONS
BAD_FACES = {
    "unknown tableau": ({"tableau": "rk4"}, "tableau must be"),
    "no time": ({"delta": 0.0}, "delta must be above 0"),
    "time back": ({"delta": -1.0}, "delta must be finite and not negative"),
    "no steps": ({"steps": 0}, "steps must be a positive"),
    "half steps": ({"steps": 2.5}, "steps must be an integer"),
    "start": ({"start": np.zeros((2, 8))}, r"start must be \[3, 8\]"),
    "integers": ({"start": np.zeros((3, 8), int)}, "start must hold floats"),
    "inner": ({"field_inner": np.zeros((8, 8))}, r"inner must be \[8, 9\]"),
    "outer": ({"field_outer": np.zeros((9, 8))}, r"outer must be \[8, 9\]"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", BAD_FACES)
def test_bad_arguments_of_the_reference(case):
    given, message = BAD_FACES[case]
    with pytest.raises((TypeError, ValueError), match=message):
        floater(**GOOD | given)


def test_five_steps_are_taken_where_none_are_said():
    given = {n: option for n, option in OPTIONS.items() if n != "steps"}
    found = flow(smooth, np.ones(2), [2.5], **given)
    assert np.array_equal(found, flow(smooth, np.ones(2), [2.5], **given, steps=5))
    assert FLOATER(2, 4, **given).steps == 5


def test_the_farthest_position_is_reached():
    assert encoding(farthest=9).table([-9, 9]).isfinite().all()
    assert np.isfinite(flow(smooth, np.ones(2), [3], **OPTIONS, farthest=3)).all()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: encoding(tableau="rk4"), "tableau must be"),
        (lambda: encoding(delta=math.inf), "delta must be finite"),
        (lambda: encoding(steps=True), "steps must be an integer"),
        (lambda: encoding(field=VectorField(4)), "field must be 8 wide"),
        (lambda: encoding(field=torch.nn.Identity()), "field must be a VectorField"),
        (lambda: encoding(start=torch.zeros(3, 4)), r"start must be \[3, 8\]"),
        (lambda: encoding(start=torch.full((3, 8), math.nan)), "start must be finite"),
        (lambda: encoding(farthest=9).table([-9.5]), "at most farthest = 9"),
        (lambda: encoding().table([math.nan]), "positions must be finite"),
        (lambda: encoding(delta=9.0).table([500]), "the solution must stay below"),
        (
            lambda: encoding(start=torch.full((3, 8), 1e19)).table([0]),
            r"must stay below 6\.52e\+18",  # √(largest / 8)
        ),
        (lambda: encoding().table([0], dtype=torch.int8), "dtype must hold floats"),
        (lambda: Attention(8, 1, encoding=encoding()), "was made for heads = 2"),
        (
            lambda: flow(smooth, np.ones(2), [3], **OPTIONS, farthest=2),
            "at most farthest = 2",
        ),
        (
            lambda: flow(lambda t, p: p**3, np.full(2, 9.0), [3], **OPTIONS),
            "overflows float64",
        ),
        (lambda: flow(smooth, np.float64(1), [3], **OPTIONS), "start must be"),
        (
            lambda: attend(*np.ones((3, 1, 2, 4)), floater(**GOOD)),
            r"start must be \[3, 4\] for 1 heads",
        ),
        (
            lambda: floater(**GOOD).values(np.ones((2, 2, 4)), np.ones((2, 1))),
            "one number for each token",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_no_token_and_one():
    made = encoding()
    for tokens in (0, 1):
        x = torch.randn(1, 2, tokens, 4, dtype=DOUBLE, requires_grad=True)
        attend_fast(x, x, x, made).sum().backward()
        assert x.grad.shape == x.shape
    assert made.table([]).shape == (0, 3, 8)
