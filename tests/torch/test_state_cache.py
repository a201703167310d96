"""Caches of a state: pieces, padding, copies to go back to, what they refuse."""

import copy

import pytest
import torch

from posedu.torch import (
    GLA,
    KDA,
    Attention,
    DeltaNet,
    DeltaProduct,
    GatedConvolution,
    GatedDeltaNet,
    KVCache,
    LanguageModel,
    LightningAttention,
    LinearAttention,
    Mamba2,
    Mamba3,
    RecurrentLayer,
    Retention,
    RoPE,
    StateCache,
)
from support.path import normal

CLOSE = {"rtol": 0, "atol": 1e-11}


def retention():
    options = dict(layout="half", spacing="rope", normalization="none")
    return Retention(4, 4, **options)


MAKERS = {
    "linear attention": lambda: LinearAttention(4, layout=None),
    "linear attention with RoPE": lambda: LinearAttention(4, layout="half"),
    "lightning": lambda: LightningAttention(4, layer=1, layers=4),
    "GLA": lambda: GLA(16, 4, 4, rank=3),
    "Mamba-2": lambda: Mamba2(16, 4),
    "Mamba-3": lambda: Mamba3(16, 4, 4, rate="rational"),
    "DeltaNet": lambda: DeltaNet(16, 4, negative_eigenvalues=True),
    "Gated DeltaNet": lambda: GatedDeltaNet(16, 4),
    "KDA": lambda: KDA(16, 4, 4),
    "retention": retention,
    "gated convolution": lambda: GatedConvolution(4, width=4),
    "DeltaProduct": lambda: DeltaProduct(16, 4, 4),
}
every = pytest.mark.parametrize("name", MAKERS)


def layer(name="Gated DeltaNet", **options):
    torch.manual_seed(0)
    made = Attention(16, 4, encoding=MAKERS[name](), **options).double()
    with torch.no_grad():
        for p in made.parameters():
            p.normal_(0, 0.7 * p.shape[-1] ** -0.5 if p.ndim > 1 else 0.7)
    return made.eval()


def size(cache):
    return sum(t.numel() for t in cache.states.values())


@every
@pytest.mark.parametrize("kv_heads", (4, 2))
def test_pieces_are_a_full_run_in_constant_memory(name, kv_heads):
    made, x = layer(name, kv_heads=kv_heads), normal(2, 140, 16)
    whole, cache, out, sizes = made(x), StateCache(), [], []
    for piece in x.split((70, 0, 1, 1, 5, 63), 1):
        out.append(made(piece, cache=cache))
        sizes.append(size(cache))
    torch.testing.assert_close(torch.cat(out, 1), whole, **CLOSE)
    assert len(cache) == cache.count == 140
    assert set(sizes) == {sizes[0]} and cache.k is None and not cache.memory


@every
def test_padding_on_both_sides_of_a_prompt_never_enters_the_state(name):
    """The state passes padding behind a prompt as it is; shipped code lets it decay."""
    made, x = layer(name), normal(1, 9, 16)
    hidden = torch.zeros(1, 14, dtype=torch.bool)
    hidden[:, :2] = hidden[:, 8:11] = True
    padded = normal(1, 14, 16, seed=8)
    padded[:, ~hidden[0]] = x
    positions = ((~hidden[0]).cumsum(0) - 1).clamp(min=0)
    cache, out = StateCache(), []
    for start, stop in ((0, 11), (11, 12), (12, 14)):
        out.append(
            made(
                *(padded[:, start:stop], positions[start:stop]),
                cache=cache,
                key_padding_mask=hidden[:, :stop],
            )
        )
    found = torch.cat(out, 1)[:, ~hidden[0]]
    torch.testing.assert_close(found, made(x), **CLOSE)


def test_a_copy_is_what_to_go_back_to():
    made, x = layer(), normal(1, 12, 16)
    cache = StateCache()
    made(x[:, :8], cache=cache)
    before = copy.copy(cache)
    draft = made(normal(1, 3, 16, seed=4), cache=cache)
    assert len(cache) == 11 and len(before) == 8 and draft.shape[1] == 3
    torch.testing.assert_close(made(x[:, 8:], cache=before), made(x)[:, 8:], **CLOSE)


@every
def test_a_cache_goes_back_to_where_its_last_calls_ended(name):
    """Three drafted tokens, of which one is taken: speculative decoding."""
    made, x = layer(name), normal(1, 12, 16)
    drafted = normal(1, 2, 16, seed=4)
    cache = StateCache(keep=3)
    pieces = (x[:, :4], x[:, 4:7], x[:, 7:8], drafted[:, :1], drafted[:, 1:])
    with torch.no_grad():
        for piece in pieces:
            made(piece, cache=cache)
        assert [before.seen for before in cache.kept] == [7, 8, 9]
        cache.crop(0, 8)
        assert len(cache) == cache.count == 8 and len(cache.kept) == 1
        found = made(x[:, 8:], cache=cache)
        torch.testing.assert_close(found, made(x)[:, 8:], **CLOSE)
        cache.crop(0, -4)
        assert len(cache) == 8
    for refused, message in (
        (lambda: cache.crop(2), "first tokens cannot be removed"),
        (
            lambda: cache.crop(0, 6),
            r"after 6 tokens was not kept \(keep=3; kept: those after 7\)",
        ),
        (lambda: StateCache(keep=-1), "keep must be"),
    ):
        with pytest.raises(ValueError, match=message):
            refused()


def test_a_layer_with_a_convolution_goes_back_with_its_last_tokens():
    torch.manual_seed(0)
    made = RecurrentLayer(16, 4, encoding=GatedDeltaNet(16, 4)).double().eval()
    x, cache = normal(1, 12, 16), StateCache(keep=1)
    with torch.no_grad():
        made(x[:, :8], cache=cache)
        made(normal(1, 3, 16, seed=4), cache=cache)
        cache.crop(0, 8)
        found = made(x[:, 8:], cache=cache)
        torch.testing.assert_close(found, made(x)[:, 8:], **CLOSE)


def test_a_refused_call_leaves_the_states():
    made, x = layer(), normal(2, 6, 16)
    cache = StateCache()
    made(x, cache=cache)
    states, seen = cache.states, len(cache)
    with pytest.raises(ValueError, match="those of the earlier tokens"):
        made(x[:1], cache=cache)
    with pytest.raises(ValueError, match="belongs to a layer with GatedDeltaNet"):
        layer("KDA")(x, cache=cache)
    assert cache.states is states and len(cache) == seen


def test_what_a_state_refuses():
    made, x, cache = layer(), normal(1, 6, 16), StateCache()
    with pytest.raises(ValueError, match="RoPE is no recurrence: its layer needs a KV"):
        Attention(16, 4, encoding=RoPE(4, layout="half")).double()(x, cache=cache)
    with pytest.raises(ValueError, match="window=3 could hide"):
        layer(window=3)(x, cache=cache)
    made(x, cache=cache)
    for refused in (
        lambda: cache.crop(0, 3),
        lambda: cache.drop(made.encoding, 0, 3),
        lambda: cache.move(made.encoding, 1),
    ):
        with pytest.raises(ValueError, match="state"):
            refused()
    with pytest.raises(ValueError, match="segments cannot be combined with a cache"):
        made(x, segments=torch.zeros(1, 6, dtype=torch.int64), cache=cache)


def test_gradients_pass_through_a_state_until_it_is_detached():
    made, x, cache = layer(), normal(1, 6, 16).requires_grad_(), StateCache()
    made(x, cache=cache)
    made(normal(1, 2, 16), cache=copy.copy(cache)).sum().backward()
    assert x.grad.abs().max() > 0
    cache.detach()
    assert not any(t.requires_grad for t in cache.states.values())


def test_a_model_mixes_states_and_keys():
    """Three recurrent layers, and one of attention without an encoding: a hybrid."""
    torch.manual_seed(0)
    encodings = [GatedDeltaNet(16, 4), KDA(16, 4, 4), Mamba2(16, 4), None]
    model = LanguageModel(11, 16, 4, 4, encoding=encodings).double().eval()
    kinds = [type(cache) for cache in model.transformer.caches()]
    assert kinds == [StateCache, StateCache, StateCache, KVCache]
    tokens = torch.randint(11, (2, 9))
    with torch.no_grad():
        whole = model(tokens)
        caches = model.transformer.caches()
        out = [model(piece, caches=caches) for piece in tokens.split((5, 1, 3), 1)]
    torch.testing.assert_close(torch.cat(out, 1), whole, **CLOSE)
    with torch.no_grad():
        caches = model.transformer.caches(keep=1)
        model(tokens[:, :5], caches=caches)
        model(tokens[:, 1:3], caches=caches)
        for cache in caches:
            cache.crop(0, 5)
        again = model(tokens[:, 5:], caches=caches)
    torch.testing.assert_close(again, whole[:, 5:], **CLOSE)
    written = model.generate(tokens, 4)
    assert torch.equal(written[:, :9], tokens) and written.shape == (2, 13)
    with torch.no_grad():
        expected = model(written[:, :-1])[:, 8:].argmax(-1)
    assert torch.equal(written[:, 9:], expected)
