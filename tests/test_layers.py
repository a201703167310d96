"""The map's layout, also for many more encodings than there are."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posedu_book.layers import layered

SIZES = dict(column=180.0, row=110.0, widest=5)


@st.composite
def graphs(draw, nodes=60):
    count = draw(st.integers(1, nodes))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    drawn = draw(st.sets(pairs, max_size=2 * count))
    edges = sorted({(f"n{max(p)}", f"n{min(p)}") for p in drawn if p[0] != p[1]})
    return [f"n{n}" for n in range(count)], edges


@settings(max_examples=50)
@given(graphs())
def test_boxes_stand_apart_in_rows_and_no_arrow_crosses_one(graph):
    nodes, edges = graph
    centres, routes = layered(nodes, edges, **SIZES)
    assert list(centres) == nodes
    assert len(routes) == len(edges)
    rows = {}
    for x, y in centres.values():
        rows.setdefault(y, []).append(x)
    assert max(map(len, rows.values())) <= SIZES["widest"]
    for (source, target), route in zip(edges, routes, strict=True):
        assert route[0] == centres[source] and route[-1] == centres[target]
        for (_, above), (_, below) in pairwise(route):
            assert below - above == pytest.approx(SIZES["row"])
        for x, y in route[1:-1]:
            rows.setdefault(y, []).append(x)
    for row in rows.values():
        assert all(abs(a - b) > SIZES["column"] - 1e-6 for a, b in combinations(row, 2))


def test_sixty_boxes_make_a_tall_map_not_a_wide_one():
    nodes = [f"n{n}" for n in range(60)]
    centres, _ = layered(nodes, [(n, "n0") for n in nodes[1:]], **SIZES)
    columns = [x for x, _ in centres.values()]
    assert len({y for _, y in centres.values()}) == 13
    assert max(columns) - min(columns) < 60 * SIZES["column"]
