"""BAM: loops, signs of the exponent and the center, special cases, published slips."""

import math

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import bias as reference
from posedu.numpy.attention import attend, causal_mask, softmax
from posedu.sympy import bias as symbolic
from posedu.sympy.attention import steps as symbolic_steps
from posedu.torch import BAM, Attention, KVCache, bias
from posedu.torch import attend as attend_torch

EPSILON = 1e-5
U = 2.0**-53


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def by_loop(i, j, alpha, beta, mu=0.0):
    """The bias of one pair, from the authors' formula with j − i."""
    return -alpha * (abs(j - i - mu) + EPSILON) ** beta


def parameters(encoding):
    return {n: p.detach().numpy() for n, p in encoding.named_parameters()}


ALPHA = torch.tensor([0.5, 0.125]).double()
EACH_BETA = pytest.mark.parametrize("beta", [-1.0, -0.3, 0.0, 0.5, 1.0, 2.0, 3.0])


@EACH_BETA
@pytest.mark.parametrize("mu", [0.0, 1.5, -3.0])
def test_all_implementations_have_the_authors_bias(beta, mu):
    """A power of x = abs(z) + ε carries β ln x roundings, and those of z over ε."""
    at = [0, 1, 2, 5, 40]
    expected = [[[by_loop(i, j, a, beta, mu) for j in at] for i in at] for a in ALPHA]
    offsets = np.subtract.outer(at, at)
    rtol = 64 * U * (1 + abs(beta) * (abs(math.log(EPSILON)) + abs(mu) / EPSILON))
    options = {"alpha": ALPHA.numpy(), "beta": beta, "mu": mu}
    found = reference.bam_bias(offsets, **options)
    np.testing.assert_allclose(found, expected, rtol=rtol)
    starts = {"beta": torch.full((2,), beta, dtype=torch.float64)}
    if mu:
        starts["mu"] = torch.full((2,), mu, dtype=torch.float64)
    encoding = BAM(2, alpha=ALPHA, shifted=bool(mu), **starts)
    found = encoding.of_offsets(torch.tensor(offsets)).detach()
    np.testing.assert_allclose(found, expected, rtol=rtol)
    exact = [
        [[float(symbolic.bam_bias(sp.Integer(int(t)), **of(a, beta, mu))) for t in row]]
        for a in ALPHA
        for row in offsets
    ]
    np.testing.assert_allclose(np.reshape(exact, (2, 5, 5)), expected, rtol=rtol)


def of(alpha, beta, mu):
    return dict(
        alpha=sp.Rational(float(alpha)), beta=sp.Rational(beta), mu=sp.Rational(mu)
    )


def test_a_negative_exponent_shuts_out_the_token_itself():
    """By hand: −1/ε, −1/(1 + ε) and −1/(100 + ε) at the distances 0, 1 and 100."""
    found = reference.bam_bias([0, 1, 100], alpha=1.0, beta=-1.0)
    np.testing.assert_allclose(found, [-1e5, -1 / (1 + EPSILON), -1 / (100 + EPSILON)])
    assert (np.diff(found) > 0).all()
    encoding = BAM(2, beta=-torch.ones(2)).double()
    q = torch.tensor(normal(0, 1, 2, 6, 4))
    v = torch.eye(6).double().expand(1, 2, 6, 6)
    weights = attend_torch(q, q, v, encoding)[0].detach()
    own = weights.diagonal(dim1=1, dim2=2)
    assert (own[:, 0] == 1).all()  # the first token has no other key
    assert own[:, 1:].max() < 1e-100  # e to the −1/(256 ε), nearly
    equal = softmax(reference.bam_bias(np.arange(200), alpha=1.0, beta=-1.0))
    assert equal[0] == 0 and (np.diff(equal) > 0).all()


@pytest.mark.parametrize("route", ["eager", "sdpa", "flex"])
@pytest.mark.parametrize("beta", [-1.0, 0.5, 2.0])
@pytest.mark.parametrize("causal", [True, False])
def test_a_layer_computes_what_the_formula_says(route, beta, causal, untraced_flex):
    torch.manual_seed(0)
    starts = {"beta": torch.full((2,), beta), "mu": torch.tensor([-2.25, 1.0])}
    encoding = BAM(2, shifted=True, scaled_softmax=True, **starts).double()
    with torch.no_grad():
        encoding.log_n_slope.copy_(torch.tensor([0.4, 1.5]))
    q, k, v = (normal(s, 2, 7, 4) for s in range(3))
    given_tensors = [torch.tensor(t)[None] for t in (q, k, v)]
    with torch.no_grad():
        found = attend_torch(*given_tensors, encoding, causal=causal, route=route)
    hooks = reference.bam(**parameters(encoding))
    expected = attend(q, k, v, hooks, causal=causal)
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-13)
    n = np.arange(7)
    tau = np.array([0.4, 1.5])[:, None] * np.log(n + 1)
    alpha = reference.alibi_slopes(2, slopes="authors")
    z = [
        [
            [
                tau[h, i] * (q[h, i] @ k[h, j]) / 2
                + by_loop(i, j, alpha[h], beta, [-2.25, 1.0][h])
                for j in n
            ]
            for i in n
        ]
        for h in range(2)
    ]
    mask = causal_mask(7) if causal else np.ones((7, 7), bool)
    by_formula = softmax(np.array(z), np.broadcast_to(mask, (2, 7, 7))) @ v
    np.testing.assert_allclose(expected, by_formula, rtol=0, atol=1e-6)  # float32 β, μ


def test_training_starts_from_alibi():
    """ε moves all biases of a head by the same number, which a softmax cannot see."""
    q, k, v = (torch.tensor(normal(s, 1, 6, 9, 4)) for s in range(3))
    ours = attend_torch(q, k, v, BAM(6).double())
    alibi = attend_torch(q, k, v, bias.ALiBi(6, slopes="authors"))
    torch.testing.assert_close(ours, alibi, rtol=0, atol=1e-6)  # float32 slopes
    m = reference.alibi_slopes(6, slopes="authors")
    found = reference.bam_bias(np.arange(9), alpha=m, beta=1.0)
    line = -np.outer(m, np.arange(9) + EPSILON)
    np.testing.assert_allclose(found, line, rtol=4 * U)


@given(st.floats(0.05, 2.0), st.floats(0.01, 3.0), st.integers(1, 4096))
def test_up_to_epsilon_it_is_kerples_power(exponent, factor, distance):
    """The derivative of t^β is at most max(1, β) max(1, t)^max(0, β − 1) for t ≥ 1."""
    ours = reference.bam_bias(distance, alpha=factor, beta=exponent)
    theirs = reference.kerple_power_bias(distance, r1=factor, r2=exponent)
    steepest = 2 * (distance + 1.0) ** max(0.0, exponent - 1)
    assert abs(ours - theirs) <= factor * steepest * EPSILON + 16 * U * abs(theirs)


def test_an_exponent_of_0_is_no_encoding_but_for_the_temperature():
    q, k, v = (torch.tensor(normal(s, 1, 2, 9, 4)) for s in range(3))
    flat = {"alpha": torch.full((2,), 5.0), "beta": torch.zeros(2)}
    plain = attend_torch(q, k, v, BAM(2, **flat).double())
    torch.testing.assert_close(plain, attend_torch(q, k, v), rtol=0, atol=1e-14)
    scaled = attend_torch(q, k, v, BAM(2, scaled_softmax=True, **flat).double())
    tau = torch.arange(1.0, 10.0).double().log()[:, None]
    torch.testing.assert_close(scaled, attend_torch(tau * q, k, v), rtol=0, atol=1e-14)


@pytest.mark.parametrize("options", [{}, {"shifted": True, "scaled_softmax": True}])
def test_a_cache_gives_what_one_call_gives(options):
    torch.manual_seed(1)
    encoding = BAM(2, beta=torch.tensor([0.5, -0.5]), **options).double()
    layer = Attention(8, 2, encoding=encoding).double()
    x, cache = torch.randn(1, 9, 8).double(), KVCache()
    whole = layer(x)
    parts = [layer(x[:, a:b], cache=cache) for a, b in ((0, 4), (4, 5), (5, 9))]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-13)


def test_cached_keys_may_be_moved():
    """No position is in them: keys at moved positions are those of a text moved so."""
    torch.manual_seed(1)
    encoding = BAM(2, scaled_softmax=True).double()
    layer = Attention(8, 2, encoding=encoding).double()
    x, cache = torch.randn(1, 9, 8).double(), KVCache()
    layer(x[:, :6], cache=cache)
    cache.drop(encoding, 0, 2)
    after = layer(x[:, 6:], cache=cache)
    without = layer(x[:, 2:])
    torch.testing.assert_close(after, without[:, 4:], rtol=0, atol=1e-13)


def test_all_parameters_are_trained_and_far_gradients_are_finite():
    torch.manual_seed(0)
    encoding = BAM(3, shifted=True, scaled_softmax=True).double()
    assert {n: p.shape for n, p in encoding.named_parameters()} == dict.fromkeys(
        ("log_alpha", "beta", "theta_mu", "log_n_slope"), torch.Size([3])
    )
    with torch.no_grad():
        encoding.theta_mu += 0.3
    q, k, v = torch.randn(3, 1, 3, 8, 4).double()
    out = attend_torch(q, k, v, encoding, positions=2**40 + torch.arange(8))
    grads = torch.autograd.grad(out.square().sum(), [*encoding.parameters()])
    assert all(g.isfinite().all() and (g != 0).all() for g in grads)


def test_far_distances_keep_their_last_digit():
    """2²⁴ + 1 is no float32."""
    t = 2**24 + 1
    encoding = BAM(1, alpha=torch.ones(1).double(), beta=torch.ones(1).double())
    found = encoding.of_offsets(torch.tensor([t])).item()
    assert found == pytest.approx(-t - EPSILON, rel=64 * U)


def test_what_was_published_differs():
    """The README's formula has the other sign of μ, and its listing takes no log."""
    i, j = np.arange(6.0)[:, None], np.arange(6.0)
    right = reference.bam_bias(i - j, alpha=0.5, beta=1.0, mu=-2.0)
    assert right[5].argmax() == 3  # two tokens back
    printed = mutants.bam_of_the_readme(i, j, 0.5, 1.0, -2.0)
    assert printed[3].argmax() == 5  # two tokens ahead
    np.testing.assert_array_equal(right, printed.T)
    listed = mutants.bam_start_of_the_readme(8)
    assert listed.min() > 1 > reference.alibi_slopes(8, slopes="authors").max()
    first = mutants.bam_with_alpha_inside(np.arange(9.0), 0.25, 2.0)
    same = reference.bam_bias(np.arange(9), alpha=0.25**2.0, beta=2.0)
    np.testing.assert_allclose(first, same, rtol=0, atol=2e-4)
    other = reference.bam_bias(np.arange(9), alpha=0.25, beta=2.0)
    assert np.abs(first - other).max() > 1


def test_what_a_module_is_made_of_is_shown():
    shown = repr(BAM(2, shifted=True))
    assert shown == "BAM(2, shifted=True, scaled_softmax=False)"


HEAD = np.zeros(2)
BAD = [
    (lambda: BAM(0), ValueError, "heads must be"),
    (lambda: BAM(2, shifted=1), TypeError, "shifted must be"),
    (lambda: BAM(2, mu=torch.zeros(2)), ValueError, "mu is for shifted=True"),
    (
        lambda: BAM(2, alpha=torch.tensor([1.0, 0.0])),
        ValueError,
        r"alpha must be positive, got \[1.0, 0.0\]",
    ),
    (
        lambda: BAM(2, beta=torch.tensor([1.0, torch.nan])),
        ValueError,
        "beta must be finite",
    ),
    (lambda: BAM(2, beta=torch.ones(3)), ValueError, r"beta must be \[2\], got shape"),
    (
        lambda: reference.bam_bias([1.0], alpha=-1.0, beta=1.0),
        ValueError,
        "alpha must be positive and finite",
    ),
    (
        lambda: reference.bam_bias([1.0], alpha=1.0, beta=np.inf),
        ValueError,
        "beta must be finite",
    ),
    (
        lambda: reference.bam_bias([1, 2**40], alpha=1.0, beta=30.0),
        ValueError,
        "overflows float64; .*, got beta 30.0",
    ),
    (
        lambda: reference.bam(log_alpha=HEAD, beta=np.zeros(3)),
        ValueError,
        r"got log_alpha \[2\] and beta \[3\]",
    ),
    (
        lambda: reference.bam(log_alpha=np.full(2, 1000.0), beta=HEAD),
        ValueError,
        "alpha must be positive and finite",
    ),
    (
        lambda: reference.bam(log_alpha=HEAD, beta=HEAD, theta_mu=np.full(2, 800.0)),
        ValueError,
        "mu must be finite",
    ),
    (
        lambda: attend(
            *[np.ones((2, 3, 4))] * 3,
            reference.bam(log_alpha=np.zeros(1), beta=np.zeros(1)),
        ),
        ValueError,
        r"\[1, 3, 3\]",
    ),
]


@pytest.mark.parametrize(("call", "error", "words"), BAD)
def test_bad_input_is_refused(call, error, words, unchecked):
    with pytest.raises(error, match=words):
        call()


def test_the_symbolic_hooks_make_the_bias():
    a, b, mu, s = sp.symbols("a b mu s", real=True)
    hooks = symbolic.bam(log_alpha=[a], beta=[b], theta_mu=[mu], log_n_slope=[s])
    q = (sp.Matrix([1, 1, 1]),)
    taken = symbolic_steps(q, q, q, hooks)
    z = sp.Abs(2 + 2 * sp.sinh(mu)) + sp.Rational(1, 100_000)
    expected = s * sp.log(3) - sp.exp(a) * z**b
    assert sp.simplify(taken.logits[0][2, 0] - expected) == 0
