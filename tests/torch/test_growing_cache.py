"""Caches that grow in place: nothing is copied, and nobody else's tokens change."""

import copy
import pickle

import pytest
import torch

from posedu.book.timing import peak_memory
from posedu.torch import (
    T5,
    ALiBi,
    Attention,
    FoX,
    FoXPro,
    KVCache,
    LanguageModel,
    RoPE,
    Transformer,
)

WIDTH, HEADS, KV_HEADS = 32, 4, 2
ENCODINGS = {
    "none": lambda: None,
    "rope": lambda: RoPE(WIDTH // HEADS, layout="half"),
    "alibi": lambda: ALiBi(HEADS, slopes="authors"),
    "t5": lambda: T5(HEADS, bidirectional=False),
    "fox": lambda: FoX(WIDTH, HEADS),
}


def layer_of(name="rope"):
    torch.manual_seed(0)
    options = dict(encoding=ENCODINGS[name](), kv_heads=KV_HEADS)
    return Attention(WIDTH, HEADS, **options).double()


def tokens(count, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, count, WIDTH, generator=generator, dtype=torch.float64)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("capacity", [None, 3, 40])
def test_steps_in_place_are_a_full_run(name, capacity):
    layer, x, cache = layer_of(name), tokens(23), KVCache(capacity)
    with torch.no_grad():
        parts = [layer(part, cache=cache) for part in x.split([5, *[1] * 10, 7, 1], 1)]
        close(torch.cat(parts, 1), layer(x))
        assert len(cache) == cache.count == 23


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_step_allocates_nothing_of_the_size_of_the_cache(name):
    layer, cache = layer_of(name), KVCache(capacity=5000)
    with torch.no_grad():
        layer(tokens(4000), cache=cache)
        step = tokens(1)
        used = peak_memory(lambda: layer(step, cache=cache), torch.device("cpu"))
    assert used < 1.1 * cache.k.nbytes  # FoX sums its gates anew
    with torch.no_grad():
        cache.crop(0, 3999)  # Mutant: a cache that is copied once more.
        copied = peak_memory(lambda: layer(step, cache=cache), torch.device("cpu"))
    assert copied > 2 * cache.k.nbytes


def test_a_step_of_fox_pro_reads_the_token_before_and_no_more():
    layer, cache = FoXPro(WIDTH, HEADS).double(), KVCache(capacity=5000)
    with torch.no_grad():
        layer(tokens(4000), cache=cache)
        step = tokens(1)
        used = peak_memory(lambda: layer(step, cache=cache), torch.device("cpu"))
        assert used < 0.6 * cache.k.nbytes  # FoX sums its gates anew
        padding = torch.zeros(2, 4002, dtype=torch.bool)  # Mutant: all tokens are read.
        used = peak_memory(
            lambda: layer(step, cache=cache, key_padding_mask=padding),
            torch.device("cpu"),
        )
        assert used > 2 * cache.k.nbytes


def test_memory_is_at_most_twice_the_keys_and_values_or_what_was_asked():
    layer, cache, given = layer_of(), KVCache(), KVCache(capacity=300)
    sizes, sizes_given = set(), set()
    with torch.no_grad():
        for n in range(1, 200):
            for c, seen in ((cache, sizes), (given, sizes_given)):
                layer(tokens(1), cache=c)
                assert len(c) == n
                seen.add(c.k.untyped_storage().nbytes() * len(c) // c.k.nbytes)
            assert cache.k.untyped_storage().nbytes() <= 2 * cache.k.nbytes or n < 3
    assert len(sizes) < 10 and sizes_given == {300}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_copies_share_until_both_append(order):
    layer, x = layer_of(), tokens(9)
    caches = KVCache(), KVCache()
    ends = tokens(3, seed=2), tokens(3, seed=3)
    with torch.no_grad():
        layer(x[:, :5], cache=caches[0])
        layer(x[:, 5:], cache=caches[0])
        caches[1].copy_from(caches[0])
        assert caches[1].k.data_ptr() == caches[0].k.data_ptr()
        for end in range(3):
            for n in order:
                out = layer(ends[n][:, end : end + 1], cache=caches[n])
                whole = layer(torch.cat((x, ends[n][:, : end + 1]), 1))
                close(out, whole[:, -1:])
        assert caches[1].k.data_ptr() != caches[0].k.data_ptr()
        for n in (0, 1):
            fresh = KVCache()
            layer(torch.cat((x, ends[n]), 1), cache=fresh)
            close(caches[n].k, fresh.k)
            close(caches[n].v, fresh.v)


def pickled(cache):
    return pickle.loads(pickle.dumps(cache))


@pytest.mark.parametrize("kept", [(0, 4), (-4, None), (2, 5), (0, 0)])
def test_a_cropped_copy_leaves_the_tokens_of_the_other(kept):
    layer, x, cache, other = layer_of(), tokens(8), KVCache(), KVCache()
    with torch.no_grad():
        layer(x[:, :4], cache=cache)
        layer(x[:, 4:], cache=cache)
        before = [t.clone() for t in cache.entries]
        other.copy_from(cache)
        other.crop(*kept)
        layer(tokens(5, seed=4), cache=other)
        assert all(map(torch.equal, before, cache.entries))
        layer(tokens(1, seed=5), cache=cache)
        for old, new in zip(before[:2], cache.entries[:2], strict=True):
            assert torch.equal(old, new[:, :, :8])


@pytest.mark.parametrize(
    "how", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))]
)
def test_a_stored_cache_has_no_room_and_goes_on(how):
    layer, x, cache = layer_of("fox"), tokens(9), KVCache(capacity=1000)
    with torch.no_grad():
        layer(x[:, :6], cache=cache)
        stored = how(cache)
        assert stored.k.untyped_storage().nbytes() == stored.k.nbytes
        for c in (stored, cache):
            close(layer(x[:, 6:], cache=c), layer(x)[:, 6:])


@pytest.mark.parametrize("first", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(
    "then", [torch.no_grad, torch.inference_mode, torch.enable_grad]
)
def test_modes_may_follow_each_other(first, then):
    layer, x, cache = layer_of(), tokens(8), KVCache()
    with torch.no_grad():
        whole = layer(x)
    with first():
        layer(x[:, :3], cache=cache)
        layer(x[:, 3:4], cache=cache)
    with then():
        out = [layer(x[:, n : n + 1].clone(), cache=cache) for n in range(4, 7)]
    with first():
        out.append(layer(x[:, 7:], cache=cache))
    close(torch.cat([t.detach() for t in out], 1), whole[:, 4:])


def test_what_a_gradient_needs_is_not_overwritten():
    layer, x, cache = layer_of(), tokens(8), KVCache()
    with torch.no_grad():
        layer(x[:, :3], cache=cache)
        layer(x[:, 3:4], cache=cache)
    out = layer(x[:, 4:6], cache=cache)
    with torch.no_grad():
        layer(x[:, 6:], cache=cache)
    out.sum().backward()
    assert layer.q.weight.grad.isfinite().all()


def test_a_refused_call_leaves_the_tokens_and_the_next_goes_on():
    layer, x, cache = layer_of(), tokens(8), KVCache(capacity=50)
    with torch.no_grad():
        layer(x[:, :5], cache=cache)
        before = [t.clone() for t in cache.entries]
        layer.encoding.output = lambda out, positions: 1 / 0
        with pytest.raises(ZeroDivisionError):
            layer(x[:, 5:], cache=cache)
        del layer.encoding.output
        assert all(map(torch.equal, before, cache.entries))
        close(layer(x[:, 5:], cache=cache), layer(x)[:, 5:])


def test_rows_of_a_batch_may_get_positions_of_their_own_later():
    layer, x, cache = layer_of(), tokens(6), KVCache(capacity=9)
    own = torch.tensor([[4, 5], [40, 50]])
    with torch.no_grad():
        layer(x[:, :4], cache=cache)
        out = layer(x[:, 4:], own, cache=cache)
        every = torch.cat((torch.arange(4).expand(2, 4), own), 1)
        close(out, layer(x, every)[:, 4:])


def test_generation_reserves_its_tokens_once():
    model = LanguageModel(11, WIDTH, HEADS, 2, encoding=ENCODINGS["rope"]())
    made = []
    reserve = Transformer.caches

    def caches(self, capacity=None, **options):
        made.append(capacity)
        return reserve(self, capacity, **options)

    Transformer.caches = caches
    try:
        model.generate(torch.zeros(1, 3, dtype=torch.int64), 4)
    finally:
        Transformer.caches = reserve
    assert made == [7]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, "9"])
def test_a_capacity_is_a_positive_integer(capacity):
    with pytest.raises((TypeError, ValueError), match="capacity must be"):
        KVCache(capacity)
