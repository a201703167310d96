"""Command that makes all cross-checks and timings on a GPU, and writes them as data.

``python -m posedu.book.gpu`` compares the implementations of every encoding in the
catalog on the device, in all modes of :func:`posedu.crosscheck.crosscheck` (eager,
compiled, flex, autocast). Then it times every encoding at its hook (the point of
attention where it acts), and compares encodings with published libraries that have
them. Each of these parts writes one file for each encoding,
``crosscheck-NAME-DEVICE.json``, ``timing-…`` or ``peers-…``; a part that fails is named
and does not stop the others. A second call continues: results of the same commit,
versions and device are kept. The exit status is 0 if every comparison holds.

``--device cpu --folder FOLDER`` tests the command where there is no GPU.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
from tqdm import tqdm

from posedu._command_line import whole_number
from posedu._result_table import require_writable
from posedu.book.provenance import file_label, provenance, same_making
from posedu.book.timing import Timing, time_encoding
from posedu.book.timing.peers import PEERS
from posedu.catalog import CATALOG
from posedu.crosscheck import MODES, CrossCheck, crosscheck
from posedu.crosscheck.common import compiled_dtypes

SEED = 0
REFUSAL = "There is no GPU here; --device cpu --folder FOLDER tests the command."

Part = tuple[str, str]
"""A kind of file, and the name of its catalog entry."""


def parts(names: Sequence[str] = tuple(CATALOG)) -> list[Part]:
    """Return the results to make for the named encodings, as (kind, name) pairs.

    The kinds are ``crosscheck`` (comparison of the implementations), ``timing``, and
    ``peers`` (timing of libraries), the last only for encodings that published
    libraries have. ``names`` are by default all encodings of the catalog.
    """
    kinds = {"crosscheck": CATALOG, "timing": CATALOG, "peers": PEERS}
    return [(kind, n) for kind, known in kinds.items() for n in names if n in known]


def check(
    name: str, *, modes: Sequence[str], device: torch.device, save_to: Path
) -> CrossCheck:
    """Compare an encoding's implementations in each mode, such as eager or compiled.

    A mode that raises an error is recorded in the result, with the error. A result
    stored at ``save_to`` is returned instead if it records no error and was made with
    the same modes, device, commit and versions.
    """
    made = provenance(device, SEED) | {"ways": [*modes]}  # the key in stored files
    if save_to.exists():
        stored = CrossCheck.load(save_to)
        if not stored.failed and same_making(stored.made, made):
            return stored
    result = CrossCheck(name, (), made=made)
    for mode in modes:
        try:
            found = crosscheck(name, modes=(mode,), devices=(device,), seed=SEED)
        except Exception as error:
            result.failed[mode] = _reason(error)
        else:
            result.results += found.results
            result.redrawn += found.redrawn
    result.save(save_to)
    return result


def _reason(error: Exception) -> str:
    """Return an exception's type and the first line of its message, as one text."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m posedu.book.gpu",
        description="Check and time every encoding on a GPU, and write it as data.",
    )
    parser.add_argument("names", nargs="*", metavar="name", help="default: all entries")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="default: cuda")
    parser.add_argument("--folder", help="default, of a GPU: book/data")
    parser.add_argument(
        "--modes", nargs="+", choices=MODES, default=MODES, help="to cross-check"
    )
    size = whole_number(1)
    parser.add_argument("--lengths", type=size, nargs="+", default=[2048, 8192])
    parser.add_argument("--repeats", type=size, default=30)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen cross-checks and timings, and report each.

    ``arguments`` are the command's arguments, by default the process's own. Return the
    exit status: 0 if all comparisons hold, else 1; 2 without a GPU, 130 after an
    interrupt.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in CATALOG]
    if unknown:
        parser.error(f"no entry is named {unknown[0]}; names are {', '.join(CATALOG)}")
    if options.device != "cpu" and not torch.cuda.is_available():
        print(REFUSAL, file=sys.stderr)
        return 2
    if options.device == "cpu" and not options.folder:
        parser.error("--device cpu needs a --folder other than the book's data")
    device = torch.device(options.device or "cuda")
    folder = Path(options.folder or "book/data")
    try:
        require_writable(folder / "result.json")
    except OSError as error:
        parser.error(str(error))
    runs = _runs(device, options)
    any_failed = False
    chosen = tqdm(parts(options.names or tuple(CATALOG)), unit="part")
    for kind, name in chosen:
        chosen.set_description(f"{kind} {name}")
        path = folder / f"{kind}-{name}-{file_label(device)}.json"
        lines, holds = [], kind != "crosscheck"
        try:
            result = runs[kind](name, save_to=path)
            if isinstance(result, CrossCheck):
                lines, holds = [*_crosscheck_lines(result)], result.ok
            elif result.complete:
                lines = [*_timing_lines(result)]
            else:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            chosen.close()
            print(f"Interrupted in {kind} {name}; a second call continues there.")
            return 130
        except Exception as error:
            lines = [f"✗ {_reason(error)}"]
        any_failed |= not holds
        for line in lines:
            chosen.write(f"{kind} {name}: {line}")
    print(f"Written to {folder}.")
    return int(any_failed)


def _runs(
    device: torch.device, options: argparse.Namespace
) -> dict[str, Callable[..., CrossCheck | Timing]]:
    """Return a function that makes each kind of result: cross-check, timing, peers.

    The functions, in a dict by kind, take an encoding's name and ``save_to``, the
    result's file. ``peers`` are timings of published libraries; ``options`` are the
    parsed options of the command line.
    """
    native = torch.bfloat16 in compiled_dtypes(device)
    timed = {
        "device": device,
        "dtypes": (torch.float32, torch.bfloat16 if native else torch.float16),
        "lengths": options.lengths,
        "repeats": options.repeats,
        "seed": SEED,
        "keep": True,
    }
    return {
        "crosscheck": partial(check, modes=options.modes, device=device),
        "timing": partial(time_encoding, **timed),
        "peers": lambda name, **given: PEERS[name](**timed, **given),
    }


def _crosscheck_lines(result: CrossCheck) -> Iterator[str]:
    failures = [row for row in result.results if not row.ok]
    for row in failures:
        where = f"{row.implementations}, {row.what}, {row.device}, {row.dtype}"
        yield f"✗ {where}: {row.used:.0%} of the bound"
    for mode, reason in result.failed.items():
        yield f"✗ {mode}: {reason}"
    compared = len(result.results)
    yield f"{compared - len(failures)} of {compared} comparisons hold"


def _timing_lines(result: Timing) -> Iterator[str]:
    yield f"{len(result.records)} measured"
    for what, reason in result.missing.items():
        yield f"{what} is missing ({reason})"


if __name__ == "__main__":
    sys.exit(main())
