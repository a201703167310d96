"""Decoding over a cache whose keys lie on several ranks equals one device."""

import copy
import re

import pytest
import torch

from posedu.catalog import CATALOG
from posedu.crosscheck.cut_decoding import STEPS, Decoding
from posedu.crosscheck.many_devices import BOUND
from posedu.torch import (
    Attention,
    FoX,
    KVCache,
    LanguageModel,
    RoPE,
    StateCache,
    Transformer,
)
from posedu.torch.bias import T5, ALiBi
from posedu.torch.parallel import (
    FORMS,
    ORDERS,
    CutCache,
    TextCut,
    context_parallel,
    simulated,
)
from posedu.torch.parallel.ring import Merged
from posedu.torch.recurrent import GLA, RecurrentLayer
from posedu.torch.rotary import MLA

unchecked = pytest.mark.usefixtures("unchecked")
# Their logits are more than a product and a bias of the pair, and they have no state;
# MLA has latent vectors in place of keys.
ONE_DEVICE = {
    *("fope-offset", "self-extend", "tape", "kerple-power", "dape", "shaw"),
    *("music-transformer", "stickbreaking", "geometric", "cope"),
    *("selective-attention", "log-linear", "selective-rope", "path", "path-fox"),
    *("wall", "retention", "carope", "grape-m", "grape-ap", "mla"),
}
WHOLE_TEXT = "randomized", "cape"  # make the positions of all tokens at once
VARIANTS = [
    pytest.param(entry, variant, id=entry.label(variant))
    for entry in CATALOG.values()
    for variant in entry.variants
]
CUTS = [(order, form) for order in ORDERS for form in FORMS]
each_cut = pytest.mark.parametrize("order, form", CUTS)
HANDSHAKE = 256  # bytes


def largest_error(decoding, ranks, order, form):
    found = simulated(
        ranks, lambda r: decoding.on_rank(TextCut(r, order=order, form=form))
    )
    return max(found)


@unchecked
@pytest.mark.parametrize(
    "ranks, order, form, padded",
    ((2, "zigzag", "all-gather", False), (4, "contiguous", "ring", True)),
    ids=("2", "4"),
)
@pytest.mark.parametrize("entry, variant", VARIANTS)
def test_decoding_equals_one_device(entry, variant, ranks, order, form, padded):
    try:
        decoding = Decoding(entry, variant, 16, padded=padded)
    except ValueError as refused:
        assert "got caches" in str(refused) and entry.name in WHOLE_TEXT
        return
    try:
        error = largest_error(decoding, ranks, order, form)
    except ValueError as refused:
        assert "on one device" in str(refused) and entry.name in ONE_DEVICE
    else:
        assert error <= BOUND


@pytest.mark.parametrize("name", ("rope", "t5", "fox", "fox-pro", "kda", "sinusoidal"))
@pytest.mark.parametrize("ranks", (1, 2, 4))
@each_cut
def test_any_cut(name, ranks, order, form):
    entry = CATALOG[name]
    decoding = Decoding(entry, entry.variants[0], 16, padded=True)
    assert largest_error(decoding, ranks, order, form) <= BOUND


def kept_by(rule):
    """A cache whose ranks keep new keys by another rule."""

    def appended(self, k, v, positions, *others):
        extended = kept(self, k, v, positions, *others)
        if self.places is not None:
            new = k.shape[2]
            of_new = torch.arange(len(self), len(self) + new)
            own = rule(of_new, self.ranks)
            extended.k = torch.cat((self.k, k[:, :, own]), 2)
            extended.v = torch.cat((self.v, v[:, :, own]), 2)
            extended.positions = torch.cat((self.positions, positions[:, own]), 1)
            extended.places = torch.cat((self.places, of_new[own]))
        return extended

    kept = CutCache.appended
    return CutCache, "appended", appended


def mean(self, other):
    return Merged((self.out + other.out) / 2, torch.logaddexp(self.lse, other.lse))


MUTANTS = {
    "all ranks keep a new key": kept_by(lambda new, ranks: new >= 0),
    "no rank keeps a new key": kept_by(lambda new, ranks: new < 0),
    "the mean of parts": (Merged, "merge", mean),
    "the first part": (Merged, "merge", lambda self, other: self),
    "places of a contiguous cut": (
        TextCut,
        "places",
        lambda self, tokens, device=None: torch.arange(tokens),
    ),
}


@unchecked
@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("name", ("rope", "alibi", "fox"))
def test_wrong_shards_and_merges_are_refused(name, mutant, monkeypatch):
    entry = CATALOG[name]
    decoding = Decoding(entry, entry.variants[0], 16, padded=True)
    monkeypatch.setattr(*MUTANTS[mutant])
    assert largest_error(decoding, 2, "zigzag", "all-gather") > 1e6 * BOUND


def on_ranks(run, ranks=2, **options):
    def of_rank(own):
        with torch.no_grad(), context_parallel(own, **options) as cut:
            return run(cut)

    return simulated(ranks, of_rank)


def layer(encoding=None, **options):
    torch.manual_seed(0)
    return Attention(16, 2, encoding=encoding, **options).double()


def decoded(model, x, prompt, cut, cache, steps=STEPS):
    outputs = [cut.whole(model(cut.own(x[:, :prompt], 1), cache=cache), 1)]
    stop = prompt
    for new in steps:
        start, stop = stop, stop + new
        outputs.append(model(x[:, start:stop], cache=cache))
    return torch.cat(outputs, 1)


@pytest.mark.parametrize("window", (1, 3, 7, 30))
@each_cut
def test_windows_and_grouped_queries(order, form, window):
    """Against the run of the whole text."""
    model = layer(ALiBi(2, slopes="authors"), kv_heads=1, window=window)
    x = torch.randn(2, 16 + sum(STEPS), 16, dtype=torch.float64)

    def run(cut):
        return decoded(model, x, 16, cut, CutCache())

    for out in on_ranks(run, order=order, form=form):
        torch.testing.assert_close(out, model(x), rtol=0, atol=1e-12)


@each_cut
def test_new_keys_keep_the_ranks_balanced(order, form):
    model, caches = layer(RoPE(8, layout="half")), [CutCache() for _ in range(4)]
    x = torch.randn(1, 16 + 7, 16, dtype=torch.float64)

    def run(cut):
        cache = caches[cut.ranks.rank]
        decoded(model, x, 16, cut, cache, (1, 4, 2))
        return cache.k.shape[2], cache.places, len(cache), cache.count

    sizes, places, lengths, counts = zip(
        *on_ranks(run, 4, order=order, form=form), strict=True
    )
    assert sizes == (6, 6, 6, 5) and {*lengths} == {*counts} == {23}
    assert torch.equal(torch.cat(places).sort().values, torch.arange(23))


@pytest.mark.parametrize("dtype", (torch.float64, torch.float32, torch.bfloat16))
@pytest.mark.parametrize("tokens", (16, 64))
def test_bytes_of_a_token_are_the_formula_s(tokens, dtype):
    """(n − 1)·H·(d + 1)·w bytes a rank and layer, whatever the length of the text."""
    ranks, heads, d, layers = 4, 2, 8, 3
    model = Transformer(16, heads, layers, encoding=RoPE(d, layout="half")).to(dtype)
    x = torch.randn(1, tokens + 1, 16).to(dtype)

    def run(cut):
        caches = model.caches()
        model(cut.own(x[:, :-1], 1), caches=caches)
        before = cut.ranks.sent
        model(x[:, -1:], caches=caches)
        return cut.ranks.sent - before

    width = max(4, dtype.itemsize)
    of_layer = (ranks - 1) * heads * (d + 1) * width
    assert {*on_ranks(run, ranks)} == {layers * of_layer + (ranks - 1) * HANDSHAKE}


def mixed_model():
    torch.manual_seed(0)
    recurrent = RecurrentLayer(16, 2, encoding=GLA(16, 2, 8), convolution=4)
    encodings = [RoPE(8, layout="half"), FoX(16, 2), None, T5(2, bidirectional=False)]
    return LanguageModel(
        *(11, 16, 2, 4),
        encoding=encodings,
        mixers=[None, None, recurrent, None],
        window=[None, None, None, 5],
        kv_heads=1,
    ).double()


@pytest.mark.parametrize("sampled", (False, True))
@pytest.mark.parametrize("ranks", (2, 4))
@each_cut
def test_a_language_model_generates_as_on_one_device(order, form, ranks, sampled):
    ids = torch.randint(11, (2, 8), generator=torch.Generator().manual_seed(3))
    options = [{} for _ in range(ranks + 1)]
    if sampled:
        options = [
            {"temperature": 1.0, "generator": torch.Generator().manual_seed(seed)}
            for seed in (5, *range(ranks))
        ]
        last = 0 if order == "zigzag" else ranks - 1  # its draws are those of all
        options[last + 1]["generator"].manual_seed(5)
    expected = mixed_model().generate(ids, 9, **options[0])
    models = [mixed_model() for _ in range(ranks)]

    def run(cut):
        own, rank = cut.own(ids, 1), cut.ranks.rank
        out = models[rank].generate(own, 9, **options[rank + 1])
        assert torch.equal(out[:, : own.shape[1]], own)
        return out[:, own.shape[1] :]

    for new in on_ranks(run, ranks, order=order, form=form):
        assert torch.equal(new, expected[:, 8:])


def test_positions_of_prompt_and_new_tokens_may_be_given():
    model = LanguageModel(11, 16, 2, 1, encoding=RoPE(8, layout="half")).double()
    ids = torch.randint(11, (1, 8))
    at = torch.arange(12) * 3
    expected = model.generate(ids, 4, positions=at)[:, 8:]

    def run(cut):
        positions = torch.cat((cut.own(at[:8], 0), at[8:]))
        own = cut.own(ids, 1)
        return model.generate(own, 4, positions=positions)[:, own.shape[1] :]

    assert all(torch.equal(new, expected) for new in on_ranks(run))


@pytest.mark.parametrize(
    "start, stop",
    ((0, 20), (0, 9), (-10, None), (4, 19), (0, 1), (None, None), (7, 7)),
)
@pytest.mark.parametrize("encoding", ("ALiBi", "FoX"))
@each_cut
def test_a_cropped_cache_goes_on_as_on_one_device(order, form, start, stop, encoding):
    made = {"ALiBi": lambda: ALiBi(2, slopes="authors"), "FoX": lambda: FoX(16, 2)}
    model = layer(made[encoding](), window=11)
    x = torch.randn(2, 16 + sum(STEPS), 16, dtype=torch.float64)
    later = torch.randn(2, 3, 16, dtype=torch.float64)

    def alone():
        cache = KVCache()
        model(x, cache=cache)
        cache.crop(start, stop)
        return torch.cat([model(t, cache=cache) for t in later.split(1, 1)], 1)

    def run(cut):
        cache = CutCache()
        decoded(model, x, 16, cut, cache)
        cache.crop(start, stop)
        return torch.cat([model(t, cache=cache) for t in later.split(1, 1)], 1)

    with torch.no_grad():
        expected = alone()
    for out in on_ranks(run, 4, order=order, form=form):
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


@each_cut
def test_a_cache_that_was_emptied_takes_a_new_text(order, form):
    model = layer(RoPE(8, layout="half"))
    x, other = torch.randn(2, 1, 24, 16, dtype=torch.float64)

    def run(cut):
        cache = CutCache(12)
        decoded(model, x, 16, cut, cache, (8,))
        cache.crop(0, 0)
        assert len(cache) == cache.count == 0 and cache.capacity == 12
        return decoded(model, other, 16, cut, cache, (8,))

    for out in on_ranks(run, order=order, form=form):
        torch.testing.assert_close(out, model(other), rtol=0, atol=1e-12)


@pytest.mark.parametrize("copied", (copy.copy, copy.deepcopy))
def test_a_copied_cache_goes_another_way(copied):
    model = layer(FoX(16, 2))
    x = torch.randn(1, 16, 16, dtype=torch.float64)
    ways = torch.randn(2, 1, 5, 16, dtype=torch.float64)
    expected = [model(torch.cat((x, way), 1))[:, 16:] for way in ways]

    def run(cut):
        cache = CutCache()
        model(cut.own(x, 1), cache=cache)
        caches = cache, copied(cache)
        outputs = [[], []]
        for i in range(5):
            for out, way, own in zip(outputs, ways, caches, strict=True):
                out.append(model(way[:, i : i + 1], cache=own))
        return [torch.cat(out, 1) for out in outputs]

    for found in on_ranks(run):
        for out, wanted in zip(found, expected, strict=True):
            torch.testing.assert_close(out, wanted, rtol=0, atol=1e-12)


@each_cut
@pytest.mark.parametrize("tokens", (4, 16))
@pytest.mark.parametrize("padded", (False, True))
def test_states_go_on_after_the_cut_as_before(order, form, tokens, padded):
    """All ranks have the state of the whole text, and the newest features."""
    torch.manual_seed(0)
    model = RecurrentLayer(16, 2, encoding=GLA(16, 2, 8), convolution=4).double()
    x = torch.randn(2, tokens + 4, 16, dtype=torch.float64)
    padding = torch.zeros(2, tokens + 4, dtype=torch.bool)
    padding[1, : tokens - 2] = padded
    with torch.no_grad():
        expected = model(x, key_padding_mask=padding)[:, tokens:]

    def run(cut):
        cache = StateCache(keep=1)
        own, mask = (cut.own(t[:, :tokens], 1) for t in (x, padding))
        model(own, key_padding_mask=mask, cache=cache)
        return cache

    for cache in on_ranks(run, order=order, form=form):
        assert len(cache) == cache.count == tokens
        with torch.no_grad():
            out = model(x[:, tokens:], key_padding_mask=padding, cache=cache)
            torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
            cache.crop(0, tokens)
            out = model(x[:, tokens:], key_padding_mask=padding, cache=cache)
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


def refused(match, run, error=ValueError, ranks=2, **options):
    with pytest.raises(error, match=match):
        on_ranks(run, ranks, **options)


@unchecked
def test_what_cannot_be_decoded_is_refused():
    x = torch.randn(1, 8, 16, dtype=torch.float64)
    rope = layer(RoPE(8, layout="half"))
    refused("needs a CutCache", lambda cut: rope(x, cache=KVCache()))

    def with_gradients(cut):
        with torch.enable_grad():
            rope(x, cache=CutCache())

    refused(re.escape("torch.no_grad()"), with_gradients)

    def moved(cut):
        cache = CutCache()
        rope(x, cache=cache)
        cache.move(rope.encoding, 3)

    def dropped(cut):
        CutCache().drop(rope.encoding, 1, 2)

    for run in (moved, dropped):
        refused("several ranks cannot be moved", run)
    gla = layer(GLA(16, 2, 8), window=3)
    refused(
        "'attend', .*: give its layer a StateCache, and no window",
        lambda cut: gla(x, cache=CutCache()),
    )
    torch.manual_seed(0)
    mla = MLA(16, 2, latent=4, rotary=4, layout="half").double()
    refused("MLA keeps latent vectors", lambda cut: mla(x, cache=CutCache()))
    model = LanguageModel(11, 16, 2, 1, encoding=RoPE(8, layout="half"))
    ids = torch.zeros(1, 4, dtype=torch.int64)
    refused("cannot be compiled", lambda cut: model.generate(ids, 2, compiled=True))


@unchecked
def test_a_cut_cache_needs_its_cut():
    model, caches = layer(RoPE(8, layout="half")), [CutCache(), CutCache()]
    x = torch.randn(1, 8, 16, dtype=torch.float64)
    on_ranks(lambda cut: model(x, cache=caches[cut.ranks.rank]))
    with torch.no_grad(), pytest.raises(ValueError, match="inside context_parallel"):
        model(x, cache=caches[0])
    refused(
        "rank 0 of 2, the cut that is in force is of rank 0 of 1",
        lambda cut: model(x, cache=caches[0]),
        ranks=1,
    )
    assert len(caches[0]) == 16  # refused calls leave it as it was


@unchecked
def test_ranks_that_decode_different_tokens_are_named():
    model = layer(RoPE(8, layout="half"))
    x = torch.randn(1, 8, 16, dtype=torch.float64)

    def run(cut):
        cache = CutCache()
        model(x, cache=cache)
        model(x[:, : 1 + cut.ranks.rank], cache=cache)

    refused(r"rank 0: .*\[1, 2, 1, 8\].*rank 1: .*\[1, 2, 2, 8\]", run)

    def cropped(cut):
        cache = CutCache()
        model(x, cache=cache)
        cache.crop(0, 16 - cut.ranks.rank)
        model(x[:, :1], cache=cache)

    refused("rank 0: .*with 17 tokens.*rank 1: .*with 16 tokens", cropped)
