"""Recurrent encodings: padding, packing, caches, what they become, published values."""

import math

import numpy as np
import pytest
import torch

from posedu.numpy import recurrent as reference
from posedu.numpy.attention import attend as attend_reference
from posedu.numpy.rotary import rope_linear_attention
from posedu.torch import (
    GLA,
    KDA,
    Attention,
    DeltaNet,
    DeltaProduct,
    GatedConvolution,
    GatedDeltaNet,
    KVCache,
    LightningAttention,
    LinearAttention,
    Mamba2,
    Mamba3,
    Retention,
    attend,
)
from support.path import DOUBLE, layer_of, normal, texts_alone

CLOSE = {"rtol": 0, "atol": 1e-11}
LONG = 75  # more than a chunk of 64 tokens


def linear(layout=None):
    encoding = LinearAttention(4, layout=layout)
    encoding.heads, encoding.d_model = 4, 16
    return encoding


def lightning():
    encoding = LightningAttention(4, layer=1, layers=4)
    encoding.d, encoding.d_model = 4, 16
    return encoding


def retention():
    options = dict(layout="half", spacing="rope", normalization="none")
    encoding = Retention(4, 4, **options)
    encoding.d_model = 16
    return encoding


def convolution():
    encoding = GatedConvolution(4, width=4)
    encoding.d_model, encoding.d = 16, 4
    return encoding


MAKERS = {
    "linear attention": linear,
    "linear attention with RoPE": lambda: linear("half"),
    "lightning": lightning,
    "GLA": lambda: GLA(16, 4, 4, rank=3),
    "Mamba-2": lambda: Mamba2(16, 4),
    "Mamba-3": lambda: Mamba3(16, 4, 4, rate="softplus", rotary_dim=4),
    "DeltaNet": lambda: DeltaNet(16, 4, negative_eigenvalues=True),
    "Gated DeltaNet": lambda: GatedDeltaNet(16, 4),
    "KDA": lambda: KDA(16, 4, 4),
    "KDA, bounded": lambda: KDA(16, 4, 4, lowest=-5.0),
    "retention": retention,
    "gated convolution": convolution,
    "DeltaProduct": lambda: DeltaProduct(16, 4, 4, steps=3),
    "DeltaProduct, gated": lambda: DeltaProduct(16, 4, 4, gated=True),
}
every = pytest.mark.parametrize("name", MAKERS)


def layer(name, route=None, **options):
    torch.manual_seed(0)
    made = Attention(16, 4, encoding=MAKERS[name](), route=route, **options).double()
    with torch.no_grad():
        for p in made.parameters():
            p.normal_(0, 0.7 * p.shape[-1] ** -0.5 if p.ndim > 1 else 0.7)
    return made.eval()


@every
def test_chunks_are_the_default_and_equal_all_pairs(name):
    fused, eager = layer(name), layer(name, "eager")
    assert fused.route == "fused"
    x = normal(2, LONG, 16)
    torch.testing.assert_close(fused(x), eager(x), **CLOSE)


@every
@pytest.mark.parametrize("route", ("fused", "eager"))
@pytest.mark.parametrize("kv_heads", (4, 2))
def test_texts_in_pieces_with_padding_and_packed_are_texts_alone(name, route, kv_heads):
    texts_alone(layer(name, route, kv_heads=kv_heads), 12)


@every
def test_right_padding_before_decoding_is_skipped(name):
    """The state passes padding behind a prompt as it is; shipped code lets it decay."""
    made = layer(name)
    x, extra = normal(1, 9, 16), normal(1, 3, 16, seed=8)
    positions = torch.tensor([0, 1, 2, 3, 4, 5, 5, 5, 5, 6, 7, 8])
    hidden = torch.zeros(1, 12, dtype=torch.bool)
    hidden[:, 6:9] = True
    with torch.no_grad():
        expected = made(x)
        cache, out = KVCache(), []
        prompt = torch.cat((x[:, :6], extra), 1)
        out.append(
            made(prompt, positions[:9], cache=cache, key_padding_mask=hidden[:, :9])
        )
        for t in range(9, 12):
            out.append(
                made(
                    *(x[:, t - 3 : t - 2], positions[t : t + 1]),
                    cache=cache,
                    key_padding_mask=hidden[:, : t + 1],
                )
            )
    found = torch.cat(out, 1)[:, ~hidden[0]]
    torch.testing.assert_close(found, expected, **CLOSE)


@every
def test_a_window_hides_keys_and_leaves_the_state(name):
    fused, eager = layer(name, window=3), layer(name, "eager", window=3)
    x = normal(1, 9, 16)
    torch.testing.assert_close(fused(x), eager(x), **CLOSE)
    assert (fused(x) - layer(name)(x))[:, 3:].abs().max() > 1e-3


@every
def test_bfloat16_is_read_from_a_float32_state(name):
    made = layer(name)
    x = normal(2, LONG, 16)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = made.float()(x.float())
    with torch.no_grad():
        expected = made.double()(x)
    size = expected.abs().max()
    assert (found.double() - expected).abs().max() < 0.05 * size


def numbers(*shape, seed=0):
    return normal(*shape, seed=seed)


def test_linear_attention_is_the_function_of_the_notes():
    q, k, v = numbers(3, 1, 2, 9, 4)
    positions = torch.arange(3, 12)
    for layout in ("interleaved", "half"):
        encoding = LinearAttention(4, layout=layout, eps=1e-300)
        found = attend(q, k, v, encoding, positions=positions)
        arrays = (t[0].numpy() for t in (q, k, v))
        expected = rope_linear_attention(
            *arrays, positions.numpy(), layout=layout, causal=True
        )
        np.testing.assert_allclose(found[0].numpy(), expected, rtol=0, atol=1e-12)


def test_without_positions_the_last_query_sees_a_set():
    q, k, v = numbers(3, 1, 2, 9, 4)
    order = torch.tensor([3, 0, 7, 1, 2, 5, 4, 6, 8])
    encoding = LinearAttention(4, layout=None)
    out, mixed = (
        attend(q, k[:, :, o], v[:, :, o], encoding)[:, :, -1]
        for o in (slice(None), order)
    )
    torch.testing.assert_close(mixed, out, rtol=0, atol=1e-13)
    decayed = LightningAttention(2, layer=0, layers=4)
    out, mixed = (
        attend(q, k[:, :, o], v[:, :, o], decayed)[:, :, -1]
        for o in (slice(None), order)
    )
    assert (mixed - out).abs().max() > 0.1


def test_gates_of_one_are_no_decay():
    """Gated DeltaNet becomes DeltaNet, KDA with equal gates Gated DeltaNet."""
    (q, k, v), x = numbers(3, 1, 2, 20, 4), numbers(1, 20, 8, seed=1)
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
        torch.testing.assert_close(*same, **CLOSE)
        gated.gate_bias.fill_(-60.0)
        torch.testing.assert_close(
            attend(q, k, v, gated, x=x), attend(q, k, v, plain, x=x), **CLOSE
        )
        assert (same[0] - attend(q, k, v, plain, x=x)).abs().max() > 0.01


def test_slopes_are_alibi_s_and_fade():
    first, last = (LightningAttention(8, layer=n, layers=80) for n in (0, 79))
    alibi = 2.0 ** -torch.arange(1.0, 9.0, dtype=DOUBLE)
    torch.testing.assert_close(first.slopes(), alibi * (1 + 1e-5), rtol=1e-14, atol=0)
    assert (last.slopes() / alibi).max() < 2e-5  # ε alone: the last layer hardly decays
    for name, n in (("first", 0), ("last", 79)):
        found = reference.lightning_decays(8, layer=n, layers=80)
        made = {"first": first, "last": last}[name]
        np.testing.assert_allclose(found, made.slopes().numpy(), rtol=1e-14)


def test_a_step_of_size_one_writes_the_value_itself():
    """β = 1, a unit key: what is read for this key is the newest value."""
    (k, v), x = numbers(2, 1, 1, 6, 4), numbers(1, 6, 4, seed=1)
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


def test_half_lives_at_the_start():
    """Tokens until half of the state is left, at x = 0: published starts differ."""
    torch.manual_seed(0)
    zero = torch.zeros(1, 1, 8)
    assert math.isclose(
        math.log(2) / -GLA(8, 2, 4).remember(zero)["log_decay"].max(), 16, rel_tol=1e-6
    )
    lives = {
        "mamba-2": Mamba2(8, 4000),
        "gated-delta-net": GatedDeltaNet(8, 4000),
    }
    for encoding in lives.values():
        of_heads = math.log(2) / -encoding.remember(zero)["log_decay"][0, 0]
        low, middle, high = of_heads.quantile(torch.tensor([0.1, 0.5, 0.9]))
        assert 1 < low < 2 and 8 < middle < 13 and 60 < high < 100


def test_reference_and_module_agree_beyond_a_chunk():
    for made, name in (
        (GatedDeltaNet(8, 2, negative_eigenvalues=True), "gated_delta_net"),
        (KDA(8, 2, 4), "kda"),
        (Mamba2(8, 2), "mamba_2"),
    ):
        encoding = layer_of_heads(made)
        (q, k, v), x = numbers(3, 1, 2, LONG, 4), numbers(1, LONG, 8, seed=2)
        weights = {n: p.detach().numpy() for n, p in encoding.named_parameters()}
        if name == "gated_delta_net":
            weights["negative_eigenvalues"] = True
        hooks = getattr(reference, name)(**weights)
        arrays = (t[0].numpy() for t in (q, k, v))
        expected = attend_reference(*arrays, hooks, x=x[0].numpy())
        found = attend(q, k, v, encoding, x=x, route="fused").detach()[0].numpy()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


def layer_of_heads(encoding):
    encoding.d = encoding.d or 4
    return layer_of(encoding).encoding


@pytest.mark.parametrize("name", ("linear attention", "Mamba-2", "KDA"))
def test_the_compiled_layer_has_its_gradient(name, unchecked):
    made = layer(name)
    torch.compiler.reset()
    compiled = torch.compile(made, fullgraph=True, dynamic=True, backend="aot_eager")
    x = normal(1, 70, 16)
    given = list(made.parameters())
    found, expected = (
        torch.autograd.grad(run(x).square().sum(), given) for run in (compiled, made)
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


BAD = [
    (lambda: LightningAttention(4, layer=4, layers=4), "0 … layers − 1 = 3"),
    (lambda: KDA(8, 2, 4, lowest=5.0), "below 0"),
    (lambda: reference.lightning(heads=4, layer=4, layers=4), "0 … layers − 1 = 3"),
    (
        lambda: reference.delta_net(beta_weight=np.zeros(3)),
        r"beta_weight must be \[heads, d_model\]",
    ),
    (
        lambda: reference.mamba_2(
            gate_weight=np.zeros((2, 8)),
            gate_bias=np.zeros(3),
            gate_rate=np.zeros(2),
            skip=np.zeros(2),
        ),
        r"gate_bias must be \[heads\], here \[2\]",
    ),
    (
        lambda: reference.gla(
            gate_down=np.zeros((2, 8)),
            gate_up=np.zeros((2, 4, 3)),
            gate_bias=np.zeros((2, 4)),
        ),
        r"gate_up \[heads, d, rank\]",
    ),
    (
        lambda: reference.kda(
            beta_weight=np.zeros((2, 8)),
            gate_down=np.zeros((2, 8)),
            gate_up=np.zeros((2, 4, 2)),
            gate_bias=np.zeros((2, 4)),
            gate_rate=np.full(2, 800.0),
        ),
        "gate_rate must be so small",
    ),
]


@pytest.mark.parametrize("make, message", BAD)
def test_arguments_that_do_not_fit_are_named(make, message, unchecked):
    with pytest.raises(ValueError, match=message):
        make()
