"""Memory of every encoding's layer: O(L) under every mask, or its docstring says L²."""

import inspect

import pytest
import torch

from posedu.book.timing import peak_memory
from posedu.catalog import CATALOG
from posedu.torch import Attention, KVCache, Transformer, tiled_attention

HEADS, KV_HEADS, D = 2, 1, 8
LINEAR, QUADRATIC = 1024, 512  # tokens, to be compared with twice as many
SPLIT = 2.5  # a factor above is of L² memory (nearly 4), one below of O(L) (at most 2)
CPU = torch.device("cpu")
SAID = "O(L²) memory"
# A form of FoPE, at fewer tokens.
OFFSET = "fope-offset", "O(L² (kept + d)) memory", 128

pytestmark = pytest.mark.usefixtures("unchecked")


def layer_of(name):
    """A layer by its default route, with grouped queries where the encoding allows."""
    entry = CATALOG[name]
    variant = entry.variants[0]
    d = -(-D // entry.divisor(variant)) * entry.divisor(variant)
    torch.manual_seed(0)
    module = entry.make(variant, d=d, heads=HEADS)
    if entry.kind == "block":
        return module, module
    options = dict(encoding=module, kv_heads=KV_HEADS)
    try:
        if entry.of_model:
            return module, Transformer(HEADS * d, HEADS, 1, **options)
        return module, Attention(HEADS * d, HEADS, **options)
    except ValueError:  # parameters for each key-value head
        return module, Attention(HEADS * d, HEADS, encoding=module)


def inputs(layer, name, tokens):
    """Vectors, and positions where the encoding has no default ones for so many."""
    entry = CATALOG[name]
    x = torch.randn(1, tokens, layer.d_model)
    if entry.axes is not None:
        return x, torch.randint(0, 99, (tokens, entry.axes))
    return x, torch.arange(tokens) % 6 if name in TABLES else None


def plain(layer, name, n):
    return layer(*inputs(layer, name, n))


def padded(layer, name, n):
    padding = torch.arange(n)[None] < n // 3
    return layer(*inputs(layer, name, n), key_padding_mask=padding)


def packed(layer, name, n):
    return layer(*inputs(layer, name, n), segments=torch.arange(n)[None] // 100)


def windowed(layer, name, n):
    attention = layer.blocks[0].attention if isinstance(layer, Transformer) else layer
    attention.window = n // 4
    return layer(*inputs(layer, name, n))


def in_chunks(layer, name, n):
    """The first half of the tokens into a cache, then the other half onto it.

    CAPE and PoSE take no caches in training, where they draw positions.
    """
    layer.eval()
    x, positions = inputs(layer, name, n)
    is_model = isinstance(layer, Transformer)
    cache = {"caches": layer.caches()} if is_model else {"cache": KVCache()}
    for half in (slice(n // 2), slice(n // 2, n)):
        at = None if positions is None else positions[half]
        out = layer(x[:, half], at, **cache)
    return out


TASKS = [plain, padded, packed, windowed, in_chunks]
TABLES = ("random", "learned", "learned-per-layer", "tupe")  # of six positions
# TAPE: positions of every layer; FLOATER: slow; Randomized: drawn for whole sequences.
OTHERS = ("tape", "floater", "randomized")
NAMES = [name for name in CATALOG if name not in OTHERS]


def growth(name, task, tokens, is_trained):
    """The factor by which twice as many tokens take more memory."""
    layer = layer_of(name)[1]

    def run(n):
        with torch.set_grad_enabled(is_trained):
            out = task(layer, name, n)
            if is_trained:
                out.sum().backward()

    less, more = (peak_memory(lambda n=n: run(n), CPU) for n in (tokens, 2 * tokens))
    return more / less


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_linear_or_the_docstring_says_quadratic(name):
    docstring = " ".join(inspect.getdoc(type(layer_of(name)[0])).split())
    is_quadratic = SAID in docstring
    tokens = QUADRATIC if is_quadratic else LINEAR
    if name == OFFSET[0]:
        is_quadratic, tokens = OFFSET[1] in docstring, OFFSET[2]
    for task in TASKS:
        for is_trained in (False, True):
            if is_trained and (name, task) == ("mla", in_chunks):
                continue  # its docstring says: without gradients
            if CATALOG[name].family == "recurrent" and task is windowed:
                continue  # a window has the weights of all pairs, as the docstring says
            factor = growth(name, task, tokens, is_trained)
            assert (factor > SPLIT) is is_quadratic, (task.__name__, is_trained, factor)


def test_a_mask_of_all_pairs_is_seen(monkeypatch):
    """Mutant: one mask for all queries, as before there were tiles."""
    monkeypatch.setattr(tiled_attention, "_ROWS", 10**9)
    assert growth("rope", padded, LINEAR, False) > SPLIT
    assert growth("t5", padded, LINEAR, False) > SPLIT
