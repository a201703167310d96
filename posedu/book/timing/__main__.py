"""Command ``python -m posedu.book.timing``: times encodings, writes result files."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from posedu._command_line import whole_number
from posedu.book.provenance import file_label, keep_memory
from posedu.book.timing.encodings import time_encoding
from posedu.book.timing.peers import PEERS
from posedu.catalog import CATALOG


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m posedu.book.timing",
        description="Time encodings against the physical limit, in one run.",
    )
    entries = parser.add_mutually_exclusive_group(required=True)
    entries.add_argument("name", nargs="?", choices=CATALOG, help="a catalog entry")
    entries.add_argument(
        "--all",
        action="store_true",
        help="every entry, except those timed with these settings at this commit",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    size = whole_number(1)
    parser.add_argument("--lengths", type=size, nargs="+", default=[512, 2048])
    parser.add_argument("--head-dims", type=size, nargs="+", default=[64])
    parser.add_argument("--heads", type=size, default=8)
    dtypes = ("float64", "float32", "bfloat16", "float16")
    parser.add_argument(
        "--dtypes", nargs="+", choices=dtypes, default=["float32", "bfloat16"]
    )
    parser.add_argument("--repeats", type=size, default=9)
    parser.add_argument("--threads", type=size, default=1)
    parser.add_argument("--seed", type=whole_number(0), default=0)
    parser.add_argument("--folder", default=".", help="folder of the result files")
    parser.add_argument(
        "--system-memory",
        action="store_true",
        help="leave the allocator as it is (see the docstring of posedu.book.timing)",
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--compile", action="store_true", help="also time it under torch.compile"
    )
    mode.add_argument(
        "--peers",
        action="store_true",
        help=f"compare with published libraries; available for {', '.join(PEERS)}",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Time encodings of the catalog, print their tables, and write a file for each.

    ``arguments`` are the command's arguments, by default the process's own. Return the
    exit status: 130 after an interrupt, else 0.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    names = list(PEERS if options.peers else CATALOG) if options.all else [options.name]
    if options.peers and names[0] not in PEERS:
        parser.error(f"--peers is available for {', '.join(PEERS)}, got {names[0]}")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda needs a GPU, and PyTorch finds none")
    device = torch.device(options.device)
    if device.type == "cpu" and not options.system_memory:
        keep_memory()
    torch.set_num_threads(options.threads)
    common = {
        "lengths": options.lengths,
        "head_dims": options.head_dims,
        "dtypes": [getattr(torch, dtype) for dtype in options.dtypes],
        "device": device,
        "heads": options.heads,
        "repeats": options.repeats,
        "seed": options.seed,
        "keep": options.all,
    }
    for name in names:
        kind = "peers" if options.peers else "timing"
        path = Path(options.folder) / f"{kind}-{name}-{file_label(device)}.json"
        try:
            if options.peers:
                result = PEERS[name](**common, save_to=path)
            else:
                result = time_encoding(
                    name, **common, compile=options.compile, save_to=path
                )
        except (ValueError, OSError) as error:
            parser.error(f"{name}: {error}")
        print(f"{result}\nin {path}")
        if not result.complete:
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
