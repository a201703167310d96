"""Transformer-XL, TUPE, DeBERTa: published numbers, loops written out, errors."""

import math

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.book.timing import peak_memory
from posedu.numpy import relative as reference
from posedu.numpy.absolute.sinusoidal import sinusoidal
from posedu.numpy.attention import attend, causal_mask, logits, steps
from posedu.sympy import relative as symbolic
from posedu.torch import TUPE, Attention, DeBERTa, KVCache, TransformerXL, relative
from posedu.torch import attend as attend_torch

pytestmark = pytest.mark.usefixtures("untraced_flex")

DOUBLE = torch.float64
HEADS, D = 2, 4
D_MODEL = HEADS * D


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def drawn(module):
    """A module in float64 whose parameters are of size one."""
    torch.manual_seed(0)
    for p in module.double().parameters():
        torch.nn.init.normal_(p, std=0.7)
    return module


KINDS = {
    "xl": lambda: TransformerXL(D, HEADS, D_MODEL, layout="half"),
    "xl, clamped": lambda: TransformerXL(
        D, HEADS, D_MODEL, layout="interleaved", clamp=3.5
    ),
    "tupe-a": lambda: TUPE(
        D, HEADS, D_MODEL, 40, first_token="numbers", norm=False, relative=False
    ),
    "tupe-r": lambda: TUPE(
        D, HEADS, D_MODEL, 40, first_token="rows", norm=True, relative=True
    ),
    "deberta": lambda: DeBERTa(D, HEADS, D_MODEL, span=4, rows="paper", index="paper"),
    "deberta, wide": lambda: DeBERTa(
        D, HEADS, D_MODEL, span=32, rows="microsoft", index="code", distance=40
    ),
}
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
@pytest.mark.parametrize("causal", [True, False])
def test_positions_that_count_up_are_positions_like_others(kind, causal):
    """The skewed route for 0, 1, 2, … gives what gathering gives for any positions."""
    encoding = drawn(KINDS[kind]())
    q, k, v = (torch.tensor(normal(s, 2, HEADS, 9, D)) for s in range(3))
    gathered = attend_torch(q, k, v, encoding, positions=range(9), causal=causal)
    for route in ("eager", "sdpa", "flex"):
        skewed = attend_torch(q, k, v, encoding, causal=causal, route=route)
        assert (skewed - gathered).abs().max() < 1e-13
    if "tupe" not in kind:
        moved = attend_torch(q, k, v, encoding, positions=range(5, 14), causal=causal)
        assert (moved - gathered).abs().max() < 1e-13


@kinds
def test_gradients_of_both_ways_agree(kind):
    encoding = drawn(KINDS[kind]())
    q, k, v, up = (torch.tensor(normal(s, 1, HEADS, 7, D)) for s in range(4))
    leaves = [q.requires_grad_(), k.requires_grad_(), *encoding.parameters()]
    one, other = (
        torch.autograd.grad(
            attend_torch(q, k, v, encoding, positions=positions, causal=False),
            leaves,
            up,
            allow_unused=True,
        )
        for positions in (None, range(7))
    )
    for a, b in zip(one, other, strict=True):
        assert (a is None and b is None) or (a - b).abs().max() < 1e-12


@kinds
def test_a_prefix_and_single_tokens_are_a_full_run(kind):
    layer = Attention(D_MODEL, HEADS, encoding=drawn(KINDS[kind]())).double()
    x = torch.tensor(normal(0, 2, 12, D_MODEL))
    cache = KVCache()
    with torch.no_grad():
        parts = [layer(part, cache=cache) for part in x.split([5, 4, 1, 1, 1], 1)]
        assert (torch.cat(parts, 1) - layer(x)).abs().max() < 1e-13


WIDE = {
    "xl": lambda: TransformerXL(64, 1, 64, layout="half"),
    "tupe-a": lambda: TUPE(
        64, 1, 64, 1025, first_token="numbers", norm=False, relative=False
    ),
    "deberta": lambda: DeBERTa(64, 1, 64, span=256, rows="paper", index="code"),
}
wide = pytest.mark.parametrize("kind", WIDE)


@wide
def test_no_vector_of_each_query_and_key_is_kept(kind):
    """Ten numbers for each query and key of a head would be less than d."""
    d, n = 64, 256
    layer = Attention(d, 1, encoding=WIDE[kind]())
    x = torch.randn(1, n, d, requires_grad=True)

    def run():
        layer(x).sum().backward()

    assert peak_memory(run, torch.device("cpu")) < 4 * n * n * d / 3


@wide
def test_one_more_token_takes_twice_as_much_behind_twice_as_many(kind):
    """All that grows is a few numbers and vectors for each key."""
    layer, new = Attention(64, 1, encoding=WIDE[kind]()), torch.randn(1, 1, 64)

    def peak(n):
        cache = KVCache()
        layer(torch.randn(1, n, 64), cache=cache)
        return peak_memory(lambda: layer(new, cache=cache), torch.device("cpu"))

    with torch.no_grad():
        assert peak(1024) < 2.1 * peak(512)


# Transformer-XL


def test_the_authors_shift():
    """Columns are distances; entries above the diagonal belong to the next row."""
    twelve = np.arange(1, 13).reshape(3, 4)
    shifted = mutants._shifted(twelve)
    assert shifted.tolist() == [[3, 4, 0, 5], [6, 7, 8, 0], [9, 10, 11, 12]]
    own = torch.tensor(twelve).flatten()[2:].unfold(0, 4, 3)
    assert (own.tril(1) == torch.tensor(shifted).tril(1)).all()


def one_head(queries=5, keys=8, d=4, width=6):
    """q and k of a head, r from the largest distance down, W_R, u and v."""
    r = sinusoidal(np.arange(keys - 1, -1, -1), width, layout="half")
    q, k, w_r = normal(0, queries, d), normal(1, keys, d), normal(2, d, width)
    return q, k, r, w_r, normal(3, d), normal(4, d)


def by_authors(q, k, r, w_r, u, v):
    """Their einsums and their shift, for one head."""
    return (q + u) @ k.T + mutants._shifted((q + v) @ (r @ w_r.T).T)


def our_logits(q, k, r, w_r, u, v):
    """Return the reference's logits of the newest queries, times √d."""
    hooks = reference.transformer_xl(
        global_content=u[None],
        global_position=v[None],
        position_weight=w_r,
        layout="half",
    )
    older = len(k) - len(q)
    every = np.concatenate((np.zeros((older, q.shape[1])), q))
    taken = steps(every[None], k[None], k[None], hooks, mask=causal_mask(len(k)))
    return taken.logits[0, older:] * math.sqrt(q.shape[1])


def seen(queries, keys):
    return np.tril(np.ones((queries, keys), bool), keys - queries)


def test_memory_and_all_are_the_authors_code():
    given = one_head()
    where = seen(5, 8)
    np.testing.assert_allclose(
        our_logits(*given)[where], by_authors(*given)[where], rtol=0, atol=1e-14
    )


def test_the_module_adds_the_authors_terms():
    q, _, r, w_r, u, v = one_head(queries=8)
    encoding = TransformerXL(4, 1, 6, layout="half")
    encoding.global_content.data = torch.tensor(u[None])
    encoding.global_position.data = torch.tensor(v[None])
    encoding.position.weight.data = torch.tensor(w_r)
    q_ = torch.tensor(q)[None, None]
    found = attend_torch_logits(q_, encoding, None)[0].detach().numpy()
    expected = (by_authors(q, q, r, w_r, u, v) - q @ q.T) / math.sqrt(4)
    where = seen(8, 8)
    np.testing.assert_allclose(found[where], expected[where], rtol=0, atol=1e-14)


@pytest.mark.parametrize("version", mutants.TRANSFORMER_XL)
def test_published_slips_are_other_logits(version):
    """The differences are no constants per query, which a softmax would ignore."""
    given = one_head()
    off = np.where(seen(5, 8), version(*given) - our_logits(*given), np.nan)
    assert np.nanmax(off - np.nanmin(off, axis=1, keepdims=True)) > 0.1


def test_one_pair_of_global_vectors_serves_all_layers():
    first = TransformerXL(D, HEADS, D_MODEL, layout="half")
    second = TransformerXL(D, HEADS, D_MODEL, layout="half", shared=first)
    layers = torch.nn.ModuleList(
        Attention(D_MODEL, HEADS, encoding=encoding) for encoding in (first, second)
    )
    names = [n for n, _ in layers.named_parameters() if "global" in n]
    assert len(names) == 2 and second.global_content is first.global_content
    assert second.position.weight is not first.position.weight


def test_far_offsets_count_as_the_clamp():
    encoding = drawn(KINDS["xl, clamped"]())
    near, far = ([0.0, 1.0, 50.0], [0.0, 1.0, 4.5]), ([0.0, 1.0, 50.0], [0.0, 1.0, 4.0])
    q = torch.tensor(normal(0, 1, HEADS, 3, D))
    for (one, other), same in ((near, True), (far, False)):
        outs = [
            attend_torch(q, q, q, encoding, positions=p, causal=False)
            for p in (one, other)
        ]
        assert ((outs[0] - outs[1]).abs().max() < 1e-13) == same


# TUPE


def theirs(table, norm, query, key, relative, heads):
    """The authors' ``forward``, for sequences as long as the table less one row."""
    p = torch.nn.functional.layer_norm(table, table.shape[1:], *norm)
    n = len(table)
    scaling = (2 * table.shape[1] / heads) ** -0.5
    q = torch.nn.functional.linear(p, *query).view(n, heads, -1).transpose(0, 1)
    k = torch.nn.functional.linear(p, *key).view(n, heads, -1).transpose(0, 1)
    bias = (q * scaling) @ k.transpose(1, 2)
    to_others, from_others = bias[:, 0, 0], bias[:, 1, 1]
    bias = bias[:, 1:, 1:].clone()
    bias[:, :, 0] = from_others[:, None]
    bias[:, 0, :] = to_others[:, None]
    at = torch.arange(n - 1)
    bucket = relative_position_bucket(at[None] - at[:, None])
    bucket[:, 0], bucket[0, :] = 32, 16
    return bias + relative[:, bucket]


def relative_position_bucket(relative_position):
    """T5's, in floating point, as the authors have it."""
    n = -relative_position
    later, n = (n < 0).long() * 16, n.abs()
    large = 8 + (torch.log(n.float() / 8) / math.log(128 / 8) * 8).long()
    return later + torch.where(n < 8, n, large.clamp(max=15))


def test_tupe_r_is_the_authors_code():
    encoding = drawn(KINDS["tupe-r"]())
    query, key, norm = encoding.query, encoding.key, encoding.norm
    expected = theirs(
        encoding.table,
        (norm.weight, norm.bias),
        (query.weight, query.bias),
        (key.weight, key.bias),
        encoding.relative,
        HEADS,
    )
    q = torch.zeros(1, HEADS, 40, D, dtype=DOUBLE)
    for positions in (None, range(40)):
        layer = attend_torch_logits(q, encoding, positions)
        assert (layer - expected).abs().max() < 1e-13


def attend_torch_logits(q, encoding, positions):
    """The bias of an encoding for queries and keys q."""
    captured = {}
    bias = encoding.bias
    encoding.bias = lambda tokens: captured.setdefault("bias", bias(tokens))
    attend_torch(q, q, q, encoding, positions=positions, causal=False)
    encoding.bias = bias
    return captured["bias"][0]


def test_tupe_starts_as_bert_does():
    """Normal numbers of deviation 0.02; the statistic's own is 0.02/√(2n)."""
    torch.manual_seed(0)
    made = TUPE(64, 4, 256, 128, first_token="tied", norm=False, relative=False)
    assert TUPE(2, 1, 5, 3, first_token="tied", norm=False, relative=False).table[
        0
    ].shape == (5,)
    for weights in (made.query.weight, made.key.weight, made.table):
        n = weights.numel()
        assert abs(weights.std().item() - 0.02) < 5 * 0.02 / math.sqrt(2 * n)


@pytest.mark.parametrize("kind", ["tupe-a", "tupe-r"])
def test_what_the_first_query_says_of_others_is_one_number(kind):
    """So no softmax notices it: θ₁ has no gradient."""
    encoding = drawn(KINDS[kind]())
    q = torch.tensor(normal(0, 1, HEADS, 6, D))
    bias = attend_torch_logits(q, encoding, None)
    assert (bias[:, 0] - bias[:, 0, :1]).abs().max() == 0
    assert (bias[:, 1:, 0] - bias[:, 1:2, 0]).abs().max() == 0
    assert (bias[:, 1:, 0] - bias[:, 1:, 1]).abs().max() > 0.1
    if kind == "tupe-a":
        out = attend_torch(q, q, q, encoding, causal=False)
        (gradient,) = torch.autograd.grad(out.square().sum(), encoding.first)
        assert gradient[:, 0].abs().max() < 1e-14 < gradient[:, 1].abs().min()


def test_the_maps_of_bert_base_have_as_many_numbers_as_the_paper_says():
    encoding = TUPE(64, 12, 768, 512, first_token="numbers", norm=False, relative=False)
    maps = encoding.query.weight.numel() + encoding.key.weight.numel()
    assert maps == 2 * 768**2 and round(maps / 1e6, 2) == 1.18


# DeBERTa

V3 = dict(span=256, distance=512)
PUBLISHED = {128: 128, 140: 137, 160: 149, 256: 192, 511: 255}


@pytest.mark.parametrize("rows", ["microsoft", "transformers"])
def test_rows_are_the_published_ones(rows):
    distances = np.array([*PUBLISHED])
    found = reference.deberta_rows(distances, rows=rows, **V3)
    assert (found - 256).tolist() == [*PUBLISHED.values()]
    back = reference.deberta_rows(-distances, rows=rows, **V3)
    assert (256 - back).tolist() == [*PUBLISHED.values()]


def test_only_transformers_reads_the_first_row():
    """Microsoft's code clamps the distance first, which ends at row 1."""
    offsets = np.arange(-2000, 2000)
    by_rows = {
        rows: reference.deberta_rows(offsets, rows=rows, **V3)
        for rows in ("microsoft", "transformers")
    }
    assert by_rows["microsoft"].min() == 1 and by_rows["microsoft"].max() == 511
    differing = offsets[by_rows["microsoft"] != by_rows["transformers"]]
    assert differing.max() == -512 and by_rows["transformers"].min() == 0


def test_the_clip_is_not_symmetric():
    """k − 1 shares its row with all beyond, −k with all below, and −k is not k."""
    found = reference.deberta_rows(np.arange(-6, 7), span=4, rows="paper")
    assert found.tolist() == [0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7]
    for version in (mutants.clipped_on_both_sides_alike, mutants.clipped_at_a_constant):
        assert (version(np.arange(-6, 7), 4) != found).any()


def by_microsoft(offset, span, distance):
    """Their ``make_log_bucket_position`` for one offset, in floating point."""
    offset = max(1 - distance, min(offset, distance - 1))
    mid, size = span // 2, abs(offset)
    if size <= mid:
        return offset
    scale = math.log(size / mid) / math.log((distance - 1) / mid) * (mid - 1)
    return int(math.copysign(math.ceil(scale) + mid, offset))


def test_rows_are_the_authors_where_no_logarithm_is_whole():
    offsets = range(-700, 700)
    found = reference.deberta_rows(np.array(offsets), rows="microsoft", **V3)
    expected = [256 + by_microsoft(t, **V3) for t in offsets]
    assert found.tolist() == expected


@given(
    st.integers(2, 12),
    st.integers(2, 300),
    st.sampled_from(["paper", "microsoft", "transformers"]),
    st.integers(0, 2**31),
)
def test_rows_of_all_implementations_are_exact(half, beyond, rows, seed):
    options = dict(span=2 * half, rows=rows, distance=half + beyond)
    offsets = np.random.default_rng(seed).integers(-2 * beyond, 2 * beyond, 12)
    offsets = [*offsets.tolist(), half, -half, half + beyond - 1, -half - beyond, 0.5]
    found = reference.deberta_rows(np.array(offsets), **options)
    fast = relative.deberta_rows(torch.tensor(offsets), **options)
    assert fast.tolist() == found.tolist()
    exact = [symbolic.deberta_row(sp.Rational(t), **options) for t in offsets]
    assert exact == found.tolist()


def test_whole_logarithms_are_not_rounded_up():
    """Ratios that are powers: the distances m r^t are the last of their rows."""
    for ratio, power in ((2, 3), (3, 2), (10, 2), (5, 4)):
        m = power + 1
        options = dict(span=2 * m, rows="microsoft", distance=m * ratio**power + 1)
        ends = np.array([m * ratio**t for t in range(power + 1)])
        for offset, expected in ((ends, m), (ends + 1, m + 1)):
            wanted = np.minimum(expected + np.arange(power + 1), 2 * m - 1) + 2 * m
            found = reference.deberta_rows(offset, **options)
            fast = relative.deberta_rows(torch.tensor(offset), **options)
            assert found.tolist() == fast.tolist() == wanted.tolist()


def test_offsets_just_after_a_row_are_not_in_it():
    """They lie 1e-9 of a row behind it; a tolerance of PyTorch's moved them."""
    for span, distance, offset, row in ((74, 10782, 4902, 143), (18, 18473, 7120, 35)):
        options = dict(span=span, rows="microsoft", distance=distance)
        assert symbolic.deberta_row(sp.Integer(offset), **options) == row
        assert reference.deberta_rows(np.array([offset]), **options) == row
        assert relative.deberta_rows(torch.tensor([offset]), **options) == row


def parts_of(encoding, index="paper"):
    given = {
        name.replace(".", "_"): p.detach().numpy()
        for name, p in encoding.named_parameters()
    }
    return reference.deberta(rows="paper", index=index, **given)


def test_the_paper_s_index_and_the_code_s_are_other_functions():
    """No change of parameters maps one to the other: both terms use the same table."""
    encoding = drawn(KINDS["deberta"]())
    q, k = normal(0, HEADS, 6, D), normal(1, HEADS, 6, D)
    outs = [
        attend(q, k, q, parts_of(encoding, i), causal=False) for i in ("paper", "code")
    ]
    assert np.abs(outs[0] - outs[1]).max() > 0.1


def test_a_key_bias_of_the_table_would_change_nothing():
    """v2 and v3 have one: it adds q · b to all logits of a query."""
    encoding = drawn(KINDS["deberta"]())
    hooks = parts_of(encoding)
    q, k, v, b = (normal(s, HEADS, 6, D) for s in range(4))
    taken = steps(q, k, v, hooks)
    more = np.einsum("hid,hd->hi", q, b[:, 0])[..., None]
    np.testing.assert_allclose(
        hooks.weigh(taken.logits + more, taken.tokens), taken.weights, atol=1e-15
    )


@pytest.mark.parametrize("index", ["paper", "code"])
def test_rows_are_in_order_where_the_compiler_is_told_so(index, monkeypatch):
    """Sorted in the wrong direction, they would be other rows."""
    encoding = DeBERTa(D, HEADS, D_MODEL, span=4, rows="paper", index=index)
    q, k, v = (torch.tensor(normal(s, 2, HEADS, 13, D)) for s in range(3))
    plain = attend_torch(q, k, v, drawn(encoding), causal=False)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    compiled = attend_torch(q, k, v, encoding, causal=False)
    assert (compiled - plain).abs().max() < 1e-13


def test_one_table_serves_all_layers():
    sizes = dict(span=4, rows="paper", index="code", norm=True)
    first = DeBERTa(D, HEADS, D_MODEL, **sizes)
    second = DeBERTa(D, HEADS, D_MODEL, **sizes, shared=first)
    assert second.table is first.table and second.norm is first.norm
    assert second.query.weight is not first.query.weight


def test_tied_projections_are_the_layer_s():
    torch.manual_seed(0)
    layer = Attention(D_MODEL, HEADS, encoding=KINDS["deberta"](), bias=True).double()
    own = sum(p.numel() for p in layer.parameters())
    layer.encoding.tie(layer)
    tied = sum(p.numel() for p in layer.parameters())
    assert own - tied == 2 * D_MODEL**2 + D_MODEL
    x = torch.tensor(normal(0, 1, 7, D_MODEL))
    projected = layer.q(layer.encoding.table), layer.k(layer.encoding.table)
    hooks = reference.deberta(
        table=layer.encoding.table.detach().numpy(),
        query_weight=layer.q.weight.detach().numpy(),
        key_weight=layer.k.weight.detach().numpy(),
        query_bias=layer.q.bias.detach().numpy(),
        rows="paper",
        index="paper",
    )
    assert projected[0].shape == (8, D_MODEL)
    q, k, v = (
        m(x)[0].unflatten(-1, (HEADS, D)).transpose(0, 1).detach().numpy()
        for m in (layer.q, layer.k, layer.v)
    )
    expected = attend(q, k, v, hooks)
    found = layer.steps(x)[1].out[0].detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


def test_scales_are_of_two_and_of_three_products():
    """Variance of a sum of independent products of unit numbers: d each."""
    zeros = np.zeros((HEADS * D, D_MODEL))
    table = np.zeros((8, D_MODEL))
    maps = dict(table=table, query_weight=zeros, key_weight=zeros)
    q = normal(0, HEADS, 5, D)
    for hooks, terms in (
        (reference.tupe(first_token="tied", **maps), 2),
        (reference.deberta(rows="paper", index="code", **maps), 3),
    ):
        tokens = steps(q, q, q, hooks).tokens
        expected = q @ q.swapaxes(1, 2) / math.sqrt(terms * D)
        np.testing.assert_allclose(logits(tokens, hooks), expected, rtol=1e-15)


# What is refused

XL = dict(
    global_content=np.zeros((2, 4)),
    global_position=np.zeros((2, 4)),
    position_weight=np.zeros((8, 6)),
    layout="half",
)
MAPS = dict(
    table=np.zeros((8, 6)), query_weight=np.zeros((8, 6)), key_weight=np.zeros((8, 6))
)
A = TUPE(4, 2, 8, 3, first_token="tied", norm=False, relative=False)
BAD = [
    (
        lambda: reference.transformer_xl(**XL | {"global_content": np.zeros((2, 3))}),
        ValueError,
        r"position_weight \[heads · d, d_model\], got shapes \[2, 3\], \[2, 4\] and",
    ),
    (lambda: reference.transformer_xl(**XL, clamp=-1), ValueError, "clamp must be"),
    (
        lambda: reference.transformer_xl(**XL | {"layout": "block"}),
        ValueError,
        "layout must be",
    ),
    (
        lambda: attend(*[normal(0, 3, 4, 4)] * 3, reference.transformer_xl(**XL)),
        ValueError,
        r"must be \[3, 4\] for 3 heads of 4 features, got shape \[2, 4\]",
    ),
    (
        lambda: TransformerXL(4, 2, 7, layout="half"),
        ValueError,
        "d_model must be a positive multiple of 2, got 7",
    ),
    (
        lambda: TransformerXL(4, 2, 8, layout="half", shared=A),
        ValueError,
        "shared must be a TransformerXL of 2 heads of 4 features",
    ),
    (
        lambda: reference.tupe(**MAPS, first_token="numbers"),
        ValueError,
        "first is for first_token='numbers' and needed there",
    ),
    (
        lambda: reference.tupe(**MAPS, first_token="reset"),
        ValueError,
        "first_token must be 'numbers' or 'rows' or 'tied', got 'reset'",
    ),
    (
        lambda: reference.tupe(
            **MAPS | {"table": np.zeros((1, 6))}, first_token="rows"
        ),
        ValueError,
        "with more than 1 rows",
    ),
    (
        lambda: reference.tupe(**MAPS, first_token="tied", norm_weight=np.ones(6)),
        ValueError,
        "norm_weight and norm_bias go together",
    ),
    (
        lambda: attend(
            *[normal(0, 2, 4, 4)] * 3,
            reference.tupe(**MAPS, first_token="numbers", first=np.zeros((3, 2))),
        ),
        ValueError,
        r"must be \[2, 2\] for 2 heads, got shape \[3, 2\]",
    ),
    (
        lambda: reference.tupe(
            **MAPS | {"key_weight": np.zeros((4, 6))}, first_token="tied"
        ),
        ValueError,
        r"must agree in shape, got \[8, 6\] and \[4, 6\]",
    ),
    (
        lambda: attend(
            *[normal(0, 2, 9, 4)] * 3, reference.tupe(**MAPS, first_token="tied")
        ),
        ValueError,
        "below 8, the rows of the table, got 8",
    ),
    (
        lambda: attend_torch(*[torch.zeros(1, 2, 4, 4)] * 3, A),
        ValueError,
        "below 3, the rows of the table, got 3",
    ),
    (
        lambda: attend_torch(*[torch.zeros(1, 2, 2, 4)] * 3, A, positions=[-1, 0]),
        ValueError,
        "at least 0 and below 3, the rows of the table, got -1",
    ),
    (
        lambda: reference.deberta(**MAPS, rows="code", index="code"),
        ValueError,
        "rows must be 'paper' or 'microsoft' or 'transformers'",
    ),
    (
        lambda: reference.deberta(
            **MAPS | {"table": np.zeros((7, 6))}, rows="paper", index="code"
        ),
        ValueError,
        r"\[2 span, d_model\], two rows at least, got shape \[7, 6\]",
    ),
    (
        lambda: reference.deberta_rows([0], span=4, rows="microsoft", distance=3),
        ValueError,
        "distance must be above 3",
    ),
    (
        lambda: reference.deberta_rows([0], span=2, rows="microsoft"),
        ValueError,
        "span must be at least 4",
    ),
    (
        lambda: reference.deberta_rows([np.inf], span=2, rows="paper"),
        ValueError,
        "offsets must be finite",
    ),
    (
        lambda: DeBERTa(4, 2, 8, span=4, rows="paper", index="both"),
        ValueError,
        "index must be 'paper' or 'code'",
    ),
    (
        lambda: DeBERTa(4, 2, 8, span=4, rows="paper", index="code").tie(A),
        TypeError,
        "layer must be an Attention, got TUPE",
    ),
    (
        lambda: DeBERTa(4, 2, 8, span=4, rows="paper", index="code").tie(
            Attention(8, 2, kv_heads=1)
        ),
        ValueError,
        r"must be \[8, 8\], \[heads · d, d_model\], got \[4, 8\]",
    ),
    (
        lambda: DeBERTa(
            *(4, 2, 8),
            span=4,
            rows="paper",
            index="code",
            shared=DeBERTa(4, 2, 8, span=5, rows="paper", index="code"),
        ),
        ValueError,
        "shared must be a DeBERTa of span 4 and width 8, without a norm",
    ),
]


@pytest.mark.parametrize(("call", "error", "words"), BAD)
def test_bad_input_is_refused(call, error, words, unchecked):
    with pytest.raises(error, match=words):
        call()
