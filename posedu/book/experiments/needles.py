"""Needle retrieval: facts among noise, asked for at the end of ever longer texts.

A text is noise except for eight facts at random places: a mark, and the letter after
it. Its last tokens are the eight marks in another order, and each asks for the letter
that followed it. The letters of the facts occur in the noise, too: a letter is an
answer only because it stands after a mark. A longer text has as many facts and more
noise.

A small transformer with RoPE is trained at one length. Then its frequencies are changed
as in :mod:`posedu.book.experiments.context_extension`, without tuning. A second model
alternates windowed layers with NoPE layers. This command remakes the book's result in
half an hour on two idle cores; after an interrupt it continues::

    python -m posedu.book.experiments.needles --out book/data/needles-cpu.json
"""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float

from posedu._arguments import require_choice, require_dimension
from posedu.book.experiments import sequences
from posedu.book.experiments.context_extension import (
    FACTORS,
    METHODS,
    MODELS,
    TRIED,
    Model,
)
from posedu.book.experiments.runs import Run as AnyRun
from posedu.book.experiments.runs import Runs, command, in_percent, interval
from posedu.book.experiments.sequences import IGNORED, Batch, Task, fit, test
from posedu.book.provenance import keep_memory

FACTS, LETTERS = 8, 16
METHOD = (
    "Accuracy over the marks that ask, on fresh texts of each length, which are the "
    "same for all methods of a seed."
)


@dataclass(frozen=True)
class Settings(sequences.Settings):
    """Settings of all runs, chosen on seed 0, which is not reported."""

    steps: int = 2500
    length: int = 128
    heads: int = 2
    d: int = 32


def needles(batch: int, length: int, trained: int, generator: torch.Generator) -> Batch:
    """Return texts and labels; tokens below ``LETTERS`` are letters, others marks.

    Only the last tokens, the marks that ask, have labels.
    """
    for name, value in (("batch", batch), ("length", length), ("trained", trained)):
        require_dimension(name, value, 1)
    noise = length - FACTS
    if noise < 2 * FACTS:
        raise ValueError(
            f"{FACTS} facts and their marks need a length of at least {3 * FACTS}, "
            f"got {length}"
        )
    tokens = torch.randint(LETTERS, (batch, length), generator=generator)
    order = torch.rand(batch, noise // 2, generator=generator).argsort(-1)
    places = 2 * order[:, :FACTS]
    marks = LETTERS + torch.arange(FACTS).expand(batch, -1)
    answers = tokens.gather(1, places + 1)
    tokens.scatter_(1, places, marks)
    order = torch.rand(batch, FACTS, generator=generator).argsort(-1)
    tokens[:, noise:] = LETTERS + order
    labels = torch.full_like(tokens, IGNORED)
    labels[:, noise:] = answers.gather(1, order)
    return tokens, labels


TASK = Task("Needles", needles, LETTERS + FACTS, LETTERS)


def label(method: str, factor: int) -> str:
    """Return the name of an accuracy; no method is applied at the training length."""
    return "trained" if factor == 1 else f"{method} × {factor}"


def labels(model: str) -> list[str]:
    """Return the names of a run's accuracies."""
    longer = (label(method, f) for method in TRIED[model] for f in FACTORS)
    return ["trained", *longer]


@dataclass(frozen=True, kw_only=True)
class Run(AnyRun):
    """One training; ``accuracy`` by method and factor of the length."""

    known: ClassVar[tuple[str, ...]] = MODELS

    def __post_init__(self) -> None:
        require_choice("model", self.encoding, self.known)
        super().__post_init__()


@dataclass
class Result(Runs):
    """Runs of the experiment, its method and its settings."""

    settings_type = Settings
    run_type = Run

    def evaluations_of(self, run: AnyRun) -> list[str]:
        """Return the names of the accuracies: each method at every length."""
        return labels(run.encoding)

    def accuracy(
        self, model: str, method: str, factor: int
    ) -> Float[np.ndarray, "seeds"]:
        """Return the accuracies of a method at one length, by rising seed."""
        runs = sorted(self.runs, key=lambda run: run.seed)
        return np.array(
            [r.accuracy[label(method, factor)] for r in runs if r.encoding == model]
        )

    def encodings(self) -> list[str]:
        """Return the models that were trained."""
        trained = {run.encoding for run in self.runs}
        return [name for name in MODELS if name in trained]

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the accuracies of every method at every length."""
        yield ("accuracy in %", *(f"× {f}" for f in (1, *FACTORS)))
        for model in self.encodings():
            for method in TRIED[model]:
                values = (self.accuracy(model, method, f) for f in (1, *FACTORS))
                cells = (in_percent(v, interval) for v in values)
                yield (f"{model}, {METHODS[method].title}", *cells)


def _model(model: str, settings: Settings, seed: int, **how: object) -> Model:
    with torch.random.fork_rng(devices=[]):
        return Model(
            model, settings, seed, tokens=TASK.tokens, labels=TASK.labels, **how
        )


def run(model: str, seed: int, settings: Settings) -> Run:
    """Train a model, and test it at every length with every method."""
    start = time.perf_counter()
    trained = _model(model, settings, seed)
    loss = fit(trained, TASK, settings, seed)
    state = trained.state_dict()
    found = {"trained": test(trained, TASK, settings.length, settings, seed)}
    for method in TRIED[model]:
        for factor in FACTORS:
            length = factor * settings.length
            longer = _model(
                model, settings, seed, method=method, factor=factor, length=length
            )
            longer.load_state_dict(state)
            found[label(method, factor)] = test(longer, TASK, length, settings, seed)
    return Run(
        encoding=model,
        seed=seed,
        accuracy=found,
        loss=loss,
        seconds=time.perf_counter() - start,
    )


def experiment(
    *,
    models: Sequence[str] = MODELS,
    seeds: int = 5,
    settings: Settings | None = None,
    processes: int = 1,
    backend: str = "loky",
    save_to: str | Path | None = None,
) -> Result:
    """Train every model with seeds 1, 2, … and save each finished run.

    Parameters
    ----------
    models
        Of :data:`posedu.book.experiments.context_extension.MODELS`.
    seeds, settings, processes, backend, save_to
        As :func:`posedu.book.experiments.sequences.experiment`.

    Returns
    -------
    Result
        Also when interrupted, with the runs that were finished.

    Raises
    ------
    ValueError, TypeError, OSError
        As :func:`posedu.book.experiments.sequences.experiment`.
    """
    for name in models:
        require_choice("model", name, MODELS)
    require_dimension("seeds", seeds, 1)
    require_dimension("processes", processes, 1)
    settings = settings or Settings()
    require_dimension("steps", settings.steps, 1)
    result = Result.begin(settings, save_to, METHOD)
    every = dict.fromkeys((m, s) for s in range(1, seeds + 1) for m in models)
    result.add(run, every, processes=processes, backend=backend, save_to=save_to)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment, or the rest of it, and print a table of accuracies."""
    return command(
        "needles",
        "Hide facts in longer texts than those of training, and ask for them.",
        choices={"models": MODELS},
        seeds=5,
        length="steps",
        settings=Settings,
        experiment=experiment,
        arguments=arguments,
    )


if __name__ == "__main__":
    from posedu.book.experiments import (
        needles as named,
    )  # the name that worker processes import

    keep_memory()
    sys.exit(named.main())
