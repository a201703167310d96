"""DeltaProduct: its loop, mistakes, what it becomes, what its products can count."""

import math

import numpy as np
import pytest
import torch

from posedu.numpy import recurrent as reference
from posedu.numpy.attention import attend as reference_attend
from posedu.torch import Attention, DeltaNet, DeltaProduct, GatedDeltaNet, attend
from support.path import DOUBLE, layer_of, normal

CLOSE = {"rtol": 0, "atol": 1e-12}


def layer(**options):
    torch.manual_seed(0)
    made = Attention(12, 3, encoding=DeltaProduct(12, 3, 4, **options))
    made = made.double().eval()
    with torch.no_grad():
        for p in made.parameters():
            p.normal_(0, 0.7 * p.shape[-1] ** -0.5 if p.ndim > 1 else 0.7)
    return made


def walked(made, x, *, backwards=False, every_gate=False, first_read=False):
    """The output for one text: the delta rule, step by step."""
    encoding = made.encoding
    memory = {n: t[0] for n, t in encoding.remember(x[None]).items()}
    state, out = torch.zeros(3, 4, 4, dtype=DOUBLE), []
    for t in range(len(x)):
        q, k, v = (f(x[t]).view(3, 4) for f in (made.q, made.k, made.v))
        q, k = (a / (a.square().sum(-1, keepdim=True) + 1e-6).sqrt() for a in (q, k))
        keys = torch.cat((memory["keys"][t], k[:, None]), 1)
        values = torch.cat((memory["values"][t], v[:, None]), 1)
        order = range(encoding.steps)
        for m in reversed(order) if backwards else order:
            if "log_decay" in memory and (m == order[0] or every_gate):
                state = memory["log_decay"][t].exp()[:, None, None] * state
            has = torch.einsum("hk,hkv->hv", keys[:, m], state)
            new = memory["betas"][t, :, m, None] * (values[:, m] - has)
            state = state + keys[:, m, :, None] * new[:, None]
            if m == order[0]:
                first = torch.einsum("hk,hkv->hv", q, state)
        read = first if first_read else torch.einsum("hk,hkv->hv", q, state)
        out.append(made.o((read / 2).flatten()))
    return torch.stack(out)


@pytest.mark.parametrize("gated", (False, True))
@pytest.mark.parametrize("steps", (1, 2, 3))
def test_the_loop_over_steps_is_the_same(gated, steps):
    made, x = layer(gated=gated, steps=steps), normal(1, 11, 12)
    with torch.no_grad():
        torch.testing.assert_close(made(x)[0], walked(made, x[0]), **CLOSE)


MISTAKES = {
    "the steps in the other order": {"backwards": True},
    "each step decays": {"every_gate": True},
    "the first step is read": {"first_read": True},
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_another_recurrence(name):
    made, x = layer(gated=True, steps=3), normal(1, 11, 12)
    with torch.no_grad():
        wrong = walked(made, x[0], **MISTAKES[name])
        assert (made(x)[0] - wrong).abs().max() > 0.01


@pytest.mark.parametrize("gated", (False, True))
def test_one_step_is_the_delta_rule(gated):
    (q, k, v), x = normal(3, 1, 3, 9, 4), normal(1, 9, 12, seed=1)
    plain = (GatedDeltaNet if gated else DeltaNet)(12, 3, negative_eigenvalues=True)
    made, plain = DeltaProduct(12, 3, 4, steps=1, gated=gated).double(), plain.double()
    with torch.no_grad():
        made.beta_weight.copy_(plain.beta_weight[None])
        for name in ("gate_weight", "gate_bias", "gate_rate") if gated else ():
            getattr(made, name).copy_(getattr(plain, name))
        found, expected = (attend(q, k, v, e, x=x) for e in (made, plain))
    torch.testing.assert_close(found, expected, **CLOSE)


def counted(encoding, keys, tokens):
    """The value of the first write as each token reads it, which has β = 2 later."""
    x = torch.ones(1, tokens, 2, dtype=DOUBLE)
    x[:, 0, 1] = -1.0  # the token that writes: no step but the last, and β = 1
    k = keys[-1].expand(1, 1, tokens, 2)
    v = torch.zeros(1, 1, tokens, 1, dtype=DOUBLE)
    v[:, :, 0] = 1.0
    with torch.no_grad():
        return attend(k, k, v, encoding, x=x)[0, 0, :, 0] * math.sqrt(2)


def test_two_reflections_count_to_three_and_one_does_not():
    """A turn by 120°: what is read has the period 3, for 999 tokens."""
    angles = torch.tensor([math.pi / 3, 0.0], dtype=DOUBLE)
    keys = torch.stack((angles.cos(), angles.sin()), -1)
    two = DeltaProduct(2, 1, 2, d_v=1).double()
    with torch.no_grad():
        # β of the steps: 2 σ(60) = 2 later; at first 2 σ(−60) = 0, and 2 σ(0) = 1.
        two.beta_weight.copy_(torch.tensor([[[0.0, 60.0]], [[30.0, 30.0]]]))
        two.early_key[0].copy_(keys[0, :, None] * torch.tensor([1e3, 0.0]))
        two.early_value.zero_()
    found = counted(two, keys, 1000)
    expected = torch.tensor([1.0, -0.5, -0.5], dtype=DOUBLE).repeat(334)[:1000]
    torch.testing.assert_close(found / found[0], expected, rtol=0, atol=2e-3)
    one = DeltaNet(2, 1, negative_eigenvalues=True).double()
    with torch.no_grad():
        one.beta_weight.copy_(torch.tensor([[30.0, 30.0]]))
    found = counted(one, keys, 1000)
    assert (found[3:] - found[:-3]).abs().min() > 1.9  # its period is 2


def test_reference_and_module_agree_beyond_a_chunk():
    encoding = layer_of(DeltaProduct(8, 2, 4, steps=3, gated=True)).encoding
    (q, k, v), x = normal(3, 1, 2, 40, 4), normal(1, 40, 8, seed=2)
    weights = {n: p.detach().numpy() for n, p in encoding.named_parameters()}
    hooks = reference.delta_product(**weights)
    arrays = (t[0].numpy() for t in (q, k, v))
    expected = reference_attend(*arrays, hooks, x=x[0].numpy())
    found = attend(q, k, v, encoding, x=x, route="fused").detach()[0].numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


BAD = [
    (lambda: DeltaProduct(8, 2, 4, steps=0), "steps must be"),
    (
        lambda: reference.delta_product(
            beta_weight=np.zeros((2, 2, 8)),
            early_key=np.zeros((2, 8, 8)),
            early_value=np.zeros((1, 8, 8)),
        ),
        r"early_key \[steps − 1, heads · d, d_model\]",
    ),
    (
        lambda: reference.delta_product(
            beta_weight=np.zeros((2, 2, 8)),
            early_key=np.zeros((1, 8, 8)),
            early_value=np.zeros((1, 8, 8)),
            gate_rate=np.zeros(2),
        ),
        "a gate needs gate_weight, gate_bias and gate_rate",
    ),
]


@pytest.mark.parametrize("make, message", BAD)
def test_arguments_that_do_not_fit_are_named(make, message, unchecked):
    with pytest.raises(ValueError, match=message):
        make()
