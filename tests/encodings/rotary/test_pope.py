"""PoPE: magnitudes from content, angles from positions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import attend as attend_numpy
from posedu.numpy import pope, rope
from posedu.numpy.attention import steps
from posedu.numpy.frequencies import frequencies
from posedu.torch import Attention, KVCache, PoPE, attend

pytestmark = pytest.mark.usefixtures("untraced_flex")


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def logits(q, k, hooks, positions):
    return steps(q, k, np.zeros_like(k), hooks, positions=positions).logits


def test_a_score_by_hand():
    """Two features: softplus(0) = ln 2 each, angles 5 and 5/100 at offset 5."""
    q = k = np.zeros((1, 2, 2))
    found = logits(q, k, pope(delta=np.zeros((1, 2))), np.array([9, 4]))[0, 0, 1]
    expected = np.log(2) ** 2 * (np.cos(5) + np.cos(5 / 100)) / np.sqrt(2)
    assert found == pytest.approx(expected, rel=1e-14)


def test_it_is_rope_of_lengths():
    """Pairs (softplus(x), 0), interleaved, rotated by RoPE with 2d features."""
    q, k, at = drawn(0, 2, 7, 5), drawn(1, 2, 7, 5), np.arange(7.0) * 3
    as_pairs = [np.stack((softplus(x), 0 * x), -1).reshape(2, 7, 10) for x in (q, k)]
    turned_q, turned_k = (rope(x, at, layout="interleaved") for x in as_pairs)
    expected = turned_q @ turned_k.swapaxes(-1, -2) / np.sqrt(5)
    found = logits(q, k, pope(delta=np.zeros((2, 5))), at)
    np.testing.assert_allclose(found, expected, atol=1e-14)


@given(st.integers(-(2**20), 2**20), st.integers(0, 99))
def test_scores_are_of_offsets(shift, seed):
    """Angles reach 2²⁰ and err by half a unit in their last place each."""
    q, k = drawn(seed, 1, 6, 4), drawn(seed + 1, 1, 6, 4)
    hooks = pope(delta=-np.abs(drawn(2, 1, 4)))
    here, there = (logits(q, k, hooks, np.arange(6) + s) for s in (0, shift))
    size = (softplus(q).max() * softplus(k).max()) * 4 / 2
    np.testing.assert_allclose(here, there, atol=size * 2**20 * 2**-51)


@given(st.integers(0, 99))
def test_content_moves_no_peak(seed):
    """One feature's score is greatest at ω(i − j) = δ + 2πn, whatever the content.

    RoPE's peak moves with the contents.
    """
    at = np.arange(0, 7, 0.25)
    peaks = {"pope": set(), "rope": set()}
    for own in range(3):
        q, k = drawn(100 * seed + own, 1, 1, 2), drawn(100 * seed + own + 50, 1, 1, 2)
        both = [np.repeat(t, len(at), 1) for t in (q, k)]
        single = [t[..., :1] for t in both]
        hooks = pope(delta=np.array([[-1.5]]))
        first = logits(*single, hooks, at)[0, :, 0]
        peaks["pope"].add(int(first.argmax()))
        turned = [rope(t, at, layout="half", base=2.0) for t in both]
        peaks["rope"].add(
            int((turned[0] @ turned[1].swapaxes(-1, -2))[0, :, 0].argmax())
        )
    assert peaks["pope"] == {round((2 * np.pi - 1.5) / 0.25)}
    assert len(peaks["rope"]) > 1


@pytest.mark.parametrize(
    "version",
    [
        mutants.pope_without_softplus,
        mutants.pope_in_pairs,
        mutants.pope_with_the_phase_added,
    ],
)
def test_what_is_no_pope_is_seen(version):
    q, k, delta = drawn(3, 6, 4), drawn(4, 6, 4), -np.abs(drawn(5, 4))
    right = logits(q[None], k[None], pope(delta=delta[None]), np.arange(6))[0] * 2
    angles = np.arange(6)[:, None] * frequencies(8)
    by_loops = [
        [
            (softplus(a) * softplus(b) * np.cos(angles[i] - angles[j] - delta)).sum()
            for j, b in enumerate(k)
        ]
        for i, a in enumerate(q)
    ]
    np.testing.assert_allclose(right, by_loops, atol=1e-13)
    assert np.abs(right - version(q, k, delta)).max() > 0.1


def test_phases_end_at_a_turn():
    """Outside [−2π, 0] they stop, and so does their gradient."""
    q, k = drawn(0, 1, 4, 2), drawn(1, 1, 4, 2)
    v = drawn(2, 1, 4, 2)
    clipped, given = (
        attend_numpy(q, k, v, pope(delta=np.array([d])))
        for d in ([0.0, -2 * np.pi], [1.0, -9.0])
    )
    np.testing.assert_array_equal(clipped, given)
    module = PoPE(2, 1)
    module.delta.data = torch.tensor([[1.0, -1.0]])
    tensors = (torch.tensor(t[None]) for t in (q, k, v))
    attend(*tensors, module).square().sum().backward()
    gradient = module.delta.grad[0]
    assert gradient[0] == 0 and gradient[1] != 0


@pytest.mark.parametrize("route", ["eager", "sdpa", "flex"])
def test_routes_agree_with_grouped_queries(route):
    torch.manual_seed(0)
    module = PoPE(6, 4).double()
    module.delta.data.uniform_(-6, 0)
    q = torch.randn(2, 4, 9, 6, dtype=torch.float64)
    k, v = torch.randn(2, 2, 2, 9, 6, dtype=torch.float64)
    expected = attend_numpy(
        *(t[0].numpy() for t in (q, k, v)), pope(delta=module.delta.detach().numpy())
    )
    with torch.no_grad():
        found = attend(q, k, v, module, route=route)
    np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-13)


def test_decoding_is_a_full_run():
    torch.manual_seed(0)
    layer = Attention(16, heads=2, encoding=PoPE(8, 2)).double()
    x, cache = torch.randn(1, 11, 16, dtype=torch.float64), KVCache()
    parts = [layer(part, cache=cache) for part in x.split([4, 1, 1, 5], 1)]
    assert (torch.cat(parts, 1) - layer(x)).abs().max() < 1e-13


REFUSED = {
    "a row alone": (lambda: pope(delta=np.zeros(4)), r"delta must be \[heads, d\]"),
    "a base of 1": (lambda: PoPE(4, 2, base=1.0), "base must be finite and greater"),
    "other sizes": (
        lambda: attend_numpy(*np.ones((3, 2, 3, 4)), pope(delta=np.zeros((1, 4)))),
        "needs queries",
    ),
    "another layer": (
        lambda: Attention(16, heads=2, encoding=PoPE(8, 1)),
        "PoPE was made for heads = 1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_pope_is_refused(case, unchecked):
    call, message = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=message):
        call()
