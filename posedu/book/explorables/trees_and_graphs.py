"""Interactive figure of a tree: two nodes, and the rotation on the way between them."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import (
    Choice,
    Explorable,
    Slider,
    Switch,
    explorable,
)
from posedu.book.figures import INKS
from posedu.numpy.graph import path_rotations, tree_positions
from posedu.numpy.rotary import skew

Array = np.ndarray

NODES = 15  # of three levels below the root; node n has children 2n + 1 and 2n + 2
QUERY, KEY = 9, 3  # drawn where scripts do not run
ANGLE = float(np.arccos(3 / 5))  # no product of such turns about two axes is trivial
AXES = {"free": ((0, 1), (1, 2)), "planes": ((0, 1), (0, 1))}  # rotated planes
TURNS = {"free": (ANGLE, ANGLE), "planes": (ANGLE, 2 * ANGLE)}


def trees_and_graphs_explorable() -> Explorable:
    """Draw a tree with two marked nodes, and ρ(x)ᵀ ρ(y) of their paths x and y."""
    paths = [word(QUERY), word(KEY)]
    return explorable(
        "trees_and_graphs",
        _picture(_relative(paths, "free")),
        (
            Choice(
                "order",
                "product from",
                {"root": "the root down (the paper's)", "node": "the node up"},
            ),
            Choice(
                "branches",
                "branches rotate",
                {"free": "about two axes", "planes": "about one axis (RoPE)"},
            ),
            Slider("query", "query x", 0, NODES - 1, QUERY, shown=_named(QUERY)),
            Slider("key", "key y", 0, NODES - 1, KEY, shown=_named(KEY)),
            Switch("moved", "hang the tree below branch 1 of a new root"),
        ),
        summary=_summary(),
        caption="A tree of branches 0 and 1. Left: the query (blue), the key (orange) "
        "and the way between them; click a node to make it the key, and the old key "
        "becomes the query. Right: the rotation between the two, the entries of "
        "ρ(x)ᵀρ(y); blue is positive, orange negative.",
        numbers={"planes": AXES, "turns": TURNS},
    )


def word(node: int) -> list[int]:
    """Return the branches on the way from the root to a node of the tree."""
    path: list[int] = []
    while node:
        path.insert(0, (node + 1) % 2)
        node = (node - 1) // 2
    return path


def _generators(branches: str) -> Float[Array, "2 1 3 3"]:
    """Return the generators of the two branches, counter-clockwise in their planes."""
    entries = np.zeros((2, 1, 3))
    column = {(0, 1): 0, (1, 2): 2}
    for n, (plane, turn) in enumerate(
        zip(AXES[branches], TURNS[branches], strict=True)
    ):
        entries[n, 0, column[plane]] = -turn
    return skew(entries)


def _relative(paths: list[list[int]], branches: str) -> Float[Array, "3 3"]:
    """Return ρ(x)ᵀ ρ(y) for the paths x and y."""
    depth = max(1, *map(len, paths))
    at = tree_positions(paths, branches=2, depth=depth)
    x, y = path_rotations(at, _generators(branches))[:, 0]
    return x.T @ y


def _named(node: int) -> str:
    return " ".join(map(str, word(node))) or "root"


def _summary() -> str:
    x, y = word(QUERY), word(KEY)
    common = 0
    while common < min(len(x), len(y)) and x[common] == y[common]:
        common += 1
    return (
        f"From {_named(QUERY)} to {_named(KEY)}: up {len(x) - common}, down "
        f"{len(y) - common}. Common steps, which cancel: {common}."
    )


def place(node: int) -> tuple[float, float]:
    """Return the coordinates at which the picture draws a node."""
    level = len(word(node))
    across = node + 1 - 2**level
    return 8 + 240 * (2 * across + 1) / 2 ** (level + 1), 24 + 62 * level


def _number(value: float) -> str:
    shown = f"{value:.2f}"
    return "0.00" if shown == "-0.00" else shown.replace("-", "−")


def _picture(relative: Float[Array, "3 3"]) -> str:
    on_the_way = {QUERY, 4, KEY}  # the edges above these nodes
    edges, nodes = [], []
    for n in range(NODES):
        x, y = place(n)
        if n:
            above = place((n - 1) // 2)
            wide = 4 if n in on_the_way else 1.2
            edges.append(
                f'<path d="M{above[0]:g},{above[1]:g}L{x:g},{y:g}"'
                f' style="stroke-width:{wide}"/>'
            )
        role = {QUERY: INKS[0], KEY: INKS[1]}.get(n, "none")
        nodes.append(
            f'<g style="cursor:pointer"><circle cx="{x:g}" cy="{y:g}" r="12"'
            ' fill="Canvas" stroke="currentColor"/>'
            f'<circle class="mark" cx="{x:g}" cy="{y:g}" r="12" fill="{role}"'
            f' fill-opacity="0.55"/><text x="{x:g}" y="{y + 4.5:g}">'
            f"{word(n)[-1] if n else ''}</text></g>"
        )
    cells = "".join(
        f'<g><rect x="{272 + 42 * c}" y="{66 + 42 * r}" width="40" height="40"'
        f' fill="{INKS[0] if relative[r, c] > -1e-9 else INKS[1]}"'
        f' fill-opacity="{0.6 * abs(relative[r, c]):.3f}"/>'
        f'<text x="{292 + 42 * c}" y="{91 + 42 * r}">'
        f"{_number(relative[r, c])}</text></g>"
        for r in range(3)
        for c in range(3)
    )
    return f"""
<svg class="plot" viewBox="0 0 400 236" role="img" aria-label="A binary tree of
 fifteen nodes, two of them marked, and a square of three times three numbers">
<g class="edges" stroke="currentColor" fill="none">{"".join(edges)}</g>
<g class="nodes">{"".join(nodes)}</g>
<g class="cells">{cells}</g>
<text x="334" y="212">ρ(x)ᵀ ρ(y)</text>
</svg>"""
