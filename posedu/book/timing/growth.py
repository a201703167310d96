"""How time and memory grow with the length: ways beside each other, in one run."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tqdm import tqdm

from posedu._arguments import require_choice
from posedu._result_table import Table
from posedu.book import figures
from posedu.book.timing.clock import Run, alternate, peak_memory
from posedu.book.timing.results import Spread

Array = np.ndarray


@dataclass(frozen=True)
class Growth(Table):
    """Seconds and peak bytes of several ways at several lengths.

    ``seconds`` holds for each way an array ``[lengths, repeats, 2]``: its own and those
    of the call of ``limit`` next to it; ``peaks`` an array ``[lengths]`` of bytes.
    """

    limit: str
    device: str
    lengths: tuple[int, ...]
    seconds: Mapping[str, Array]
    peaks: Mapping[str, Array]

    def milliseconds(self, way: str) -> Array:
        """The median of a way at each length."""
        return 1e3 * np.median(self.seconds[way][..., 0], -1)

    def ratio(self, way: str, length: int) -> Spread:
        """Quartiles of a way's time over its neighbor's, at one length; 1 if limit."""
        if way == self.limit:
            return Spread(1, 1, 1)
        own, limit = self.seconds[way][self.lengths.index(length)].T
        return Spread.of(own / limit)

    def peak(self, way: str, length: int) -> int:
        """The most bytes that a way holds at a time, at one length."""
        return int(self.peaks[way][self.lengths.index(length)])

    def exponent(self, way: str, of: str) -> float:
        """The slope of a line through a way's points, on logarithmic axes.

        ``of`` is ``"time"`` or ``"memory"``. NaN for a way that holds nothing.
        """
        require_choice("of", of, ("time", "memory"))
        values = self.milliseconds(way) if of == "time" else self.peaks[way]
        if not values.all():
            return math.nan
        return float(np.polyfit(np.log(self.lengths), np.log(values), 1)[0])

    def caption(self) -> str:
        """Where it was measured, and what the rows say."""
        first, *_, last = self.lengths
        return (
            f"At L = {last} on {self.device}: median [quartiles]; exponents of L from "
            f"{first} to {last}"
        )

    def rows(self) -> Iterator[tuple[str, ...]]:
        """A row for each way, at the longest length."""
        yield "", "ms", f"time / {self.limit}", "peak MB", "time ∝", "memory ∝"
        last = self.lengths[-1]
        for way in self.seconds:
            yield (
                way,
                f"{self.milliseconds(way)[-1]:.3g}",
                f"{self.ratio(way, last):.2f}",
                f"{self.peak(way, last) / 1e6:.1f}",
                *(_power(self.exponent(way, of)) for of in ("time", "memory")),
            )

    def figure(self, *, caption: str, alt: str) -> figures.Figure:
        """Time above, memory below, over the length."""
        drawn, ((above,), (below,)) = figures.canvas(
            2, 1, figsize=(5.6, 6.4), sharex=True
        )
        for way in self.seconds:
            above.plot(
                self.lengths, self.milliseconds(way), marker="o", ms=4, label=way
            )
            held = np.where(self.peaks[way] > 0, self.peaks[way] / 1e6, np.nan)
            below.plot(self.lengths, held, marker="o", ms=4)
        above.set(xscale="log", yscale="log", ylabel="milliseconds")
        below.set(xscale="log", yscale="log", ylabel="peak memory in MB", xlabel="L")
        below.set_xticks(self.lengths, map(str, self.lengths))
        below.minorticks_off()
        drawn.legend(loc="outside upper center", ncols=2)
        return figures.finish(drawn, caption=caption, alt=alt)


def _power(exponent: float) -> str:
    return "—" if math.isnan(exponent) else f"L^{exponent:.2f}"


def time_growth(
    ways: Callable[[int], Mapping[str, Run]],
    lengths: Sequence[int],
    *,
    limit: str,
    device: str | torch.device = "cpu",
    repeats: int = 3,
) -> Growth:
    """Time every way at every length beside the one named ``limit``.

    ``ways(length)`` makes the calls; all of a length alternate.

    Raises
    ------
    ValueError
        Fewer than two lengths, or no way named ``limit``.
    """
    if len(lengths) < 2:
        raise ValueError(f"growth needs two lengths or more, got {[*lengths]}")
    device = torch.device(device)
    seconds, peaks = [], []
    for length in tqdm(lengths, desc="lengths", leave=None):
        runs = ways(length)
        require_choice("limit", limit, tuple(runs))
        timed = alternate(runs, runs[limit], device=device, repeats=repeats, warm_up=1)
        seconds.append(timed)
        peaks.append({way: peak_memory(run, device) for way, run in runs.items()})
    return Growth(
        limit,
        str(device),
        tuple(lengths),
        {way: np.array([at[way] for at in seconds]) for way in seconds[0]},
        {way: np.array([at[way] for at in peaks]) for way in peaks[0]},
    )
