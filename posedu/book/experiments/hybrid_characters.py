"""Characters beyond the training length, by recurrent layers, attention, and mixtures.

The models are those of :mod:`posedu.book.experiments.hybrids`, the text, its windows
and the tests those of :mod:`posedu.book.experiments.characters`; the longest test is 64
times as long as the training windows.

All models share one set of settings, which was chosen on seed 0; the reported seeds are
1, 2, … This command makes the result in an hour on two idle cores; after an interrupt
it continues::

    FILE=book/data/hybrid-characters-cpu.json
    python -m posedu.book.experiments.hybrid_characters --out $FILE
"""

import time
from dataclasses import dataclass
from functools import partial

import torch

from posedu.book.experiments import characters, sequences
from posedu.book.experiments.characters import CHARACTERS, BitsResult, BitsRun, fitted
from posedu.book.experiments.hybrids import CONDITIONS
from posedu.book.experiments.runs import Experiment, run_command
from posedu.book.experiments.training import CausalModel


@dataclass(frozen=True)
class Settings(characters.Settings, sequences.Settings):
    """Sizes and training settings of all runs (single trainings).

    They serve the models of tasks and the training on characters.
    """

    rate: float = 1e-2
    layers: int = 4
    tested: int = 64


MULTIPLES = (1, 4, 16, 64)
"""Test lengths over the training length."""


@dataclass(frozen=True, kw_only=True)
class Run(BitsRun):
    """Result of one training of one model."""

    known = tuple(CONDITIONS)


@dataclass
class Result(BitsResult):
    """All runs of the experiment, with its method and settings."""

    settings_type = Settings
    run_type = Run
    shown = CONDITIONS
    multiples = MULTIPLES


def model_of(encoding: str, settings: Settings, seed: int) -> CausalModel:
    """Return a model before training; ``encoding`` is a name in the ``CONDITIONS``."""
    condition = CONDITIONS[encoding]
    return CausalModel(
        partial(condition.encodings, settings, settings.layers),
        tokens=CHARACTERS,
        labels=CHARACTERS,
        heads=settings.heads,
        d=settings.d,
        route=condition.route,
        seed=seed,
    )


def run(encoding: str, seed: int, settings: Settings) -> Run:
    """Train one model with one seed and test it at every length."""
    start = time.perf_counter()
    with torch.random.fork_rng(devices=[]):
        model = model_of(encoding, settings, seed)
        found = fitted(model, settings, settings.rate, seed, MULTIPLES)
    return Run(
        encoding=encoding, seed=seed, seconds=time.perf_counter() - start, **found
    )


experiment = Experiment(
    name="hybrid-characters",
    purpose="Train small models of characters of recurrent layers and attention.",
    method=characters.METHOD,
    choices={"encodings": tuple(CONDITIONS)},
    result_type=Result,
    run_one=run,
)

main = experiment.main

if __name__ == "__main__":
    run_command(__spec__.name)
