"""How long an encoding takes and how much memory, against the physical limit.

An absolute time says little on a shared machine; a ratio to a limit measured in the
same run survives. The limit of a rotation is a copy of the same bytes into a kept
buffer, of an addition to the input likewise, and of anything inside attention the same
attention without an encoding. Limit and candidates alternate, and each timed call
follows an untimed one of its own, so that all find the caches alike.

``python -m posedu.timing rope`` times a catalog entry and writes a result file. The
book's comparison of RoPE with published libraries, on one thread, is remade by::

    python -m posedu.timing rope --peers --out book/data/timing-rope-cpu.json

On a CPU that command keeps freed memory (:data:`KEPT_MEMORY`), else every tensor of
32 MiB is returned to the system and faulted in anew, which costs more than most of what
is timed; a result says how it was. ``--system-memory`` leaves the allocator as it is.
"""

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import accumulate, product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module
from tqdm import tqdm

from posedu._arguments import require_choice, require_dimension
from posedu._tables import SavedTable
from posedu.catalog import CATALOG, Encoding, Variant
from posedu.torch import Attention, grid

KEPT_MEMORY = MappingProxyType(
    {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000"}
)
"""Environment in which glibc keeps freed memory; read once, as a process starts."""

METHOD = (
    "Median and quartiles of alternated calls: by events on CUDA, by the thread's own "
    "time on one CPU thread, else by the wall clock. Each timed call of candidate or "
    "limit follows an untimed one of its own; ratios are of neighbouring calls."
)

# torch.profiler writes its own starts and stops to stderr otherwise.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")

Run = Callable[[], Any]


@dataclass(frozen=True)
class Spread:
    """Lower quartile, median and upper quartile."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray) -> "Spread":
        """Of the given values."""
        return cls(*np.quantile(values, (0.25, 0.5, 0.75)).tolist())

    def __format__(self, spec: str) -> str:
        return f"{self.median:{spec}} [{self.low:{spec}}–{self.high:{spec}}]"


@dataclass(frozen=True)
class Record:
    """One candidate in one cell.

    ``error`` is against a float64 reference, where it was measured: relative, in the
    Euclidean norm, for a rotation; the largest of a cosine for a table.
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


@dataclass
class Timing(SavedTable):
    """What was measured, and on what."""

    name: str
    made: dict[str, Any]
    records: list[Record] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    complete: bool = False

    def select(self, **fields: Any) -> list[Record]:
        """Records whose fields have the given values."""
        return [
            record
            for record in self.records
            if all(getattr(record, name) == value for name, value in fields.items())
        ]

    @classmethod
    def load(cls, path: str | Path) -> "Timing":
        """Read what :meth:`save` wrote."""
        stored = json.loads(Path(path).read_text())
        spreads = ("seconds", "limit_seconds", "ratio")
        records = [
            Record(**record | {name: Spread(**record[name]) for name in spreads})
            for record in stored.pop("records")
        ]
        return cls(**stored, records=records)

    _HEAD = (
        *("candidate", "task", "L", "d", "dtype", "ms", "time / limit", "limit"),
        *("GB/s", "peak MB", "error"),
    )

    def rows(self) -> Iterator[tuple[str, ...]]:
        """A row for each record."""
        yield self._HEAD
        for r in self.records:
            yield (
                *(r.candidate, r.task, str(r.length), str(r.d), r.dtype),
                *(f"{1e3 * r.seconds.median:.3g}", f"{r.ratio:.2f}", r.limit),
                f"{r.bytes_moved / r.seconds.median / 1e9:.1f}",
                f"{r.peak_bytes / 1e6:.1f}",
                "" if r.error is None else f"{r.error:.1e}",
            )

    def caption(self) -> str:
        """On what it was measured, and what is missing."""
        made = self.made
        text = (
            f"{CATALOG[self.name].title} on {made['device']}, {made['threads']} "
            f"thread(s), torch {made['versions']['torch']}, {made['date']}: median "
            "[quartiles]"
        )
        if not self.complete:
            text += "; interrupted"
        for library, reason in self.missing.items():
            text += f"; {library} is missing ({reason})"
        return text


def alternate(
    candidates: Mapping[str, Run],
    limit: Run,
    *,
    device: torch.device,
    repeats: int,
    warm_up: int = 3,
) -> dict[str, np.ndarray]:
    """Seconds ``[repeats, 2]`` of each candidate and of the limit next to it."""
    clock = _cuda_clock if device.type == "cuda" else _cpu_clock

    def time_warm(run: Run) -> float:
        run()
        return clock(run)

    for run in (limit, *candidates.values()):
        for _ in range(warm_up):
            run()
    seconds = {name: np.empty((repeats, 2)) for name in candidates}
    for i in range(repeats):
        for name, run in candidates.items():
            limit_seconds = time_warm(limit)
            seconds[name][i] = time_warm(run), limit_seconds
    return seconds


def _cpu_clock(run: Run) -> float:
    """Seconds of a call; of one thread its own, without what others got meanwhile."""
    now = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    start = now()
    run()
    return now() - start


def _cuda_clock(run: Run) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def peak_memory(run: Run, device: torch.device) -> int:
    """The most bytes that a call holds at a time beyond what there was before it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        return torch.cuda.max_memory_allocated(device) - before
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        run()
    events = profile.profiler.kineto_results.events()
    events = sorted(
        (e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()
    )
    return max(accumulate((e.nbytes() for e in events), initial=0))


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
) -> list[Record]:
    """Time candidates against a limit and weigh their memory: a record each."""
    require_dimension("repeats", repeats, 1)
    seconds = alternate(candidates, limit, device=device, repeats=repeats)
    return [
        Record(
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


def provenance(device: torch.device, seed: int, libraries: Sequence[str] = ()) -> dict:
    """Everything that a reader needs in order to judge or repeat a measurement."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "device": _device_name(device),
        "threads": torch.get_num_threads(),
        "memory": "kept" if _keeps_memory() else "system",
        "seed": seed,
        "commit": _commit(),
        "versions": {
            "python": platform.python_version(),
            "posedu": version("posedu"),
            "torch": torch.__version__,
            "numpy": np.__version__,
            **{library: version(library) for library in libraries},
        },
        "method": METHOD,
    }


def _keeps_memory() -> bool:
    return all(os.environ.get(name) == value for name, value in KEPT_MEMORY.items())


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return models[0] if models else platform.machine()


def _commit() -> str | None:
    """The commit that the package is at, with "+" if its files were changed since."""
    package = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ".")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _inputs(
    entry: Encoding,
    length: int,
    d: int,
    heads: int,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Tensor, ...]:
    """What passes the encoding's door: q and k, or x."""
    rotates = "rotate" in entry.doors
    shape = (1, heads, length, d) if rotates else (1, length, heads * d)
    return tuple(
        torch.randn(shape, dtype=dtype, device=device, requires_grad=True)
        for _ in range(1 + rotates)
    )


def _at_its_door(
    entry: Encoding, variant: Variant, inputs: tuple[Tensor, ...], heads: int
) -> Run:
    """The encoding applied to the inputs, as a model would."""
    length, width = inputs[0].shape[-2:]
    d = width if "rotate" in entry.doors else width // heads
    module = entry.make(variant, d=d, heads=heads)
    module.to(inputs[0].device)
    positions = _positions(entry, length, inputs[0].device)
    if "rotate" in entry.doors:
        return lambda: module.rotate(*inputs, positions)
    if entry.doors == ("embed",):
        return lambda: (module.embed(*inputs, positions),)
    return _attention(inputs, heads, module)


def _positions(entry: Encoding, length: int, device: torch.device):
    """0, 1, 2, …, or the cells of the squarest grid of two axes with that many."""
    if entry.axes is None:
        return range(length)
    rows = max(n for n in range(1, math.isqrt(length) + 1) if length % n == 0)
    return grid(length // rows, rows, coordinates="ends", device=device)


def _limit(entry: Encoding, inputs: tuple[Tensor, ...], heads: int) -> tuple[str, Run]:
    if entry.doors[0] in ("rotate", "embed"):
        return "copy", copy_of(*inputs)
    return "attention without encoding", _attention(inputs, heads, None)


def _attention(inputs: tuple[Tensor, ...], heads: int, encoding: Module | None) -> Run:
    (x,) = inputs
    attention = encoding
    if not isinstance(encoding, Attention):
        has_kernel = encoding is not None and encoding.opens("attend")
        route = "fused" if has_kernel else None  # the best that serves
        attention = Attention(x.shape[-1], heads, encoding=encoding, route=route)
    attention.to(device=x.device, dtype=x.dtype)
    return lambda: (attention(x),)


def copy_of(*tensors: Tensor) -> Run:
    """A copy into buffers that are kept: what moving the bytes alone costs."""
    pairs = [(torch.empty_like(t), t.detach()) for t in tensors]
    return lambda: [buffer.copy_(t) for buffer, t in pairs]


def _with_gradient(run: Run, inputs: Sequence[Tensor]) -> Run:
    """Forward, then backward to ``inputs`` for gradients that lie ready."""
    gradients = [torch.randn_like(t) for t in run()]
    return lambda: torch.autograd.grad(run(), inputs, gradients)


def compiled(run: Run, *, fullgraph: bool = True) -> Run:
    """``run`` under ``torch.compile``, for the shapes that it has."""
    return torch.compile(run, fullgraph=fullgraph, dynamic=False)


def time_encoding(
    name: str,
    *,
    lengths: Sequence[int] = (512, 1024, 2048),
    head_dims: Sequence[int] = (64,),
    dtypes: Sequence[torch.dtype] = (torch.float32,),
    device: str | torch.device = "cpu",
    heads: int = 16,
    repeats: int = 30,
    compile: bool = False,
    seed: int = 0,
    save_to: str | Path | None = None,
) -> Timing:
    """Time an encoding at its door, forward and forward + backward, against the limit.

    Every variant of the catalog that fits d is timed. For one sequence of each length
    the tensors are q and k ``[1, heads, L, d]`` (door ``rotate``), or x
    ``[1, L, heads · d]``. The limit of forward + backward is twice the copy, or bare
    attention with its own.

    Parameters
    ----------
    name
        A key of ``posedu.catalog.CATALOG``.
    lengths, head_dims, dtypes
        A cell each combination.
    device
        ``"cpu"`` or ``"cuda"``.
    heads
        Default 16.
    repeats
        Timed calls of each candidate in a cell.
    compile
        Also time each variant under ``torch.compile(fullgraph=True)``; forgets what
        the process had compiled before.
    seed
        Of the random inputs.
    save_to
        A file that is rewritten after every cell.

    Returns
    -------
    Timing
        Also when interrupted, with the cells that were finished.

    Raises
    ------
    ValueError, TypeError
        Unknown name, lengths that are not positive integers, odd head dimensions.
    """
    require_choice("name", name, tuple(CATALOG))
    entry = CATALOG[name]
    device = torch.device(device)

    def measure(length: int, d: int, dtype: torch.dtype) -> Iterator[Record]:
        inputs = _inputs(entry, length, d, heads, dtype, device)
        runs = {
            entry.label(variant): _at_its_door(entry, variant, inputs, heads)
            for variant in entry.variants
            if d % entry.divisor(variant) == 0
        }
        if compile:
            torch.compiler.reset()
            runs |= {f"{label}, compiled": compiled(run) for label, run in runs.items()}
        limit_name, limit = _limit(entry, inputs, heads)
        cell = {
            "device": device,
            "repeats": repeats,
            "limit_name": limit_name,
            "length": length,
            "d": d,
            "dtype": dtype,
        }
        moved = 2 * sum(t.nbytes for t in inputs)
        with torch.no_grad():
            yield from compare(runs, limit, task="forward", bytes_moved=moved, **cell)
        if limit_name == "copy":
            limit = copy_of(*inputs, *inputs)
        else:
            limit = _with_gradient(limit, inputs)
        yield from compare(
            {label: _with_gradient(run, inputs) for label, run in runs.items()},
            limit,
            task="forward + backward",
            bytes_moved=2 * moved,
            **cell,
        )

    result = Timing(name, provenance(device, seed))
    cells = list(product(lengths, head_dims, dtypes))
    return collect(result, measure, cells, save_to)


def collect(
    result: Timing,
    measure: Callable[..., Iterator[Record]],
    cells: Sequence[tuple[int, int, torch.dtype]],
    save_to: str | Path | None,
) -> Timing:
    """Measure cell after cell, keeping every finished one, to the end or an interrupt.

    A cell is a length, a head dimension and a dtype.
    """
    for length, d, _ in cells:
        require_dimension("length", length, 1)
        require_dimension("d", d)
    torch.manual_seed(result.made["seed"])
    try:
        for cell in tqdm(cells, desc=result.name, unit="cell"):
            result.records.extend([*measure(*cell)])
            if save_to is not None:
                result.save(save_to)
        result.complete = True
    except KeyboardInterrupt:
        print(f"interrupted: {len(result.records)} records kept", file=sys.stderr)
    if save_to is not None:
        result.save(save_to)
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m posedu.timing",
        description="Time an encoding against the physical limit, in one run.",
    )
    parser.add_argument("name", choices=CATALOG, help="a catalog entry")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 8192])
    parser.add_argument("--head-dims", type=int, nargs="+", default=[64, 128])
    dtypes = ("float64", "float32", "bfloat16", "float16")
    parser.add_argument(
        "--dtypes", nargs="+", choices=dtypes, default=["float32", "bfloat16"]
    )
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="result file; default timing-NAME-DEVICE.json")
    parser.add_argument(
        "--system-memory",
        action="store_true",
        help="leave the allocator as it is (see the module's text)",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--compile", action="store_true", help="torch.compile it too")
    what.add_argument(
        "--peers", action="store_true", help="rope beside the published libraries"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Time a catalog entry, print the table, write the result file."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.peers and options.name != "rope":
        parser.error(f"--peers is for rope, got {options.name}")
    device = torch.device(options.device)
    if device.type == "cpu" and not options.system_memory and not _keeps_memory():
        os.execve(sys.executable, sys.orig_argv, os.environ | KEPT_MEMORY)
    torch.set_num_threads(options.threads)
    out = options.out or f"timing-{options.name}-{device.type}.json"
    common = {
        "lengths": options.lengths,
        "head_dims": options.head_dims,
        "dtypes": [getattr(torch, dtype) for dtype in options.dtypes],
        "device": device,
        "repeats": options.repeats,
        "seed": options.seed,
        "save_to": out,
    }
    if options.peers:
        from posedu.peers import time_peers

        result = time_peers(**common)
    else:
        result = time_encoding(options.name, compile=options.compile, **common)
    print(f"{result}\nwritten to {out}")
    return 0 if result.complete else 130


if __name__ == "__main__":
    sys.exit(main())
