"""Recurrent encodings: padding, packing, caches, what they become, published values."""

import numpy as np
import pytest
import torch

from posedu.numpy import recurrent as reference
from posedu.numpy.attention import attend as attend_reference
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
from posedu.torch.state_cache import StateCache
from support.path import layer_of, normal, texts_alone

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
def test_states_of_float32_tokens_are_float32(name):
    made, cache = layer(name).float(), StateCache()
    with torch.no_grad():
        made(normal(1, 5, 16).float(), cache=cache)
    sums = "angles", "position"  # which stay float64
    found = {t.dtype for key, t in cache.states.items() if key not in sums}
    assert found == {torch.float32}


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
