"""Attention beside published libraries: who is ahead, by how much, and what it holds.

From what :func:`posedu.timing.peers.time_attention` measured; all times are over those
of attention without an encoding.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from posedu._tables import Table
from posedu.catalog import CATALOG
from posedu.timing.results import Measurement, Timing


@dataclass(frozen=True)
class Beside(Table):
    """Every call at the longest length, with each dtype."""

    stored: Timing

    @property
    def records(self) -> list[Measurement]:
        """Those of the longest length, in the order of the measurement."""
        longest = max(record.length for record in self.stored.records)
        return self.stored.select(length=longest)

    @property
    def dtypes(self) -> list[str]:
        """In the order of the measurement."""
        return [*dict.fromkeys(record.dtype for record in self.records)]

    def fastest(self, dtype: str) -> tuple[Measurement, Measurement | None]:
        """Our fastest call and the libraries', if any was there."""
        there = [record for record in self.records if record.dtype == dtype]
        there.sort(key=lambda record: record.ratio.median)
        ours = [record for record in there if _is_ours(record.candidate)]
        theirs = [record for record in there if not _is_ours(record.candidate)]
        return ours[0], theirs[0] if theirs else None

    def verdict(self, dtype: str) -> str:
        """Who is ahead, by how much."""
        ours, theirs = self.fastest(dtype)
        text = f"in {dtype} ours takes {ours.ratio.median:.2f} ({ours.candidate})"
        if theirs is None:
            return f"{text}, and no library was there"
        factor = theirs.ratio.median / ours.ratio.median
        side = "ahead" if factor >= 1 else "behind"
        return (
            f"{text}, the fastest library {theirs.ratio.median:.2f} "
            f"({theirs.candidate}): ours is {side} by a factor of "
            f"{max(factor, 1 / factor):.2f}, with {ours.peak_bytes / 1e6:.1f} MB "
            f"against {theirs.peak_bytes / 1e6:.1f}"
        )

    def caption(self) -> str:
        """What was measured, and who is ahead with each dtype."""
        record, made = self.records[0], self.stored.made
        return (
            f"{CATALOG[self.stored.name].title}, {record.task}, {made['heads']} heads, "
            f"L = {record.length}, d = {record.d}, on {made['device']}, "
            f"{made['threads']} thread(s), {made['date']}. Time over that of attention "
            f"without an encoding: {'; '.join(map(self.verdict, self.dtypes))}"
        )

    def rows(self) -> Iterator[tuple[str, ...]]:
        """A row for each call."""
        yield (
            "call",
            *(
                f"{dtype}: {what}"
                for dtype in self.dtypes
                for what in ("time / limit", "peak MB", "error")
            ),
        )
        for candidate in dict.fromkeys(record.candidate for record in self.records):
            cells = (self._cells(candidate, dtype) for dtype in self.dtypes)
            yield candidate, *(cell for three in cells for cell in three)

    def _cells(self, candidate: str, dtype: str) -> tuple[str, str, str]:
        """Time, memory and error, or dashes where it does not compile."""
        for r in self.records:
            if (r.candidate, r.dtype) == (candidate, dtype):
                time, peak = f"{r.ratio.median:.2f}", f"{r.peak_bytes / 1e6:.1f}"
                return time, peak, f"{r.error:.0e}"
        return "—", "—", "—"


def _is_ours(candidate: str) -> bool:
    return candidate.startswith("posedu, ")
