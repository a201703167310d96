"""Shared parts of the experiments: runs, result files, intervals, commands.

A run is the result of one training with one seed. An experiment is a module with an
:class:`Experiment`, which trains the chosen encodings or models and is the module's
command.
"""

import argparse
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
import torch
from filelock import FileLock
from jaxtyping import Float
from tqdm import tqdm

from posedu._arguments import require_choice, require_dimension, require_finite
from posedu._result_table import SavedTable, reading, require_writable
from posedu.book.experiments.parallel import finished_runs
from posedu.book.provenance import keep_memory

Interval = Callable[[np.ndarray], tuple[float, float]]

MADE = {
    "date": str,
    "device": str,
    "threads": int,
    "commit": str | None,
    "versions": dict,
}
"""Keys that the provenance of every run must have, and the types of their values."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Result of one training of one encoding: accuracies, final loss, seconds.

    ``accuracy`` maps the name of an evaluation, such as a test length, to a value.

    ``made`` is the provenance: where, when and with which versions the run was made.

    Raises
    ------
    ValueError, TypeError
        A seed that is not a whole number, an accuracy outside [0, 1], a loss or a time
        that is not finite, for example since training diverged.
    """

    encoding: str
    seed: int
    accuracy: dict[str, float]
    loss: float
    seconds: float
    made: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise TypeError(f"seed must be a whole number, got {self.seed!r}")
        for evaluation, value in self.accuracy.items():
            name = f"{self.name}: accuracy at {evaluation}"
            if not 0 <= require_finite(name, value) <= 1:
                raise ValueError(f"{name} must be between 0 and 1, got {value}")
        require_finite(f"{self.name}: loss", self.loss)
        require_finite(f"{self.name}: seconds", self.seconds)

    @property
    def key(self) -> tuple[str | int, ...]:
        """Encoding and seed, which together identify a run of an experiment."""
        return self.encoding, self.seed

    @property
    def name(self) -> str:
        """Text that names the run in messages, for example "rope, seed 1"."""
        *trained, seed = self.key
        return f"{', '.join(map(str, trained))}, seed {seed}"


@dataclass
class Runs(SavedTable):
    """All runs of an experiment, with its method and settings, as a table and a file.

    Subclasses set the types of settings and runs.
    """

    method: str
    settings: Any
    runs: list[Any] = field(default_factory=list)

    settings_type: ClassVar[type]
    run_type: ClassVar[type[Run]]

    def __post_init__(self) -> None:
        self.interrupted = False

    def evaluations(self) -> Sequence[str]:
        """Return the names of the accuracies of every run, such as test lengths."""
        raise NotImplementedError

    def evaluations_of(self, run: Run) -> Sequence[str]:
        """Return the names of the accuracies of one run."""
        return self.evaluations()

    def reported(self) -> Sequence[Run]:
        """Return the runs whose means are shown: here all runs.

        A subclass leaves out the runs that only choose a setting.
        """
        return self.runs

    @property
    def complete(self) -> bool:
        """Return whether all encodings were trained with the same seeds, uninterrupted.

        Where a run's key has more than encoding and seed, such as a task, each
        combination of encoding and task needs the same seeds. False without runs.
        """
        seeds: dict[tuple, set] = {}
        for run in self.runs:
            seeds.setdefault(run.key[:-1], set()).add(run.seed)
        return not self.interrupted and len({*map(frozenset, seeds.values())}) == 1

    def made(self) -> list[dict[str, Any]]:
        """Return each different provenance of the runs once, the oldest first.

        A provenance is a dict of date, device, threads, commit and versions.
        """
        different = {
            json.dumps(run.made, sort_keys=True): run.made for run in self.runs
        }
        return sorted(different.values(), key=lambda made: made["date"])

    @classmethod
    def load(cls, path: str | Path) -> "Runs":
        """Return the runs in the result file at ``path``, with the method and settings.

        In a file of posedu 0.2 each run holds its provenance; such a file is read, too.

        Raises
        ------
        ValueError
            The file is not a result of this experiment, or its runs are invalid.
        """
        with reading(path, "a result of this experiment"):
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
            result = cls(
                stored["method"],
                cls.settings_type(**stored["settings"]),
                [cls.run_type(**run) for run in _with_provenance(stored)],
            )
            result._require_sound()
        return result

    def _require_sound(self) -> None:
        keys = set()
        for run in self.runs:
            if run.key in keys:
                raise ValueError(f"{run.name} is there twice")
            keys.add(run.key)
            required = self.evaluations_of(run)
            if {*run.accuracy} != {*required}:
                raise ValueError(
                    f"{run.name} must have accuracies at {', '.join(required)}, "
                    f"got {', '.join(run.accuracy)}"
                )
            if wrong := [*_wrong_provenance(run.made)]:
                raise ValueError(f"{run.name} has no valid {', '.join(wrong)}")

    @classmethod
    def begin(cls, settings: Any, path: str | Path | None, method: str) -> "Runs":
        """Return the result in the file at ``path``, or an empty one without a file.

        An empty result has the ``settings``, no runs, and ``method``, the text on how
        the runs are made.

        Raises
        ------
        ValueError
            The file has other settings, or is not a result of this experiment.
        OSError
            The file cannot be written.
        """
        result = cls(method, settings)
        if path is not None:
            require_writable(path)
            result._take_from(Path(path))
        return result

    def save(self, path: str | Path) -> None:
        """Write the result file, and keep runs that other processes have written to it.

        The file is locked meanwhile, so that no process loses a run.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            self._take_from(path)
            super().save(path)

    def stored(self) -> dict[str, Any]:
        """Return the contents of the result file.

        Each different provenance (date, device, versions, …) is stored once, in a list;
        a run's ``made`` is an index in this list.
        """
        fields = super().stored()
        runs, different = fields.pop("runs"), []
        for run in runs:
            if run["made"] not in different:
                different.append(run["made"])
            run["made"] = different.index(run["made"])
        return fields | {"provenance": different, "runs": runs}

    def _take_from(self, path: Path) -> None:
        if not path.exists():
            return
        stored = type(self).load(path)
        if stored.settings != self.settings:
            raise ValueError(
                f"{path} was made with {stored.settings}, not with {self.settings}; "
                "give another file"
            )
        saved = {run.key for run in stored.runs}
        self.runs = stored.runs + [run for run in self.runs if run.key not in saved]

    def add(
        self,
        make: Callable[..., Run],
        jobs: Iterable[tuple],
        *,
        processes: int,
        dask: str | None,
        save_to: str | Path | None,
        libraries: Sequence[str] = (),
    ) -> None:
        """Train each of the ``jobs`` that has no run yet, and append its run.

        A job is the key of a run, such as encoding and seed; ``make`` returns the run
        from the key and the settings. Jobs run in ``processes`` of this machine, or on
        the Dask cluster whose address is ``dask`` (None: no cluster). Progress is
        shown, and each finished run is saved to the file ``save_to`` (None: not saved).
        The provenance of a run has the versions of the packages ``libraries``. An
        interrupt keeps the finished runs.
        """
        finished = {run.key for run in self.runs}
        remaining = [
            (*job, self.settings) for job in dict.fromkeys(jobs) if job not in finished
        ]
        start = len(self.runs)
        progress = tqdm(total=start + len(remaining), initial=start, unit="run")
        how: dict = dict(processes=processes, dask=dask, libraries=libraries)
        try:
            with progress, closing(finished_runs(make, remaining, **how)) as new_runs:
                for run in new_runs:
                    with _delayed_interrupt():
                        self.runs.append(run)
                        if save_to is not None:
                            self.save(save_to)
                    progress.set_postfix_str(run.name)
                    progress.update()
        except KeyboardInterrupt:
            self.interrupted = True
            kept = "finished" if save_to is None else "saved"
            print(f"interrupted: {len(self.runs)} runs are {kept}", file=sys.stderr)

    def caption(self) -> str:
        """Return the caption of the table: seeds, device, versions and dates."""
        made = self.made()
        devices, versions, dates = (
            " and ".join(dict.fromkeys(values))
            for values in (
                [m["device"] for m in made],
                [m["versions"]["torch"] for m in made],
                [m["date"] for m in made],
            )
        )
        seeds = {run.seed for run in self.reported()}
        return (
            f"Means of {len(seeds)} seeds ± half of their 95 % intervals; {devices}, "
            f"torch {versions}, {dates}" + ("" if self.complete else "; not complete")
        )


def _with_provenance(stored: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the fields of each run of a result file, ``made`` being the provenance.

    ``stored`` are the contents of the file. There, ``made`` is an index in a list of
    provenances. In files of posedu 0.2 every run holds its provenance itself.
    """
    if "provenance" not in stored:
        yield from stored["runs"]
        return
    different = stored["provenance"]
    for number, run in enumerate(stored["runs"], 1):
        index = run.get("made")
        if type(index) is not int or not 0 <= index < len(different):
            raise ValueError(
                f"made of run {number} must be an index of the {len(different)} "
                f"provenances, counted from 0, got {index!r}"
            )
        yield run | {"made": different[index]}


def _wrong_provenance(made: Any) -> Iterator[str]:
    """Yield the names of the parts of a provenance that are missing or ill-typed.

    ``made`` is the provenance, as read from a file. If it is no dict, the only name is
    "provenance".
    """
    if not isinstance(made, dict):
        yield "provenance"
        return
    for name, kind in MADE.items():
        if name not in made or not isinstance(made[name], kind):
            yield name
    versions = made.get("versions")
    if isinstance(versions, dict) and not isinstance(versions.get("torch"), str):
        yield "version of torch"


@contextmanager
def _delayed_interrupt() -> Iterator[None]:
    """Delay a KeyboardInterrupt until the ``with`` block ends, but not a second one."""
    if threading.current_thread() is not threading.main_thread():
        yield  # interrupts are raised in the main thread only
        return
    received = []

    def wait(number: int, frame: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    before = signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if received:
        signal.raise_signal(signal.SIGINT)


def interval(
    values: Float[np.ndarray, "seeds"], level: float = 0.95, *, overlap: float = 0.0
) -> tuple[float, float]:
    """Return the mean over the seeds and the half-width of Student's t interval.

    ``values`` has a number for each of the n seeds. The interval is one of the mean,
    with the confidence ``level``. The variance of the mean is s² (1/n + ``overlap``), s
    being the values' standard deviation; it is s²/n for seeds that share no data. For
    the difference of two encodings, give the differences of their paired values.
    """
    from scipy import stats  # half a second, which other uses of this module save

    n = len(values)
    if n < 2:
        raise ValueError(f"an interval needs at least 2 seeds, got {n}")
    error = values.std(ddof=1) * (1 / n + overlap) ** 0.5
    return float(values.mean()), float(stats.t.ppf((1 + level) / 2, n - 1) * error)


def in_percent(values: Float[np.ndarray, "seeds"], interval: Interval) -> str:
    """Format accuracies in percent: mean ± half of its interval, or one seed's value.

    ``values`` are fractions of 1, one for each seed; ``interval`` is the function that
    returns the mean and the half-width of its interval.
    """
    if len(values) < 2:
        return f"{values.mean():.1%}"
    mean, half = interval(100 * values)
    return f"{mean:.1f} ± {half:.1f}"


@dataclass(kw_only=True)
class Experiment:
    """An experiment: a function that trains encodings with many seeds, and its command.

    ``choices`` maps each keyword that selects what is trained to its allowed values,
    all of which are its default. A run's key is one value of each and a seed, and
    ``run_one`` makes the run from its key and the settings. ``lengths`` are settings
    that determine how long training takes; the first one is an option of the command.
    Provenance has the versions of the packages ``libraries``.
    """

    name: str
    purpose: str
    method: str
    choices: Mapping[str, Sequence[str]]
    result_type: type[Runs]
    run_one: Callable[..., Run]
    lengths: Sequence[str] = ("steps",)
    libraries: Sequence[str] = ()

    def __call__(
        self,
        *,
        seeds: int = 5,
        settings: Any = None,
        processes: int = 1,
        dask: str | None = None,
        save_to: str | Path | None = None,
        **chosen: Sequence[str],
    ) -> Any:
        """Train all chosen encodings, tasks or models; save each finished run.

        Parameters
        ----------
        seeds
            Number of reported seeds.
        settings
            Default: those of the book.
        processes
            Runs at a time on this machine, each on one thread.
        dask
            Address of a Dask scheduler, whose workers are used instead.
        save_to
            A file that is rewritten after every run. Runs that it already has are not
            repeated.
        **chosen
            Values of each of the :attr:`choices`; default: all.

        Returns
        -------
        Runs
            Also when interrupted, with the runs that were finished.

        Raises
        ------
        ValueError, TypeError
            Unknown choices, counts that are not positive integers, a file that was made
            with other settings, a training that diverged.
        OSError
            The file cannot be written, which is known before the first run; there is no
            Dask scheduler at the address.
        ImportError
            ``dask`` is given, but ``distributed`` is not installed.
        """
        settings = settings or self.result_type.settings_type()
        if unknown := chosen.keys() - self.choices.keys():
            raise TypeError(
                f"{self.name} has the choices {', '.join(self.choices)}, "
                f"got {', '.join(sorted(unknown))}"
            )
        chosen = {of: chosen.get(of, names) for of, names in self.choices.items()}
        require_dimension("seeds", seeds, 1)
        require_dimension("processes", processes, 1)
        self.require_trainable(settings, chosen)
        result = self.result_type.begin(settings, save_to, self.method)
        for jobs in self.phases(result, seeds, chosen):
            result.add(
                self.run_one,
                jobs,
                processes=processes,
                dask=dask,
                save_to=save_to,
                libraries=self.libraries,
            )
            if result.interrupted:
                break
        return result

    def require_trainable(
        self, settings: Any, chosen: Mapping[str, Sequence[str]]
    ) -> None:
        """Raise unless all chosen names exist and training has at least one step.

        ``chosen`` maps each of the choices, such as "encodings", to the chosen names.
        """
        for of, names in chosen.items():
            for name in names:
                require_choice(of.removesuffix("s"), name, tuple(self.choices[of]))
        for length in self.lengths:
            require_dimension(length, getattr(settings, length), 1)

    def phases(
        self, result: Runs, seeds: int, chosen: Mapping[str, Sequence[str]]
    ) -> Iterator[list[tuple]]:
        """Yield lists of jobs; all runs of a list are finished before the next list.

        A job is a tuple for one training: a value of each of the choices, and a seed.
        ``seeds`` is the number of reported seeds; ``chosen`` maps each of the choices,
        such as "encodings", to the chosen names.
        """
        every = product(range(1, seeds + 1), *chosen.values())
        yield [(*names, seed) for seed, *names in every]

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Parse the command line, train what has no run yet, and print the results.

        ``arguments`` are the command's arguments; None takes those of this process. The
        returned exit status is 0, or 130 after an interrupt.
        """
        parser = argparse.ArgumentParser(
            prog=f"python -m {__package__}.{self.name.replace('-', '_')}",
            description=self.purpose,
        )
        for of, names in self.choices.items():
            parser.add_argument(
                f"--{of}", nargs="+", choices=names, default=list(names)
            )
        parser.add_argument("--seeds", type=int, default=5)
        length, settings = self.lengths[0], self.result_type.settings_type
        parser.add_argument(f"--{length}", type=int, default=getattr(settings, length))
        where = parser.add_mutually_exclusive_group()
        where.add_argument("--processes", type=int, default=2)
        where.add_argument(
            "--dask",
            metavar="ADDRESS",
            help="of a Dask scheduler: train on the workers of its cluster",
        )
        out = f"{self.name}-cpu.json"
        parser.add_argument("--out", default=out, help="result file")
        options = parser.parse_args(arguments)
        torch.set_num_threads(1)
        try:
            result = self(
                **{of: getattr(options, of) for of in self.choices},
                seeds=options.seeds,
                settings=settings(**{length: getattr(options, length)}),
                processes=options.processes,
                dask=options.dask,
                save_to=options.out,
            )
        except (ValueError, OSError, ImportError) as error:
            parser.error(str(error))
        print(f"{result}\nwritten to {options.out}")
        return 130 if result.interrupted else 0


def run_command(module: str) -> NoReturn:
    """Run the command line of an experiment, given its module's name, and exit.

    The module is imported by its name, by which other processes find its functions.
    """
    keep_memory()
    sys.exit(import_module(module).main())
