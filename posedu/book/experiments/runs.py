"""Shared parts of the experiments: saved runs, intervals, a command line."""

import argparse
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from filelock import FileLock
from jaxtyping import Float
from joblib import Parallel, delayed, parallel_config
from scipy.special import stdtrit
from tqdm import tqdm

from posedu._arguments import require_finite
from posedu._result_table import SavedTable, require_writable
from posedu.book.provenance import provenance

Interval = Callable[[np.ndarray], tuple[float, float]]

BACKENDS = ("loky", "dask", "ray")

MADE = ("date", "device", "threads", "commit", "torch")
"""Keys that the provenance of every run must have."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training of one encoding: ``accuracy`` by evaluation, final ``loss``.

    ``made`` is the provenance of the call that made the run, once the run is saved.

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
        """Encoding and seed."""
        return self.encoding, self.seed

    @property
    def name(self) -> str:
        """The key in words."""
        *trained, seed = self.key
        return f"{', '.join(map(str, trained))}, seed {seed}"


@dataclass
class Runs(SavedTable):
    """Runs of an experiment, its method and settings; subclasses set their types."""

    method: str
    settings: Any
    runs: list[Any] = field(default_factory=list)

    settings_type: ClassVar[type]
    run_type: ClassVar[type[Run]]

    def __post_init__(self) -> None:
        self.interrupted = False

    def evaluations(self) -> Sequence[str]:
        """Return the names of the accuracies that every run has."""
        raise NotImplementedError

    def evaluations_of(self, run: Run) -> Sequence[str]:
        """Return the names of the accuracies of one run."""
        return self.evaluations()

    def reported(self) -> Sequence[Run]:
        """Return the runs whose means are shown: all that choose no setting."""
        return self.runs

    @property
    def complete(self) -> bool:
        """Return whether everything was trained with the same seeds."""
        seeds: dict[tuple, set] = {}
        for run in self.runs:
            seeds.setdefault(run.key[:-1], set()).add(run.seed)
        return not self.interrupted and len({*map(frozenset, seeds.values())}) == 1

    def made(self) -> list[dict[str, Any]]:
        """Return the different provenances of the runs, the oldest first."""
        different = {
            json.dumps(run.made, sort_keys=True): run.made for run in self.runs
        }
        return sorted(different.values(), key=lambda made: made["date"])

    @classmethod
    def load(cls, path: str | Path) -> "Runs":
        """Read what :meth:`save` wrote.

        Raises
        ------
        ValueError
            The file is not a result of this experiment, or its runs are invalid.
        """
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
            result = cls(
                stored["method"],
                cls.settings_type(**stored["settings"]),
                [cls.run_type(**run) for run in stored["runs"]],
            )
            result._require_sound()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path} is not a result of this experiment ({error}); "
                "give another file"
            ) from error
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
            provided = run.made | run.made.get("versions", {})
            if missing := [name for name in MADE if name not in provided]:
                raise ValueError(f"{run.name} lacks its {', '.join(missing)}")

    @classmethod
    def begin(cls, settings: Any, path: str | Path | None, method: str) -> "Runs":
        """Return the result that is saved in the file, or an empty one.

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
        """Write the runs, and keep those that other processes have written since.

        The file is locked meanwhile, so that no process loses a run.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            self._take_from(path)
            super().save(path)

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
        backend: str,
        save_to: str | Path | None,
        libraries: Sequence[str] = (),
    ) -> None:
        """Run the ``jobs``, which are keys of runs, that have no run yet.

        ``processes`` of them run at a time, by a ``backend`` of joblib. Progress is
        shown, and each finished run is saved. An interrupt keeps the finished runs.
        """
        finished = {run.key for run in self.runs}
        remaining = [(*job, self.settings) for job in jobs if job not in finished]
        made = provenance(torch.device("cpu"), 0, libraries)
        del made["seed"]
        start = len(self.runs)
        progress = tqdm(total=start + len(remaining), initial=start, unit="run")
        try:
            with progress:
                for run in _results(make, remaining, processes, backend):
                    self.runs.append(replace(run, made=made))
                    if save_to is not None:
                        self.save(save_to)
                    progress.set_postfix_str(run.name)
                    progress.update()
        except KeyboardInterrupt:
            self.interrupted = True
            print(f"interrupted: {len(self.runs)} runs are saved", file=sys.stderr)

    def caption(self) -> str:
        """Return a caption that names the numbers, the device and the versions."""
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


def interval(
    values: Float[np.ndarray, "seeds"], level: float = 0.95
) -> tuple[float, float]:
    """Return the mean and the half-width of its t interval over independent seeds.

    For the difference of two encodings, give the differences of their paired values.
    """
    n = len(values)
    if n < 2:
        raise ValueError(f"an interval needs at least 2 seeds, got {n}")
    error = values.std(ddof=1) / n**0.5
    return float(values.mean()), float(stdtrit(n - 1, (1 + level) / 2) * error)


def in_percent(values: Float[np.ndarray, "seeds"], interval: Interval) -> str:
    """Format the mean and the half-width of its interval, or one seed's value alone."""
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
    """Run an experiment from the command line, or its remaining runs; print its table.

    ``choices`` maps each argument that selects runs to its allowed values. ``length``
    names the setting that determines how long training takes.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m posedu.book.experiments.{name}", description=description
    )
    for of, names in choices.items():
        parser.add_argument(f"--{of}", nargs="+", choices=names, default=list(names))
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument(f"--{length}", type=int, default=getattr(settings, length))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        default="loky",
        help="of joblib: processes of this machine (loky), or those of a dask or ray "
        "cluster, whose address is in the environment; without one, a local cluster",
    )
    parser.add_argument("--out", default=f"{name}-cpu.json", help="result file")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    try:
        result = experiment(
            **{of: getattr(options, of) for of in choices},
            seeds=options.seeds,
            settings=settings(**{length: getattr(options, length)}),
            processes=options.processes,
            backend=options.backend,
            save_to=options.out,
        )
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(f"{result}\nwritten to {options.out}")
    return 130 if result.interrupted else 0


def _results(
    make: Callable[..., Any], jobs: Sequence[tuple], processes: int, backend: str
) -> Iterator[Any]:
    """Yield finished runs in any order; a single local job runs in this process."""
    if processes == 1 and backend == "loky":
        yield from (make(*job) for job in jobs)
        return
    with _cluster(backend), parallel_config(backend, n_jobs=processes):
        parallel = Parallel(return_as="generator_unordered", batch_size=1)
        yield from parallel(delayed(_run_on_one_thread)(make, job) for job in jobs)


@contextmanager
def _cluster(backend: str) -> Iterator[None]:
    """Connect to the cluster that the environment names, or to a local one."""
    if backend == "dask":
        from distributed import Client

        with Client():
            yield
        return
    if backend == "ray":
        from ray.util.joblib import register_ray

        register_ray()
    yield


def _run_on_one_thread(make: Callable[..., Any], job: tuple) -> Any:
    """Run one job on one thread; the parent process handles SIGINT."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    return make(*job)
