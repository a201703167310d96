"""Comparison of attention with published libraries: time, peak memory and error.

Results are made by :func:`posedu.book.timing.peers.time_attention`; all times are
ratios to the time of attention without an encoding.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from posedu._result_table import Table
from posedu.book.timing.results import Measurement, Timing
from posedu.catalog import CATALOG

ABSENT = "—"  # for a call that does not compile


@dataclass(frozen=True)
class AttentionComparison(Table):
    """Time, peak memory and error of attention, by posedu and by published libraries.

    ``stored`` is the timing result with the measurements. Those at the longest length
    are compared, for each dtype.
    """

    stored: Timing

    @property
    def records(self) -> list[Measurement]:
        """Measurements of attention at the longest length, in order of measurement."""
        longest = max(record.length for record in self.stored.records)
        return self.stored.select(length=longest)

    @property
    def dtypes(self) -> list[str]:
        """Names of the dtypes of measured attention, in the order of measurement."""
        return [*dict.fromkeys(record.dtype for record in self.records)]

    def fastest(self, dtype: str) -> tuple[Measurement, Measurement | None]:
        """Return the measurements of posedu's and of the libraries' fastest attention.

        Both measurements are for the given dtype, such as ``"float32"``. The second is
        None if no library was installed.
        """
        records = [record for record in self.records if record.dtype == dtype]
        records.sort(key=lambda record: record.ratio.median)
        ours = [record for record in records if _is_ours(record)]
        theirs = [record for record in records if not _is_ours(record)]
        return ours[0], theirs[0] if theirs else None

    def verdict(self) -> str:
        """Describe by which factor posedu is faster or slower than the fastest library.

        The text has a factor for each dtype: the ratio of the times of posedu's fastest
        attention and of the fastest library's attention.
        """
        verdicts = "; ".join(map(self._verdict, self.dtypes))
        return f"{CATALOG[self.stored.name].title}: {verdicts}"

    def _verdict(self, dtype: str) -> str:
        ours, theirs = self.fastest(dtype)
        text = f"in {dtype} ours takes {ours.ratio.median:.2f} ({ours.candidate})"
        if theirs is None:
            return f"{text}, and no library was installed"
        factor = theirs.ratio.median / ours.ratio.median
        side = "ahead" if factor >= 1 else "behind"
        return (
            f"{text}, the fastest library {theirs.ratio.median:.2f} "
            f"({theirs.candidate}): ours is {side} by a factor of "
            f"{max(factor, 1 / factor):.2f}, with {ours.peak_bytes / 1e6:.1f} MB "
            f"compared with {theirs.peak_bytes / 1e6:.1f}"
        )

    def caption(self) -> str:
        """Return the comparison table's caption: task, device and missing libraries.

        The caption also says what the table's columns mean.
        """
        record, made = self.records[0], self.stored.made
        text = (
            f"{CATALOG[self.stored.name].title}, {record.task}, {made['heads']} heads, "
            f"L = {record.length}, d = {record.d}, on {made['device']}, "
            f"{made['threads']} thread(s), {made['date']}: time over that of attention "
            "without an encoding, peak memory, and relative error against float64"
        )
        for library, reason in self.stored.missing.items():
            text += f"; {library} is missing ({reason})"
        return text

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the comparison table's column titles, then a row for each function.

        Each function computes attention, by posedu or a library. Columns are, for each
        dtype, the time over the time of attention without an encoding, the peak memory
        and the relative error against float64.
        """
        columns = ("time / limit", "peak MB", "error")
        head = (f"{dtype}: {column}" for dtype in self.dtypes for column in columns)
        yield "call", *head
        for candidate in dict.fromkeys(record.candidate for record in self.records):
            cells = (self._cells(candidate, dtype) for dtype in self.dtypes)
            yield candidate, *(cell for three in cells for cell in three)

    def _cells(self, candidate: str, dtype: str) -> tuple[str, str, str]:
        for r in self.records:
            if (r.candidate, r.dtype) == (candidate, dtype):
                time, peak = f"{r.ratio.median:.2f}", f"{r.peak_bytes / 1e6:.1f}"
                return time, peak, f"{r.error:.0e}"
        return ABSENT, ABSENT, ABSENT


def _is_ours(record: Measurement) -> bool:
    return record.candidate.startswith("posedu, ")
