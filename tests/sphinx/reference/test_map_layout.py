"""The map's lines, also for many more encodings than the catalog has."""

from graphlib import CycleError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posedu_sphinx.reference.map_layout import rows
from support.random_maps import made_up


@st.composite
def graphs(draw, nodes=60):
    count = draw(st.integers(1, nodes))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    drawn = draw(st.sets(pairs, max_size=2 * count))
    edges = sorted({(f"n{max(p)}", f"n{min(p)}") for p in drawn if p[0] != p[1]})
    return [f"n{n}" for n in range(count)], edges


@settings(max_examples=50)
@given(graphs())
def test_every_line_runs_unbroken_from_its_sources_to_its_target(graph):
    nodes, edges = graph
    laid = rows(nodes, edges)
    assert sorted(row.name for row in laid) == sorted(nodes)
    assert {(row.name, target) for row in laid for target in row.leaving} == set(edges)
    lanes = {}
    for row in laid:
        assert (row.name in lanes) == row.arrives
        if row.arrives:
            assert lanes.pop(row.name) == row.lane
        assert row.passing == lanes
        assert row.lane not in lanes.values()
        for target, lane in row.leaving.items():
            assert lanes.setdefault(target, lane) == lane
        assert len(set(lanes.values())) == len(lanes)
    assert lanes == {}


def test_a_circle_is_refused():
    with pytest.raises(CycleError):
        rows(["a", "b"], [("a", "b"), ("b", "a")])


@pytest.mark.parametrize("seed", range(10))
def test_forty_five_encodings_need_few_lanes(seed):
    laid = rows(*made_up(45, seed))
    lanes = {lane for row in laid for lane in (row.lane, *row.leaving.values())}
    assert max(lanes) < 12  # 192 of the 358 pixels that a phone's page has
