"""Attention's implementations agree within a guaranteed bound; mutants exceed it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from posedu.crosscheck import attention as crosschecked
from posedu.crosscheck.attention import (
    CALLS,
    BallArithmetic,
    crosscheck_attention,
    exact,
    layer_and_gradient,
)
from posedu.numpy.attention import Projections, attention, causal_mask, softmax

pytestmark = pytest.mark.usefixtures("compiler")
U32, U64 = 2.0**-24, 2.0**-53


def drawn(seed=0, tokens=5, heads=4, kv_heads=2, d=3, d_model=6):
    rng = np.random.default_rng(seed)
    sizes = (heads, d, d_model), *[(kv_heads, d, d_model)] * 2, (d_model, heads, d)
    w = Projections(*(rng.normal(size=size) for size in sizes))
    return *rng.normal(size=(2, tokens, d_model)), w


def test_the_implementations_agree_in_every_call_and_dtype():
    check = crosscheck_attention(("sdpa", "eager"))
    assert check.ok
    assert {row.cases for row in check.results} == {len(CALLS)}
    assert {row.what for row in check.results} == {"forward", "gradient"}
    assert len(check.results) == 2 * 3 * 2
    with torch.random.fork_rng():
        torch.manual_seed(5)
        assert crosscheck_attention(("sdpa",), ("causal",)).ok
        first = torch.rand(1)
        torch.manual_seed(5)
        assert first == torch.rand(1)  # The global generator is left as it was.


def test_flex_has_an_output_alone_on_a_cpu():
    check = crosscheck_attention(("flex",), ("packed",), dtypes=(torch.float32,))
    assert check.ok and [row.what for row in check.results] == ["forward"]


def test_a_mask_that_is_off_by_one_hides_in_bfloat16_alone():
    wrong = crosscheck_attention(("sdpa",), ("mask off by one",))
    assert not wrong.ok
    for row in wrong.results:
        assert row.ok == (row.dtype == "bfloat16")


MUTANTS = {
    "output": ("forward", lambda y, dx: (1.0001 * y, dx)),
    "shifted": ("forward", lambda y, dx: (y.roll(1, 1), dx)),
    "gradient": ("gradient", lambda y, dx: (y, 0.999 * dx)),
    "no gradient": ("gradient", lambda y, dx: (y, torch.zeros_like(dx))),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_rejected_where_it_is_wrong(name, monkeypatch):
    what, mutate = MUTANTS[name]

    class Mutant(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y):
            return mutate(y, y)[0]

        @staticmethod
        def backward(ctx, g):
            return mutate(g, g)[1]

    def run(layer, x):
        return Mutant.apply(layer(x))

    calls = {**CALLS, "causal": replace(CALLS["causal"], run=run)}
    monkeypatch.setattr(crosschecked, "CALLS", calls)
    check = crosscheck_attention(("eager",), ("causal",), dtypes=(torch.float32,))
    assert [row.what for row in check.results if not row.ok] == [what]


@pytest.mark.parametrize("mask", [None, causal_mask(5)], ids=["open", "causal"])
def test_the_gradient_by_hand_is_the_reference_s_slope(mask):
    x, g, w = drawn()
    seen = np.ones((5, 5), dtype=bool) if mask is None else mask
    y, gradient = layer_and_gradient(x, w, g, seen, U64)
    assert (abs(y.value - attention(x, w, mask=mask)) <= 2 * y.error).all()
    towards, h = np.random.default_rng(1).normal(size=x.shape), 1e-5
    ahead, behind = (attention(x + s * towards, w, mask=mask) for s in (h, -h))
    slope = ((ahead - behind) * g).sum() / (2 * h)
    assert (gradient.value * towards).sum() == pytest.approx(slope, rel=1e-7)
    assert gradient.error.max() < 1e-9


def in_float32(x):
    return np.asarray(x, dtype=np.float32)


def test_balls_hold_what_float32_makes_of_each_operation():
    rng, at = np.random.default_rng(2), BallArithmetic(U32)
    a, b = (in_float32(rng.normal(size=(4, 16))).astype(float) for _ in "ab")
    mask = rng.random((4, 16)) < 0.7
    steps = {
        "product": (
            at.einsum("in,jn->ij", exact(a), exact(b)),
            in_float32(a) @ in_float32(b).T,
        ),
        "sum": (at.add(exact(a), exact(b)), in_float32(a) + in_float32(b)),
        "multiple": (at.scale(exact(a), 0.3), in_float32(0.3) * in_float32(a)),
        "softmax": (
            at.softmax(exact(a), mask),
            torch.tensor(in_float32(np.where(mask, a, -np.inf))).softmax(-1).numpy(),
        ),
    }
    for name, (ball, rounded) in steps.items():
        error = abs(rounded.astype(float) - ball.value)
        assert (error <= ball.error).all(), name
        assert error.max() > 1e-3 * ball.error.max(), name  # The bound is not vacuous.
    assert at.gamma(3) == pytest.approx(3 * U32, rel=1e-6)


def test_balls_carry_errors_on():
    at, a = BallArithmetic(0.0), exact(np.array([[3.0, -2.0]]))
    off = replace(a, error=np.array([[0.5, 0.25]]))
    np.testing.assert_array_equal(at.add(off, off).error, [[1, 0.5]])
    np.testing.assert_array_equal(at.scale(off, -2.0).error, [[1, 0.5]])
    # |3 ± ½|² is at most 9 + 3.25, |2 ± ¼|² at most 4 + 1.0625
    product = at.einsum("ij,ij->i", off, off)
    np.testing.assert_allclose(product.error, [3.25 + 1.0625])
    change = softmax(np.array([[3.5, -2.25]])) - softmax(a.value)
    assert (abs(change) <= at.softmax(off, np.ones((1, 2), bool)).error).all()


def test_unknown_routes_and_calls_are_refused():
    with pytest.raises(ValueError, match=r"routes must be 'sdpa' or .* got 'fused'"):
        crosscheck_attention(("fused",))
    with pytest.raises(ValueError, match=r"calls must be 'no mask' or .* got 'cached'"):
        crosscheck_attention(calls=("cached",))
