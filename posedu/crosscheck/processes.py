"""Processes of ``torch.distributed`` on this machine, which exchange by gloo."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


def on_processes(
    count: int,
    run: Callable[[], Any],
    timeout: timedelta = timedelta(minutes=30),
) -> Any:
    """Return the result of ``run`` in the first of ``count`` processes.

    All of them call ``run``, on one thread each. They are forks, which need not import
    anything again: no other thread may run, and autograd not have been used. A process
    that waits for another one longer than ``timeout`` raises an error.

    Raises
    ------
    RuntimeError
        A process that ended with an error.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{Path(folder, 'meeting')}"
        processes = [
            context.Process(
                target=_rank, args=(rank, count, meeting, timeout, run, sender)
            )
            for rank in range(count)
        ]
        for process in processes:
            process.start()
        sender.close()
        found = []
        with suppress(EOFError):
            found.append(receiver.recv())
        for process in processes:
            process.join()
    codes = [process.exitcode for process in processes]
    if any(codes) or not found:
        raise RuntimeError(f"the processes ended with the exit codes {codes}")
    return found[0]


def _rank(
    rank: int,
    count: int,
    meeting: str,
    timeout: timedelta,
    run: Callable[[], Any],
    sender: Connection,
) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=meeting, rank=rank, world_size=count, timeout=timeout
    )
    dist.barrier()  # a rank that ends at once would end the others' joining
    found = run()
    dist.destroy_process_group()
    if rank == 0:
        sender.send(found)
