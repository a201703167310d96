"""Comparison of RoPE with published libraries, and goals for its time.

Results are made by :func:`posedu.book.timing.peers.time_rope`; all times are ratios to
the time of a copy of q and k.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from posedu._arguments import LAYOUTS
from posedu._result_table import Table
from posedu.book import figures
from posedu.book.timing.peers import LIBRARIES
from posedu.book.timing.results import Timing

MODES = {"eager": "", "compiled": ", compiled"}  # with the ends of candidates' names
TICKS = (1, 2, 5, 10, 20)

Cell = tuple[str, int, int]


@dataclass(frozen=True)
class RoPEComparison(Table):
    """Times of posedu's two RoPE layouts and of libraries' RoPE, in every cell.

    A cell is a dtype, a length and a head dimension. Eager calls are compared with
    eager ones and compiled calls with compiled ones; each allocates its result.
    ``stored`` is the timing result with the measurements.
    """

    stored: Timing

    @property
    def cells(self) -> list[Cell]:
        """Measured cells (dtype, length, head dimension), sorted by dtype.

        Cells of one dtype are in the order of measurement.
        """
        records = self.stored.select(task="rotate")
        cells = dict.fromkeys((r.dtype, r.length, r.d) for r in records)
        return sorted(cells, key=lambda cell: cell[0], reverse=True)

    @property
    def libraries(self) -> list[str]:
        """Names of the published libraries that were installed."""
        return [name for name in LIBRARIES if name not in self.stored.missing]

    def ratio(self, candidate: str, mode: str, cell: Cell) -> float:
        """Return the median ratio of one RoPE's time to a copy's time, in a cell.

        ``candidate`` is a library's name, or ``"posedu, half"`` or ``"posedu,
        interleaved"``; ``mode`` is ``"eager"`` or ``"compiled"``. A cell is a dtype, a
        length and a head dimension.
        """
        dtype, length, d = cell
        name = f"{candidate}{MODES[mode]}"
        (record,) = self.stored.select(
            task="rotate", candidate=name, dtype=dtype, length=length, d=d
        )
        return record.ratio.median

    def fastest(self, mode: str, cell: Cell) -> tuple[float, str]:
        """Return the fastest library's time over a copy's, and its name, in one cell.

        ``mode`` is ``"eager"`` or ``"compiled"``. A cell is a dtype, a length and a
        head dimension. At least one library must have been installed.
        """
        return min((self.ratio(name, mode, cell), name) for name in self.libraries)

    def is_fastest(self, layout: str, mode: str, cell: Cell) -> bool:
        """Return whether a layout of posedu is faster than every library, in a cell.

        ``layout``, which says what features are paired, is ``"half"`` or
        ``"interleaved"``; ``mode`` is ``"eager"`` or ``"compiled"``. A cell is a dtype,
        a length and a head dimension.
        """
        best, _ = self.fastest(mode, cell)
        return self.ratio(f"posedu, {layout}", mode, cell) < best

    def _count_fastest(self, layout: str, mode: str) -> int:
        return sum(self.is_fastest(layout, mode, cell) for cell in self.cells)

    def caption(self) -> str:
        """Return the table's caption: in how many cells each RoPE layout is fastest.

        A layout is an order of pairs, half or interleaved. A cell is a dtype, a length
        and a head dimension.
        """
        counts = [
            f"{layout}, {mode}, in {self._count_fastest(layout, mode)}"
            for mode in MODES
            for layout in LAYOUTS
        ]
        return (
            "Time over a copy's, and ✓ where a layout is faster than every library: "
            f"{'; '.join(counts)} of {len(self.cells)} cells"
        )

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the RoPE table's column titles, then a row for each mode and cell.

        Modes are eager and compiled. A cell is a dtype, a length and a head dimension.
        A row has the times over a copy's of posedu's two layouts and of the fastest
        library.
        """
        yield "mode", "dtype", "L", "d", *LAYOUTS, "fastest library"
        for mode in MODES:
            for cell in self.cells:
                ours = (
                    f"{self.ratio(f'posedu, {o}', mode, cell):.2f} "
                    f"{_mark(self.is_fastest(o, mode, cell))}"
                    for o in LAYOUTS
                )
                best, library = self.fastest(mode, cell)
                yield mode, *map(str, cell), *ours, f"{best:.2f} {library}"

    def figure(self) -> figures.Figure:
        """Draw RoPE's times over a copy's: eager above, compiled below, a row per cell.

        A cell is a dtype, a length and a head dimension.
        """
        canvas, ((above,), (below,)) = figures.canvas(
            2, 1, figsize=(5.6, 5.4), sharex=True
        )
        rows = [", ".join(map(str, cell)) for cell in self.cells]
        names = [*(f"posedu, {layout}" for layout in LAYOUTS), *self.libraries]
        for axes, mode in ((above, "eager"), (below, "compiled")):
            for name, marker in zip(names, "os^vD", strict=False):
                ratios = [self.ratio(name, mode, cell) for cell in self.cells]
                axes.plot(ratios, rows, marker, ms=6, label=name)
            axes.axvline(1, color="gray", linewidth=1)
            axes.set(title=mode, xscale="log")
            axes.invert_yaxis()
        above.set(ylabel="dtype, L, d")
        below.set(ylabel="dtype, L, d", xlabel="time over a copy's")
        below.set_xticks(TICKS, map(str, TICKS))
        below.minorticks_off()
        handles = above.get_legend_handles_labels()
        canvas.legend(*handles, loc="outside upper center", ncols=2)
        half, interleaved = (
            [self.ratio(f"posedu, {layout}", "compiled", cell) for cell in self.cells]
            for layout in ("half", "interleaved")
        )
        theirs = [self.fastest("compiled", cell)[0] for cell in self.cells]
        made = self.stored.made
        return figures.finish(
            canvas,
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
    """Upper limit for RoPE's time over a copy's time, for a dtype and a mode.

    ``mode`` is the end of a timed function's name: eager (empty) or compiled, with a
    new result or one written into a buffer. ``limit`` is the largest ratio of the
    times, for each of the sequence lengths ``lengths``.
    """

    dtype: str
    mode: str  # end of the candidates' names, after the layout
    limit: float
    lengths: tuple[int, ...]


GOALS = (  # set before the first measurement
    Goal("float32", "", 1.6, (2048,)),
    Goal("float32", ", into a buffer", 1.6, (2048,)),
    Goal("float32", ", compiled, into a buffer", 1.25, (2048, 8192)),
    Goal("bfloat16", ", compiled, into a buffer", 1.7, (2048, 8192)),
)


def goals(stored: Timing) -> Table:
    """Return a table of RoPE's time goals, and whether posedu's two layouts meet them.

    A goal is an upper limit for the time over a copy's time. A layout is an order of
    pairs, half or interleaved. ``stored`` is a result of
    :func:`posedu.book.timing.peers.time_rope`.
    """
    pairs = [
        (goal, pair)
        for goal in GOALS
        for length in goal.lengths
        for pair in zip(
            *(
                stored.select(
                    candidate=f"posedu, {layout}{goal.mode}",
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
            "goal": [f"{g.dtype}{g.mode or ', eager'}: ≤ {g.limit}" for g, _ in pairs],
            "L": [pair[0].length for _, pair in pairs],
            "d": [pair[0].d for _, pair in pairs],
            **dict(zip(LAYOUTS, zip(*ratios, strict=True), strict=True)),
        },
        caption="Time over a copy's, and ✓ where it is at most the goal: of "
        f"{len(met)} goals at least one layout meets {sum(map(any, met))}, and both "
        f"meet {sum(map(all, met))}",
    )


def _mark(ok: bool) -> str:
    return "✓" if ok else "✗"
