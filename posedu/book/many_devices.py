"""Every encoding on processes that share a text: the table of the largest errors.

``python -m posedu.book.many_devices`` starts processes of ``torch.distributed``, which
exchange by gloo, and writes ``many-devices-cpu.json``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from posedu._command_line import whole_number
from posedu.book.provenance import provenance
from posedu.catalog import CATALOG
from posedu.crosscheck.many_devices import SEED, Row, rows
from posedu.crosscheck.processes import on_processes
from posedu.torch.parallel import Processes

METHOD = (
    "Every configuration of an encoding in a layer or a model of float64, forward and "
    "backward, by processes that exchange by gloo, against the same model in one "
    "process. Errors are the largest over configurations and ranks, in units of the "
    "largest number, at least 1; sent are the bytes of the rank that sent most, of one "
    "configuration, forward and backward."
)


def of_processes(count: int, names: Sequence[str]) -> list[Row]:
    """Return the rows of ``count`` processes for the encodings of these names."""

    def run() -> list[Row]:
        ranks = Processes()
        title = f"{count} processes"
        each = tqdm(names, disable=ranks.rank > 0, unit="encoding", desc=title)
        return [*rows(ranks, each)]

    found: list[Row] = on_processes(count, run)
    return found


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
        row for count in options.processes for row in of_processes(count, [*CATALOG])
    ]
    made = provenance(torch.device("cpu"), SEED) | {"method": METHOD}
    path = options.folder / "many-devices-cpu.json"
    path.write_text(as_json(made, table), encoding="utf-8")
    print(f"in {path}")


if __name__ == "__main__":
    main()
