"""FIRE and DAPE: published numbers, loops written out, properties, errors."""

import math

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from mutants import published_encodings as mutants
from posedu.book.timing import peak_memory
from posedu.numpy import bias as reference
from posedu.numpy.attention import Hooks, attend, steps
from posedu.numpy.bias.dape import _visible_together as visible_together
from posedu.sympy import attention as symbolic_attention
from posedu.sympy.bias import dape as symbolic_dape
from posedu.torch import (
    DAPE,
    FIRE,
    T5,
    ALiBi,
    Attention,
    CoPE,
    Encoding,
    FoX,
    KERPLELog,
    KVCache,
    RoPE,
    Sandwich,
)
from posedu.torch import attend as attend_torch
from posedu.torch.attention import steps as torch_steps
from posedu.torch.bias import broken_lines, dape
from posedu.torch.encoding import Tokens

DOUBLE, CPU = torch.float64, torch.device("cpu")


def normal(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape))


def drawn(module, seed=0):
    """A module in float64 whose parameters are of size one."""
    torch.manual_seed(seed)
    for p in module.double().parameters():
        nn.init.normal_(p, std=0.7)
    return module


def fire(threshold=4.0, activation="relu", later="zero", heads=2, **options):
    options = {"width": 5} | options
    return FIRE(
        heads, threshold=threshold, activation=activation, later=later, **options
    )


def tokens_of(q, k=None, positions=None, *, causal=True):
    """Make the tokens that hooks receive, from q and k [batch, heads, tokens, d]."""
    k = q if k is None else k
    keys = k.shape[2]
    positions = torch.arange(keys)[None] if positions is None else positions
    return Tokens(
        *(q, k, k, q.shape[-1]),
        query_positions=positions[:, keys - q.shape[2] :],
        key_positions=positions,
        causal=causal,
        consecutive=bool((positions == torch.arange(keys)).all()),
    )


# FIRE

INPUTS = {0: 0.0, 1: 0.0241, 2: 0.0461, 5: 0.1025, 10: 0.1753, 50: 0.4530} | {
    **{100: 0.6063, 256: 0.8295, 511: 0.9995}
}


def test_the_network_reads_the_published_numbers():
    """c = 0.1, L = 512, a query at 511 or before."""
    t = np.array([*INPUTS])
    options = {"c": 0.1, "threshold": 512, "later": "zero"}
    found = reference.fire_inputs(t, 511, **options)
    np.testing.assert_allclose(found, [*INPUTS.values()], atol=5e-5)
    encoding = FIRE(12, threshold=512, activation="relu", later="zero").double()
    same = encoding.inputs(torch.tensor(t), torch.tensor(511)).detach()
    np.testing.assert_allclose(same, found, rtol=1e-7)  # 0.1 was a float32
    for copy in (
        mutants.fire_with_offset_in_the_normalizer,
        mutants.fire_without_logarithm,
    ):
        right = reference.fire_inputs(t, 700, **options)
        assert np.abs(copy(t, 700, 0.1, 512) - right).max() > 0.01
    assert sum(p.numel() for p in encoding.parameters()) == 462


def published_fire(encoding, tokens):
    """The authors' listing (as DAPE's repository has it), written out."""
    rel = torch.tril(torch.arange(tokens)[:, None] - torch.arange(tokens)).double()
    threshold = torch.abs(encoding.multiplier * encoding.threshold)
    longest = torch.max(torch.max(rel, dim=-1)[0], threshold)[:, None]
    rel = torch.log(torch.abs(encoding.c * rel) + 1)
    x = rel / (torch.log(torch.abs(encoding.c * longest) + 1) + encoding.eps)
    act = nn.ReLU() if encoding.activation == "relu" else nn.LeakyReLU()
    network = nn.Sequential(encoding.hidden, act, encoding.out)
    return network(x[..., None]).permute(2, 0, 1)


@pytest.mark.parametrize("activation", ["relu", "leaky"])
@pytest.mark.parametrize("threshold", [3.0, 50.0])
def test_the_bias_is_that_of_the_published_listing(activation, threshold):
    encoding = drawn(fire(threshold, activation))
    with torch.no_grad():
        encoding.multiplier.fill_(-1.25)
    tokens = tokens_of(normal(1, 2, 9, 4))
    found = encoding.bias(tokens)[0]
    torch.testing.assert_close(
        found, published_fire(encoding, 9), rtol=1e-13, atol=1e-13
    )


def test_up_to_the_threshold_it_is_toeplitz_and_beyond_it_is_not():
    encoding = drawn(fire(6.0))
    with torch.no_grad():
        encoding.multiplier.fill_(1.0)
    b = encoding.bias(tokens_of(normal(1, 2, 12, 4)))[0]
    along = b[:, 1:, 1:] - b[:, :-1, :-1]
    assert not along[:, :6].abs().gt(1e-15).any()
    assert along[:, 6:].tril(5).abs().max() > 1e-3
    assert encoding.by_distance(tokens_of(normal(1, 2, 7, 4))) is not None
    assert encoding.by_distance(tokens_of(normal(1, 2, 8, 4))) is None


@pytest.mark.parametrize("over", [False, True])
def test_few_keys_of_a_cropped_or_moved_cache_may_be_beyond_the_threshold(over):
    encoding = drawn(fire(6.0))
    if over:
        encoding = drawn(DAPE(2, over=encoding, kernel=1, residual=True))
    with torch.no_grad():
        (encoding.over if over else encoding).multiplier.fill_(1.0)
    q = normal(1, 2, 12, 4)
    for shift, start in ((0, 8), (40, 8), (-3, 2)):
        cache = KVCache()
        attend_torch(*[q[:, :, :10]] * 3, encoding, cache=cache)
        cache.crop(start)
        cache.move(encoding, shift)
        out = attend_torch(*[q[:, :, 10:]] * 3, encoding, cache=cache)
        at = range(start + shift, 12 + shift)
        fresh = attend_torch(*[q[:, :, start:]] * 3, encoding, positions=at)
        torch.testing.assert_close(out, fresh[:, :, -2:], rtol=0, atol=1e-14)


@pytest.mark.parametrize("threshold", [3.0, 50.0])
@pytest.mark.parametrize("later", ["zero", "distance"])
@pytest.mark.parametrize("causal", [True, False])
def test_positions_that_count_up_are_positions_like_others(threshold, later, causal):
    encoding = drawn(fire(threshold, later=later))
    q = normal(2, 2, 9, 4)
    counted = attend_torch(q, q, q, encoding, causal=causal)
    given = attend_torch(q, q, q, encoding, causal=causal, positions=range(9))
    torch.testing.assert_close(counted, given, rtol=0, atol=1e-14)
    fused = attend_torch(q, q, q, encoding, causal=causal, route="sdpa")
    torch.testing.assert_close(counted, fused, rtol=0, atol=1e-14)


def test_the_two_forms_differ_for_later_keys_alone():
    zero, far = (drawn(fire(later=later)) for later in ("zero", "distance"))
    q = normal(1, 2, 9, 4)
    seen, all_keys = (
        attend_torch(q, q, q, zero, causal=c) - attend_torch(q, q, q, far, causal=c)
        for c in (True, False)
    )
    assert not seen.any() and all_keys.abs().max() > 1e-3


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=6),
    st.integers(0, 99),
    st.sampled_from([0.0, 0.01]),
)
def test_a_network_of_one_number_is_a_broken_line(weights, seed, leak):
    """Weights of 0, double kinks and numbers at a kink too; and its gradient."""
    width = len(weights)
    w_1 = torch.tensor(weights, dtype=DOUBLE)
    b_1 = normal(width, seed=seed).round()
    w_2, b_2 = normal(2, width, seed=seed + 1), normal(2, seed=seed + 2)
    leaves = [t.requires_grad_() for t in (w_1, b_1, w_2, b_2)]
    kinks, slopes, starts = broken_lines(*leaves, leak=leak)
    x = torch.linspace(-2.013, 1.987, 41, dtype=DOUBLE)
    piece = torch.searchsorted(kinks, x)
    z = x[:, None] * w_1 + b_1
    direct = torch.where(z > 0, z, leak * z) @ w_2.T + b_2
    lines = (slopes[:, piece] * x + starts[:, piece]).T
    torch.testing.assert_close(lines, direct, rtol=1e-13, atol=1e-13)
    found, expected = (torch.autograd.grad(t.sum(), leaves) for t in (lines, direct))
    for name, one, other in zip("1b2b", found, expected, strict=True):
        if name != "1" or (w_1 != 0).all():  # at 0 · x + 0 any slope will do
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("threshold", [2.0, 40.0])
def test_bias_needs_no_hidden_unit_of_each_query_and_key(threshold):
    """Bytes: a number of each query, key and head, a few times over."""
    tokens, width = 256, 512
    encoding = fire(threshold, width=width)
    seen = tokens_of(torch.randn(1, 2, tokens, 4), positions=torch.arange(tokens)[None])
    most = peak_memory(lambda: encoding.bias(seen).sum().backward(), CPU)
    assert most < 40 * 8 * tokens**2 < 8 * tokens**2 * width


def test_one_module_for_all_layers_is_the_shared_form():
    shared = fire()
    layers = nn.ModuleList(Attention(8, 2, encoding=shared) for _ in range(3))
    own = sum(p.numel() for p in shared.parameters())
    projections = 3 * 4 * 8 * 8
    assert sum(p.numel() for p in layers.parameters()) == projections + own


def test_inputs_never_leave_the_unit_interval():
    i, j = np.meshgrid(np.arange(200.0), np.arange(200.0), indexing="ij")
    for c in (0.003, 0.1, 7.0):
        x = reference.fire_inputs(
            (i - j)[i >= j], i[i >= j], c=c, threshold=30, later="zero"
        )
        assert x.min() == 0 and 0.99 < x.max() < 1


# What FIRE can be

T = np.arange(40)


def network_of(kinks, values):
    """Weights through (kinks, values), from 0 on: a unit for each piece."""
    slopes = np.diff(values) / np.diff(kinks)
    steps = np.diff(slopes, prepend=0.0)
    return {
        "hidden_weight": np.ones((len(steps), 1)),
        "hidden_bias": -np.asarray(kinks[:-1], dtype=float),
        "out_weight": steps[None],
        "out_bias": np.asarray(values[:1], dtype=float),
    }


def fire_bias(network, tokens=40, **options):
    q = np.zeros((1, tokens, 1))
    options = {"threshold": 39.0, "activation": "relu", "later": "zero"} | options
    hooks = reference.fire(
        c=np.array([options.pop("c", 0.5)]),
        multiplier=np.ones(1),
        **network,
        **options,
        eps=0.0,
    )
    return steps(q, q, q, hooks).logits[0]


def test_any_table_is_a_fire_up_to_the_threshold():
    """T5's among them: a broken line through the numbers of all distances."""
    table = np.random.default_rng(0).normal(size=8)
    buckets = reference.t5_buckets(T, bidirectional=False, buckets=8, distance=16)
    x = reference.fire_inputs(T, 39, c=0.5, threshold=39, later="zero", eps=0.0)
    found = fire_bias(network_of(x, table[buckets]))
    np.testing.assert_allclose(found[39, ::-1], table[buckets], atol=1e-11)


def test_kerple_is_a_fire_of_one_line():
    found = fire_bias(network_of([0.0, 1.0], [0.0, -1.5 * np.log1p(0.5 * 39)]))
    np.testing.assert_allclose(found[39, ::-1], -1.5 * np.log1p(0.5 * T), atol=1e-13)


# DAPE

BELOW = {
    "alibi": lambda: ALiBi(3, slopes="authors"),
    "alibi, one-sided": lambda: ALiBi(4, slopes="authors", sides="one-sided"),
    "t5": lambda: T5(3, bidirectional=True, buckets=8, distance=16),
    "fire": lambda: fire(heads=3),
    "kerple_log": lambda: KERPLELog(3, scaling="code"),
    "sandwich": lambda: Sandwich(3, width=8, index_from=1, diagonal="kept"),
    "none": lambda: None,
}
KERNELS = {1: None, 3: "masked", 5: "code"}
over = pytest.mark.parametrize("over", BELOW)
kernels = pytest.mark.parametrize("kernel", KERNELS)


def made(name, kernel=1, residual=True, **options):
    below = BELOW[name]()
    heads = 3 if below is None else below.heads
    options = {"edges": KERNELS[kernel], "width": 4} | options
    return drawn(DAPE(heads, over=below, kernel=kernel, residual=residual, **options))


def published_inputs(encoding, q, k):
    """S and B of the authors' code."""
    seen = tokens_of(q, k)
    s = q @ k.mT * encoding.scale(q.shape[-1])
    b = encoding.over.bias(seen).expand_as(s)
    return s, b


@pytest.mark.parametrize("name", ["alibi", "t5", "fire"])
@pytest.mark.parametrize("residual", [True, False])
def test_the_first_version_is_that_of_the_authors(name, residual):
    """An MLP of the last axis, once heads are moved there."""
    encoding = made(name, residual=residual)
    q, k = normal(2, 3, 6, 4), normal(2, 3, 6, 4, seed=1)
    s, b = published_inputs(encoding, q, k)
    both = torch.cat((s, b), dim=1).permute(0, 2, 3, 1)
    first = nn.Linear(6, 4), nn.Linear(4, 3)
    for linear, conv in zip(first, (encoding.hidden, encoding.out), strict=True):
        linear.weight = nn.Parameter(conv.weight[..., 0])
        linear.bias = conv.bias
    said = nn.Sequential(first[0], nn.LeakyReLU(), first[1])(both).permute(0, 3, 1, 2)
    expected = s + said + (b if residual else 0)
    found = encoding.logits(tokens_of(q, k))
    torch.testing.assert_close(found.tril(), expected.tril(), rtol=0, atol=1e-13)


def test_the_second_version_is_that_of_the_authors_but_at_the_end():
    encoding = made("alibi", 3, edges="code")
    q, k = normal(2, 3, 6, 4), normal(2, 3, 6, 4, seed=1)
    s, b = published_inputs(encoding, q, k)
    convolutions = (
        *(encoding.hidden.weight, encoding.hidden.bias),
        *(encoding.out.weight, encoding.out.bias),
    )
    said = mutants.dape_v2_of_the_authors(torch.cat((s, b), 1), *convolutions)
    off = (encoding.logits(tokens_of(q, k)) - s - b - said).tril().abs()
    assert off[..., :-1, :].max() < 1e-13 and off[..., -1, :-1].max() < 1e-13
    assert off[..., -1, -1].min() > 1e-4


@pytest.mark.parametrize("name", ["alibi", "t5", "fire", "none"])
def test_published_edges_are_the_authors_to_the_end(name):
    """In all implementations, and for the query that predicts, the last."""
    encoding = made(name, 3, edges="published")
    q, k = normal(2, 3, 6, 4), normal(2, 3, 6, 4, seed=1)
    if name == "none":
        s = q @ k.mT / 2
        b, read = torch.zeros_like(s), s
    else:
        s, b = published_inputs(encoding, q, k)
        read = torch.cat((s, b), 1)
    convolutions = (
        *(encoding.hidden.weight, encoding.hidden.bias),
        *(encoding.out.weight, encoding.out.bias),
    )
    expected = s + b + mutants.dape_v2_of_the_authors(read, *convolutions)
    found = encoding.logits(tokens_of(q, k))
    torch.testing.assert_close(found.tril(), expected.tril(), rtol=0, atol=1e-13)


def test_published_edges_in_every_implementation():
    encoding = made("none", 3, edges="published")
    own = {n.replace(".", "_"): p.detach() for n, p in encoding.named_parameters()}
    q = normal(3, 4, 2)
    found = attend_torch(*[q[None]] * 3, encoding)[0].detach().numpy()
    given = {name: p.numpy() for name, p in own.items()}
    options = dict(over=None, residual=True, edges="published")
    expected = attend(*[q.numpy()] * 3, reference.dape(**given, **options), causal=True)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    exact = {
        name: [sp.Matrix(m) for m in p.tolist()]
        if p.ndim == 3
        else [*map(sp.Float, p.tolist())]
        for name, p in own.items()
    }
    heads = [sp.Matrix(m) for m in q.tolist()]
    out = symbolic_attention.attend(
        heads, heads, heads, symbolic_dape(**exact, **options)
    )
    found = np.array([m.evalf().tolist() for m in out], dtype=float)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_as_published_a_token_is_told_whether_another_follows():
    encoding = made("alibi", 3, edges="code")
    q = normal(1, 3, 6, 4)
    s, b = published_inputs(encoding, q, q)
    read = torch.cat((s, b), 1)
    convolutions = (
        *(encoding.hidden.weight, encoding.hidden.bias),
        *(encoding.out.weight, encoding.out.bias),
    )
    published = mutants.dape_v2_of_the_authors
    whole = published(read, *convolutions)[..., :4, :4]
    cut = published(read[..., :4, :4], *convolutions)
    assert (whole - cut).tril().abs().flatten(0, 2)[-1].max() > 1e-4
    leaking = published(read, *convolutions, masked=False)[..., :4, :4]
    changed = torch.cat((s, b), 1)
    changed[..., 4:] += 1
    other = published(changed, *convolutions, masked=False)[..., :4, :4]
    assert (leaking - other).tril().abs().max() > 1e-4
    same = published(changed, *convolutions)[..., :4, :4]
    assert not (whole - same).any()


@over
@kernels
def test_a_longer_text_changes_nothing_before(over, kernel):
    """Neither what later tokens are nor how many: causal, and with a cache too."""
    encoding = made(over, kernel)
    q, k = normal(2, encoding.heads, 7, 4), normal(2, encoding.heads, 7, 4, seed=1)
    whole = attend_torch(q, k, k, encoding)
    assert whole.isfinite().all()
    for n in range(1, 7):
        start = attend_torch(q[:, :, :n], k[:, :, :n], k[:, :, :n], encoding)
        torch.testing.assert_close(whole[:, :, :n], start, rtol=0, atol=1e-13)
    cache = KVCache()
    parts = [
        attend_torch(q[:, :, r], k[:, :, r], k[:, :, r], encoding, cache=cache)
        for r in (slice(3), slice(3, 4), slice(4, 7))
    ]
    torch.testing.assert_close(whole, torch.cat(parts, 2), rtol=0, atol=1e-13)


@over
@kernels
def test_padding_in_front_changes_nothing(over, kernel):
    encoding = made(over, kernel)
    q = normal(1, encoding.heads, 7, 4)
    padding = torch.arange(7)[None] < 2
    padded = attend_torch(
        *(q, q, q, encoding), key_padding_mask=padding, positions=torch.arange(7) - 2
    )
    alone = attend_torch(*[q[:, :, 2:]] * 3, encoding)
    torch.testing.assert_close(padded[:, :, 2:], alone, rtol=0, atol=1e-13)


HIDDEN = [False, True, False, True, True, False, False]


@over
@pytest.mark.parametrize(
    ("edges", "causal"), [("masked", True), ("masked", False), ("code", True)]
)
def test_hidden_tokens_between_neighbors_change_nothing(over, edges, causal):
    encoding = made(over, 3, edges=edges)
    if encoding.needs_causal and not causal:
        return
    q, hidden = normal(2, encoding.heads, 7, 4), torch.tensor(HIDDEN)
    masks = {
        "key_padding_mask": torch.stack((hidden, hidden)),
        "segments": torch.stack((hidden, hidden)).long(),
    }
    for name, mask in masks.items():
        out = attend_torch(q, q, q, encoding, causal=causal, **{name: mask})
        for group in (~hidden, hidden) if name == "segments" else (~hidden,):
            own, at = q[:, :, group], torch.arange(7)[group]
            alone = attend_torch(own, own, own, encoding, causal=causal, positions=at)
            torch.testing.assert_close(out[:, :, group], alone, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("below", "edges", "needs_causal"),
    [
        (None, "masked", False),
        (None, "code", True),
        (None, "published", True),
        ("alibi", "masked", True),
        ("alibi", "code", True),
    ],
)
def test_what_needs_causal_attention_says_so(below, edges, needs_causal):
    options = {} if below is None else {"slopes": "geometric"}
    options |= dict(kernel=3, residual=True, edges=edges, width=2)
    encoding = DAPE(3, over=below, **options)
    named = encoding.named_parameters()
    own = {n.replace(".", "_"): p.detach().numpy() for n, p in named}
    hooks = reference.dape(
        over=None if below is None else reference.alibi(heads=3, slopes="geometric"),
        residual=True,
        edges=edges,
        **own,
    )
    assert encoding.needs_causal is hooks.needs_causal is needs_causal


def test_visible_keys_are_neighbors_in_any_mask():
    mask = np.random.default_rng(0).random((40, 7)) < 0.5
    order = visible_together(mask)
    seen = np.take_along_axis(mask, order, axis=1)
    assert all(row.tolist() == sorted(row) for row in np.sort(order, axis=1))
    for row, keys, of_query in zip(seen, order, mask, strict=True):
        assert np.array_equal(keys[row], np.flatnonzero(of_query))
        assert np.ptp(np.flatnonzero(row)) == row.sum() - 1 if row.any() else True


@pytest.mark.parametrize(
    "edges, kernel", [("masked", 3), ("code", 3), ("published", 3), ("published", 5)]
)
def test_neighbors_are_those_that_the_mask_allows(edges, kernel):
    """In all implementations; NumPy takes any mask, SymPy any visible keys."""
    encoding = made("none", kernel, edges=edges, width=2)
    q = normal(1, 3, 7, 2).round(decimals=1)
    padding = torch.tensor([HIDDEN])
    found = torch_steps(q, q, q, encoding, key_padding_mask=padding)
    mask = np.tri(7, dtype=bool) & ~np.array(HIDDEN)
    own = {n.replace(".", "_"): p for n, p in encoding.named_parameters()}
    arrays = {n: p.detach().numpy() for n, p in own.items()}
    hooks = reference.dape(over=None, residual=True, edges=edges, **arrays)
    rows = q[0].numpy()
    expected = steps(rows, rows, rows, hooks, mask=mask)
    weights = found.weights[0].detach().numpy()
    np.testing.assert_allclose(weights, expected.weights, rtol=0, atol=1e-14)
    w_1, w_2 = (arrays[n] for n in ("hidden_weight", "out_weight"))
    symbolic = symbolic_dape(
        over=None,
        residual=True,
        edges=edges,
        hidden_weight=[sp.Matrix(w) for w in w_1],
        hidden_bias=[*map(sp.Float, arrays["hidden_bias"])],
        out_weight=[sp.Matrix(w) for w in w_2],
        out_bias=[*map(sp.Float, arrays["out_bias"])],
    )
    visible = tuple(tuple(map(int, np.flatnonzero(row))) for row in mask)
    exact = tuple(map(sp.Matrix, rows))
    at = tuple(map(sp.Integer, range(7)))
    tokens = symbolic_attention.Tokens(exact, exact, exact, 2, at, visible)
    for logits, of_head in zip(symbolic.logits(tokens), expected.logits, strict=True):
        numbers = np.array(logits.evalf(20), dtype=float)
        np.testing.assert_allclose(numbers[mask], of_head[mask], rtol=0, atol=1e-13)


@over
@kernels
@pytest.mark.parametrize("residual", [True, False])
def test_the_implementations_take_hooks_of_any_bias(over, kernel, residual):
    """Given as hooks, not by name; PyTorch and NumPy agree."""
    encoding = made(over, kernel, residual)
    own = {
        n.replace(".", "_"): p.detach().numpy()
        for n, p in encoding.named_parameters()
        if not n.startswith("over")
    }
    below = encoding.over
    hooks = None
    if below is not None:
        given = {
            n.replace(".", "_"): p.detach().numpy() for n, p in below.named_parameters()
        }
        options = {
            "alibi": {"heads": 3, "slopes": "authors"},
            "alibi, one-sided": {"heads": 4, "slopes": "authors", "sides": "one-sided"},
            "t5": {"bidirectional": True, "distance": 16},
            "fire": {"threshold": 4.0, "activation": "relu", "later": "zero"},
            "kerple_log": {"scaling": "code"},
            "sandwich": {"heads": 3, "width": 8, "index_from": 1, "diagonal": "kept"},
        }[over]
        hooks = getattr(reference, over.partition(",")[0])(**given, **options)
    q = normal(encoding.heads, 6, 4)
    causal = encoding.needs_causal
    taken = reference.dape(over=hooks, **own, residual=residual, edges=KERNELS[kernel])
    expected = attend(*[q.numpy()] * 3, taken, causal=causal)
    found = attend_torch(*[q[None]] * 3, encoding, causal=causal)[0]
    np.testing.assert_allclose(found.detach(), expected, rtol=0, atol=1e-13)


@kernels
def test_a_network_that_says_nothing_leaves_the_bias(kernel):
    encoding = made("alibi", kernel)
    q = normal(2, 3, 6, 4)
    with torch.no_grad():
        encoding.out.weight.zero_()
        encoding.out.bias.zero_()
    found = attend_torch(q, q, q, encoding)
    torch.testing.assert_close(
        found, attend_torch(q, q, q, encoding.over), rtol=0, atol=1e-13
    )
    plain = DAPE(3, over=encoding.over, kernel=1, residual=False).double()
    with torch.no_grad():
        plain.out.weight.zero_()
    found = attend_torch(q, q, q, plain)
    torch.testing.assert_close(found, attend_torch(q, q, q), rtol=0, atol=1e-13)


class Stored(ALiBi):
    """ALiBi as its authors store it: m j, the same for softmax."""

    def bias(self, tokens):
        slopes = -super().bias(tokens)[..., -1:, -2:-1]
        return slopes * tokens.key_positions[:, None, None]


def test_a_bias_that_softmax_cannot_tell_apart_is_told_apart():
    q = normal(2, 3, 6, 4)
    right, stored = ALiBi(3, slopes="authors"), Stored(3, slopes="authors")
    torch.testing.assert_close(
        attend_torch(q, q, q, right),
        attend_torch(q, q, q, stored),
        rtol=0,
        atol=1e-13,
    )
    outs = []
    for below in (right, stored):
        encoding = drawn(DAPE(3, over=below, kernel=1, residual=True, width=4))
        outs.append(attend_torch(q, q, q, encoding))
    assert (outs[0] - outs[1]).abs().max() > 1e-3


@kernels
def test_tiles_are_the_whole(kernel, monkeypatch):
    encoding = made("fire", kernel)
    q = normal(2, 3, 9, 4)

    def run():
        out = attend_torch(q, q, q, encoding)
        return out, *torch.autograd.grad(out.sin().sum(), [*encoding.parameters()])

    whole = run()
    for entries in (40, 10):  # of two queries, and of one that has more than that
        monkeypatch.setattr(dape, "_ENTRIES", entries)
        for one, other in zip(whole, run(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


def test_hidden_units_are_those_of_a_tile():
    """Bytes: S, B, what they add up to, and 2¹⁶ entries of a tile times the width."""
    tokens, width = 512, 64
    encoding = DAPE(
        2, over=ALiBi(2, slopes="authors"), kernel=1, residual=True, width=64
    )
    q = torch.randn(1, 2, tokens, 4)
    most = peak_memory(lambda: attend_torch(q, q, q, encoding).sum().backward(), CPU)
    assert most < 4 * width * tokens**2


def test_a_tile_costs_its_own_gradient_and_no_other(monkeypatch):
    """Else every tile writes zeros for all queries: time with the cube of the length"""
    encoding = made("fire")
    q = normal(2, 3, 32, 4).requires_grad_()

    def bytes_written(tiles):
        monkeypatch.setattr(dape, "_ENTRIES", 2 * 32 * 32 // tiles)
        loss = attend_torch(q, q, q, encoding).sum()
        with torch.profiler.profile(profile_memory=True) as profile:
            loss.backward()
        events = profile.profiler.kineto_results.events()
        return sum(max(0, e.nbytes()) for e in events if e.name() == "[memory]")

    assert bytes_written(tiles=32) < 1.5 * bytes_written(tiles=2)


def test_parameters_are_as_many_as_published():
    encoding = DAPE(12, over=ALiBi(12, slopes="authors"), kernel=1, residual=True)
    assert sum(p.numel() for p in encoding.parameters()) == 1196


@pytest.mark.parametrize(
    "below",
    [
        lambda: FoX(6, 3),
        lambda: CoPE(2, npos=4, scaling="code"),
    ],
    ids=["fox", "cope"],
)
def test_gates_can_stand_below(below):
    """DAPE passes the cached state and the input of the inner encoding on."""
    encoding = drawn(DAPE(3, over=below(), kernel=3, residual=True, edges="masked"))
    assert encoding.needs_causal == encoding.over.needs_causal
    layer = Attention(6, 3, encoding=encoding).double()
    x = normal(2, 5, 6)
    whole, cache = layer(x), KVCache()
    parts = [layer(x[:, r], cache=cache) for r in (slice(2), slice(2, 5))]
    torch.testing.assert_close(whole, torch.cat(parts, 1), rtol=0, atol=1e-12)


def test_what_the_bias_needs_is_asked_for():
    """Its layer, and the layer's input."""
    q = normal(1, 3, 4, 2)
    gated = DAPE(3, over=FoX(6, 3), kernel=1, residual=True).double()
    with pytest.raises(ValueError, match="needs the layer's input"):
        attend_torch(q, q, q, gated)
    counting = DAPE(
        3, over=CoPE(4, npos=4, scaling="code"), kernel=1, residual=True
    ).double()
    with pytest.raises(ValueError, match="made for d = 4, the layer has d = 2"):
        attend_torch(q, q, q, counting)


def options(**changed):
    return {
        "threshold": 4.0,
        "activation": "relu",
        "later": "zero",
    } | changed


W = {
    "hidden_weight": np.ones((2, 4, 1)),
    "hidden_bias": np.ones(2),
    "out_weight": np.ones((2, 2, 1)),
    "out_bias": np.ones(2),
}
BAD = [
    (lambda: FIRE(0, **options()), ValueError, "heads must be a positive"),
    (lambda: FIRE(2, **options(threshold=0)), ValueError, "threshold must be above 0"),
    (lambda: FIRE(2, **options(later="none")), ValueError, "later must be 'distance'"),
    (lambda: FIRE(2, **options(activation="gelu")), ValueError, "activation must be"),
    (lambda: FIRE(2, **options(c=math.inf)), ValueError, "c must be finite"),
    (lambda: FIRE(2, **options(eps=-1.0)), ValueError, "eps must be finite and not"),
    (lambda: FIRE(2, **options(width=0)), ValueError, "width must be a positive"),
    (
        lambda: broken_lines(1.5, *[torch.ones(1)] * 3, leak=0.0),
        TypeError,
        "w_1 must be a torch.Tensor, got float",
    ),
    (
        lambda: broken_lines(*[torch.ones(2)] * 4, leak=0.0),
        ValueError,
        r"w_1, b_1, w_2 and b_2 must be \[width\], \[width\], \[heads, width\]",
    ),
    (
        lambda: reference.dape(
            over=reference.kerple_log(
                log_r1=np.ones(1), log_r2=np.ones(1), scaling="code"
            ),
            **W,
            residual=True,
        ).logits(steps(*[np.ones((2, 3, 4))] * 3).tokens),
        ValueError,
        r"a bias must be one number, \[3, 3\] or \[2, 3, 3\] for 2 heads",
    ),
    (
        lambda: reference.fire_inputs(np.nan, 3, c=1.0, threshold=1.0, later="zero"),
        ValueError,
        "offsets must be finite",
    ),
    (
        lambda: reference.fire(
            c=np.ones(2),
            multiplier=np.ones(1),
            **{n: w[..., 0] for n, w in W.items() if w.ndim == 3},
            **{n: w for n, w in W.items() if w.ndim == 1},
            **options(),
        ),
        ValueError,
        r"must be \[width, 1\], \[width\], \[heads, width\] and \[heads\]",
    ),
    (
        lambda: reference.fire(
            c=np.ones(2),
            multiplier=np.ones(1),
            hidden_weight=np.ones((2, 1)),
            hidden_bias=np.ones(2),
            out_weight=np.ones((3, 2)),
            out_bias=np.ones(3),
            **options(),
        ),
        ValueError,
        r"c must be one number, got shape \[2\]",
    ),
    (
        lambda: DAPE(2, over=None, kernel=2, residual=True),
        ValueError,
        "kernel must be odd, got 2",
    ),
    (
        lambda: DAPE(2, over=None, kernel=3, residual=True),
        ValueError,
        "edges must be 'masked' or 'code' or 'published', got None",
    ),
    (
        lambda: DAPE(2, over=None, kernel=1, residual=True, edges="code"),
        ValueError,
        "a kernel of 1 has no edges",
    ),
    (
        lambda: DAPE(2, over="rope", kernel=1, residual=True),
        ValueError,
        "over must be 'alibi' or",
    ),
    (
        lambda: DAPE(2, over=RoPE(4, layout="half"), kernel=1, residual=True),
        ValueError,
        "over must be a bias, with the hooks scale, fold, bias alone, got RoPE",
    ),
    (
        lambda: DAPE(2, over=Encoding(), kernel=1, residual=True),
        ValueError,
        "got Encoding with none",
    ),
    (
        lambda: DAPE(2, over=ALiBi(3, slopes="authors"), kernel=1, residual=True),
        ValueError,
        "over was made for 3 heads, DAPE for 2",
    ),
    (
        lambda: DAPE(2, over=None, kernel=1, residual=True, over_slopes="authors"),
        TypeError,
        "over_slopes: over must be a name",
    ),
    (
        lambda: DAPE(2, over=4, kernel=1, residual=True),
        TypeError,
        "over must be an Encoding, a name or None, got 4",
    ),
    (lambda: reference.dape(over=None, **W, residual=True), ValueError, "with 2 chann"),
    (
        lambda: reference.dape(
            over=Hooks(rotate=lambda q, k, positions: (q, k)), **W, residual=True
        ),
        ValueError,
        "over must be a bias, got hooks that use 'rotate'",
    ),
    (
        lambda: reference.dape(over=None, **W, residual=True, over_heads=2),
        ValueError,
        "with 2 channels",
    ),
    (
        lambda: symbolic_dape(
            over=None,
            hidden_weight=[[[1], [1]]],
            hidden_bias=[0],
            out_weight=[[[1]], [[1]]],
            out_bias=[0, 0],
            residual=1,
        ),
        TypeError,
        "residual must be True or False, got 1",
    ),
]


@pytest.mark.parametrize(("call", "error", "words"), BAD)
def test_bad_input_is_refused(call, error, words, unchecked):
    with pytest.raises(error, match=words):
        call()


def test_fire_takes_a_threshold_beyond_every_exact_integer():
    """The reference refused what the PyTorch module took."""
    given = (np.arange(4.0), np.full(4, 3.0))
    options = {"c": 0.1, "eps": 1e-6, "later": "zero"}
    found = reference.fire_inputs(*given, threshold=1e300, **options)
    expected = np.log1p(0.1 * given[0]) / (np.log1p(0.1 * 1e300) + 1e-6)
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    with pytest.raises(ValueError, match="threshold must be finite, got inf"):
        reference.fire_inputs(*given, threshold=np.inf, **options)
