"""An experiment that trains nothing, which worker processes can import."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from posedu.book.experiments.runs import Experiment, Run, Runs

KINDS = ("plain", "killed", "interrupted", "diverged")

running = threading.Lock()


@dataclass(frozen=True)
class Settings:
    """``folder`` has a file for each attempt; ``parent`` is who waits for the runs."""

    folder: str = ""
    parent: int = 0
    steps: int = 1


@dataclass
class Result(Runs):
    settings_type = Settings
    run_type = Run

    def evaluations(self) -> list[str]:
        return ["it"]

    def rows(self) -> Iterator[tuple[str, ...]]:
        yield ("kind", "seed")
        yield from ((run.encoding, str(run.seed)) for run in self.runs)


def attempts(folder: str | Path, kind: str, seed: int) -> int:
    return len([*Path(folder).glob(f"{kind}-{seed}-*")])


def run(kind: str, seed: int, settings: Settings) -> Run:
    """Note the attempt; a first one of some kinds does harm at seed 3.

    Two jobs at a time in one process would share PyTorch's random numbers.
    """
    if not running.acquire(blocking=False):
        raise RuntimeError("this process already runs a job")
    try:
        time.sleep(0.002)
        return noted_run(kind, seed, settings)
    finally:
        running.release()


def noted_run(kind: str, seed: int, settings: Settings) -> Run:
    """Note the attempt by a file, and do the harm of its kind."""
    number = attempts(settings.folder, kind, seed)
    (Path(settings.folder) / f"{kind}-{seed}-{number}").touch()
    if number == 0 and seed == 3:
        if kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "interrupted":
            time.sleep(0.3)  # until other workers' runs have arrived
            os.kill(settings.parent, signal.SIGINT)
            time.sleep(0.3)
    loss = float("nan") if kind == "diverged" and seed == 3 else seed / 8
    return Run(encoding=kind, seed=seed, accuracy={"it": 1.0}, loss=loss, seconds=0.0)


experiment = Experiment(
    name="fake",
    purpose="Train nothing.",
    method="Nothing is trained.",
    choices={"kinds": KINDS},
    result_type=Result,
    run_one=run,
)


main = experiment.main
