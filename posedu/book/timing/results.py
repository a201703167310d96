"""Results of timings: measurements of functions and their limits, and result files.

A function's limit is another function to whose time its time is compared, such as a
copy of the same data.
"""

import gc
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from posedu._argument_types import check_types
from posedu._arguments import require_choice, require_dimension, require_not_negative
from posedu._result_table import SavedTable, reading, require_writable
from posedu.book import figures
from posedu.book.provenance import provenance, same_making
from posedu.book.timing.clock import Run, alternate, peak_memory
from posedu.catalog import CATALOG

NOTHING: Mapping[str, str] = MappingProxyType({})
METHOD = (
    "Median and quartiles of alternated calls: by events on CUDA, by the thread's own "
    "time on one CPU thread, else by the wall clock. Each timed call of candidate or "
    "limit follows an untimed one of its own; ratios are of neighboring calls."
)


@check_types
@dataclass(frozen=True)
class Spread:
    """Lower quartile, median and upper quartile of repeated measurements."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray) -> "Spread":
        """Return the quartiles of an array of at least one number."""
        if not np.size(values):
            raise ValueError("values must have at least one number, got none")
        return cls(*np.quantile(values, (0.25, 0.5, 0.75)).tolist())

    def __format__(self, spec: str) -> str:
        return f"{self.median:{spec}} [{self.low:{spec}}–{self.high:{spec}}]"


@check_types
@dataclass(frozen=True)
class Measurement:
    """Time, peak memory and error of a function at one length, head dimension, dtype.

    ``candidate`` is the function's name, ``task`` what it computes, such as
    ``"forward"``, and ``limit`` the name of the function to whose time its time is
    compared. ``ratio`` is the quotient of both times, ``bytes_moved`` the bytes that a
    call reads and writes at least. ``error`` is the difference from a float64
    reference: relative in the Euclidean norm for a rotation and for attention, the
    largest error of a cosine for a table; None if it was not measured.
    """

    candidate: str
    task: str
    limit: str
    length: int
    d: int
    dtype: str
    seconds: Spread
    limit_seconds: Spread
    ratio: Spread
    repeats: int
    bytes_moved: int
    peak_bytes: int
    error: float | None = None


@check_types
@dataclass
class Timing(SavedTable):
    """Result of timing: its measurements, and how they were made.

    ``name`` is the name of the timed encoding or of a task of models, such as
    ``decoding``; ``records`` are the measurements. ``made`` has date, device, versions,
    commit and settings. ``missing`` maps each library or size that was not measured to
    the reason. ``complete`` is false after an interrupt.
    """

    name: str
    made: dict[str, Any]
    records: list[Measurement] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    complete: bool = False

    def select(self, **fields: Any) -> list[Measurement]:
        """Return the measurements whose fields have the given values.

        An example is ``select(task="forward", length=2048)``; without arguments all
        measurements are returned.
        """
        return [
            record
            for record in self.records
            if all(getattr(record, name) == value for name, value in fields.items())
        ]

    @classmethod
    def begin(
        cls,
        name: str,
        device: torch.device,
        seed: int,
        libraries: Sequence[str] = (),
        missing: Mapping[str, str] = NOTHING,
        **settings: Any,
    ) -> "Timing":
        """Return a timing result with its provenance, without measurements yet.

        ``name`` is the name of the encoding or of a task of models, such as
        ``decoding``. Provenance is date, device, seed, versions, commit and
        ``settings``. ``libraries`` are the published libraries that are also timed;
        ``missing`` maps each library that is not timed to the reason.
        """
        made = provenance(device, seed, libraries) | {"method": METHOD}
        return cls(name, made | settings, missing=dict(missing))

    @classmethod
    def load(cls, path: str | Path) -> "Timing":
        """Read a timing result from a file that :meth:`save` wrote."""
        spreads = ("seconds", "limit_seconds", "ratio")
        with reading(path, "a result of posedu.book.timing"):
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
            records = [
                Measurement(**record | {s: Spread(**record[s]) for s in spreads})
                for record in stored.pop("records")
            ]
            for record in records:
                for name in spreads:
                    for quartile in vars(getattr(record, name)).values():
                        require_not_negative(f"{record.candidate}: {name}", quartile)
            return cls(**stored, records=records)

    _HEAD = (
        "candidate",
        "task",
        "L",
        "d",
        "dtype",
        "ms",
        "time / limit",
        "limit",
        "GB/s",
        "peak MB",
        "error",
    )

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the table's column titles, then a row for each measurement.

        A row has function, task, length, head dimension, dtype, time, ratio to the
        limit's time, the limit's name, gigabytes per second, peak memory and error.
        """
        yield self._HEAD
        for r in self.records:
            yield (
                r.candidate,
                r.task,
                str(r.length),
                str(r.d),
                r.dtype,
                f"{1e3 * r.seconds.median:.3g}",
                f"{r.ratio:.2f}",
                r.limit,
                f"{r.bytes_moved / r.seconds.median / 1e9:.1f}",
                f"{r.peak_bytes / 1e6:.1f}",
                "" if r.error is None else f"{r.error:.1e}",
            )

    def figure(self, task: str, *, caption: str, alt: str) -> figures.Figure:
        """Draw milliseconds of every timed function and of the limit over the length.

        The limit is the function to whose time the others are compared. ``task``, such
        as ``"forward"``, must have been measured with one head dimension and dtype.
        """
        require_choice("task", task, tuple({record.task: 0 for record in self.records}))
        lines: dict[str, list[Measurement]] = {}
        for record in self.select(task=task):
            lines.setdefault(record.candidate, []).append(record)
        first = next(iter(lines.values()))
        medians = {
            **{name: [r.seconds.median for r in line] for name, line in lines.items()},
            f"limit: {first[0].limit}": [r.limit_seconds.median for r in first],
        }
        return figures.curves(
            np.array([r.length for r in first]),
            {name: 1e3 * np.array(line) for name, line in medians.items()},
            x_label="length L",
            y_label="milliseconds",
            x_scale="log",
            y_scale="log",
            caption=caption,
            alt=alt,
        )

    def caption(self) -> str:
        """Return the caption of the table of measurements.

        It has encoding, device, threads, PyTorch version and date, and names missing
        libraries with the reasons.
        """
        made = self.made
        title = self.name.capitalize()
        if self.name in CATALOG:
            title = CATALOG[self.name].title
        text = (
            f"{title} on {made['device']}, {made['threads']} "
            f"thread(s), torch {made['versions']['torch']}, {made['date']}: median "
            "[quartiles]"
        )
        if not self.complete:
            text += "; interrupted"
        for library, reason in self.missing.items():
            text += f"; {library} is missing ({reason})"
        return text


@check_types
def compare(
    candidates: Mapping[str, Run],
    limit: Run,
    *,
    limit_name: str,
    task: str,
    length: int,
    d: int,
    dtype: torch.dtype,
    device: torch.device,
    repeats: int,
    bytes_moved: int,
    errors: Mapping[str, float] | None = None,
) -> list[Measurement]:
    """Time functions and a limit in alternation; return a measurement of each function.

    ``candidates`` maps names to the functions; the limit is the function to whose time
    theirs are compared, ``limit_name`` its name. ``task`` says what the functions
    compute, such as ``"forward"``. A measurement has times and peak memory, and stores
    ``length``, ``d``, ``dtype``, each function's error (None without ``errors``) and
    ``bytes_moved``, the number of bytes that a call reads and writes at least.
    """
    require_dimension("repeats", repeats, 1)
    gc.collect()  # nothing else frees graphs with checkpoints
    seconds = alternate(candidates, limit, device=device, repeats=repeats)
    return [
        Measurement(
            candidate=name,
            task=task,
            limit=limit_name,
            length=length,
            d=d,
            dtype=str(dtype).removeprefix("torch."),
            seconds=Spread.of(seconds[name][:, 0]),
            limit_seconds=Spread.of(seconds[name][:, 1]),
            ratio=Spread.of(seconds[name][:, 0] / seconds[name][:, 1]),
            repeats=repeats,
            bytes_moved=bytes_moved,
            peak_bytes=peak_memory(run, device),
            error=None if errors is None else errors[name],
        )
        for name, run in candidates.items()
    ]


@check_types
def collect(
    result: Timing,
    measure: Callable[..., Iterator[Measurement]],
    cells: Sequence[tuple[int, int, torch.dtype]],
    save_to: str | Path | None,
    keep: bool,
) -> Timing:
    """Measure every cell (length, head dimension, dtype); save the result after each.

    ``measure(length, d, dtype)`` yields a cell's measurements, which are added to
    ``result``. ``save_to`` is the result's file; None saves nothing. An interrupted run
    is saved, too. A cell for which the device has too little memory is recorded as
    missing. With ``keep``, the result in ``save_to`` is returned as it is if it is
    complete and was made with the same settings, device, commit and versions.
    """
    names = {cell: _name(*cell) for cell in cells}
    result.made["cells"] = [*names.values()]
    for length, d, _ in cells:
        require_dimension("length", length, 1)
        require_dimension("d", d)
    torch.manual_seed(result.made["seed"])
    if save_to is not None:
        if keep and Path(save_to).exists():
            stored = Timing.load(save_to)
            if stored.complete and same_making(stored.made, result.made):
                return stored
        require_writable(save_to)
    try:
        for cell in tqdm(cells, desc=result.name, unit="cell", leave=None):
            try:
                result.records.extend([*measure(*cell)])
            except torch.OutOfMemoryError:
                result.missing[names[cell]] = "out of memory"
            if save_to is not None:
                result.save(save_to)
        result.complete = True
    except KeyboardInterrupt:
        print(f"interrupted: {len(result.records)} records are saved", file=sys.stderr)
    if save_to is not None:
        result.save(save_to)
    return result


def _name(length: int, d: int, dtype: torch.dtype) -> str:
    return f"L = {length}, d = {d}, {str(dtype).removeprefix('torch.')}"
