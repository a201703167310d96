"""Place the boxes of a map in rows, by igraph's Sugiyama layout."""

from graphlib import TopologicalSorter
from itertools import pairwise

import igraph

Point = tuple[float, float]


def layered(
    nodes: list[str],
    edges: list[tuple[str, str]],
    *,
    column: float,
    row: float,
    widest: int,
) -> tuple[dict[str, Point], list[list[Point]]]:
    """The centre of each node, and the points that each edge passes, ends included.

    An edge points downwards, from a row to a lower one. A row has at most ``widest``
    nodes; an edge that passes one takes a place there too, so that no node stands on
    it. Centres are at least ``column`` apart in a row, rows are ``row`` apart.
    """
    heights = _heights(nodes, edges, widest)
    top = max(heights.values())
    graph = igraph.Graph(directed=True)
    graph.add_vertices(nodes)
    layers = [top - heights[node] for node in nodes]
    chains = []
    for source, target in edges:
        chain = [nodes.index(source)]
        for height in range(heights[source] - 1, heights[target], -1):
            chain.append(graph.add_vertex().index)
            layers.append(top - height)
        chain.append(nodes.index(target))
        graph.add_edges(pairwise(chain))
        chains.append(chain)
    layout = graph.layout_sugiyama(layers=layers, hgap=column, vgap=row)
    places = [tuple(place) for place in layout.coords]
    centres = dict(zip(nodes, places, strict=False))
    return centres, [[places[vertex] for vertex in chain] for chain in chains]


def _heights(
    nodes: list[str], edges: list[tuple[str, str]], widest: int
) -> dict[str, int]:
    """The row of each node, counted from below, above all that it points at."""
    below = {node: [t for s, t in edges if s == node] for node in nodes}
    heights, full = {}, {}
    for node in TopologicalSorter(below).static_order():
        height = max((heights[target] + 1 for target in below[node]), default=0)
        while full.get(height, 0) == widest:
            height += 1
        heights[node] = height
        full[height] = full.get(height, 0) + 1
    return heights
