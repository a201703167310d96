"""Times of a layer on processes that share a text, and the bytes that they send.

``python -m posedu.book.timing.many_devices`` starts 1, 2 and 4 processes of one thread
each, which exchange by gloo, and writes ``many-devices-times-cpu.json``. More processes
than cores share them, and take as long as fewer.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from posedu._command_line import whole_number
from posedu.book.provenance import provenance
from posedu.crosscheck.processes import on_processes
from posedu.torch import Attention, KVCache, RoPE
from posedu.torch.bias import ALiBi
from posedu.torch.encoding import Encoding
from posedu.torch.parallel import FORMS, Processes, TextCut, context_parallel

HEADS, D, TOKENS, REPEATS, SEED = 4, 64, 4096, 5, 0
ALONE = "one device"
ENCODINGS: dict[str, Callable[[], Encoding]] = {
    "RoPE": lambda: RoPE(D, layout="half"),
    "ALiBi": lambda: ALiBi(HEADS, slopes="authors"),
}


@dataclass(frozen=True)
class Time:
    """Seconds of a task on processes, and the bytes that each of them sends.

    ``form`` is that of the cut, or one device. Seconds are the median over calls, of
    the slowest process.
    """

    encoding: str
    processes: int
    form: str
    task: str
    tokens: int
    seconds: float
    sent: int


def times(tokens: int = TOKENS, repeats: int = REPEATS) -> Iterator[Time]:
    """Yield the times of this process group, on all of its processes.

    The tasks are a forward and backward pass over so many ``tokens`` of a layer in
    float32, zigzag, and a token that is decoded after them.
    """
    ranks = Processes()
    forms = [ALONE] if ranks.size == 1 else [*FORMS]
    for name, make in ENCODINGS.items():
        torch.manual_seed(SEED)
        layer = Attention(HEADS * D, HEADS, encoding=make())
        x = torch.randn(1, tokens, HEADS * D)
        for form in forms:
            cut: AbstractContextManager[TextCut | None] = nullcontext()
            if form in FORMS:
                cut = context_parallel(ranks, form=form)
            with cut as own_cut:
                own = x if own_cut is None else own_cut.own(x, 1)
                for task, run in _tasks(layer, own, own_cut).items():
                    seconds, sent = _measured(run, ranks, repeats)
                    case = name, ranks.size, form, task, tokens
                    yield Time(*case, seconds, sent)


def _tasks(
    layer: Attention, x: Tensor, cut: TextCut | None
) -> dict[str, Callable[[], Any]]:
    cache = KVCache() if cut is None else cut.cache()
    with torch.no_grad():
        layer(x, cache=cache)

    @torch.no_grad()
    def decode() -> None:
        layer(x[:, :1], cache=cache.shared())

    return {
        "forward and backward": lambda: layer(x).sum().backward(),
        "decode": decode,
    }


def _measured(
    run: Callable[[], Any], ranks: Processes, repeats: int
) -> tuple[float, int]:
    """Return median seconds of the slowest process, and bytes of a call."""
    run()
    found, sent = [], 0
    for _ in range(repeats):
        ranks.gather(torch.zeros(1))  # all start together
        before, start = ranks.sent, perf_counter()
        run()
        own = torch.tensor(perf_counter() - start, dtype=torch.float64)
        sent = ranks.sent - before
        found.append(max(t.item() for t in ranks.gather(own)))
    return median(found), sent


def main() -> None:
    """Write the times of one device and of processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=whole_number(8, 2**20), default=TOKENS)
    parser.add_argument("--repeats", type=whole_number(1, 1000), default=REPEATS)
    parser.add_argument("--folder", type=Path, default=Path())
    options = parser.parse_args()
    rows: list[Time] = []
    for count in (1, 2, 4):
        rows += on_processes(count, lambda: [*times(options.tokens, options.repeats)])
    made = provenance(torch.device("cpu"), SEED) | {
        "cores": os.cpu_count(),
        "threads": "1 a process",
        "repeats": options.repeats,
    }
    table = [asdict(row) | {"seconds": float(f"{row.seconds:.2g}")} for row in rows]
    path = options.folder / "many-devices-times-cpu.json"
    path.write_text(
        json.dumps({"made": made, "rows": table}, indent=1) + "\n", encoding="utf-8"
    )
    print(f"in {path}")


if __name__ == "__main__":
    main()
