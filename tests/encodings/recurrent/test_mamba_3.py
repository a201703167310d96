"""Mamba-3: its loop, the complex state, what it becomes, mistakes."""

from functools import partial

import numpy as np
import pytest
import torch

from posedu.numpy import attend as of_numpy
from posedu.numpy import recurrent as reference
from posedu.torch import Attention, Mamba2, Mamba3, RoPE, attend
from support.path import normal

CLOSE = {"rtol": 0, "atol": 1e-12}
RATES = ("softplus", "rational")


def layer(rate="rational", **options):
    torch.manual_seed(0)
    encoding = Mamba3(12, 3, 4, rate=rate, **options)
    made = Attention(12, 3, encoding=encoding).double().eval()
    with torch.no_grad():
        for p in made.parameters():
            p.normal_(0, 0.7 * p.shape[-1] ** -0.5 if p.ndim > 1 else 0.7)
    return made


def walked(made, x, *, late_gate=False, one_part=False, sign=1):
    """The output for one text, by complex numbers: the state turns, not the keys."""
    encoding = made.encoding
    memory = {n: t[0] for n, t in encoding.remember(x[None]).items()}
    pairs = encoding.rotary_dim // 2
    state = torch.zeros(3, pairs, 4, dtype=torch.complex128)
    still = torch.zeros(3, 4 - 2 * pairs, 4, dtype=torch.float64)
    before, out = None, []
    for t in range(len(x)):
        q, k, v = (f(x[t]).view(3, 4) for f in (made.q, made.k, made.v))
        q, k = q + encoding.q_bias, k + encoding.k_bias
        q_c, k_c = (
            torch.view_as_complex(a[:, : 2 * pairs].reshape(3, pairs, 2))
            for a in (q, k)
        )
        q_r, k_r = q[:, 2 * pairs :], k[:, 2 * pairs :]
        now, later = memory["now"][t], memory["later"][t]
        if one_part:
            now, later = now + later, 0 * later
        decay = memory["log_decay"][t].exp()[:, None, None]
        turn = torch.exp(-1j * sign * memory["turns"][t])[..., None]
        if before is not None and not late_gate:
            state = state + _outer(later, before[0], before[2])
            still = still + _outer(later, before[1], before[2])
        state, still = decay * turn * state, decay * still
        if before is not None and late_gate:
            state = state + _outer(later, before[0], before[2])
            still = still + _outer(later, before[1], before[2])
        state, still = state + _outer(now, k_c, v), still + _outer(now, k_r, v)
        before = k_c, k_r, v
        read = (q_c.conj()[..., None] * state).sum(1).real
        read = read + (q_r[..., None] * still).sum(1) + encoding.skip[:, None] * v
        out.append(made.o(read.flatten()))
    return torch.stack(out)


def numbers_of(encoding):
    return {n: p.detach().numpy() for n, p in encoding.named_parameters()}


def _outer(strength, k, v):
    return strength[:, None, None] * k[..., None] * v[:, None]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("rotary_dim", (2, 4))
def test_a_complex_state_without_rotated_keys_is_the_same(rate, rotary_dim):
    made, x = layer(rate, rotary_dim=rotary_dim), normal(1, 11, 12)
    with torch.no_grad():
        torch.testing.assert_close(made(x)[0], walked(made, x[0]), **CLOSE)


MISTAKES = {
    "the rest is not decayed by the next gate": {"late_gate": True},
    "all is written at once": {"one_part": True},
    "the state turns the other way": {"sign": -1},
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_another_recurrence(name):
    made, x = layer(), normal(1, 11, 12)
    with torch.no_grad():
        wrong = walked(made, x[0], **MISTAKES[name])
        assert (made(x)[0] - wrong).abs().max() > 0.01


def test_without_angles_and_rests_it_is_mamba_2():
    (q, k, v), x = normal(3, 1, 3, 9, 4), normal(1, 9, 12, seed=1)
    made, plain = Mamba3(12, 3, 4, rate="softplus").double(), Mamba2(12, 3).double()
    with torch.no_grad():
        made.angle_weight.zero_()
        made.share_weight.zero_()
        made.share_bias.fill_(60.0)  # λ = 1
        made.q_bias.zero_()
        made.k_bias.zero_()
        made.rate_weight.zero_()
        made.rate_bias.copy_(torch.expm1(plain.gate_rate.exp()).log())
        made.gate_weight.copy_(plain.gate_weight)
        made.gate_bias.copy_(plain.gate_bias)
        found, expected = (attend(q, k, v, e, x=x) for e in (made, plain))
    torch.testing.assert_close(found, expected, **CLOSE)


def test_constant_angles_without_decay_are_rope():
    """Linear attention with RoPE, whose frequencies are the angles of a token."""
    q, k, v = normal(3, 1, 3, 9, 4)
    x = torch.ones(1, 9, 12, dtype=torch.float64)
    made = Mamba3(12, 3, 4, rate="softplus", rotary_dim=4).double()
    with torch.no_grad():
        for p in (made.share_weight, made.q_bias, made.k_bias, made.skip):
            p.zero_()
        made.share_bias.fill_(60.0)
        made.gate_weight.zero_()
        made.gate_bias.fill_(1.0)
        made.rate_weight.zero_()
        made.rate_bias.fill_(-60.0)  # the slowest rate, 1e−4
        memory = made.remember(x)
        step = memory["now"][0, 0, 0]
        rope = RoPE(4, layout="interleaved", frequencies=memory["turns"][0, 0, 0])
        at = torch.arange(9)
        products = rope(q, at) @ rope(k, at).mT
        decays = (-1e-4 * step * (at[:, None] - at)).exp()
        expected = (products * decays).tril() @ v * step
        found = attend(q, k, v, made, x=x)
    torch.testing.assert_close(found, expected, **CLOSE)


def test_products_are_not_scaled():
    assert Mamba3(8, 2, 4, rate="rational").scale(4) == 1


def test_rates_are_positive_and_at_least_the_slowest():
    z = np.array([[-1e6, -3.0, 0.0, 3.0, 50.0]])
    for rate, at_zero in (("softplus", np.log(2)), ("rational", 1.0)):
        found = reference.rates(z, rate=rate)[0]
        assert found[0] == 1e-4 and found[2] == pytest.approx(at_zero)
        assert (np.diff(found) > 0).all()
    np.testing.assert_allclose(
        reference.rates(z, rate="rational")[0, [1, 3]], [0.25, 4]
    )


def test_three_rotated_pairs_leave_the_last_features_as_they_are():
    """In NumPy as in PyTorch; with one pair or two, 2 n and 2ⁿ are the same."""
    torch.manual_seed(0)
    encoding = Mamba3(24, 3, 8, rate="rational", rotary_dim=6).double()
    for p in encoding.parameters():
        torch.nn.init.normal_(p, std=0.5)
    q, k, v = normal(3, 1, 3, 7, 8)
    x = normal(1, 7, 24, seed=1)
    found = attend(q, k, v, encoding, x=x).detach()[0]
    hooks = reference.mamba_3(**numbers_of(encoding), rate="rational")
    expected = of_numpy(*(t[0].numpy() for t in (q, k, v)), hooks, x=x[0].numpy())
    np.testing.assert_allclose(found, expected, **CLOSE)


def biases(q_bias, k_bias):
    own = numbers_of(Mamba3(8, 2, 4, rate="rational"))
    return own | {"q_bias": np.zeros(q_bias), "k_bias": np.zeros(k_bias)}


BAD = [
    *(
        (partial(reference.mamba_3, rate="rational", **biases(*shapes)), "k_bias must")
        for shapes in (((2, 4), (2, 3)), ((2, 4, 1), (2, 4, 1)), ((3, 4), (3, 4)))
    ),
    (lambda: Mamba3(8, 2, 4, rate="linear"), "rate must be"),
    (lambda: Mamba3(8, 2, 4, rate="softplus", rotary_dim=6), "at most d = 4, got 6"),
    (lambda: Mamba3(8, 2, 4, rate="softplus", rotary_dim=3), "rotary_dim"),
]


@pytest.mark.parametrize("make, message", BAD)
def test_arguments_that_do_not_fit_are_named(make, message, unchecked):
    with pytest.raises(ValueError, match=message):
        make()
