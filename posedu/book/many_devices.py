"""Every encoding on processes that share a text: the table of the largest errors.

``python -m posedu.book.many_devices`` starts processes of ``torch.distributed``, which
exchange by gloo, and writes ``many-devices-cpu.json``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tqdm import tqdm

from posedu._command_line import whole_number
from posedu.book.provenance import provenance
from posedu.catalog import CATALOG
from posedu.crosscheck.many_devices import SEED, Row, rows
from posedu.torch.parallel import Processes

METHOD = (
    "Every configuration of an encoding in a layer or a model of float64, forward and "
    "backward, by processes that exchange by gloo, against the same model in one "
    "process. Errors are the largest over configurations and ranks, in units of the "
    "largest number, at least 1; sent are the bytes of the rank that sent most, of one "
    "configuration, forward and backward."
)


def of_processes(count: int, names: Sequence[str], *, shown: bool = False) -> list[Row]:
    """Return the rows of ``count`` processes for the encodings of these names.

    Raises
    ------
    RuntimeError
        A process that ended with an error.
    """
    context = multiprocessing.get_context("fork")  # posedu is imported already
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{Path(folder, 'meeting')}"
        processes = [
            context.Process(
                target=_run, args=(rank, count, meeting, names, shown, sender)
            )
            for rank in range(count)
        ]
        for process in processes:
            process.start()
        sender.close()
        try:
            found: list[Row] = receiver.recv()
        except EOFError:
            found = []
        for process in processes:
            process.join()
    codes = [process.exitcode for process in processes]
    if any(codes) or not found:
        raise RuntimeError(f"the processes ended with the exit codes {codes}")
    return found


def _run(
    rank: int,
    count: int,
    meeting: str,
    names: Sequence[str],
    shown: bool,
    sender: Connection,
) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=count)
    hidden = not shown or rank > 0
    each = tqdm(names, disable=hidden, unit="encoding", desc=f"{count} processes")
    found = [*rows(Processes(), each)]
    dist.destroy_process_group()
    if rank == 0:
        sender.send(found)


def as_json(made: Mapping[str, Any], table: Sequence[Row]) -> str:
    """Return the provenance and the table as JSON, a line for each row."""
    lines = (
        json.dumps(
            [float(f"{v:.2g}") if isinstance(v, float) else v for v in astuple(r)]
        )
        for r in table
    )
    head = json.dumps(
        {"made": made, "columns": [f.name for f in fields(Row)]}, indent=1
    )
    return head[:-2] + ',\n "rows": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"


def main() -> None:
    """Write the table of all encodings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--processes", type=whole_number(1, 64), nargs="+", default=[2, 4]
    )
    parser.add_argument("--folder", type=Path, default=Path())
    options = parser.parse_args()
    table = [
        row
        for count in options.processes
        for row in of_processes(count, [*CATALOG], shown=True)
    ]
    made = provenance(torch.device("cpu"), SEED) | {"method": METHOD}
    path = options.folder / "many-devices-cpu.json"
    path.write_text(as_json(made, table), encoding="utf-8")
    print(f"in {path}")


if __name__ == "__main__":
    main()
