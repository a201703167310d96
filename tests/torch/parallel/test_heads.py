"""Heads that are cut over ranks: each rank computes some, and together they are all."""

import copy
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posedu.catalog import CATALOG
from posedu.crosscheck.many_devices import BOUND, Trial
from posedu.torch import (
    Attention,
    Encoding,
    KVCache,
    LanguageModel,
    Learned,
    Randomized,
    RoPE,
    Transformer,
)
from posedu.torch.bias import ALiBi, Sandwich
from posedu.torch.heads import HeadRange
from posedu.torch.parallel import simulated, tensor_parallel
from posedu.torch.parallel.heads import HeadParallel, ShardedHeads
from posedu.torch.parallel.ranks import Threads
from posedu.torch.path import PaTH, Retention
from posedu.torch.recurrent import GatedDeltaNet, LightningAttention, RecurrentLayer
from posedu.torch.rotary import MLA, MixedRoPE

MIXED = {"tape", "dape", "selective-attention"}  # a head's output depends on others
VARIANTS = [
    pytest.param(entry, variant, id=entry.label(variant))
    for entry in CATALOG.values()
    for variant in entry.variants
    if variant.heads > 1
]


def largest_error(trial, size, kind=Threads):
    def run(ranks):
        return trial.of_heads(kind(ranks.rank, ranks._board))

    return max(errors.largest for errors in simulated(size, run))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("hidden", (False, True), ids=("all", "hidden"))
@pytest.mark.parametrize("entry, variant", VARIANTS)
def test_every_encoding_a_head_a_rank(entry, variant, hidden):
    trial = Trial(entry, variant, 2, hidden=hidden)
    if entry.name in MIXED:
        with pytest.raises(ValueError, match="depend on each other"):
            largest_error(trial, variant.heads)
    else:
        assert largest_error(trial, variant.heads) <= BOUND


def test_the_encodings_that_mix_heads_are_those_that_say_so():
    for entry in CATALOG.values():
        mixes = entry.implementation("torch").__dict__.get("mixes_heads", False)
        assert mixes == (entry.name in MIXED), entry.name
        assert "heads" not in entry.crosses or mixes


def changed(**methods):
    return type("Changed", (Threads,), methods)


MUTANTS = {
    "nothing is added": {"_sum": lambda self, t: t},
    "twice": {"_sum": lambda self, t: 2 * Threads._sum(self, t)},
    "sign": {"_sum": lambda self, t: -Threads._sum(self, t)},
    "a tenth on one rank": {
        "_sum": lambda self, t: (1.1 if self.rank else 1.0) * Threads._sum(self, t)
    },
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("name", ("nope", "t5", "fox-pro", "kda"))
def test_wrong_sums_are_refused(name, mutant):
    trial = Trial(CATALOG[name], CATALOG[name].variants[0], 2, hidden=False)
    assert largest_error(trial, 2, changed(**MUTANTS[mutant])) > 1e6 * BOUND


@pytest.mark.parametrize(
    "encoding",
    (
        ALiBi(4, slopes="authors"),
        Sandwich(4, width=8, index_from=0, diagonal="zero"),
        LightningAttention(4, layer=0, layers=2),
        Retention(*(4, 8), layout="half", spacing="rope", normalization="none"),
    ),
    ids=lambda e: type(e).__name__,
)
def test_slopes_that_begin_anew_on_each_rank_are_refused(encoding):
    """Megatron-DeepSpeed#227: each rank took the slopes of the first heads."""
    layer = Attention(32, 4, encoding=encoding).double()
    x = torch.randn(1, 6, 32, dtype=torch.float64)
    parts = [layer.of_heads(HeadRange(first, first + 2, 4)) for first in (0, 2)]
    together = sum(part(x) for part in parts)
    torch.testing.assert_close(together, layer(x), rtol=0, atol=1e-12)
    parts[1].encoding.heads_of = HeadRange(0, 2, 4)
    assert (sum(part(x) for part in parts) - layer(x)).abs().max() > 1e-3


def sizes(most=3):
    return st.integers(1, most)


@given(groups=sizes(), per_group=sizes(), data=st.data())
@pytest.mark.parametrize("norm", (None, "head", "after"))
def test_ranges_of_heads_add_up(norm, groups, per_group, data):
    """Ranges within groups of query heads, or of whole groups; with biases."""
    heads = groups * per_group
    torch.manual_seed(heads)
    layer = Attention(
        *(6, heads),
        kv_heads=groups,
        d=4,
        bias=True,
        qk_norm=norm,
        encoding=RoPE(4, layout="half"),
    ).double()
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    whole = data.draw(st.booleans())
    steps = range(0, heads + 1, per_group) if whole else range(heads + 1)
    inner = data.draw(st.sets(st.sampled_from(steps), max_size=3))
    edges = sorted({0, heads} | inner)
    if not whole:
        edges = sorted({*edges, *range(0, heads + 1, per_group)})
    parts = [
        layer.of_heads(HeadRange(first, last, heads)) for first, last in pairwise(edges)
    ]
    together = sum(part(x) for part in parts)
    torch.testing.assert_close(together, layer(x), rtol=0, atol=1e-12)


def test_the_style_of_heads_is_for_attention():
    with pytest.raises(TypeError, match="for Attention layers, got Linear"):
        HeadParallel()._apply(torch.nn.Linear(2, 2), None)


def test_groups_in_part_are_refused():
    layer = Attention(24, 6, kv_heads=2)
    with pytest.raises(
        ValueError, match="heads 2 … 4 need 2 key-value heads, of 3 query"
    ):
        layer.of_heads(HeadRange(2, 5, 6))
    with pytest.raises(ValueError, match="6 heads cannot be cut into equal parts"):
        simulated(4, lambda ranks: tensor_parallel(layer, ranks))
    with pytest.raises(ValueError, match="the layer has 6 heads, the range is of 8"):
        layer.of_heads(HeadRange(0, 2, 8))
    with pytest.raises(ValueError, match="6 heads have no 4 equal parts"):
        HeadRange(0, 3, 6).parts(4)
    with pytest.raises(ValueError, match="an axis of 7 has no 6 equal parts"):
        HeadRange(0, 3, 6).rows(torch.zeros(7, 2))
    with pytest.raises(ValueError, match="0 ≤ first < last ≤ 6"):
        HeadRange(3, 3, 6)
    with pytest.raises(ValueError, match="Linear has no attention layer"):
        simulated(2, lambda ranks: tensor_parallel(torch.nn.Linear(2, 2), ranks))


def whole_and_cut(model, call, size):
    """Return outputs and gradients of a model, and the largest errors of the ranks."""

    def run_one(model):
        out = call(model)
        out.square().sum().backward()
        return out, [p.grad for p in model.parameters()]

    wanted, gradients = run_one(copy.deepcopy(model))

    def run(ranks):
        own = copy.deepcopy(model)
        tensor_parallel(own, ranks)
        out, found = run_one(own)
        pairs = [(out, wanted), *zip(found, gradients, strict=True)]
        return max(
            ((a - b).abs().max() / b.abs().max().clamp(min=1.0)).item()
            for a, b in pairs
            if b is not None
        )

    return max(simulated(size, run))


class WithBuffers(Encoding):
    """A buffer with a row for each head, and one for all heads."""

    head_rows = ("slopes",)

    def __init__(self):
        super().__init__()
        self.heads = 4
        self.register_buffer("slopes", torch.arange(4.0))
        self.register_buffer("shared", torch.arange(4.0))
        self.register_buffer("absent", None)


def test_buffers_of_heads_are_cut_and_others_shared():
    own = WithBuffers().of_heads(HeadRange(1, 3, 4))
    assert own.slopes.tolist() == [1, 2] and own.shared.tolist() == [0, 1, 2, 3]
    assert own.absent is None


def few_keys():
    made = Attention(
        *(24, 4),
        kv_heads=2,
        d=6,
        bias=True,
        qk_norm="projection",
        encoding=RoPE(6, layout="half"),
    )
    for norm in (made.q_norm, made.k_norm):
        torch.nn.init.normal_(norm.weight)
    return made


LAYERS = {
    "fewer key heads than ranks": few_keys,
    "latent attention": lambda: MLA(
        *(32, 4), latent=6, rotary=4, layout="half", q_latent=5
    ),
    "transitions of two heads": lambda: Attention(
        *(32, 4), encoding=PaTH(32, 4, 8, transitions=2)
    ),
    "recurrence": lambda: RecurrentLayer(
        *(32, 4),
        encoding=GatedDeltaNet(32, 4),
        qk_heads=2,
        d=4,
        d_v=6,
        convolution_bias=True,
        gate_rank=3,
    ),
    "norm of all heads": lambda: RecurrentLayer(
        *(32, 4),
        encoding=LightningAttention(4, layer=0, layers=2),
        output_norm="all",
        output_gate="sigmoid",
    ),
}


@pytest.mark.parametrize("size", (2, 4))
@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_many_kinds(name, size):
    torch.manual_seed(1)
    layer = LAYERS[name]().double()
    x = torch.randn(2, 7, layer.d_model, dtype=torch.float64)
    assert whole_and_cut(layer, lambda own: own(x), size) <= BOUND


def test_a_norm_of_groups_is_not_cut_within_a_group():
    layer = RecurrentLayer(
        32, 4, encoding=GatedDeltaNet(32, 4), qk_heads=2, output_norm="group"
    ).double()
    x = torch.randn(2, 7, 32, dtype=torch.float64)
    assert whole_and_cut(layer, lambda own: own(x), 2) <= BOUND
    with pytest.raises(ValueError, match="no whole group of the norm"):
        simulated(4, lambda ranks: tensor_parallel(copy.deepcopy(layer), ranks))


def test_a_language_model_decodes_with_tensor_parallel():
    torch.manual_seed(2)
    mla = MLA(16, 2, latent=6, rotary=4, layout="half")
    rnn = RecurrentLayer(16, 2, encoding=GatedDeltaNet(16, 2))
    model = LanguageModel(
        *(11, 16, 2, 3), mixers=[None, mla, rnn], encoding=ALiBi(2, slopes="authors")
    ).double()
    ids = torch.randint(11, (1, 9))
    with torch.no_grad():
        wanted = model(ids)

    def run(ranks):
        own = copy.deepcopy(model)
        tensor_parallel(own, ranks)
        caches = own.transformer.caches()
        with torch.no_grad():
            parts = [own(ids[:, :5], caches=caches)]
            parts += [own(ids[:, n : n + 1], caches=caches) for n in range(5, 9)]
        return torch.cat(parts, 1), caches[0].entries[0].shape[1]

    for logits, heads in simulated(2, run):
        torch.testing.assert_close(logits, wanted, rtol=0, atol=1e-12)
        assert heads == 1


def test_positions_are_sampled_once_for_all_ranks():
    table = Learned(16, 40, beyond="raise")
    randomized = Randomized(40, per="sequence", inner=table)
    model = Transformer(16, 2, 2, encoding=randomized).double()
    x = torch.randn(2, 9, 16, dtype=torch.float64)

    def run(ranks):
        own = copy.deepcopy(model)
        own.input.generator = torch.Generator().manual_seed(ranks.rank)
        tensor_parallel(own, ranks)
        return own(x)

    (alone,) = simulated(1, run)
    for out in simulated(2, run):
        torch.testing.assert_close(out, alone, rtol=0, atol=1e-12)


def test_tokens_are_sampled_once_for_all_ranks():
    model = LanguageModel(11, 16, 2, 2)
    ids = torch.randint(11, (2, 9))

    def run(ranks):
        own = copy.deepcopy(model)
        tensor_parallel(own, ranks)
        draws = torch.Generator().manual_seed(ranks.rank)
        return own.generate(ids, 5, temperature=1.0, generator=draws)

    (alone,) = simulated(1, run)
    for new in simulated(2, run):
        assert new.equal(alone)


def test_layers_share_an_encoding_and_positions_have_gradients():
    rope = RoPE(8, layout="half")
    model = Transformer(16, 2, 3, encoding=rope).double()
    x = torch.randn(1, 5, 16, dtype=torch.float64)
    at = torch.arange(5.0, dtype=torch.float64)

    def slopes(own):
        positions = at.clone().requires_grad_()
        own(x, positions).square().sum().backward()
        return positions.grad

    wanted = slopes(copy.deepcopy(model))

    def run(ranks):
        own = copy.deepcopy(model)
        tensor_parallel(own, ranks)
        return slopes(own)

    for found in simulated(2, run):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-11)


def test_a_cache_of_some_heads_is_not_moved_by_the_rotation_of_all():
    rotation = MixedRoPE(8, layout="half", heads=2)
    layer = Attention(32, 4, encoding=rotation)

    def run(ranks):
        own, cache = copy.deepcopy(layer), KVCache()
        tensor_parallel(own, ranks)
        own(torch.randn(1, 4, 32), torch.ones(4, 2), cache=cache)
        cache.move(own.encoding, torch.ones(2))

    with pytest.raises(ValueError, match="rotated by another MixedRoPE module"):
        simulated(2, run)


def test_compiled_steps_are_refused():
    model = LanguageModel(11, 16, 2, 2)
    (ranks,) = simulated(1, lambda ranks: ranks)
    tensor_parallel(model, ranks)
    with pytest.raises(ValueError, match="heads are on several ranks cannot"):
        model.generate(torch.zeros(1, 3, dtype=torch.long), 2, compiled=True)


def test_bytes_of_a_layer():
    """Forward an all-reduce of the output, backward one of the input's gradient."""
    layer = Attention(24, 4)
    x = torch.randn(2, 5, 24, requires_grad=True)

    def run(ranks):
        own = copy.deepcopy(layer).requires_grad_(False)
        tensor_parallel(own, ranks)
        out = own(x)
        forward = ranks.sent
        out.sum().backward()
        return forward, ranks.sent - forward

    of_all_reduce, handshake = 2 * 3 * x.numel() * 4 // 4, 3 * 256
    assert simulated(4, run) == [(of_all_reduce + handshake, of_all_reduce)] * 4


def test_inputs_that_differ_are_named():
    layer = Attention(24, 4)

    def run(ranks):
        own = copy.deepcopy(layer)
        tensor_parallel(own, ranks)
        own(torch.zeros(1, 3 + ranks.rank, 24))

    with pytest.raises(ValueError, match=r"rank 1: heads of Encoding: \[1, 4, 24\]"):
        simulated(2, run)


def test_ranks_have_the_heads_of_their_shards():
    """A DTensor that is sharded by rows has rows r H/n … of heads on rank r."""
    layer = Attention(12, 6)

    def run(ranks):
        part = ShardedHeads(ranks).part(layer)
        return part.first, part.last, part.count

    assert simulated(3, run) == [(0, 2, 6), (2, 4, 6), (4, 6, 6)]


def test_layers_remain_usable_alone():
    layer = Attention(16, 2, encoding=ALiBi(2, slopes="authors"))
    x = torch.randn(1, 4, 16)
    wanted = layer(x)
    (cut,) = simulated(1, lambda ranks: ShardedHeads(ranks))
    layer.sharded_heads = cut
    torch.testing.assert_close(layer(x), wanted)
    layer.sharded_heads = None
    assert layer(x).equal(wanted)
