"""Layout of the map of special cases: each encoding above those that it becomes.

An encoding becomes others in special cases. Each encoding that others become has one
vertical line, which starts at the first row that leads to this encoding, is joined by
later such rows, and ends at the encoding's own row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter


@dataclass(frozen=True)
class Row:
    """One encoding's row in the map, with the lanes of its vertical lines.

    Lanes are places for lines side by side, counted from 0; ``lane`` is the encoding's
    own. A line leads to an encoding that others become; lines pass the row, arrive at
    it and leave it; ``arrives`` is true if a line ends here. ``passing`` and
    ``leaving`` map each target encoding to the lane of its line. A target in both has a
    line from above that this row joins.
    """

    name: str
    lane: int
    arrives: bool
    passing: Mapping[str, int]
    leaving: Mapping[str, int]


def rows(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[Row]:
    """Return the rows of the map of special cases from top to bottom.

    ``nodes`` are the encodings; an edge is (encoding, encoding that it becomes).

    Raises
    ------
    graphlib.CycleError
        If the edges form a cycle.
    """
    targets = {node: [t for s, t in edges if s == node] for node in nodes}
    found, lanes = [], {}
    for name in _order(targets):
        arrives = name in lanes
        passing = {target: lane for target, lane in lanes.items() if target != name}
        lane = lanes.pop(name) if arrives else _free_lane(lanes)
        for target in targets[name]:
            if target not in lanes:
                is_occupied = lane in lanes.values()
                lanes[target] = _free_lane(lanes) if is_occupied else lane
        leaving = {target: lanes[target] for target in targets[name]}
        found.append(Row(name, lane, arrives, passing, leaving))
    return found


def _order(targets: Mapping[str, Sequence[str]]) -> list[str]:
    """Order the encodings so that each is above its targets, and near them.

    ``targets`` maps an encoding to the encodings that it becomes in special cases. A
    cycle raises ``graphlib.CycleError``.
    """
    TopologicalSorter(targets).prepare()  # raises CycleError for a cycle
    below: dict[str, None] = {}

    def visit(node: str) -> None:
        for target in targets[node]:
            if target not in below:
                visit(target)
        below.setdefault(node)

    for node in targets:
        visit(node)
    return list(below)[::-1]


def _free_lane(lanes: Mapping[str, int]) -> int:
    occupied = set(lanes.values())
    return next(lane for lane in range(len(occupied) + 1) if lane not in occupied)
