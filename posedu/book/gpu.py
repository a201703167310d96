"""All that wants a GPU, in one command: checks and timings on it, as data to commit.

``python -m posedu.book.gpu`` holds the implementations of every catalog entry against each other on
the device, in all the modes of :func:`posedu.crosscheck.crosscheck`, then times every
entry at its hook, and those that published libraries have beside them. Each part writes
one file, ``crosscheck-NAME-DEVICE.json``, ``timing-…`` or ``peers-…``, and a part that
fails is named without stopping the others. Called again, it goes on: what the same
commit has made with the same versions on the same device stays as it is. The exit
status is 0 if every comparison held.

``--device cpu --folder FOLDER`` tries the command itself where there is no GPU.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
from tqdm import tqdm

from posedu.book.provenance import file_label, provenance, same_making
from posedu.book.timing import Timing, time_encoding
from posedu.book.timing.peers import PEERS
from posedu.catalog import CATALOG
from posedu.crosscheck import MODES, CrossCheck, crosscheck
from posedu.crosscheck.common import compiled_dtypes

SEED = 0
REFUSAL = "There is no GPU here; --device cpu --folder FOLDER tries the command."

Part = tuple[str, str]
"""A kind of file, and the catalog entry that it is of."""


def parts(names: Sequence[str] = tuple(CATALOG)) -> list[Part]:
    """What the command does for these entries, in order."""
    kinds = {"crosscheck": CATALOG, "timing": CATALOG, "peers": PEERS}
    return [(kind, n) for kind, known in kinds.items() for n in names if n in known]


def check(
    name: str, *, ways: Sequence[str], device: torch.device, save_to: Path
) -> CrossCheck:
    """Try one way after another; what fails with an error is told in the result."""
    made = provenance(device, SEED) | {"ways": [*ways]}
    if save_to.exists():
        stored = CrossCheck.load(save_to)
        if not stored.failed and same_making(stored.made, made):
            return stored
    result = CrossCheck(name, (), made=made)
    for way in ways:
        try:
            found = crosscheck(name, modes=(way,), devices=(device,), seed=SEED)
        except Exception as error:
            result.failed[way] = _reason(error)
        else:
            result.results += found.results
            result.redrawn += found.redrawn
    result.save(save_to)
    return result


def _reason(error: Exception) -> str:
    """Its kind, and the first line of what it says."""
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
        "--ways", nargs="+", choices=MODES, default=MODES, help="to check"
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 8192])
    parser.add_argument("--repeats", type=int, default=30)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every part, say what came of it, and whether all comparisons held."""
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in CATALOG]
    if unknown:
        parser.error(f"no entry is named {unknown[0]}; there are {', '.join(CATALOG)}")
    if options.device is None and not torch.cuda.is_available():
        print(REFUSAL, file=sys.stderr)
        return 2
    if options.device == "cpu" and not options.folder:
        parser.error("--device cpu wants a --folder: the book's files are not for it")
    device = torch.device(options.device or "cuda")
    folder = Path(options.folder or "book/data")
    runs = _runs(device, options)
    disagree = False
    chosen = tqdm(parts(options.names or tuple(CATALOG)), unit="part")
    for kind, name in chosen:
        chosen.set_description(f"{kind} {name}")
        path = folder / f"{kind}-{name}-{file_label(device)}.json"
        lines, held = [], kind != "crosscheck"
        try:
            result = runs[kind](name, save_to=path)
            if isinstance(result, CrossCheck):
                lines, held = [*_of_check(result)], result.ok
            elif result.complete:
                lines = [*_of_timing(result)]
            else:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            chosen.close()
            print(f"Interrupted in {kind} {name}; called again, it goes on there.")
            return 130
        except Exception as error:
            lines = [f"✗ {_reason(error)}"]
        disagree |= not held
        for line in lines:
            chosen.write(f"{kind} {name}: {line}")
    print(f"Written to {folder}.")
    return int(disagree)


def _runs(
    device: torch.device, options: argparse.Namespace
) -> dict[str, Callable[..., CrossCheck | Timing]]:
    """What makes each kind of file, given a name and ``save_to``."""
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
        "crosscheck": partial(check, ways=options.ways, device=device),
        "timing": partial(time_encoding, **timed),
        "peers": lambda name, **given: PEERS[name](**timed, **given),
    }


def _of_check(result: CrossCheck) -> Iterator[str]:
    wrong = [row for row in result.results if not row.ok]
    for row in wrong:
        where = f"{row.implementations}, {row.what}, {row.device}, {row.dtype}"
        yield f"✗ {where}: {row.used:.0%} of the bound"
    for way, reason in result.failed.items():
        yield f"✗ {way}: {reason}"
    compared = len(result.results)
    yield f"{compared - len(wrong)} of {compared} comparisons held"


def _of_timing(result: Timing) -> Iterator[str]:
    yield f"{len(result.records)} measured"
    for what, reason in result.missing.items():
        yield f"{what} is missing ({reason})"


if __name__ == "__main__":
    sys.exit(main())
