"""Learned absolute embeddings: properties, numbers, implementations, errors."""

import builtins
import copy
import itertools
import math
import tomllib

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import absolute
from posedu.numpy.attention import Hooks, Projections, stack
from posedu.sympy import absolute as symbolic
from posedu.sympy.attention import Hooks as ExactHooks
from posedu.sympy.attention import stack as exact_stack
from posedu.torch import (
    BERTInput,
    Learned,
    LearnedPerLayer,
    Random,
    Sinusoidal,
    Transformer,
)
from posedu.torch.absolute import learned as learned_module
from support import ROOT, bounds

ENDS = ("raise", "zero", "clip")
MAKERS = {
    "learned": lambda n=5, d=4, **o: Learned(d, n, **(dict(beyond="raise") | o)),
    "per layer": lambda n=5, d=4, **o: LearnedPerLayer(
        d, n, **(dict(beyond="raise") | o)
    ),
    "random": lambda n=5, d=4, **o: Random(d, n, **o),
}


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def numbers(module):
    return module.table.detach().double().numpy()


# Properties


@given(
    st.integers(1, 9), st.lists(st.floats(-20, 20), max_size=6), st.sampled_from(ENDS)
)
def test_a_one_hot_times_a_table_is_a_row(rows, positions, beyond):
    table, at = drawn(0, rows, 3), np.floor(positions)
    outside = (at < 0) | (at >= rows)
    if beyond == "raise" and outside.any():
        with pytest.raises(ValueError, match="the rows of the table"):
            absolute.one_hot(np.array(positions), rows, beyond=beyond)
        return
    hot = absolute.one_hot(np.array(positions), rows, beyond=beyond)
    assert hot.shape == (len(positions), rows)
    assert (hot.sum(-1) == (1 if beyond != "zero" else ~outside)).all()
    nearest = table[np.clip(at, 0, rows - 1).astype(int)]
    expected = nearest if beyond == "clip" else np.where(outside[:, None], 0, nearest)
    np.testing.assert_array_equal(hot @ table, expected)
    for position, row in zip(positions, hot, strict=True):
        exact = symbolic.one_hot(sp.Rational(position), rows, beyond=beyond)
        assert [float(e) for e in exact] == row.tolist()


@pytest.mark.parametrize("positions", [[0, 2, 2], [3]])
def test_a_row_s_gradient_is_the_sum_over_its_tokens(positions):
    module = MAKERS["learned"]().double()
    x = torch.tensor(drawn(1, len(positions), 4), requires_grad=True)
    upstream = torch.tensor(drawn(2, len(positions), 4))
    (module(x, positions) * upstream).sum().backward()
    expected = absolute.one_hot(positions, 5, beyond="raise").T @ upstream.numpy()
    np.testing.assert_allclose(module.table.grad, expected, atol=4 * bounds.U64)
    assert (expected[[n for n in range(5) if n not in positions]] == 0).all()
    torch.testing.assert_close(x.grad, upstream, rtol=0, atol=0)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_rows_that_no_gradient_reaches_stay_or_decay(optimizer, decay):
    torch.manual_seed(0)
    module = Learned(4, 8, beyond="raise", std=1.0).double()
    start, steps, rate = numbers(module).copy(), 20, 0.05
    steps_of = optimizer(module.parameters(), lr=rate, weight_decay=decay)
    for _ in range(steps):
        steps_of.zero_grad()
        module(torch.randn(3, 4).double(), range(3)).square().sum().backward()
        steps_of.step()
    kept = start[3:] * (1 - rate * decay) ** steps
    np.testing.assert_allclose(numbers(module)[3:], kept, rtol=2 * steps * 2.2e-16)
    assert np.abs(numbers(module)[:3] - start[:3]).min() > 1e-3


@given(st.permutations(range(5)), st.integers(0, 99))
def test_rows_have_no_order(order, seed):
    """Permuting the rows and the position numbers alike changes nothing."""
    table, x = drawn(seed, 5, 3), drawn(seed + 1, 5, 3)
    options = dict(beyond="raise")
    expected = absolute.embed_learned(x, order, table=table, **options)
    found = absolute.embed_learned(x, range(5), table=table[list(order)], **options)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_sinusoids_are_a_table(layout):
    x = drawn(0, 6, 8)
    table = absolute.sinusoidal(range(9), 8, layout=layout)
    found = absolute.embed_learned(x, range(2, 8), table=table, beyond="raise")
    expected = absolute.embed_sinusoidal(x, range(2, 8), layout=layout)
    np.testing.assert_allclose(found, expected, rtol=0, atol=0)
    frozen = Learned(8, 9, beyond="raise", table=torch.tensor(table))
    module, given_x = Sinusoidal(8, layout=layout), torch.tensor(x)
    fast = module(given_x, range(2, 8))
    torch.testing.assert_close(frozen(given_x, range(2, 8)), fast, rtol=0, atol=1e-14)


@given(st.integers(1, 6), st.integers(2, 40))
def test_moments_on_the_sphere(k, d):
    """Compare with the product formula, and with the moments of normal numbers."""
    exact = symbolic.sphere_moment(k, sp.Integer(d))
    odd = math.prod(range(1, 2 * k, 2))
    assert exact == sp.Rational(odd, math.prod(d + 2 * n for n in range(k)))
    chi = sp.Integer(2) ** k * sp.gamma(sp.Rational(d, 2) + k)
    assert sp.simplify(exact * chi / sp.gamma(sp.Rational(d, 2)) - odd) == 0


def test_cosines_of_random_rows_stay_within_the_bound():
    """At most 12 of 300 tables have a pair outside the bound for a probability of 1 %.

    If the bound were tight, more than 12 would have one in 1 of 10⁴ cases (a binomial
    tail).
    """
    n, d = 24, 40
    limit = math.sqrt(2 * math.log(n * (n - 1) / 0.01) / d)
    assert absolute.cosine_bound(limit, rows=n, d=d) == pytest.approx(0.01)
    outside = 0
    for seed in range(300):
        table = absolute.random_table(n, d, std=3.0, seed=seed)
        unit = table / np.linalg.norm(table, axis=1, keepdims=True)
        outside += np.abs(unit @ unit.T - np.eye(n)).max() >= limit
    assert outside <= 12
    assert absolute.cosine_bound(0.0, rows=n, d=d) == n * (n - 1)
    assert absolute.cosine_bound(0.1, rows=1, d=d) == 0


def test_random_rows_have_the_deviation_that_is_asked_for():
    """Compare the deviation of 2¹⁶ numbers, to within 5 standard errors of 1/√(2n)."""
    for table in (
        absolute.random_table(256, 256, std=0.3, seed=1),
        numbers(Random(256, 256, std=0.3, seed=1)),
    ):
        assert abs(table.std() / 0.3 - 1) < 5 / math.sqrt(2 * table.size)
        assert abs(table.mean()) < 5 * 0.3 / math.sqrt(table.size)
    torch.manual_seed(0)
    learned = numbers(Learned(256, 256, beyond="raise"))
    assert abs(learned.std() / 0.02 - 1) < 5 / math.sqrt(2 * learned.size)


# Layers


def layer(seed, d=3):
    q, k, v, o = drawn(seed, 4, 1, d, d)
    w = drawn(seed + 1, d, d)
    return Projections(q, k, v, o.transpose(1, 0, 2)), lambda x: np.tanh(x) @ w


def per_layer(tables):
    def hooks(table):
        return Hooks(
            enter=lambda x, at: absolute.enter_learned(
                x, at, table=table, beyond="raise"
            )
        )

    return [hooks(table) for table in tables]


def test_per_layer_with_one_table_is_learned_absolute():
    layers, table, x = [layer(0), layer(5)], drawn(9, 4, 3), drawn(8, 4, 3)
    once = Hooks(
        embed=lambda x, at: absolute.embed_learned(x, at, table=table, beyond="raise")
    )
    expected = stack(x, layers, hooks=once)
    found = stack(x, layers, hooks=per_layer((table, np.zeros((4, 3)))))
    np.testing.assert_array_equal(found, expected)
    other = stack(x, layers, hooks=per_layer((table, table)))
    assert np.abs(other - expected).max() > 0.1


def test_modules_of_a_model_add_their_tables_where_layers_begin():
    torch.manual_seed(0)
    tables = [LearnedPerLayer(4, 6, beyond="raise", std=1.0) for _ in range(2)]
    model = Transformer(4, 2, 2, encoding=tables).double()
    seen = []
    for block in model.blocks:
        block.before_attention.register_forward_pre_hook(
            lambda _, given: seen.append(given[0].detach().clone())
        )
        for p in (*block.attention.parameters(), *block.MLP.parameters()):
            torch.nn.init.zeros_(p)
    x = torch.randn(1, 5, 4).double()
    model(x, range(1, 6))
    sums = itertools.accumulate(t.table[1:] for t in tables)
    for stream, total in zip(seen, sums, strict=True):
        torch.testing.assert_close(stream, x + total)


@pytest.mark.parametrize("encoding", MAKERS)
def test_prefix_plus_suffix_is_the_whole(encoding):
    torch.manual_seed(0)
    make = MAKERS[encoding]
    own = [make(9) for _ in range(2)] if encoding == "per layer" else make(9)
    model = Transformer(4, 2, 2, encoding=own).double()
    x = torch.randn(2, 8, 4).double()
    caches = model.caches()
    parts = [model(x[:, s], caches=caches) for s in (slice(5), slice(5, 8))]
    torch.testing.assert_close(torch.cat(parts, 1), model(x), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="the rows of the table, got 9"):
        model(torch.cat((x, x), 1))
    assert all(len(cache) == 8 for cache in caches)


def test_wrong_rows_are_noticed():
    table, at = drawn(0, 6, 3), [3, 4, 5]
    expected = absolute.one_hot(at, 6, beyond="raise") @ table
    for rows in (
        mutants.wrapping,
        mutants.gathered_on_a_gpu,
        mutants.counted_from_the_end,
    ):
        np.testing.assert_array_equal(rows(table, at), expected)
    assert np.abs(mutants.counted_from_each_call(table, at) - expected).max() > 0.1
    assert np.abs(mutants.counted_from_the_end(table, [0, 1]) - table[:2]).max() > 0.1
    np.testing.assert_array_equal(mutants.wrapping(table, [-1]), table[-1:])
    for at in ([-1], [6]):
        with pytest.raises(ValueError, match="the rows of the table"):
            absolute.one_hot(at, 6, beyond="raise")
        zero = absolute.one_hot(at, 6, beyond="zero") @ table
        np.testing.assert_array_equal(mutants.gathered_on_a_gpu(table, at), zero)


def test_transformer_xl_s_memory_beyond_the_table_has_its_first_row():
    """mem_transformer.py: ``r_emb[:-qlen]``, padded in front with its own first row.

    With a table of 6 rows, 2 new tokens and a memory of 7, positions count from the end
    of the table: −3 … 3 for the memory, 4 and 5 for the tokens.
    """
    table = drawn(0, 6, 3)
    head, memory, new = table[:-2], 7, 2
    padded = np.concatenate((np.repeat(head[:1], memory - len(head), 0), head))
    at = np.arange(6 - new - memory, 6 - new)
    found = absolute.one_hot(at, 6, beyond="clip") @ table
    np.testing.assert_array_equal(found, padded)


def test_transformer_xl_s_memory_has_a_row_for_each_segment_that_it_saw():
    stream, table = drawn(0, 2, 3), drawn(1, 6, 3)
    held = mutants.added_in_place(stream, table, age=2)
    np.testing.assert_allclose(held, stream + table.reshape(3, 2, 3).sum(0))
    right = absolute.enter_learned(stream, range(2), table=table, beyond="raise")
    assert np.abs(held - right).max() > 0.1
    now = mutants.added_in_place(stream, table, age=0)
    at = [4, 5]
    own = absolute.enter_learned(stream, at, table=table, beyond="raise")
    np.testing.assert_array_equal(now, own)


# BERT's input


def bert(seed=0, segments=2, norm=True):
    torch.manual_seed(seed)
    positions = Learned(4, 6, beyond="raise", std=1.0)
    return BERTInput(positions, segments=segments, norm=norm, std=1.0).double()


def reference_of(module, x, at, kinds):
    own = {"table": numbers(module.positions), "beyond": "raise"}
    if module.norm is not None:
        own["norm_weight"], own["norm_bias"] = (
            t.detach().numpy() for t in (module.norm.weight, module.norm.bias)
        )
    if kinds is not None:
        own |= {
            "segments": kinds.numpy(),
            "segment_table": module.segment_table.detach().numpy(),
        }
    return absolute.embed_bert(x.numpy(), at, **own)


def test_segment_vectors_start_with_the_given_deviation():
    """The deviation of n normal numbers is within 5/√(2n) of it."""
    torch.manual_seed(0)
    positions = Learned(4, 6, beyond="raise")
    table = BERTInput(positions, segments=5000, norm=False).segment_table.detach()
    assert abs(table.std() / 0.02 - 1) < 5 / (2 * table.numel()) ** 0.5


@pytest.mark.parametrize("segments", [None, 2])
@pytest.mark.parametrize("norm", [True, False])
def test_bert_s_input(segments, norm):
    module = bert(segments=segments, norm=norm)
    if norm:
        torch.nn.init.normal_(module.norm.weight)
        torch.nn.init.normal_(module.norm.bias)
    x, at = torch.tensor(drawn(0, 2, 3, 4)), [[0, 1, 2], [5, 3, 1]]
    kinds = None if segments is None else torch.tensor([[0, 0, 1], [1, 0, 1]])
    out = module(x, at, kinds)
    expected = reference_of(module, x, at, kinds)
    np.testing.assert_allclose(out.detach(), expected, rtol=0, atol=1e-12)
    by_hand = x + torch.tensor(numbers(module.positions))[torch.tensor(at)]
    if kinds is not None:
        by_hand = by_hand + module.segment_table[kinds]
    if norm:
        by_hand = by_hand - by_hand.mean(-1, keepdim=True)
        by_hand = by_hand / (by_hand.square().mean(-1, keepdim=True) + 1e-12).sqrt()
        by_hand = by_hand * module.norm.weight + module.norm.bias
    torch.testing.assert_close(out, by_hand, rtol=0, atol=1e-12)


def test_the_published_numbers_of_berts_and_robertas_positions():
    """transformers 5.23.0, with word and segment vectors 0 and weights of the norm 1.

    A row (1, 2, 3, 6): mean 3, variance 3.5. RoBERTa gives five tokens, the last two of
    them padding (index 1), the positions 2, 3, 4, 1, 1; OPT one padding and three
    tokens the positions 1, 2, 3, 4 of its table.
    """
    positions = Learned(4, 1, beyond="raise", table=torch.tensor([[1.0, 2, 3, 6]]))
    out = BERTInput(positions, segments=None, norm=True)(torch.zeros(1, 4), [0])
    expected = np.array([-2, -1, 0, 3]) / math.sqrt(3.5)
    np.testing.assert_allclose(out.detach()[0], expected, rtol=1e-6)
    table = drawn(0, 8, 3)
    for at in ([2, 3, 4, 1, 1], [1, 2, 3, 4]):
        found = absolute.one_hot(at, 8, beyond="raise") @ table
        np.testing.assert_array_equal(found, table[at])


# The modules


@pytest.mark.parametrize("encoding", MAKERS)
def test_ranges_lists_and_tensors_are_the_same_positions(encoding):
    module = MAKERS[encoding]().double()
    x = torch.tensor(drawn(0, 2, 3, 4))
    out = module(x, range(1, 4))
    for at in ([1, 2, 3], torch.tensor([1, 2, 3]), torch.tensor([[1.5, 2.0, 3.9]] * 2)):
        torch.testing.assert_close(module(x, at), out, rtol=0, atol=0)
    torch.testing.assert_close(
        module.vectors(range(1, 4), dtype=torch.float64), module.table[1:4].double()
    )
    assert module.vectors([4, 0]).dtype == torch.float32
    own = module(x, [[0, 1, 2], [2, 1, 0]])
    torch.testing.assert_close(own[1].flip(0) - x[1].flip(0), own[0] - x[0])
    for tokens in (0, 1):
        assert module(torch.ones(tokens, 4), range(tokens)).shape == (tokens, 4)


def test_a_position_just_before_the_table_is_not_in_it():
    """It is rounded down, to −1, and not toward zero."""
    module = Learned(4, 5, beyond="zero")
    assert not module.vectors([-0.5]).any() and module.vectors([0.5]).all()
    np.testing.assert_array_equal(absolute.one_hot([-0.5], 5, beyond="zero"), 0.0)
    with pytest.raises(ValueError, match=r"-0\.5"):
        Learned(4, 5, beyond="raise").vectors([-0.5])


def test_random_tables_are_kept_and_not_trained():
    state = torch.get_rng_state()
    module, same, other = (Random(4, 5, seed=s) for s in (3, 3, 4))
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(module.table, same.table)
    assert not torch.equal(module.table, other.table)
    assert list(module.parameters()) == [] and "table" in module.state_dict()
    assert abs(Random(50, 400).table.std() - 1) < 5 / math.sqrt(2 * 50 * 400)
    most = torch.finfo(torch.float32).max / 16
    assert Random(4, 5, std=most).table.isfinite().all()
    assert torch.equal(copy.deepcopy(module).table, module.table)
    assert module.half().table.dtype == torch.float16


def test_repr_says_the_conventions():
    assert repr(MAKERS["learned"]()) == "Learned(4, 5 tokens, beyond='raise')"
    assert "beyond='clip'" in repr(MAKERS["per layer"](beyond="clip"))


def test_symbols_in_layers_that_forget():
    """An MLP takes position out of the stream; a layer's own table is there."""
    p, r = sp.symbols("p0:2"), sp.symbols("r0:2")
    x = sp.Matrix([[sp.Symbol("a"), 0], [sp.Symbol("b"), 0]])
    silent = [[sp.zeros(2)]] * 3, sp.zeros(2)

    def forget(stream):
        return -stream * sp.diag(0, 1)

    def hooks(row):
        table = [[0, t] for t in row]

        def enter(x, at):
            return sp.Matrix.vstack(
                *(
                    symbolic.enter_learned(x[n, :].T, t, table=table, beyond="raise").T
                    for n, t in enumerate(at)
                )
            )

        return ExactHooks(enter=enter)

    layers = [(*silent, forget), (*silent, lambda stream: sp.zeros(2))]
    out = exact_stack(x, layers, hooks=[hooks(p), hooks(r)])
    assert out == x + sp.Matrix([[0, r[0]], [0, r[1]]])


# What is refused

X4 = np.ones((3, 4))
T4 = dict(table=np.ones((5, 4)), beyond="raise")


def test_positions_of_a_list_are_put_where_the_table_is(monkeypatch):
    made = []
    monkeypatch.setattr(
        learned_module,
        "from_list",
        lambda p, device: made.append(device) or torch.tensor(p),
    )
    module = Random(4, 5)
    module.vectors([0, 1])
    module.vectors([0, 1], device="cpu:0")
    assert made == [module.table.device, "cpu:0"]


REFUSED = {
    "before the first row": (
        lambda: Random(4, 5)(torch.zeros(2, 4), torch.tensor([-1, 0])),
        ValueError,
        "at least 0 and below 5, .* got -1",
    ),
    "beyond": (lambda: Learned(4, 5, beyond="wrap"), ValueError, "beyond must be 'rai"),
    "no rows": (lambda: Learned(4, 0, beyond="zero"), ValueError, "tokens must be a"),
    "no features": (lambda: Random(0, 4), ValueError, "d_model must be a positive"),
    "std": (lambda: Learned(4, 5, beyond="zero", std=-1.0), ValueError, "std must be"),
    "std of random": (
        lambda: Random(4, 5, std=math.inf),
        ValueError,
        "std must be fin",
    ),
    "seed": (lambda: Random(4, 5, seed=-1), ValueError, "seed must be at least 0"),
    "seed of letters": (
        lambda: Random(4, 5, seed="1"),
        TypeError,
        "seed must be an int",
    ),
    "another table": (
        lambda: Learned(4, 5, beyond="zero", table=torch.ones(4, 5)),
        ValueError,
        r"table must be \[5, 4\], got shape \[4, 5\]",
    ),
    "not finite": (
        lambda: Learned(1, 1, beyond="zero", table=torch.tensor([[math.nan]])),
        ValueError,
        "table must be finite",
    ),
    "past a range": (
        lambda: MAKERS["learned"]()(torch.ones(3, 4), range(3, 6)),
        ValueError,
        "positions must be at least 0 and below 5, the rows of the table, got 5",
    ),
    "before a range": (
        lambda: MAKERS["random"]()(torch.ones(2, 4), range(0, -2, -1)),
        ValueError,
        "got -1",
    ),
    "past a tensor": (
        lambda: MAKERS["per layer"]()(torch.ones(1, 4), torch.tensor([7])),
        ValueError,
        "got 7",
    ),
    "width": (
        lambda: MAKERS["learned"]()(torch.ones(3, 6), range(3)),
        ValueError,
        r"x must be \[..., tokens, 4\], got shape \[3, 6\]",
    ),
    "half positions": (
        lambda: MAKERS["learned"]()(torch.ones(3, 4), torch.zeros(3).half()),
        TypeError,
        "positions are torch.float16",
    ),
    "dtype": (
        lambda: MAKERS["learned"]().vectors(range(2), dtype=torch.int64),
        TypeError,
        "dtype must hold floats",
    ),
    "two coordinates": (
        lambda: MAKERS["learned"]()(torch.ones(3, 4), torch.zeros(3, 2)),
        ValueError,
        "positions must be",
    ),
    "reference: a row": (
        lambda: absolute.embed_learned(X4, [0, 1, 5], **T4),
        ValueError,
        "positions must be at least 0 and below 5, the rows of the table, got 5",
    ),
    "reference: width": (
        lambda: absolute.embed_random(np.ones((3, 2)), range(3), table=T4["table"]),
        ValueError,
        r"table must be \[rows, 2\] for vectors of 2 features, got shape \[5, 4\]",
    ),
    "reference: not finite": (
        lambda: absolute.embed_random(X4, range(3), table=np.full((3, 4), np.inf)),
        ValueError,
        "table must be finite",
    ),
    "reference: integers": (
        lambda: absolute.embed_random(X4, range(3), table=np.ones((3, 4), int)),
        TypeError,
        "table must hold floats",
    ),
    "reference: no row": (
        lambda: absolute.enter_learned(
            X4, range(3), **(T4 | {"table": np.ones((0, 4))})
        ),
        ValueError,
        r"table must be \[rows, 4\]",
    ),
    "reference: rows": (
        lambda: absolute.one_hot([0], 0, beyond="zero"),
        ValueError,
        "rows must be a positive multiple of 1",
    ),
    "reference: not a number": (
        lambda: absolute.one_hot([math.nan], 3, beyond="zero"),
        ValueError,
        "positions must be finite",
    ),
    "exact: a row": (
        lambda: symbolic.one_hot(3, 3, beyond="raise"),
        ValueError,
        "positions must be at least 0 and below 3, the rows of the table, got 3",
    ),
    "bert: a table": (
        lambda: BERTInput(MAKERS["per layer"](), segments=2, norm=True),
        TypeError,
        "positions must be a Learned module, got LearnedPerLayer",
    ),
    "bert: norm": (
        lambda: BERTInput(MAKERS["learned"](), segments=2, norm=1),
        TypeError,
        "norm must be True or False",
    ),
    "bert: epsilon": (
        lambda: BERTInput(MAKERS["learned"](), segments=2, norm=True, epsilon=0),
        ValueError,
        "epsilon must be above 0",
    ),
    "bert: no segments": (
        lambda: bert()(torch.ones(3, 4).double(), range(3)),
        ValueError,
        "segments must be given for a model with 2 segment",
    ),
    "bert: too many segments": (
        lambda: bert(segments=None)(torch.ones(1, 4).double(), [0], torch.tensor([0])),
        ValueError,
        "segments must be None for a model with no segment",
    ),
    "bert: a segment": (
        lambda: bert()(torch.ones(1, 4).double(), [0], torch.tensor([2])),
        ValueError,
        "segments must be at least 0 and below 2",
    ),
    "bert: real segments": (
        lambda: bert()(torch.ones(1, 4).double(), [0], torch.tensor([0.0])),
        TypeError,
        "segments must be integers, got torch.float32",
    ),
    "bert: a list": (
        lambda: bert()(torch.ones(1, 4).double(), [0], [0]),
        TypeError,
        "segments must be a torch.Tensor",
    ),
    "bert: shape": (
        lambda: bert()(torch.ones(2, 4).double(), [0, 1], torch.tensor([0])),
        ValueError,
        r"segments must be \[2\], one for each token, got shape \[1\]",
    ),
    "reference: one of two": (
        lambda: absolute.embed_bert(X4, range(3), segments=np.zeros(3, int), **T4),
        ValueError,
        "segments and segment_table go together",
    ),
    "reference: a segment": (
        lambda: absolute.embed_bert(
            X4, range(3), segments=np.full(3, -1), segment_table=np.ones((2, 4)), **T4
        ),
        ValueError,
        "segments must be at least 0 and below 2",
    ),
    "reference: real segments": (
        lambda: absolute.embed_bert(
            X4, range(3), segments=np.zeros(3), segment_table=np.ones((2, 4)), **T4
        ),
        TypeError,
        "segments must be integers, got dtype float64",
    ),
    "reference: shape": (
        lambda: absolute.embed_bert(
            X4, range(3), segments=np.zeros(2, int), segment_table=np.ones((2, 4)), **T4
        ),
        ValueError,
        r"segments must be \[3\], one for each token, got shape \[2\]",
    ),
    "reference: norm": (
        lambda: absolute.embed_bert(X4, range(3), norm_weight=np.ones(4), **T4),
        ValueError,
        "norm_weight and norm_bias go together",
    ),
    "bound": (
        lambda: absolute.cosine_bound(-0.1, rows=2, d=3),
        ValueError,
        "epsilon must be finite and not negative",
    ),
    "reference: seed": (
        lambda: absolute.random_table(2, 3, std=1.0, seed=True),
        TypeError,
        "seed must be an integer",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        call()


# --- What published code does beyond the last row

ROWS = tomllib.loads((ROOT / "book/data/rows.toml").read_text("utf-8"))


def test_each_code_says_what_it_does_and_how_that_was_found():
    for row in ROWS["code"]:
        assert {*row} - {"error"} == {"library", "version", "code", "does", "how"}
        assert row["how"] in ("run", "read")
        assert issubclass(getattr(builtins, row.get("error", "ValueError")), Exception)


SIZES = {
    "GPT2": {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 8},
    "OPT": {"ffn_dim": 16, "word_embed_proj_dim": 16},
    "BERT": {},
    "RoBERTa": {},
}


@pytest.mark.parametrize("name", SIZES)
def test_transformers_does_what_the_data_say(name):
    transformers = pytest.importorskip("transformers")
    usual = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": 8,
    }
    own = SIZES[name] if name == "GPT2" else usual | SIZES[name]
    of = {"GPT2": "GPT2", "OPT": "OPT", "BERT": "Bert", "RoBERTa": "Roberta"}[name]
    config = getattr(transformers, f"{of}Config")(vocab_size=50, **own)
    model = getattr(transformers, f"{of}Model")(config)
    [row] = [r for r in ROWS["code"] if name in r["code"].replace("GPT-2", "GPT2")]
    with pytest.raises(getattr(builtins, row["error"])):
        model(torch.arange(5, 17)[None])
