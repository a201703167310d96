"""Lay out the map as lines on rows: an encoding above all that it becomes.

Each encoding that another becomes has one line. It starts beside the first row that
leads to it, takes up those that join on its way down, and ends at its own row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter


@dataclass(frozen=True)
class Row:
    """One encoding: where it stands, and what passes, arrives and leaves there.

    ``passing`` and ``leaving`` say for each target the lane of its line. A line that
    leaves may be passing too: the row joins it.
    """

    name: str
    lane: int
    arrives: bool
    passing: Mapping[str, int]
    leaving: Mapping[str, int]


def rows(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[Row]:
    """The rows from above; an edge points from an encoding to what it becomes.

    Raises
    ------
    graphlib.CycleError
        For encodings that become each other in a circle.
    """
    targets = {node: [t for s, t in edges if s == node] for node in nodes}
    found, lanes = [], {}
    for name in _order(targets):
        arrives = name in lanes
        passing = {target: lane for target, lane in lanes.items() if target != name}
        lane = lanes.pop(name) if arrives else _free(lanes)
        for target in targets[name]:
            if target not in lanes:
                taken = lane in lanes.values()
                lanes[target] = _free(lanes) if taken else lane
        leaving = {target: lanes[target] for target in targets[name]}
        found.append(Row(name, lane, arrives, passing, leaving))
    return found


def _order(targets: Mapping[str, Sequence[str]]) -> list[str]:
    """Every node above its targets, and near them."""
    TopologicalSorter(targets).prepare()  # refuses a circle
    below: dict[str, None] = {}

    def visit(node: str) -> None:
        for target in targets[node]:
            if target not in below:
                visit(target)
        below.setdefault(node)

    for node in targets:
        visit(node)
    return list(below)[::-1]


def _free(lanes: Mapping[str, int]) -> int:
    taken = set(lanes.values())
    return next(lane for lane in range(len(taken) + 1) if lane not in taken)
