"""Interactive figure of a ring of devices: who computes which pairs in which step."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Int

from posedu.book.explorables.frame import Choice, Explorable, Slider, explorable
from posedu.book.figures import INKS

Array = np.ndarray

ORDERS = {
    "contiguous": "contiguous: one chunk",
    "zigzag": "zigzag: two chunks",
    "striped": "striped: every n-th token",
}
WINDOWS = {"near": 6, "far": 18}
PAIRS = {
    "causal": "keys up to the query",
    **{name: f"window of {width}" for name, width in WINDOWS.items()},
    "all": "all keys",
}
RANKS, STEP, RANK = 4, 1, 2  # drawn where scripts do not run
NUMBERS_OF_TOKEN = 2 * 8 * 128  # keys and values of eight heads
BYTES_OF_NUMBER = 2
SIDE, LEFT, TOP = 176, 26, 24  # of the drawn pairs
CENTER, RADIUS = (304, 110), 60  # of the drawn ring
START, LENGTH, HEIGHT, ABOVE = 30, 358, 112, 240  # of the drawn times


def many_devices_explorable() -> Explorable:
    """Draw a ring of ranks, the pairs that each computes in a step, and their times."""
    loads = pairs_of_steps("contiguous", "causal", RANKS)
    return explorable(
        "many_devices",
        _picture(loads),
        (
            Choice("order", "cut", ORDERS),
            Choice("pairs", "attention", PAIRS),
            Slider("ranks", "ranks n", 2, 8, RANKS),
            Slider("step", "step", 0, RANKS - 1, STEP),
            Slider("rank", "marked rank", 0, RANKS - 1, RANK),
        ),
        summary=_summary(loads),
        caption="Left: all pairs pale, this step's blue, the marked rank's among these "
        "orange; at the edges, the marked rank's queries and the keys that it has now. "
        "Right: the ranks, and outside each the rank whose keys it has now; dashed: no "
        "pair to compute. Below: the times of the ranks, a row each. A step ends when "
        "its slowest rank has finished; with equal shares, all ranks would end at the "
        "dashed line. Each rank sends 2cgdb bytes of keys and values in every step but "
        "the last, for c tokens and g = 8 key heads of d = 128 numbers of b = 2 bytes.",
        numbers={"windows": WINDOWS},
    )


def tokens_of(ranks: int) -> int:
    """Return the number of tokens: some 48, in 2n equal chunks for n ranks."""
    return 2 * ranks * round(24 / ranks)


def owners(order: str, ranks: int) -> Int[Array, "tokens"]:
    """Return the rank that has each token."""
    places = np.arange(tokens_of(ranks))
    if order == "striped":
        return places % ranks
    if order == "contiguous":
        return places * ranks // len(places)
    chunks = places * 2 * ranks // len(places)
    return np.minimum(chunks, 2 * ranks - 1 - chunks)


def allowed(pairs: str, tokens: int) -> Bool[Array, "queries keys"]:
    """Return which keys each query attends to."""
    offset = np.arange(tokens)[:, None] - np.arange(tokens)
    if pairs == "all":
        return np.ones_like(offset, dtype=bool)
    return (offset >= 0) & (offset < WINDOWS.get(pairs, tokens))


def steps_of_pairs(order: str, ranks: int) -> Int[Array, "queries keys"]:
    """Return the step in which each query's rank has the key."""
    own = owners(order, ranks)
    return (own[:, None] - own) % ranks


def pairs_of_steps(order: str, pairs: str, ranks: int) -> Int[Array, "steps ranks"]:
    """Return how many pairs each rank computes in each step."""
    own, steps = owners(order, ranks), steps_of_pairs(order, ranks)
    computed = allowed(pairs, tokens_of(ranks))
    each = range(ranks)
    return np.array(
        [[computed[own == r][steps[own == r] == s].sum() for r in each] for s in each]
    )


def _numbers(loads: Int[Array, "steps ranks"]) -> dict[str, str]:
    """Return the printed numbers by their labels."""
    path, share = loads.max(1).sum(), loads.sum() / RANKS
    sent = tokens_of(RANKS) // RANKS * NUMBERS_OF_TOKEN * BYTES_OF_NUMBER
    return {
        "critical path": f"{path:,}",
        "equal share": f"{share:,.1f}",
        "path / share": f"{path / share:.3f}",
        "bytes sent": f"{sent:,}",
    }


def _summary(loads: Int[Array, "steps ranks"]) -> str:
    now = loads[STEP]
    waiting = np.count_nonzero(now < now.max())
    shown = _numbers(loads)
    return (
        f"Step {STEP}: rank {RANK} computes {now[RANK]} pairs with the keys of rank "
        f"{(RANK - STEP) % RANKS}. {waiting} of {RANKS} ranks waits for the slowest. "
        f"All steps take the time of {shown['critical path']} pairs, "
        f"{shown['path / share']} times an equal share."
    )


def _runs(cells: Bool[Array, "rows columns"]) -> str:
    """Return the path around the true cells, run after run of each row."""
    path = ""
    for row, line in enumerate(cells):
        edges = np.flatnonzero(np.diff(line, prepend=False, append=False))
        for start, stop in edges.reshape(-1, 2):
            path += f"M{start},{row}h{stop - start}v1h-{stop - start}z"
    return path


def _ring(now: Int[Array, "ranks"]) -> str:
    nodes = ""
    x, y = CENTER
    for r, load in enumerate(now):
        angle = 2 * np.pi * r / RANKS
        right, down = np.sin(angle), -np.cos(angle)
        halfway = np.degrees(angle) + 180 / RANKS
        ink, width = (INKS[1], 3) if r == RANK else ("currentColor", 1)
        nodes += (
            f'<path d="M{x - 3},{y - RADIUS - 4}l5,4l-5,4"'
            f' transform="rotate({halfway:.1f} {x} {y})" stroke="currentColor"/>'
            f'<g transform="translate({x + RADIUS * right:.1f},'
            f'{y + RADIUS * down:.1f})"><circle r="16" fill="Canvas"/>'
            f'<circle class="node" r="16" fill="{INKS[0]}"'
            f' fill-opacity="{0.35 * load / max(now.max(), 1):.2f}" stroke="{ink}"'
            f' stroke-dasharray="{"none" if load else "3"}"'
            f' style="stroke-width:{width}"/><text y="5">{r}</text></g>'
            f'<text class="held" x="{x + 87 * right:.1f}" y="{y + 4 + 87 * down:.1f}">'
            f"{(r - STEP) % RANKS}</text>"
        )
    return nodes


def _times(loads: Int[Array, "steps ranks"]) -> dict[str, str]:
    """Return the paths of the bars by their classes."""
    ends = np.cumsum(loads.max(1))
    unit, row = LENGTH / ends[-1], HEIGHT / RANKS

    def bars(chosen: Callable[[int, int], bool]) -> str:
        return "".join(
            f"M{START + unit * (ends[s] - loads[s].max()):.1f},{ABOVE + row * r:.1f}"
            f"h{unit * load:.1f}v{0.8 * row:.1f}h-{unit * load:.1f}z"
            for s in range(RANKS)
            for r, load in enumerate(loads[s])
            if load and chosen(s, r)
        )

    bounds = "".join(
        f"M{START + unit * end:.1f},{ABOVE - 4}v{HEIGHT + 4}" for end in (0, *ends)
    )
    share = START + unit * loads.sum() / RANKS
    return {
        "other": bars(lambda s, r: s != STEP),
        "now": bars(lambda s, r: s == STEP and r != RANK),
        "mine": bars(lambda s, r: s == STEP and r == RANK),
        "bounds": bounds,
        "share": f"M{share:.1f},{ABOVE - 8}v{HEIGHT + 12}",
    }


def _picture(loads: Int[Array, "steps ranks"]) -> str:
    n = tokens_of(RANKS)
    own, steps = owners("contiguous", RANKS), steps_of_pairs("contiguous", RANKS)
    computed = allowed("causal", n)
    now = computed & (steps == STEP)
    mine = own[:, None] == RANK
    held = own == (RANK - STEP) % RANKS
    times = _times(loads)
    ends = np.cumsum(loads.max(1))
    middle = START + LENGTH * (ends[STEP] - loads[STEP].max() / 2) / ends[-1]
    rows = "".join(
        f'<text x="18" y="{ABOVE + HEIGHT * (r + 0.4) / RANKS + 5:.1f}">{r}</text>'
        for r in range(RANKS)
    )
    table = "".join(
        f'<text x="{x}" y="{y}" style="text-anchor:start">{label}</text>'
        f'<text class="number" x="{x + 176}" y="{y}"'
        f' style="text-anchor:end">{value}</text>'
        for (x, y), (label, value) in zip(
            ((14, 396), (14, 420), (210, 396), (210, 420)),
            _numbers(loads).items(),
            strict=True,
        )
    )
    return f"""
<svg class="plot" viewBox="0 0 400 430" role="img" aria-label="A square of queries and
 keys with the pairs of each step; beside it a ring of numbered devices; below, a row of
 bars for each device, step after step, and four numbers">
<g class="matrix" transform="translate({LEFT},{TOP}) scale({SIDE / n:.4f})">
<path class="every" d="{_runs(computed)}" fill="currentColor" fill-opacity="0.15"/>
<path class="pairs" d="{_runs(now & ~mine)}" fill="{INKS[0]}"/>
<path class="own" d="{_runs(now & mine)}" fill="{INKS[1]}"/>
<path class="queries" transform="translate(-2,0)" d="{_runs(mine)}" fill="{INKS[1]}"/>
<path class="keys" transform="translate(0,-2)" d="{_runs(held[None])}"
 fill="{INKS[1]}"/>
</g>
<path d="M{LEFT},{TOP}h{SIDE}v{SIDE}h-{SIDE}z" stroke="currentColor"
 stroke-opacity="0.4"/>
<text x="{LEFT + SIDE // 2}" y="{TOP + SIDE + 16}">key</text>
<text transform="translate(14,{TOP + SIDE // 2}) rotate(-90)">query</text>
<circle cx="{CENTER[0]}" cy="{CENTER[1]}" r="{RADIUS}" stroke="currentColor"
 stroke-opacity="0.4"/>
<g class="ring">{_ring(loads[STEP])}</g>
<g class="ranks-of-rows">{rows}</g>
<path class="other" d="{times["other"]}" fill="currentColor" fill-opacity="0.25"/>
<path class="now" d="{times["now"]}" fill="{INKS[0]}"/>
<path class="mine" d="{times["mine"]}" fill="{INKS[1]}"/>
<path class="bounds" d="{times["bounds"]}" stroke="currentColor" stroke-opacity="0.4"/>
<path class="share" d="{times["share"]}" stroke="currentColor" stroke-dasharray="4"/>
<text class="label" x="{middle:.1f}" y="{ABOVE + HEIGHT + 18}">step {STEP}</text>
{table}
</svg>"""
