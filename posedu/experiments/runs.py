"""What the experiments share: runs that are kept as they finish, and a command."""

import argparse
import json
import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from tqdm import tqdm

from posedu._tables import SavedTable
from posedu.provenance import provenance

Interval = Callable[[np.ndarray], tuple[float, float]]


@dataclass
class Runs(SavedTable):
    """What was run, how and on what. Subclasses name their settings and their runs."""

    made: dict[str, Any]
    settings: Any
    runs: list[Any] = field(default_factory=list)
    complete: bool = False

    settings_type: ClassVar[type]
    run_type: ClassVar[type]

    @classmethod
    def load(cls, path: str | Path) -> "Runs":
        """Read what :meth:`save` wrote."""
        stored = json.loads(Path(path).read_text())
        return cls(
            stored["made"],
            cls.settings_type(**stored["settings"]),
            [cls.run_type(**run) for run in stored["runs"]],
            stored["complete"],
        )

    @classmethod
    def begin(
        cls,
        settings: Any,
        path: str | Path | None,
        method: str,
        libraries: Sequence[str] = (),
    ) -> "Runs":
        """What an earlier call left in the file, or nothing yet.

        Raises
        ------
        ValueError
            The file was made with other settings, or by something else.
        """
        if path is None or not Path(path).exists():
            made = provenance(torch.device("cpu"), 0, tuple(libraries))
            return cls(made | {"seed": "each run's own", "method": method}, settings)
        try:
            result = cls.load(path)
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path} is not a result of this experiment; give another file"
            ) from error
        if result.settings != settings:
            raise ValueError(
                f"{path} was made with {result.settings}, not with {settings}; "
                "give another file"
            )
        return result

    def add(
        self,
        make: Callable[..., Any],
        jobs: Sequence[tuple],
        *,
        processes: int,
        save_to: str | Path | None,
        describe: Callable[[Any], str],
    ) -> None:
        """Make the runs of ``jobs``, with progress, and save after each.

        When interrupted, keep what was finished.
        """
        last = len(self.runs) + len(jobs)
        self.complete = not jobs
        progress = tqdm(total=last, initial=len(self.runs), unit="run")
        try:
            with progress:
                for run in _results(make, jobs, processes):
                    self.runs.append(run)
                    self.complete = len(self.runs) == last
                    if save_to is not None:
                        self.save(save_to)
                    progress.set_postfix_str(describe(run))
                    progress.update()
        except KeyboardInterrupt:
            print(f"interrupted: {len(self.runs)} runs kept", file=sys.stderr)

    def caption(self) -> str:
        """What the numbers are, and on what they were measured."""
        made = self.made
        return (
            f"Means of {len({run.seed for run in self.runs})} seeds ± half of their "
            f"95 % intervals; {made['device']}, torch {made['versions']['torch']}, "
            f"{made['date']}" + ("" if self.complete else "; not complete")
        )


def in_percent(values: Float[np.ndarray, "seeds"], interval: Interval) -> str:
    """Mean and half-width of the interval, or the mean alone of a single seed."""
    if len(values) < 2:
        return f"{values.mean():.1%}"
    mean, half = interval(100 * values)
    return f"{mean:.1f} ± {half:.1f}"


def command(
    name: str,
    description: str,
    *,
    choices: Mapping[str, Iterable[str]],
    seeds: int,
    length: str,
    settings: type,
    experiment: Callable[..., Runs],
    arguments: Sequence[str] | None,
) -> int:
    """The command line of an experiment: run it, or the rest, and print the table.

    ``choices`` are the arguments that name what takes part, ``length`` the setting
    that says how long to train.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m posedu.experiments.{name}", description=description
    )
    for of, names in choices.items():
        parser.add_argument(f"--{of}", nargs="+", choices=names, default=list(names))
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument(f"--{length}", type=int, default=getattr(settings, length))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", default=f"{name}-cpu.json", help="result file")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    try:
        result = experiment(
            **{of: getattr(options, of) for of in choices},
            seeds=options.seeds,
            settings=settings(**{length: getattr(options, length)}),
            processes=options.processes,
            save_to=options.out,
        )
    except ValueError as error:
        parser.error(str(error))
    print(f"{result}\nwritten to {options.out}")
    return 0 if result.complete else 130


@dataclass(frozen=True)
class _Job:
    """A call of one function that can be sent to another process."""

    make: Callable[..., Any]

    def __call__(self, arguments: tuple) -> Any:
        return self.make(*arguments)


def _results(
    make: Callable[..., Any], jobs: Sequence[tuple], processes: int
) -> Iterator[Any]:
    """Finished runs, in any order; with one process, in this one."""
    if processes == 1:
        yield from map(_Job(make), jobs)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, _start_worker) as pool:
        yield from pool.imap_unordered(_Job(make), jobs)


def _start_worker() -> None:
    """One thread; an interrupt is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
