"""Three forms of a recurrence: the loop, the weights of all pairs, and the chunks."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from posedu.numpy import recurrent as reference
from posedu.torch.recurrent import Writes, by_chunks, pair_weights
from posedu.torch.recurrent.forms import decayed_products
from support.recurrent import DOUBLE, drawn, walked

CLOSE = {"rtol": 0, "atol": 1e-11}
KINDS = [(delta, by_feature) for delta in (False, True) for by_feature in (False, True)]
kinds = pytest.mark.parametrize("delta, by_feature", KINDS)


@given(
    st.integers(0, 2**31),
    st.integers(0, 40),
    st.sampled_from(KINDS),
    st.integers(1, 9),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_chunks_of_any_size_and_pairs_are_the_loop(seed, tokens, kind, chunk, packed):
    delta, by_feature = kind
    writes = drawn(seed, tokens, delta=delta, by_feature=by_feature, segments=packed)
    out, state = walked(writes)
    torch.testing.assert_close(pair_weights(writes) @ writes.v, out, **CLOSE)
    found, last = by_chunks(writes, chunk=chunk)
    torch.testing.assert_close(found, out, **CLOSE)
    torch.testing.assert_close(last, state, **CLOSE)


@kinds
def test_the_reference_is_the_loop(delta, by_feature):
    writes = drawn(1, 9, delta=delta, by_feature=by_feature)
    out, state = walked(writes)
    arrays = [t[0].numpy() for t in writes[:5]]
    found, last = reference.read_states(*arrays, delta=delta)
    np.testing.assert_allclose(found, out[0].numpy(), rtol=0, atol=1e-12)
    np.testing.assert_allclose(last, state[0].numpy(), rtol=0, atol=1e-12)
    q, k, v, *numbers = arrays
    weights = reference.state_weights(q, k, *numbers, delta=delta)
    np.testing.assert_allclose(weights @ v, found, rtol=0, atol=1e-12)
    last_rows = reference.state_weights(q[:, -4:], k, *numbers, delta=delta)
    np.testing.assert_allclose(last_rows, weights[:, -4:], rtol=0, atol=1e-15)


def test_the_reference_wants_a_value_for_each_key(unchecked):
    writes = drawn(1, 9, delta=False, by_feature=False)
    q, k, v, *numbers = (t[0].numpy() for t in writes[:5])
    with pytest.raises(ValueError, match="q and k must be"):
        reference.read_states(q, k, v[:, 1:], *numbers, delta=False)


@kinds
@pytest.mark.parametrize("cut", (0, 1, 13, 64, 70))
def test_a_state_is_all_that_later_tokens_need(delta, by_feature, cut):
    writes = drawn(2, 80, delta=delta, by_feature=by_feature)

    def part(piece):
        tokens = (t[:, :, piece] for t in writes[:5])
        return Writes(*tokens, writes.segments[:, piece], delta)

    whole, last = by_chunks(writes)
    before, state = by_chunks(part(slice(0, cut)))
    after, end = by_chunks(part(slice(cut, None)), state)
    torch.testing.assert_close(torch.cat((before, after), 2), whole, **CLOSE)
    torch.testing.assert_close(end, last, **CLOSE)
    torch.testing.assert_close(walked(part(slice(cut, None)), state)[1], last, **CLOSE)


@kinds
def test_gradients_through_the_forms(delta, by_feature):
    writes = drawn(3, 7, delta=delta, by_feature=by_feature, segments=True, heads=1)
    leaves = [t.requires_grad_() for t in writes[:5]]

    def chunks(*tensors):
        return by_chunks(Writes(*tensors, *writes[5:]), chunk=3)

    def pairs(*tensors):
        return pair_weights(Writes(*tensors, *writes[5:]))

    assert torch.autograd.gradcheck(chunks, leaves)
    assert torch.autograd.gradcheck(pairs, leaves)


class Written(TorchDispatchMode):
    """A mode that counts the numbers which operations write."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if not function.is_view:
            self.numbers += sum(t.numel() for t in tree_leaves(out))
        return out


def written_backward(chunks, *, delta):
    """Numbers that are written by the backward pass through so many chunks of four."""
    writes = drawn(3, 4 * chunks, delta=delta, by_feature=False)
    learned = [t.requires_grad_() for t in writes[:5]]
    out = by_chunks(Writes(*learned, writes.segments, delta), chunk=4)[0]
    upstream = torch.ones(out.shape, dtype=out.dtype)
    with Written() as written:
        out.backward(upstream)
    return written.numbers


@pytest.mark.parametrize("delta", (False, True))
def test_gradients_cost_as_much_a_chunk_in_a_longer_text(delta):
    """Indices of chunks had gradients as long as the text: 3.9 times for twice."""
    less, more = (written_backward(n, delta=delta) for n in (100, 200))
    assert more / less < 2.05


@kinds
def test_decays_that_overflow_as_quotients_stay_finite(delta, by_feature):
    """e^(−G) of one factor alone is above 10³⁸ after few tokens: 40 a token here."""
    writes = drawn(4, 96, delta=delta, by_feature=by_feature, decay=40.0)
    assert -writes.log_decay.cumsum(2).min() > 1e3
    out, state = walked(writes)
    single = Writes(*(t.float() for t in writes[:5]), *writes[5:])
    for found in (by_chunks(single)[0], pair_weights(single) @ single.v):
        assert found.isfinite().all()
        torch.testing.assert_close(found.double(), out, rtol=0, atol=2e-4)
    torch.testing.assert_close(by_chunks(single)[1].double(), state, rtol=0, atol=1e-4)
    naive = (writes.log_decay.float().cumsum(2)[0, 0] * -1).exp()
    assert naive.isinf().any()


@pytest.mark.parametrize("tokens", (1, 2, 3, 7, 64, 65))
def test_halves_are_the_sum_over_features(tokens):
    generator = torch.Generator().manual_seed(tokens)
    q, k = torch.randn(2, tokens, 4, generator=generator, dtype=DOUBLE)
    gates = -torch.rand(tokens, 4, generator=generator, dtype=DOUBLE)
    sums = gates.cumsum(0)
    factors = (sums[:, None] - sums).exp()
    expected = torch.einsum("id,jd,ijd->ij", q, k, factors).tril()
    torch.testing.assert_close(decayed_products(q, k, sums), expected, **CLOSE)


def wrong_own_decay(writes):
    """The new write is decayed by its own gate."""
    gate = writes.log_decay.exp()
    gate = gate if gate.ndim == writes.k.ndim else gate[..., None]
    return writes._replace(k=writes.k * gate)


def wrong_late_gate(writes):
    """The gate of a token counts from the next token on."""
    late = torch.nn.functional.pad(
        writes.log_decay, (0, 0) * (writes.log_decay.ndim - 3) + (1, -1)
    )
    return writes._replace(log_decay=late)


WRONG = {
    "a write decayed by its own gate": wrong_own_decay,
    "a gate that counts from the next token on": wrong_late_gate,
    "exponents of base 2": lambda w: w._replace(log_decay=w.log_decay * math.log(2)),
    "no strength": lambda w: w._replace(beta=torch.ones_like(w.beta)),
    "no resets": lambda w: w._replace(segments=torch.zeros_like(w.segments)),
    "the other rule": lambda w: w._replace(delta=not w.delta),
}


@kinds
@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_another_recurrence(delta, by_feature, name):
    writes = drawn(5, 40, delta=delta, by_feature=by_feature, segments=True, decay=0.1)
    out = walked(writes)[0]
    assert (by_chunks(WRONG[name](writes))[0] - out).abs().max() > 0.1


def test_a_decay_before_and_after_the_delta_rule_differ():
    """Gates of features do not commute with I − β k kᵀ: the order is decay, delta."""
    writes = drawn(6, 12, delta=True, by_feature=True)
    _, k, v, log_decay, beta = (t[0, 0] for t in writes[:5])
    state = torch.zeros(5, 3, dtype=DOUBLE)
    for t in range(12):
        state = state - beta[t] * torch.outer(k[t], k[t]) @ state
        state = torch.diag(log_decay[t].exp()) @ state
        state = state + beta[t] * torch.outer(k[t], v[t])
    assert (state - walked(writes)[1][0, 0]).abs().max() > 0.01
