"""Biases that depend on the offset alone: one row of numbers, by every route."""

from itertools import product

import pytest
import torch

from posedu.torch import (
    FIRE,
    T5,
    ALiBi,
    Attention,
    KERPLELog,
    KERPLEPower,
    KVCache,
    Sandwich,
    Transformer,
    attend,
    toeplitz_bias,
)

pytestmark = pytest.mark.usefixtures("untraced_flex")

DOUBLE = torch.float64
KINDS = {
    "t5": lambda: T5(2, bidirectional=True, table=torch.randn(2, 32)).double(),
    "t5, causal": lambda: T5(2, bidirectional=False, table=torch.randn(2, 32)).double(),
    "alibi, symmetric": lambda: ALiBi(2, slopes="authors", sides="symmetric"),
    "alibi, one-sided": lambda: ALiBi(2, slopes="authors", sides="one-sided"),
    "kerple, log": lambda: KERPLELog(2, scaling="paper").double(),
    "kerple, power": lambda: KERPLEPower(2, scaling="code").double(),
    "sandwich": lambda: Sandwich(2, width=16, index_from=1, diagonal="zero"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("causal", [True, False])
def test_a_layer_is_the_open_form_whatever_the_positions(kind, causal):
    torch.manual_seed(0)
    encoding = KINDS[kind]()
    x = torch.randn(2, 300, 8, dtype=DOUBLE)
    layer = Attention(8, 2, encoding=encoding, causal=causal, route="sdpa").double()
    by_row = layer(x)
    assert (by_row - layer(x, range(7, 307))).abs().max() < 1e-13
    layer.route = "eager"
    assert (by_row - layer(x)).abs().max() < 1e-13


def test_what_follows_a_prefix_is_as_in_one_go():
    torch.manual_seed(0)
    model = Transformer(8, 2, 2, encoding=KINDS["t5, causal"]()).double()
    x = torch.randn(1, 40, 8, dtype=DOUBLE)
    whole, caches = model(x), model.caches()
    parts = [model(part, caches=caches) for part in x.split([20, 13, 6, 1], 1)]
    assert (torch.cat(parts, 1) - whole).abs().max() < 1e-13
    assert all(cache.consecutive for cache in caches)


def test_a_cache_of_other_positions_counts_them():
    torch.manual_seed(0)
    encoding, cache = KINDS["t5, causal"](), KVCache()
    q = torch.randn(1, 2, 6, 4, dtype=DOUBLE)
    attend(*(3 * [q[:, :, :5]]), encoding, positions=[0, 4, 5, 30, 31], cache=cache)
    assert not cache.consecutive
    last = q[:, :, 5:]
    given = attend(last, last, last, encoding, cache=cache, route="sdpa")
    whole = attend(q, q, q, encoding, positions=[0, 4, 5, 30, 31, 5])
    assert (given - whole[:, :, 5:]).abs().max() < 1e-13


@pytest.mark.parametrize("kind", ["t5", "fire"])
def test_a_score_mod_looks_the_same_row_up(kind):
    made = FIRE(2, threshold=9.0, later="distance", activation="relu").double()
    encoding = made if kind == "fire" else KINDS[kind]()
    q = torch.randn(1, 2, 9, 4, dtype=DOUBLE)
    by_flex = attend(q, q, q, encoding, causal=False, route="flex")
    assert (by_flex - attend(q, q, q, encoding, causal=False)).abs().max() < 1e-13


@pytest.mark.parametrize(("queries", "keys"), [(1, 5), (4, 4), (3, 7)])
def test_what_a_compiler_reads_is_the_same_matrix(queries, keys, monkeypatch):
    row = torch.randn(2, queries + keys - 1)
    expected = toeplitz_bias.toeplitz(row, keys)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert torch.equal(toeplitz_bias.toeplitz(row, keys), expected)


SIZES = [(1, 1), (1, 5), (4, 4), (3, 7)]


@pytest.mark.parametrize(
    ("sizes", "both"), [*product(SIZES, (True, False)), ((5, 1), True)]
)
def test_skewing_finds_the_column_of_each_offset(sizes, both):
    queries, keys = sizes
    offsets = torch.arange(keys - 1, -queries if both else -1, -1)
    products = torch.arange(queries)[:, None] * 1000.0 + offsets
    products = products.expand(2, 3, -1, -1).clone().requires_grad_()
    found = toeplitz_bias.skew(products, keys)
    assert found.shape == (2, 3, queries, keys)
    i, j = torch.arange(queries)[:, None], torch.arange(keys)
    offset = keys - queries + i - j
    known = torch.ones_like(offset, dtype=torch.bool) if both else offset >= 0
    assert (found[..., known] == (1000 * i + offset)[known]).all()
    (gradient,) = torch.autograd.grad(found[..., known].sum(), products)
    assert gradient.sum() == found[..., known].numel() and gradient.max() == 1
    assert found.data_ptr() >= products.data_ptr()  # a view


def test_skewing_by_one_more_is_another_table():
    products = torch.arange(5.0).expand(3, 5)
    right = toeplitz_bias.skew(products.clone(), 3)
    wrong = toeplitz_bias.skew(products.roll(1, -1).clone(), 3)
    assert (right == 2 - (torch.arange(3)[:, None] - torch.arange(3))).all()
    assert (right != wrong).any()
