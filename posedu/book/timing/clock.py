"""Measurement of the time and memory of a function call."""

import os
import time
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from posedu._argument_types import check_types
from posedu._arguments import require_count, require_dimension

Run = Callable[[], Any]

# Otherwise torch.profiler writes its starts and stops to stderr.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")


@check_types
def alternate(
    candidates: Mapping[Any, Run],
    limit: Run,
    *,
    device: torch.device,
    repeats: int,
    warm_up: int = 3,
) -> dict[Any, np.ndarray]:
    """Time functions and a limit in alternation; return seconds by function's name.

    ``candidates`` maps names to the functions; the limit is the function to whose time
    theirs are compared. The seconds of a function are an array ``[repeats, 2]``: of its
    calls, and of the limit's call before each. Each timed call follows an untimed call
    of the same function; before all, each function is called ``warm_up`` times.
    """
    require_dimension("repeats", repeats, 1)
    require_count("warm_up", warm_up)
    clock = _cuda_clock if device.type == "cuda" else _cpu_clock

    def time_after_untimed_call(run: Run) -> float:
        run()
        return clock(run)

    for run in (limit, *candidates.values()):
        for _ in range(warm_up):
            run()
    seconds = {name: np.empty((repeats, 2)) for name in candidates}
    for i in range(repeats):
        for name, run in candidates.items():
            limit_seconds = time_after_untimed_call(limit)
            seconds[name][i] = time_after_untimed_call(run), limit_seconds
    return seconds


def _cpu_clock(run: Run) -> float:
    """Return the seconds of a call of ``run`` on the CPU.

    They are CPU time if torch uses one thread, else elapsed time.
    """
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


@check_types
def peak_memory(run: Run, device: torch.device) -> int:
    """Return the peak memory in bytes on ``device`` during a call of ``run``.

    Memory that was in use before the call does not count.
    """
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


@check_types
def kept_memory(run: Run) -> int:
    """Return the bytes that a forward pass saves for its backward pass.

    ``run`` is a function that does the forward pass. Memory that several saved tensors
    share counts once.
    """
    storages = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(storage.nbytes() for storage in storages.values())
