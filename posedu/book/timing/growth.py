"""Growth of functions' time and memory with the sequence length: table and figure."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import torch
from tqdm import tqdm

from posedu._argument_types import check_types
from posedu._arguments import require_choice
from posedu._result_table import Table
from posedu.book import figures
from posedu.book.timing.clock import Run, alternate, peak_memory
from posedu.book.timing.results import Spread

Array = np.ndarray


@check_types
@dataclass(frozen=True)
class Growth(Table):
    """Seconds and peak bytes of several timed functions at several sequence lengths.

    ``limit`` is the name of the function to whose time the others are compared.
    ``seconds`` maps a function's name to an array ``[lengths, repeats, 2]``: seconds of
    the function, and of the limit's call before it. ``peaks`` maps the name to an array
    ``[lengths]`` of bytes.
    """

    limit: str
    device: str
    lengths: tuple[int, ...]
    seconds: Mapping[str, Array]
    peaks: Mapping[str, Array]

    def milliseconds(self, name: str) -> Array:
        """Return a timed function's median milliseconds, an array ``[lengths]``.

        ``name`` is the function's name; ``[lengths]`` has an entry for each sequence
        length.
        """
        require_choice("name", name, tuple(self.seconds))
        return 1e3 * np.median(self.seconds[name][..., 0], -1)

    def ratio(self, name: str, length: int) -> Spread:
        """Return quartiles of a function's time over the limit's, at one length.

        ``length`` is a sequence length. The limit is the function to whose time the
        others are compared; for the limit itself all three quartiles are 1.
        """
        require_choice("name", name, tuple(self.seconds))
        at = self._index(length)
        if name == self.limit:
            return Spread(1, 1, 1)
        own, limit = self.seconds[name][at].T
        return Spread.of(own / limit)

    def peak(self, name: str, length: int) -> int:
        """Return a timed function's peak memory in bytes, at one sequence length.

        ``name`` is the function's name.
        """
        require_choice("name", name, tuple(self.peaks))
        return int(self.peaks[name][self._index(length)])

    def _index(self, length: int) -> int:
        if length not in self.lengths:
            known = ", ".join(map(str, self.lengths))
            raise ValueError(f"length must be one of {known}, got {length}")
        return self.lengths.index(length)

    def exponent(self, name: str, of: str) -> float:
        """Return the exponent of the sequence length L in a function's time or memory.

        ``name`` is the function's name, ``of`` is ``"time"`` or ``"memory"``. The
        exponent is the slope of a line through the measurements on logarithmic axes; it
        is NaN for the memory of a function that allocates nothing.
        """
        require_choice("name", name, tuple(self.seconds))
        require_choice("of", of, ("time", "memory"))
        values = self.milliseconds(name) if of == "time" else self.peaks[name]
        if not values.all():
            return math.nan
        return float(np.polyfit(np.log(self.lengths), np.log(values), 1)[0])

    def caption(self) -> str:
        """Return the caption of the table of times and memory.

        The caption has the longest length, the device and what the columns mean.
        """
        first, *_, last = self.lengths
        return (
            f"At L = {last} on {self.device}: median [quartiles]; exponents of L from "
            f"{first} to {last}"
        )

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the growth table's column titles, then a row for each timed function.

        Columns are the time in milliseconds, its ratio to the limit's time and the peak
        memory, at the longest length; then the exponents of the length in time and
        memory. The limit is the function to whose time the others are compared.
        """
        yield "", "ms", f"time / {self.limit}", "peak MB", "time ∝", "memory ∝"
        last = self.lengths[-1]
        for name in self.seconds:
            yield (
                name,
                f"{self.milliseconds(name)[-1]:.3g}",
                f"{self.ratio(name, last):.2f}",
                f"{self.peak(name, last) / 1e6:.1f}",
                *(_power(self.exponent(name, of)) for of in ("time", "memory")),
            )

    def figure(self, *, caption: str, alt: str) -> figures.Figure:
        """Draw functions' time (above) and peak memory (below) by sequence length."""
        canvas, ((above,), (below,)) = figures.canvas(
            2, 1, figsize=(5.6, 6.4), sharex=True
        )
        for name in self.seconds:
            above.plot(
                self.lengths, self.milliseconds(name), marker="o", ms=4, label=name
            )
            megabytes = np.where(self.peaks[name] > 0, self.peaks[name] / 1e6, np.nan)
            below.plot(self.lengths, megabytes, marker="o", ms=4)
        above.set(xscale="log", yscale="log", ylabel="milliseconds")
        below.set(xscale="log", yscale="log", ylabel="peak memory in MB", xlabel="L")
        below.set_xticks(self.lengths, map(str, self.lengths))
        below.xaxis.set_minor_locator(mpl.ticker.NullLocator())
        canvas.legend(loc="outside upper center", ncols=2)
        return figures.finish(canvas, caption=caption, alt=alt)


def _power(exponent: float) -> str:
    return "—" if math.isnan(exponent) else f"L^{exponent:.2f}"


@check_types
def time_growth(
    make_calls: Callable[[int], Mapping[str, Run]],
    lengths: Sequence[int],
    *,
    limit: str,
    device: str | torch.device = "cpu",
    repeats: int = 3,
) -> Growth:
    """Time several functions at every sequence length, and measure their peak memory.

    ``make_calls(length)`` returns the functions for this length, by name; ``limit`` is
    the name of the function to whose time the others are compared. At each length the
    functions are called in alternation, ``repeats`` times each.

    Raises
    ------
    ValueError
        Fewer than two lengths, or no function named ``limit``.
    """
    if len(lengths) < 2:
        raise ValueError(f"growth needs two lengths or more, got {[*lengths]}")
    device = torch.device(device)
    seconds, peaks = [], []
    for length in tqdm(lengths, desc="lengths", leave=None):
        runs = make_calls(length)
        require_choice("limit", limit, tuple(runs))
        timed = alternate(runs, runs[limit], device=device, repeats=repeats, warm_up=1)
        seconds.append(timed)
        peaks.append({name: peak_memory(run, device) for name, run in runs.items()})
    return Growth(
        limit,
        str(device),
        tuple(lengths),
        {name: np.array([times[name] for times in seconds]) for name in seconds[0]},
        {name: np.array([at[name] for at in peaks]) for name in peaks[0]},
    )
