"""Trainings of an experiment in one process, in several, or on a Dask cluster.

A job is the arguments of one training. Other processes run one job at a time, on one
thread, so a job has the same result in each of them.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from joblib import Parallel, delayed

from posedu.book.provenance import provenance

TIMEOUT = 10  # seconds in which a Dask scheduler must answer

_one_at_a_time = threading.Lock()  # a Dask worker may have several threads


def finished_runs(
    make: Callable[..., Any],
    jobs: Sequence[tuple],
    *,
    processes: int,
    dask: str | None,
    libraries: Sequence[str],
) -> Iterator[Any]:
    """Yield a run (the result of one training) for each job, in any order.

    ``make`` returns the run from the arguments in the job; provenance (date, device,
    commit, versions) is added to the run. ``libraries`` are the names of the packages
    whose versions are recorded, besides those that are always recorded.

    ``processes`` jobs run at a time on this machine, a single one in this process. With
    ``dask``, the address of a scheduler, they run on all workers of its cluster.

    Raises
    ------
    ImportError
        ``dask`` is given, but ``distributed`` is not installed.
    OSError
        No scheduler answers at the address, or the scheduler stopped.
    """
    if not jobs:
        return
    if dask is not None:
        yield from _runs_of_cluster(dask, make, jobs, libraries)
    elif processes == 1:
        made = _provenance(libraries)
        yield from (replace(make(*job), made=made) for job in jobs)
    else:
        parallel = Parallel(processes, return_as="generator_unordered", batch_size=1)
        yield from parallel(
            delayed(_run_on_one_thread)(make, job, libraries) for job in jobs
        )


def _runs_of_cluster(
    address: str,
    make: Callable[..., Any],
    jobs: Sequence[tuple],
    libraries: Sequence[str],
) -> Iterator[Any]:
    """Yield the runs that the workers of a Dask cluster make, as they finish.

    ``address`` is the address of the cluster's scheduler, ``make`` returns a run from
    the arguments in a job, and ``libraries`` are recorded with their versions. The
    scheduler repeats the jobs of a worker that is lost.
    """
    with _connection(address) as client:
        from distributed import as_completed

        futures = [
            client.submit(_run_on_one_thread, make, job, libraries, pure=False)
            for job in jobs
        ]
        for future in as_completed(futures):
            try:
                run = future.result()
            except CancelledError as error:
                raise OSError(f"the Dask scheduler at {address} stopped") from error
            future.release()  # or the job would be repeated if its worker were lost
            yield run


@contextmanager
def _connection(address: str) -> Iterator[Any]:
    """Connect to a Dask scheduler; drop unfinished jobs when the ``with`` block ends.

    The block gets the client. ImportError without the package ``distributed``; OSError
    if no scheduler answers at the ``address``.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError(
            "a Dask cluster needs distributed: pip install 'posedu[cluster]'"
        ) from error
    try:
        client = Client(address, timeout=TIMEOUT)
    except (OSError, ValueError) as error:
        raise OSError(
            f"no Dask scheduler answers at {address!r} ({error}); "
            "give the address that `dask scheduler` prints"
        ) from error
    with client:
        if not client.scheduler_info()["workers"]:
            print(f"waiting for a worker of {address}", file=sys.stderr)
        yield client


def _run_on_one_thread(
    make: Callable[..., Any], job: tuple, libraries: Sequence[str]
) -> Any:
    """Return the run of one job, made on one thread, with its provenance.

    ``make`` returns the run from the arguments in the ``job``; ``libraries`` are
    packages whose versions the provenance has. A process with this function in its main
    thread ignores SIGINT; the process that waits for the job handles it.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with _one_at_a_time:
        torch.set_num_threads(1)
        return replace(make(*job), made=_provenance_of_process(tuple(libraries)))


@cache
def _provenance_of_process(libraries: tuple[str, ...]) -> dict[str, Any]:
    """Return the provenance (date, commit, …) of all runs that this process makes.

    ``libraries`` are packages whose versions the provenance has. The provenance is
    found once: a later commit does not change the code that is loaded.
    """
    return _provenance(libraries)


def _provenance(libraries: Sequence[str]) -> dict[str, Any]:
    """Return a run's provenance: date, device, threads, commit, library versions.

    ``libraries`` are the names of packages whose versions are recorded.
    """
    made = provenance(torch.device("cpu"), 0, libraries)
    del made["seed"]
    return made
