"""RoPE beside published libraries: who is faster where, and which goals are met.

From what :func:`posedu.book.timing.peers.time_rope` measured; all times are over a copy's.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from posedu._arguments import LAYOUTS
from posedu._result_table import Table
from posedu.book import figures
from posedu.book.timing.peers import LIBRARIES
from posedu.book.timing.results import Timing

WAYS = {"eager": "", "compiled": ", compiled"}  # and how their candidates' names end
TICKS = (1, 2, 5, 10, 20)

Cell = tuple[str, int, int]


@dataclass(frozen=True)
class Contest(Table):
    """Our two layouts beside the fastest library in every cell.

    Eager meets eager and compiled meets compiled, each with a fresh result. A cell is a
    dtype, a length and a head dimension.
    """

    stored: Timing

    @property
    def cells(self) -> list[Cell]:
        """By dtype, then in the order of the measurement."""
        records = self.stored.select(task="rotate")
        cells = dict.fromkeys((r.dtype, r.length, r.d) for r in records)
        return sorted(cells, key=lambda cell: cell[0], reverse=True)

    @property
    def libraries(self) -> list[str]:
        """Those that were there."""
        return [name for name in LIBRARIES if name not in self.stored.missing]

    def ratio(self, candidate: str, way: str, cell: Cell) -> float:
        """A candidate's time over a copy's, the median."""
        dtype, length, d = cell
        name = f"{candidate}{WAYS[way]}"
        (record,) = self.stored.select(
            task="rotate", candidate=name, dtype=dtype, length=length, d=d
        )
        return record.ratio.median

    def fastest(self, way: str, cell: Cell) -> tuple[float, str]:
        """The ratio and the name of the fastest library."""
        return min((self.ratio(name, way, cell), name) for name in self.libraries)

    def won(self, layout: str, way: str, cell: Cell) -> bool:
        """Whether a layout is faster than every library."""
        best, _ = self.fastest(way, cell)
        return self.ratio(f"posedu, {layout}", way, cell) < best

    def caption(self) -> str:
        """In how many cells each layout is faster than every library."""
        counts = [
            f"{layout}, {way}, in {sum(self.won(layout, way, c) for c in self.cells)}"
            for way in WAYS
            for layout in LAYOUTS
        ]
        return (
            "Time over a copy's, and ✓ where a layout is faster than every library: "
            f"{'; '.join(counts)} of {len(self.cells)} cells"
        )

    def rows(self) -> Iterator[tuple[str, ...]]:
        """A row for each way and cell."""
        yield "way", "dtype", "L", "d", *LAYOUTS, "fastest library"
        for way in WAYS:
            for cell in self.cells:
                ours = (
                    f"{self.ratio(f'posedu, {o}', way, cell):.2f} "
                    f"{_mark(self.won(o, way, cell))}"
                    for o in LAYOUTS
                )
                best, library = self.fastest(way, cell)
                yield way, *map(str, cell), *ours, f"{best:.2f} {library}"

    def figure(self) -> figures.Figure:
        """Eager above, compiled below, a row for each cell and a line at the copy."""
        drawn, ((above,), (below,)) = figures.canvas(
            2, 1, figsize=(5.6, 5.4), sharex=True
        )
        rows = [", ".join(map(str, cell)) for cell in self.cells]
        names = [*(f"posedu, {layout}" for layout in LAYOUTS), *self.libraries]
        for axes, way in ((above, "eager"), (below, "compiled")):
            for name, marker in zip(names, "os^vD", strict=False):
                ratios = [self.ratio(name, way, cell) for cell in self.cells]
                axes.plot(ratios, rows, marker, ms=6, label=name)
            axes.axvline(1, color="gray", linewidth=1)
            axes.set(title=way, xscale="log")
            axes.invert_yaxis()
        above.set(ylabel="dtype, L, d")
        below.set(ylabel="dtype, L, d", xlabel="time over a copy's")
        below.set_xticks(TICKS, map(str, TICKS))
        below.minorticks_off()
        handles = above.get_legend_handles_labels()
        drawn.legend(*handles, loc="outside upper center", ncols=2)
        half, interleaved = (
            [self.ratio(f"posedu, {layout}", "compiled", cell) for cell in self.cells]
            for layout in ("half", "interleaved")
        )
        theirs = [self.fastest("compiled", cell)[0] for cell in self.cells]
        made = self.stored.made
        return figures.finish(
            drawn,
            caption="Compiled, RoPE on q and k takes "
            f"{min(half):.1f} to {max(half):.1f} times as long as a copy in our half "
            f"layout, {min(interleaved):.1f} to {max(interleaved):.1f} times in the "
            f"interleaved one, and {min(theirs):.1f} to {max(theirs):.1f} times with "
            f"the fastest library. {made['device']}, {made['threads']} thread(s), "
            f"{made['date']}.",
            alt="Two panels with a row for each dtype, length L and head dimension d, "
            "eager above and compiled below, and in each row a marker for each of our "
            "layouts and each library, right of a line at 1, which is the copy.",
        )


@dataclass(frozen=True)
class Goal:
    """The most that our way may take, as time over a copy's."""

    dtype: str
    way: str  # how its candidates' names go on after the layout
    limit: float
    lengths: tuple[int, ...]


GOALS = (  # set before the first measurement
    Goal("float32", "", 1.6, (2048,)),
    Goal("float32", ", into a buffer", 1.6, (2048,)),
    Goal("float32", ", compiled, into a buffer", 1.25, (2048, 8192)),
    Goal("bfloat16", ", compiled, into a buffer", 1.7, (2048, 8192)),
)


def goals(stored: Timing) -> Table:
    """Which of the goals each layout meets, in every cell."""
    pairs = [
        (goal, pair)
        for goal in GOALS
        for length in goal.lengths
        for pair in zip(
            *(
                stored.select(
                    candidate=f"posedu, {layout}{goal.way}",
                    dtype=goal.dtype,
                    length=length,
                )
                for layout in LAYOUTS
            ),
            strict=True,
        )
    ]
    met = [[r.ratio.median <= goal.limit for r in pair] for goal, pair in pairs]
    ratios = [
        [f"{r.ratio.median:.2f} {_mark(ok)}" for r, ok in zip(pair, oks, strict=True)]
        for (_, pair), oks in zip(pairs, met, strict=True)
    ]
    return figures.table(
        {
            "goal": [f"{g.dtype}{g.way or ', eager'}: ≤ {g.limit}" for g, _ in pairs],
            "L": [pair[0].length for _, pair in pairs],
            "d": [pair[0].d for _, pair in pairs],
            **dict(zip(LAYOUTS, zip(*ratios, strict=True), strict=True)),
        },
        caption="Time over a copy's, and ✓ where it is at most the goal: of "
        f"{len(met)} goals one layout at least meets {sum(map(any, met))}, and both "
        f"meet {sum(map(all, met))}",
    )


def _mark(ok: bool) -> str:
    return "✓" if ok else "✗"
