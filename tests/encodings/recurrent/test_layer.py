"""Recurrent layers: a loop over tokens, pieces, padding, packing, options, hybrids."""

import pytest
import torch

from posedu.torch import (
    KDA,
    Attention,
    DeltaNet,
    GatedDeltaNet,
    KVCache,
    LanguageModel,
    LightningAttention,
    Mamba2,
    RecurrentLayer,
    RoPE,
    StateCache,
    Transformer,
)
from support.path import normal, texts_alone

CLOSE = {"rtol": 0, "atol": 1e-11}
SILU = torch.nn.functional.silu
LAYERS = {
    "Gated DeltaNet": lambda: RecurrentLayer(
        *(12, 4), encoding=GatedDeltaNet(12, 4), qk_heads=2, d=3, d_v=5
    ),
    "KDA": lambda: RecurrentLayer(
        *(12, 3), encoding=KDA(12, 3, 4), output_gate="sigmoid", gate_rank=2
    ),
    "Mamba-2": lambda: RecurrentLayer(
        *(12, 4),
        encoding=Mamba2(12, 4),
        qk_heads=2,
        d=6,
        d_v=2,
        convolution_bias=True,
        output_norm="group",
        gate_first=True,
    ),
    "lightning attention": lambda: RecurrentLayer(
        *(12, 3),
        encoding=LightningAttention(3, layer=1, layers=4),
        convolution=None,
        output_norm="all",
        output_gate="sigmoid",
    ),
    "a state alone": lambda: RecurrentLayer(
        *(12, 3),
        encoding=DeltaNet(12, 3),
        convolution=2,
        activation=False,
        output_norm=None,
        output_gate=None,
    ),
}
every = pytest.mark.parametrize("name", LAYERS)


def layer(name):
    torch.manual_seed(0)
    made = LAYERS[name]().double().eval()
    with torch.no_grad():
        for p in made.parameters():
            p.normal_(0, 0.7 * p.shape[-1] ** -0.5 if p.ndim > 1 else 0.7)
    return made


def walked(made, x):
    """The output for one text, token by token: convolution, state, norm, gate."""
    rows = [torch.cat((made.q(t), made.k(t), made.v(t))) for t in x]
    if made.taps is not None:
        width = made.taps.shape[1]
        rows = [
            sum(
                made.taps[:, width - 1 - s] * rows[t - s]
                for s in range(width)
                if t - s >= 0
            )
            for t in range(len(rows))
        ]
    if made.tap_bias is not None:
        rows = [row + made.tap_bias for row in rows]
    if made.activation:
        rows = [SILU(row) for row in rows]
    memory = made.encoding.remember(x[None])
    delta, group = made.encoding.delta, made.heads // made.qk_heads
    states = torch.zeros(made.heads, made.d, made.d_v).double()
    out = []
    for t, row in enumerate(rows):
        q, k, v = row.split(made.widths)
        q, k = (a.view(made.qk_heads, -1).repeat_interleave(group, 0) for a in (q, k))
        v, read = v.view(made.heads, -1), []
        if delta:
            q, k = (
                a / (a.square().sum(-1, keepdim=True) + 1e-6).sqrt() for a in (q, k)
            )
        for h in range(made.heads):
            log_decay = torch.zeros(())
            if "log_decay" in memory:
                log_decay = memory["log_decay"][0, t, h]
            if isinstance(made.encoding, LightningAttention):
                log_decay = -made.encoding.slopes()[h]
            beta = memory["beta"][0, t, h] if "beta" in memory else 1.0
            alpha = log_decay.exp().expand(made.d)
            s = torch.diag(alpha.double()) @ states[h]
            new = v[h] - s.mT @ k[h] if delta else v[h]
            states[h] = s + beta * torch.outer(k[h], new)
            scale = made.encoding.scale(made.d)
            o = scale * states[h].mT @ q[h]
            if isinstance(made.encoding, Mamba2):
                o = o + made.encoding.skip[h] * v[h]
            read.append(o)
        o = torch.stack(read)
        gate = 1.0
        if made.gate is not None:
            z = made.gate(x[t]).view(made.heads, -1)
            gate = SILU(z) if made.output_gate == "silu" else z.sigmoid()
        if made.gate_first:
            o = o * gate
        if made.output_norm == "head":
            size = (o.square().mean(-1, keepdim=True) + 1e-6).sqrt()
            o = o / size * made.gain
        elif made.output_norm is not None:
            groups = made.qk_heads if made.output_norm == "group" else 1
            o = o.view(groups, -1)
            size = (o.square().mean(-1, keepdim=True) + 1e-6).sqrt()
            o = (o / size * made.gain.view_as(o)).view(made.heads, -1)
        if not made.gate_first:
            o = o * gate
        out.append(made.o(o.flatten()))
    return torch.stack(out)


@every
def test_a_layer_is_its_loop(name):
    made, x = layer(name), normal(1, 11, 12)
    with torch.no_grad():
        torch.testing.assert_close(made(x)[0], walked(made, x[0]), **CLOSE)


@every
def test_texts_in_pieces_with_padding_and_packed_are_texts_alone(name):
    texts_alone(layer(name), 12)


@every
@pytest.mark.parametrize("cache", (StateCache, KVCache))
def test_pieces_with_padding_on_both_sides_are_a_text_alone(name, cache):
    made, x = layer(name), normal(2, 9, 12)
    hidden = torch.zeros(2, 14, dtype=torch.bool)
    hidden[0, :2] = hidden[0, 8:11] = True
    hidden[1, [1, 5, 6, 7, 12]] = True  # one text is padded elsewhere
    padded = normal(2, 14, 12, seed=8)
    padded[~hidden] = x.flatten(0, 1)
    with torch.no_grad():
        expected, own, out = made(x), cache(), []
        for start, stop in ((0, 1), (1, 11), (11, 12), (12, 14)):
            out.append(
                made(
                    padded[:, start:stop],
                    cache=own,
                    key_padding_mask=hidden[:, :stop],
                )
            )
    found = torch.cat(out, 1)[~hidden].view_as(expected)
    torch.testing.assert_close(found, expected, **CLOSE)
    if cache is StateCache and made.taps is not None:
        width = made.taps.shape[1] - 1
        assert {t.shape[1] for t in own.memory.values()} == {width}


@every
def test_gradients_reach_every_parameter(name):
    made, x = layer(name), normal(1, 9, 12)
    made(x).square().sum().backward()
    assert all(p.grad.abs().max() > 0 for p in made.parameters())


def test_taps_start_uniform_as_those_of_a_convolution():
    """Within ±1/√width, and at most 1 % of the range from its ends."""
    torch.manual_seed(0)
    taps = RecurrentLayer(64, 4, encoding=GatedDeltaNet(64, 4), convolution=4).taps
    assert 0.495 < taps.max() <= 0.5 and -0.5 <= taps.min() < -0.495


def test_a_model_of_layers_with_other_widths_and_attention():
    torch.manual_seed(0)
    mixers = [layer("Gated DeltaNet"), layer("Mamba-2"), None, layer("KDA")]
    model = LanguageModel(
        11, 12, 2, 4, encoding=RoPE(6, layout="half"), mixers=mixers, kv_heads=1
    )
    model = model.double().eval()
    blocks = model.transformer.blocks
    assert [type(b.attention) for b in blocks] == [
        RecurrentLayer,
        RecurrentLayer,
        Attention,
        RecurrentLayer,
    ]
    kinds = [type(cache) for cache in model.transformer.caches()]
    assert kinds == [StateCache, StateCache, KVCache, StateCache]
    tokens = torch.randint(11, (2, 9))
    with torch.no_grad():
        whole = model(tokens)
        written = model.generate(tokens, 5)
        expected = model(written[:, :-1])
    torch.testing.assert_close(expected[:, :9], whole, **CLOSE)
    assert torch.equal(written[:, 9:], expected[:, 8:].argmax(-1))


BAD = [
    (
        lambda: RecurrentLayer(12, 3, encoding=RoPE(4, layout="half")),
        TypeError,
        "a Rec",
    ),
    (
        lambda: RecurrentLayer(12, 4, encoding=DeltaNet(12, 4), qk_heads=3),
        ValueError,
        "3",
    ),
    (
        lambda: RecurrentLayer(
            12, 4, encoding=DeltaNet(12, 4), convolution=None, convolution_bias=True
        ),
        ValueError,
        "is for a convolution",
    ),
    (
        lambda: RecurrentLayer(
            12, 4, encoding=DeltaNet(12, 4), output_gate=None, gate_first=True
        ),
        ValueError,
        "need an output_gate",
    ),
    (lambda: Transformer(12, 3, 2, mixers=[None]), ValueError, "2 layers need as many"),
    (
        lambda: Transformer(12, 3, 1, mixers=[DeltaNet(12, 3)]),
        TypeError,
        "a mixer must",
    ),
    (
        lambda: Transformer(12, 3, 1, mixers=[Attention(8, 2)]),
        ValueError,
        "d_model = 12 and causal = True, got 8 and True",
    ),
]


@pytest.mark.parametrize("make, error, message", BAD)
def test_what_does_not_fit_is_refused(make, error, message, unchecked):
    with pytest.raises(error, match=message):
        make()
