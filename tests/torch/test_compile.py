"""One graph for every length: ``torch.compile``, ``torch.export``, decoding steps."""

import pytest
import torch
from torch._dynamo.exc import Unsupported
from torch._dynamo.testing import CompileCounter
from torch.export import Dim, export

from posedu.catalog import CATALOG
from posedu.torch import (
    T5,
    ALiBi,
    Attention,
    FoX,
    KVCache,
    MixedRoPE,
    RoPE,
    Transformer,
)
from posedu.torch.stickbreaking import StickBreaking

HEADS, D = 2, 8
LENGTHS = (5, 12, 9)
ATOL = 1e-5  # hundreds of roundings of float32 numbers of size one

pytestmark = pytest.mark.usefixtures("unchecked")


def model_of(name, *, seed=0):
    """A layer with the first variant of an entry, on the route that it has by default;
    a model for what acts on its input. Stick-breaking also by its own kernel."""
    name, _, route = name.partition(" ")
    entry = CATALOG[name]
    variant = entry.variants[0]
    d = -(-D // entry.divisor(variant)) * entry.divisor(variant)
    torch.manual_seed(seed)
    module = entry.make(variant, d=d, heads=HEADS)
    if entry.kind == "block":
        return module
    width = HEADS * d
    if entry.of_model:
        return Transformer(width, HEADS, 2, encoding=module)
    return Attention(width, HEADS, encoding=module, route=route or None)


def positions_of(name, tokens, *, given=True):
    """Positions in no order, with coordinates where the encoding has them."""
    entry = CATALOG[name.partition(" ")[0]]
    if entry.kind == "positions":  # some draw for the tokens that there are
        return torch.randperm(tokens) if given else None
    axes = entry.axes
    if axes is None:
        return torch.randint(0, 50, (tokens,)) if given else None
    return torch.randint(0, 50, (tokens, axes))


def graphs(model):
    """The compiled model and the counter of its graphs."""
    torch.compiler.reset()
    counter = CompileCounter()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=counter)
    return compiled, counter


EVERY = (*CATALOG, "stickbreaking fused")


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_one_graph_serves_every_length(name):
    model = model_of(name)
    compiled, counter = graphs(model)
    for tokens in LENGTHS:
        x = torch.randn(2, tokens, model.d_model)
        positions = positions_of(name, tokens)
        torch.testing.assert_close(
            compiled(x, positions), model(x, positions), rtol=0, atol=ATOL
        )
    assert counter.frame_count == 1


CASES = {
    "rope": dict(encoding=RoPE(D, layout="half"), causal=False),
    "t5": dict(encoding=T5(HEADS, bidirectional=True), causal=False),
    "alibi": dict(encoding=ALiBi(HEADS, slopes="authors")),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_default_positions_need_no_graph_for_each_length(case):
    model = Attention(HEADS * D, HEADS, **CASES[case])
    compiled, counter = graphs(model)
    for tokens in LENGTHS:
        x = torch.randn(2, tokens, model.d_model)
        torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=ATOL)
    assert counter.frame_count == 1


def test_without_changing_lengths_announced_the_second_graph_is_the_last():
    model = Attention(HEADS * D, HEADS, encoding=RoPE(D, layout="half"))
    torch.compiler.reset()
    counter = CompileCounter()
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    for tokens in LENGTHS:
        compiled(torch.randn(2, tokens, model.d_model))
    assert counter.frame_count == 2


def test_the_kernel_of_stick_breaking_has_its_gradient_when_compiled():
    encoding = StickBreaking(attend_current=True, remainder="own")
    model = Attention(HEADS * D, HEADS, encoding=encoding, route="fused")
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in LENGTHS[:2]:
        x = torch.randn(2, tokens, model.d_model, requires_grad=True)
        found, expected = (
            torch.autograd.grad(run(x).square().sum(), [x, model.q.weight])
            for run in (compiled, model)
        )
        torch.testing.assert_close(found, expected, rtol=0, atol=100 * ATOL)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_an_exported_program_takes_every_length(name):
    model = model_of(name)
    x, positions = torch.randn(2, 6, model.d_model), positions_of(name, 6, given=False)
    tokens = Dim("tokens", min=2, max=4096)
    shapes = {
        "x": {1: tokens},
        "positions": positions if positions is None else {0: tokens},
    }
    program = export(model, (x, positions), dynamic_shapes=shapes).module()
    for tokens in LENGTHS:
        x = torch.randn(2, tokens, model.d_model)
        positions = positions_of(name, tokens, given=False)
        torch.testing.assert_close(
            program(x, positions), model(x, positions), rtol=0, atol=ATOL
        )


def decoding(model, caches):
    """Return the number of graphs after the prompt and after each later token."""
    compiled, counter = graphs(model)
    x = torch.randn(2, 9, model.d_model)
    out, counts = [], []
    with torch.no_grad():
        for start, stop in ((0, 5), *((n, n + 1) for n in range(5, 9))):
            out.append(compiled(x[:, start:stop], **caches))
            counts.append(counter.frame_count)
        torch.testing.assert_close(torch.cat(out, 1), model(x), rtol=0, atol=ATOL)
    return counts


@pytest.mark.slow
def test_decoding_steps_share_a_graph():
    """One graph for the empty cache, one for all steps."""
    model = Attention(HEADS * D, HEADS, encoding=FoX(HEADS * D, HEADS))
    assert decoding(model, {"cache": KVCache()}) == [1, 2, 2, 2, 2]


@pytest.mark.slow
def test_decoding_steps_of_a_model_share_a_graph():
    model = Transformer(HEADS * D, HEADS, 1, encoding=RoPE(D, layout="half"))
    assert decoding(model, {"caches": model.caches()}) == [1, 2, 3, 3, 3]


TRAINED = {
    "given": lambda: RoPE(D, layout="half", frequencies=[1.0, 0.3, 0.1, 0.01]),
    "trained": lambda: MixedRoPE(D, layout="half", frequencies=torch.rand(D // 2, 1)),
}


@pytest.mark.parametrize("case", TRAINED)
def test_a_compiled_layer_says_by_which_angles_keys_were_rotated(case):
    """The cache has the angles, whatever part of it a compiled layer filled."""
    model = Attention(HEADS * D, HEADS, encoding=TRAINED[case]())
    encoding, cache = model.encoding, KVCache()
    shape = encoding.position_shape
    compiled, counter = graphs(model)
    counts = []
    with torch.no_grad():
        for start, stop in ((0, 5), *((n, n + 1) for n in range(5, 10))):
            at = torch.arange(start, stop).reshape(-1, *(1 for _ in shape))
            run = model if start == 6 else compiled
            run(torch.randn(2, stop - start, model.d_model), at, cache=cache)
            counts.append(counter.frame_count)
        assert counts[-1] == counts[-2] <= 4  # one for the memory that grew in place
        shifts = torch.ones(10, *shape, dtype=torch.int64)
        cache.move(encoding, shifts)
        encoding.frequencies.mul_(2)
        with pytest.raises(ValueError, match=r"angles of .* changed"):
            cache.move(encoding, shifts)
        encoding.frequencies.div_(2)
        cache.move(encoding, shifts)
        encoding.frequencies.mul_(2)
        compiled(torch.randn(2, 1, model.d_model), at, cache=cache)
        with pytest.raises(ValueError, match=r"angles of .* changed"):
            cache.move(encoding, torch.ones(11, *shape, dtype=torch.int64))


def test_a_compiled_layer_tells_its_cache_from_anothers():
    """A graph compiled for one cache also distinguishes another of the same shapes."""
    one, other = (
        Attention(HEADS * D, HEADS, encoding=RoPE(D, layout="half")) for _ in range(2)
    )
    x = torch.randn(2, 3, HEADS * D)
    caches = [KVCache(), KVCache()]
    with torch.no_grad():
        compiled, _ = graphs(other)
        for _ in range(3):
            one(x, cache=caches[0])
            compiled(x, cache=caches[1])
        compiled(x, cache=caches[0])
    caches[1].move(other.encoding, 1)
    for encoding in (one.encoding, other.encoding):
        with pytest.raises(ValueError, match="trained or replaced"):
            caches[0].move(encoding, 1)
    layer = graphs(Attention(HEADS * D, HEADS, encoding=FoX(HEADS * D, HEADS)))[0]
    with pytest.raises(Unsupported, match="belongs to a layer with RoPE, not FoX"):
        layer(x, cache=caches[0])
