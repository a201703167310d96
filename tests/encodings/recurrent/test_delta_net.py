"""DeltaNet, Gated DeltaNet and KDA: what they become, and where they start."""

import math

import pytest
import torch

from posedu.torch import KDA, DeltaNet, GatedDeltaNet, attend
from support.path import DOUBLE, normal


def test_gates_of_one_are_no_decay():
    """Gated DeltaNet becomes DeltaNet, KDA with equal gates Gated DeltaNet."""
    (q, k, v), x = normal(3, 1, 2, 20, 4), normal(1, 20, 8, seed=1)
    plain, gated = DeltaNet(8, 2).double(), GatedDeltaNet(8, 2).double()
    channels = KDA(8, 2, 4).double()
    with torch.no_grad():
        for other in (gated, channels):
            other.beta_weight.copy_(plain.beta_weight)
        channels.gate_rate.copy_(gated.gate_rate)
        channels.gate_up.zero_()
        gated.gate_weight.zero_()
        channels.gate_bias.copy_(gated.gate_bias[:, None].expand(2, 4))
        same = [attend(q, k, v, e, x=x) for e in (gated, channels)]
        torch.testing.assert_close(*same, rtol=0, atol=1e-11)
        gated.gate_bias.fill_(-60.0)
        torch.testing.assert_close(
            attend(q, k, v, gated, x=x), attend(q, k, v, plain, x=x), rtol=0, atol=1e-11
        )
        assert (same[0] - attend(q, k, v, plain, x=x)).abs().max() > 0.01


def test_a_step_of_size_one_writes_the_value_itself():
    """β = 1, a unit key: what is read for this key is the newest value."""
    (k, v), x = normal(2, 1, 1, 6, 4), normal(1, 6, 4, seed=1)
    encoding = DeltaNet(4, 1).double()
    with torch.no_grad():
        encoding.beta_weight.zero_()
    doubled = DeltaNet(4, 1, negative_eigenvalues=True).double()
    with torch.no_grad():
        doubled.beta_weight.zero_()  # β = 2 σ(0) = 1
    read = attend(k, k, v, doubled, x=x) * math.sqrt(4)
    torch.testing.assert_close(read, v, rtol=0, atol=1e-5)
    halved = attend(k, k, v, encoding, x=x) * math.sqrt(4)
    assert (halved - v).abs().max() > 0.1


def test_negative_eigenvalues_keep_a_parity():
    """β = 2 on ones: the sign that is read turns with each one, for 4,096 tokens."""
    tokens = 4096
    bits = torch.randint(0, 2, (1, tokens), generator=torch.Generator().manual_seed(0))
    x = torch.stack((bits, 1 - bits, 1 + 0 * bits), -1).double()
    x[:, 0] = torch.tensor([0.0, 0.0, 1.0])  # a first token that writes
    key = torch.tensor([1.0, 0.0], dtype=DOUBLE)
    k = key.expand(1, 1, tokens, 2)
    v = torch.zeros(1, 1, tokens, 1, dtype=DOUBLE)
    v[:, :, 0] = 1.0
    encoding = DeltaNet(3, 1, negative_eigenvalues=True).double()
    with torch.no_grad():
        encoding.beta_weight.copy_(torch.tensor([[60.0, -60.0, 0.0]]))
        out = attend(k, k, v, encoding, x=x)[0, 0, :, 0] * math.sqrt(2)
    expected = (1 - 2 * (bits[0, 1:].cumsum(0) % 2)).double()
    torch.testing.assert_close(out[1:] / out[0], expected, rtol=0, atol=1e-2)
    halved = DeltaNet(3, 1).double()
    with torch.no_grad():
        halved.beta_weight.copy_(encoding.beta_weight)
        lost = attend(k, k, v, halved, x=x)[0, 0, :, 0]
    assert (lost[100:].abs() < 1e-6).all()  # a projection: one 1, and nothing is left


@pytest.mark.parametrize(
    ("make", "longest"),
    (
        (lambda: GatedDeltaNet(8, 4000), 100),
        (lambda: KDA(8, 500, 8), 100),
        (lambda: KDA(8, 500, 8, lowest=-5.0), 120),
    ),
    ids=("Gated DeltaNet", "KDA", "KDA, bounded"),
)
def test_half_lives_at_the_start(make, longest):
    """Tokens until half is left, at x = 0: with a bound as many as without it.

    A rate e^r above 1 inside the bounded form's σ would leave no decay at all.
    """
    torch.manual_seed(0)
    with torch.no_grad():
        log_decay = make().remember(torch.zeros(1, 1, 8))["log_decay"]
    lives = math.log(2) / -log_decay.flatten()
    low, middle, high = lives.quantile(torch.tensor([0.1, 0.5, 0.9]))
    assert 1 < low < 3 and 8 < middle < 16 and 50 < high < longest


def test_keys_that_are_orthogonal_leave_no_position():
    v, x = normal(1, 1, 4, 3), normal(1, 4, 8, seed=1)
    q, k = normal(1, 1, 4, 4, seed=2), 100 * torch.eye(4, dtype=DOUBLE)[None, None]
    encoding = DeltaNet(8, 1).double()
    order = torch.tensor([2, 0, 1, 3])
    with torch.no_grad():
        out, mixed = (
            attend(q, k[:, :, o], v[:, :, o], encoding, x=x[:, o])[:, :, -1]
            for o in (slice(None), order)
        )
        torch.testing.assert_close(mixed, out, rtol=0, atol=1e-9)
        other = attend(q, k[:, :, order] + 50, v[:, :, order], encoding, x=x[:, order])
        plain = attend(q, k + 50, v, encoding, x=x)
    assert (other - plain)[:, :, -1].abs().max() > 1e-3
