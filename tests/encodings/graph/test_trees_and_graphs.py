"""Algebraic, Laplacian and random-walk encodings: properties, implementations, errors.

The bounds count roundings: a product of two orthogonal b × b matrices is off by at most
b u in an entry, whose rows and columns have length 1, beside the errors of its factors.
"""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.csgraph
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posedu.numpy import graph, rotary
from posedu.numpy.graph.adjacency import inverse_degrees
from posedu.sympy import graph as symbolic
from posedu.torch import Algebraic, Attention, KVCache, Laplacian, RandomWalk
from posedu.torch import graph as of_torch
from support import bounds

U = bounds.U64
seeds = st.integers(0, 2**32 - 1)
words = st.lists(st.integers(0, 1), max_size=4)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def generators(seed, branches=2, block=3):
    entries = normal(seed, branches, 1, block * (block - 1) // 2)
    return rotary.skew(entries)


def operator(word, a, depth=12):
    at = graph.tree_positions([word], branches=len(a), depth=depth)
    return graph.path_rotations(at, a)[0, 0]


def product_error(a, steps):
    """Bound the error of a product of ``steps`` rotations exp(A), or exp(0) = I."""
    size = np.linalg.norm(a, axis=(-2, -1)).max()
    return steps * (bounds.rotation(size, a.shape[-1]) + a.shape[-1] * U)


def cycle(n):
    return np.roll(np.eye(n), 1, 0) + np.roll(np.eye(n), -1, 0)


def path(n):
    return np.eye(n, k=1) + np.eye(n, k=-1)


def random_graph(seed, n=9):
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < 0.4, 1)
    return (upper + upper.T).astype(float)


def from_edges(nodes, edges):
    a = np.zeros((nodes, nodes))
    for i, j in edges:
        a[i, j] = a[j, i] = 1
    return a


def rings(bridge):
    """Two rings of six with one shared edge (decalin), or joined by an edge of five.

    The second, bicyclopentyl, has two rings of five.
    """
    n = 6 if bridge == "shared" else 5
    if bridge == "shared":
        ring = [(i, (i + 1) % 10) for i in range(10)]
        return from_edges(10, [*ring, (0, 5)])
    one = [(i, (i + 1) % n) for i in range(n)]
    return from_edges(10, [*one, *((i + 5, j + 5) for i, j in one), (0, 5)])


# Algebraic


@given(words, words, seeds)
def test_a_word_is_the_product_of_its_letters_in_order(first, second, seed):
    a = generators(seed)
    expected = np.eye(3)
    for letter in first + second:
        expected = expected @ scipy.linalg.expm(a[letter, 0])
    # SciPy's exponential: a few units of b u of its norm, as ours.
    atol = 2 * product_error(a, 12)
    np.testing.assert_allclose(operator(first + second, a), expected, atol=atol)
    both = operator(first, a) @ operator(second, a)
    np.testing.assert_allclose(both, expected, atol=atol)


@given(words, words, words, seeds)
def test_a_common_prefix_cancels(prefix, first, second, seed):
    a = generators(seed)
    left, right = (operator(prefix + word, a) for word in (first, second))
    expected = operator(first, a).T @ operator(second, a)
    atol = 4 * product_error(a, 12)
    np.testing.assert_allclose(left.T @ right, expected, rtol=0, atol=atol)


def test_a_common_suffix_does_not_cancel_nor_does_the_reversed_product_its_prefix():
    a = generators(0)
    left, right = (operator(word, a) for word in ([0, 1], [1, 1]))
    without = operator([0], a).T @ operator([1], a)
    assert np.abs(left.T @ right - without).max() > 0.1
    left, right = (operator(word[::-1], a) for word in ([1, 0], [1, 1]))
    assert np.abs(left.T @ right - without).max() > 0.1


@given(words, seeds)
def test_blocks_of_two_only_count_the_branches(word, seed):
    a = generators(seed, block=2)
    atol = 2 * product_error(a, 12)
    once = graph.path_rotations([[word.count(0), word.count(1)]], a)[0, 0]
    np.testing.assert_allclose(operator(word, a), once, rtol=0, atol=atol)


def test_blocks_of_three_tell_the_words_of_up_to_six_letters_apart():
    """Words in two free rotations: by 3-4-5 angles about two axes (Świerczkowski)."""
    turn = np.arccos(3 / 5)
    a = turn * rotary.skew(np.array([[[1.0, 0, 0]], [[0, 0, 1.0]]]))
    every = [[int(c) for c in f"{n:b}"[1:]] for n in range(1, 2**7)]
    found = np.array([operator(word, a, depth=6) for word in every])
    gaps = np.abs(found[:, None] - found).max((-2, -1)) + np.eye(len(every))
    # Entries are multiples of 5⁻⁶, so that different ones differ by as much.
    assert gaps.min() > 5.0**-6 / 2


def test_on_a_line_it_is_rope_and_on_a_grid_axial_rope():
    x, at = normal(0, 5, 8), np.arange(5.0)
    omega = 100.0 ** (-np.arange(4) / 4)
    found = graph.algebraic(x, at[:, None], entries=-omega[None, :, None], block=2)
    expected = rotary.rope(x, at, layout="interleaved", base=100)
    atol = 8 * 4 * U * np.abs(x).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
    points, half = normal(1, 5, 2), 100.0 ** (-np.arange(2) / 2)
    entries = np.zeros((2, 4, 1))
    entries[0, :2, 0] = entries[1, 2:, 0] = -half
    found = graph.algebraic(x, points, entries=entries, block=2)
    options = dict(order="concatenated", layout="interleaved", base=100)
    expected = rotary.axial(x, points, **options)
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize(("block", "heads"), [(2, None), (3, 2), (6, None)])
def test_the_module_is_the_reference(block, heads):
    torch.manual_seed(0)
    module = Algebraic(6, block=block, branches=3, depth=2, heads=heads).double()
    x, at = normal(0, 2, 2, 5, 6), normal(1, 5, 6)
    entries = module.entries.detach().numpy()
    found = module(torch.tensor(x), torch.tensor(at)).detach().numpy()
    expected = graph.algebraic(x, at, entries=entries, block=block)
    size = np.abs(at).max() * 6
    atol = 6 * np.abs(x).sum(-1).max() * 2 * bounds.rotation(size, block)
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def test_a_row_of_a_symbolic_word_is_that_of_the_reference():
    """Quarter turns, exactly; 48 roundings of entries up to 1."""
    quarter = [[[sp.pi / 2, 0, 0]], [[0, 0, sp.pi / 2]]]
    (exact,) = symbolic.path_rotations(
        [1, 0, 0, 2], [[symbolic_skew(free) for free in blocks] for blocks in quarter]
    )
    a = rotary.skew(np.array(quarter, dtype=float))
    found = graph.path_rotations([[1, 0, 0, 2]], a)[0, 0]
    np.testing.assert_allclose(found, np.array(exact, dtype=float), atol=48 * U)
    with pytest.raises(ValueError, match="whole steps of 2 coordinates, got 3"):
        symbolic.path_rotations([1, 0, 0], [[sp.zeros(3)], [sp.zeros(3)]])


def symbolic_skew(free):
    from posedu.sympy.rotary import skew

    return skew(free)


def test_attention_over_a_tree_sees_no_common_prefix_and_a_cache_continues_it():
    torch.manual_seed(0)
    encoding = Algebraic(8, block=4, depth=4)
    layer = Attention(16, 2, encoding=encoding, causal=True).double()
    x = torch.randn(1, 4, 16, dtype=torch.double)
    short = [[], [0], [1], [0, 1]]
    at, moved = (
        torch.tensor(graph.tree_positions(paths, branches=2, depth=4))
        for paths in (short, [[1, 0, *word] for word in short])
    )
    whole = layer(x, positions=at)
    torch.testing.assert_close(layer(x, positions=moved), whole, rtol=0, atol=1e-12)
    cache = KVCache()
    parts = [
        layer(x[:, s], positions=at[s], cache=cache) for s in (slice(2), slice(2, 4))
    ]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-12)


def test_positions_of_a_tree():
    at = graph.tree_positions([[], [1], [0, 1]], branches=2, depth=2)
    assert at.tolist() == [[0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 1]]
    assert graph.tree_positions([], branches=2, depth=2).shape == (0, 4)
    line = graph.tree_positions([[], [0], [0, 0]], branches=1, depth=2)
    assert line.tolist() == [[0, 0], [1, 0], [1, 1]]


def test_each_text_of_a_batch_has_its_own_positions():
    x, entries = normal(0, 2, 1, 3, 6), normal(1, 2, 2, 3)
    at = np.random.default_rng(2).integers(0, 3, (2, 3, 4))
    options = dict(entries=entries, block=3)
    found = graph.algebraic(x, at, **options)
    alone = [graph.algebraic(x[n], at[n], **options) for n in range(2)]
    np.testing.assert_array_equal(found, alone)


def test_walks_on_each_graph_of_a_batch_are_its_own():
    a = np.random.default_rng(0).integers(0, 3, (4, 5, 5)).astype(float)
    a = torch.tensor(a + a.swapaxes(1, 2))
    alone = torch.stack([of_torch.return_probabilities(one, 3) for one in a])
    assert torch.equal(of_torch.return_probabilities(a, 3), alone)


def test_a_node_without_an_edge_has_the_inverse_degree_0():
    adjacency = np.array([[0.0, 4, 0], [4, 0, 0], [0, 0, 0]])
    assert inverse_degrees(adjacency, 0.5).tolist() == [0.5, 0.5, 0.0]


# Published mistakes


def halved_index(d):
    """The official code's RoPE-like start: exponents −2 ⌊j/2⌋ / (d/2), j = 0, 1, …"""
    return 100.0 ** (-2 * (np.arange(d // 2) // 2) / (d // 2))


def test_the_published_start_has_every_frequency_twice():
    start = halved_index(16)
    rope = 100.0 ** (-np.arange(8) / 8)
    assert len(np.unique(start)) == 4 and len(np.unique(rope)) == 8


# Laplacian


@given(seeds, st.sampled_from(("symmetric", "none")))
def test_eigenvectors_are_those_of_the_laplacian(seed, normalization):
    a = random_graph(seed)
    matrix = graph.laplacian(a, normalization=normalization)
    values, vectors = graph.laplacian_eigenvectors(a, 9, normalization=normalization)
    kept = values > 0
    v, size = vectors[:, kept], np.abs(matrix).sum(1).max()
    # An eigensolver is backward stable: residuals of some n u of the norm.
    atol = 8 * 9 * U * max(size, 1)
    np.testing.assert_allclose(matrix @ v, v * values[kept], rtol=0, atol=9 * atol)
    np.testing.assert_allclose(v.T @ v, np.eye(kept.sum()), rtol=0, atol=8 * 9 * U)
    assert not vectors[:, ~kept].any()
    components = scipy.sparse.csgraph.connected_components(a)[0]
    assert kept.sum() == 9 - components


@pytest.mark.parametrize("normalization", ["symmetric", "none"])
@pytest.mark.parametrize("a", [cycle(4), path(3), from_edges(4, [(0, 1), (0, 2)])])
def test_projectors_are_exact_and_equal_in_all_implementations(a, normalization):
    exact = symbolic.laplacian(a.astype(int).tolist(), normalization=normalization)
    projectors = symbolic.eigenspace_projectors(exact)
    count = len(a)
    values, vectors = graph.laplacian_eigenvectors(
        a, count, normalization=normalization
    )
    t = torch.tensor(a)
    fast = of_torch.laplacian_eigenvectors(t, count, normalization=normalization)
    for of, projector in projectors.items():
        if of == 0:
            continue
        expected = np.array(projector.evalf(20), dtype=float)
        for found, v in ((values, vectors), [part.numpy() for part in fast]):
            here = v[:, np.isclose(found, float(of), rtol=0, atol=1e-12)]
            # n u over the gap, which is above 1/4 here.
            np.testing.assert_allclose(here @ here.T, expected, atol=8 * 4 * 4 * U)
        one = sp.simplify(projector**2 - projector)
        assert one == sp.zeros(count)


@given(seeds)
def test_torch_treats_each_graph_of_a_batch_by_itself(seed):
    a = np.stack([random_graph(seed + n) for n in range(3)])
    values, vectors = of_torch.laplacian_eigenvectors(
        torch.tensor(a), 5, normalization="symmetric"
    )
    for one, found, v in zip(a, values.numpy(), vectors.numpy(), strict=True):
        expected, _ = graph.laplacian_eigenvectors(one, 5, normalization="symmetric")
        np.testing.assert_allclose(found, expected, rtol=0, atol=8 * 9 * U)
        matrix = graph.laplacian(one, normalization="symmetric")
        np.testing.assert_allclose(matrix @ v, v * found, rtol=0, atol=8 * 9 * 9 * U)


def test_a_permuted_path_has_the_same_vectors_but_for_signs_and_a_cycle_has_not():
    order = np.random.default_rng(0).permutation(8)

    def both(a):
        moved = a[np.ix_(order, order)]
        (_, v), (_, w) = (
            graph.laplacian_eigenvectors(m, 2, normalization="none") for m in (a, moved)
        )
        return v[order], w

    v, w = both(path(8))
    np.testing.assert_allclose(np.abs(v), np.abs(w), rtol=0, atol=8 * 64 * U)


def test_no_eigenvectors_of_a_cycle_are_kept_by_its_rotation_but_projectors_are():
    """The rotated cycle is the same matrix, so that its eigenvectors are the same.

    Entries of v are ½ cos(45° i + φ), which no φ makes even under i → i + 1.
    """
    order, a = np.roll(np.arange(8), 1), cycle(8)
    assert np.array_equal(a[np.ix_(order, order)], a)
    _, v = graph.laplacian_eigenvectors(a, 2, normalization="none")
    assert np.abs(np.abs(v[order]) - np.abs(v)).max() > 0.1
    projector = v @ v.T
    moved = projector[np.ix_(order, order)]
    np.testing.assert_allclose(projector, moved, rtol=0, atol=8 * 64 * U)


def test_signs_are_drawn_for_each_graph_and_eigenvector():
    v = torch.ones(64, 3, 5)
    flipped = of_torch.flip_signs(v, generator=torch.Generator().manual_seed(0))
    assert torch.equal(flipped.abs(), v)
    assert torch.equal(flipped[:, :1].expand_as(flipped), flipped)
    assert len(flipped[:, 0].unique(dim=0)) > 16


def test_eigenspaces_are_runs_of_equal_eigenvalues():
    spaces = graph.eigenspaces(np.array([1.0, 1, 2, 5, 5 + 1e-12]), tolerance=1e-9)
    assert spaces.tolist() == [[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 1]]
    assert graph.eigenspaces(np.array([]), tolerance=1e-9).shape == (0, 0)


def test_eig_is_not_orthonormal_where_eigenvalues_repeat():
    off = []
    for n in range(4, 17):
        star = from_edges(n + 1, [(0, j) for j in range(1, n + 1)])
        matrix = graph.laplacian(star, normalization="symmetric")
        wrong = np.linalg.eig(matrix)[1]
        off.append(np.abs(wrong.T @ wrong - np.eye(n + 1)).max())
        _, v = graph.laplacian_eigenvectors(star, n, normalization="symmetric")
        np.testing.assert_allclose(v.T @ v, np.eye(n), rtol=0, atol=8 * (n + 1) * U)
    assert max(off) > 0.01


# Random walks


@given(seeds)
def test_return_probabilities_are_counted_walks(seed):
    a = random_graph(seed, 5)
    degrees = np.maximum(a.sum(1), 1)

    def returns(start, node, steps):
        if steps == 0:
            return float(node == start)
        return sum(
            returns(start, there, steps - 1) / degrees[node]
            for there in np.flatnonzero(a[node])
        )

    expected = [[returns(i, i, t) for t in (1, 2, 3, 4)] for i in range(5)]
    found = graph.return_probabilities(a, 4)
    np.testing.assert_allclose(found, expected, rtol=0, atol=4 * 5 * U)
    fast = of_torch.return_probabilities(torch.tensor(a), 4).numpy()
    np.testing.assert_allclose(fast, expected, rtol=0, atol=4 * 5 * U)
    exact = symbolic.return_probabilities(a.astype(int).tolist(), 4)
    np.testing.assert_allclose(np.array(exact, dtype=float), expected, atol=4 * 5 * U)


@given(seeds)
def test_a_permutation_of_the_nodes_permutes_the_rows(seed):
    a, order = random_graph(seed), np.random.default_rng(seed).permutation(9)
    moved = graph.return_probabilities(a[np.ix_(order, order)], 5)
    expected = graph.return_probabilities(a, 5)[order]
    np.testing.assert_allclose(moved, expected, rtol=0, atol=2 * 5 * 9 * U)


def codes(a, steps):
    return {tuple(row) for row in graph.return_probabilities(a, steps).round(12)}


def test_orbits_have_one_code():
    assert len(codes(cycle(8), 8)) == 1
    assert len(codes(path(8), 8)) == 4


def colors(a, rounds):
    """Colors of Weisfeiler and Leman's refinement, as a multiset of the graph."""
    color = [0] * len(a)
    for _ in range(rounds):
        seen = [
            (color[i], tuple(sorted(color[j] for j in np.flatnonzero(a[i]))))
            for i in range(len(a))
        ]
        color = [hash(one) for one in seen]
    return sorted(color)


def test_walks_differ_where_colors_do_not():
    two = scipy.linalg.block_diag(cycle(3), cycle(3))
    for left, right, at in (
        (cycle(6), two, 3),
        (rings("shared"), rings("bridge"), 5),
    ):
        assert colors(left, 10) == colors(right, 10)
        assert codes(left, at - 1) == codes(right, at - 1)
        assert codes(left, at) != codes(right, at)


# Modules and arguments


@pytest.mark.parametrize(
    "module", [Laplacian(6, eigenvectors=3), RandomWalk(6, steps=3)]
)
def test_rows_of_features_are_projected_and_added(module):
    module = module.double()
    x, at = normal(0, 2, 5, 6), normal(1, 2, 5, 3)
    named = {
        n.replace(".", "_"): p.detach().numpy() for n, p in module.named_parameters()
    }
    expected = x + at @ named["projection_weight"].T + named["projection_bias"]
    for embed in (graph.embed_laplacian, graph.embed_random_walk):
        np.testing.assert_allclose(embed(x, at, **named), expected, rtol=0, atol=1e-14)
    found = module(torch.tensor(x), torch.tensor(at))
    np.testing.assert_allclose(found.detach(), expected, rtol=0, atol=1e-14)
    table = module.table(torch.tensor(at), dtype=torch.float64)
    np.testing.assert_allclose((x + table.detach().numpy()), expected, atol=1e-14)


eye = np.eye(2)
LINEAR = dict(projection_weight=np.ones((4, 3)), projection_bias=np.ones(4))
x = np.ones((2, 4))


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (
            ValueError,
            "must be symmetric: 1 from node 0 to 1, 0 back",
            lambda: graph.laplacian([[0, 1], [0, 0]], normalization="none"),
        ),
        (
            ValueError,
            "finite weights of at least 0",
            lambda: graph.return_probabilities(-eye, 3),
        ),
        (
            ValueError,
            r"must be \[nodes, nodes\], got shape \[2, 3\]",
            lambda: graph.return_probabilities(np.ones((2, 3)), 3),
        ),
        (
            TypeError,
            "must hold real numbers",
            lambda: graph.return_probabilities(np.array([["a"]]), 3),
        ),
        (
            ValueError,
            "normalization must be",
            lambda: graph.laplacian(eye, normalization="random"),
        ),
        (
            ValueError,
            "depth must be at least 3 for the path",
            lambda: graph.tree_positions([[0, 0, 1]], branches=2, depth=2),
        ),
        (
            ValueError,
            "a branch must be below branches = 2, got 2",
            lambda: graph.tree_positions([[2]], branches=2, depth=2),
        ),
        (
            ValueError,
            r"positions must be \[..., tokens, steps · 2\]",
            lambda: graph.path_rotations(np.ones((3, 3)), generators(0)),
        ),
        (
            ValueError,
            "projection_weight and projection_bias must be",
            lambda: graph.embed_laplacian(
                x, x[:, :3], **LINEAR | {"projection_bias": np.ones(3)}
            ),
        ),
        (
            ValueError,
            "projection_weight and projection_bias must be",
            lambda: graph.embed_random_walk(np.ones((2, 5)), x[:, :3], **LINEAR),
        ),
        (
            ValueError,
            r"positions must be \[tokens, 3\]",
            lambda: graph.embed_laplacian(x, x, **LINEAR),
        ),
        (
            ValueError,
            r"positions must be \[..., tokens, 3\], got a range",
            lambda: RandomWalk(4, steps=3).table(range(3)),
        ),
        (
            ValueError,
            r"x must be \[..., tokens, 4\]",
            lambda: RandomWalk(4, steps=3)(torch.ones(2, 5), torch.ones(2, 3)),
        ),
        (
            ValueError,
            "adjacency must be symmetric: A = Aᵀ",
            lambda: of_torch.return_probabilities(torch.tensor([[0.0, 1], [0, 0]]), 2),
        ),
        (
            ValueError,
            "finite weights of at least 0",
            lambda: of_torch.return_probabilities(-torch.eye(2), 2),
        ),
        (
            ValueError,
            r"adjacency must be \[..., nodes, nodes\]",
            lambda: of_torch.return_probabilities(torch.ones(2), 2),
        ),
        (
            ValueError,
            r"positions must be \[..., tokens, steps · 2\]",
            lambda: graph.path_rotations(range(4), rotary.skew(np.ones((2, 1, 1)))),
        ),
        (
            ValueError,
            "block must be at least 2",
            lambda: Algebraic(4, block=1, depth=1),
        ),
        (ValueError, "depth must be", lambda: Algebraic(4, block=2, depth=0)),
        (
            ValueError,
            "square and symmetric",
            lambda: symbolic.return_probabilities([[0, 1], [0, 0]], 2),
        ),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_errors(error, message, call):
    with pytest.raises(error, match=message):
        call()


@settings(max_examples=5)
@given(st.integers(0, 4))
def test_graphs_of_few_nodes(n):
    a = np.zeros((n, n))
    assert graph.return_probabilities(a, 3).shape == (n, 3)
    for kind in ("symmetric", "none"):
        values, v = graph.laplacian_eigenvectors(a, 2, normalization=kind)
        assert not values.any() and v.shape == (n, 2) and not v.any()
    assert "depth=3" in repr(Algebraic(4, block=2, depth=3))
    assert repr(Laplacian(4, eigenvectors=2)).startswith("Laplacian(")
