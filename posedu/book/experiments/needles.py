"""Needle retrieval: facts among noise, asked for at the end of ever longer texts.

A text is noise except for eight facts at random places: a mark, and the letter after
it. Its last tokens are the eight marks in another order, and each asks for the letter
that followed it. The letters of the facts occur in the noise, too: a letter is an
answer only because it stands after a mark. A longer text has as many facts and more
noise.

A small transformer with RoPE is trained at one length. Then RoPE's frequencies are
changed for longer texts as in :mod:`posedu.book.experiments.context_extension`, without
tuning; there are models with RoPE's three bases of that experiment. Two more alternate
windowed RoPE layers with NoPE layers (no positional encoding). To the NoPE layers of
the first, temperatures are given at the test; the other is trained with one. This
command remakes the book's result in one hour on two idle cores; after an interrupt it
continues::

    python -m posedu.book.experiments.needles --out book/data/needles-cpu.json
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float

from posedu._arguments import require_choice, require_dimension
from posedu.book.experiments import sequences
from posedu.book.experiments.context_extension import (
    FACTORS,
    METHODS,
    TEMPERATURES,
    Model,
)
from posedu.book.experiments.runs import (
    Experiment,
    Runs,
    in_percent,
    interval,
    run_command,
)
from posedu.book.experiments.runs import Run as AnyRun
from posedu.book.experiments.sequences import IGNORED, Batch, Task, fit, test

FACTS, LETTERS = 8, 16
FAR = 32
"""One more test length over the training length, for models with NoPE layers."""
TRIED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "rope": tuple(METHODS),
        "rope-500": tuple(METHODS),
        "rope-matched": tuple(METHODS),
        "windows": ("none", *TEMPERATURES),
        "windows-learned": ("none",),
    }
)
"""Models and the methods tried on each: of context extension, or temperatures."""
MODELS = tuple(TRIED)
LEARNED = 0.95
"""Accuracy at the training length from which on a model has learned the task."""
TITLES: Mapping[str, str] = MappingProxyType(
    {name: method.title for name, method in (METHODS | TEMPERATURES).items()}
)
"""Titles of the methods."""
METHOD = (
    "Accuracy over the marks that ask, on fresh texts of each length, which are the "
    "same for all methods of a seed."
)


@dataclass(frozen=True)
class Settings(sequences.Settings):
    """Model sizes and training settings of the needles experiment.

    They were chosen so that RoPE in every layer learns the task with the seed with
    which it had learned least with fewer steps, 5, and on seed 0, which is not
    reported.
    """

    steps: int = 6000
    batch: int = 16
    length: int = 128
    heads: int = 2
    d: int = 32
    rate: float = 4e-3
    tested: int = 64


def needles(batch: int, length: int, trained: int, generator: torch.Generator) -> Batch:
    """Return token ids of texts with hidden facts, and labels: the letters asked for.

    A fact is a mark and the letter after it, among other letters. Tokens below
    ``LETTERS`` are letters, the others are marks.

    Token ids and labels are [``batch``, ``length``]. Only the last tokens, the marks
    that ask, have labels; all other labels are ``IGNORED``. ``generator`` draws the
    texts; ``trained``, the training length, changes nothing here.
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


def factors(model: str) -> tuple[int, ...]:
    """Return the test lengths over the training length, beyond 1, for a model."""
    return (*FACTORS, FAR) if model.startswith("windows") else FACTORS


def label(method: str, factor: int) -> str:
    """Return the name of an accuracy: "trained", or method and factor.

    The factor is the test length over the training length. No method is applied at
    factor 1.
    """
    return "trained" if factor == 1 else f"{method} × {factor}"


def labels(model: str) -> list[str]:
    """Return the names of all accuracies that a run of this model has."""
    longer = (label(method, f) for method in TRIED[model] for f in factors(model))
    return ["trained", *longer]


@dataclass(frozen=True, kw_only=True)
class Run(AnyRun):
    """Result of one training: accuracy of each context extension method at each length.

    ``accuracy`` has the names of :func:`labels` as keys.
    """

    known: ClassVar[tuple[str, ...]] = MODELS

    def __post_init__(self) -> None:
        require_choice("model", self.encoding, self.known)
        super().__post_init__()


@dataclass
class Result(Runs):
    """All runs of the needles experiment, with its method and settings."""

    settings_type = Settings
    run_type = Run

    def evaluations_of(self, run: AnyRun) -> list[str]:
        """Return the names of a run's accuracies: each method at every length.

        The methods are those of context extension.
        """
        return labels(run.encoding)

    def accuracy(
        self, model: str, method: str, factor: int
    ) -> Float[np.ndarray, "seeds"]:
        """Return a model's accuracies with one context extension method at a length.

        ``factor`` is the test length over the training length. The values are in the
        order of rising seeds.
        """
        runs = sorted(self.runs, key=lambda run: run.seed)
        return np.array(
            [r.accuracy[label(method, factor)] for r in runs if r.encoding == model]
        )

    def learned(self, model: str) -> Bool[np.ndarray, "seeds"]:
        """Return whether a model has learned the task, by rising seed."""
        return self.accuracy(model, "none", 1) >= LEARNED

    def encodings(self) -> list[str]:
        """Return the names of the models that were trained."""
        trained = {run.encoding for run in self.runs}
        return [name for name in MODELS if name in trained]

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows of the printed table: the head, then one for each method.

        A row has the accuracy at every test length, as text; "–" is not tested.
        """
        yield ("accuracy in %", *(f"× {f}" for f in (1, *FACTORS, FAR)))
        for model in self.encodings():
            for method in TRIED[model]:
                values = (self.accuracy(model, method, f) for f in (1, *factors(model)))
                cells = [in_percent(v, interval) for v in values]
                cells += ["–"] * (FAR not in factors(model))
                yield (f"{model}, {TITLES[method]}", *cells)


def _model(model: str, settings: Settings, seed: int, **how: object) -> Model:
    with torch.random.fork_rng(devices=[]):
        return Model(
            model, settings, seed, tokens=TASK.tokens, labels=TASK.labels, **how
        )


def run(model: str, seed: int, settings: Settings) -> Run:
    """Train a model with one seed; test each extension method at every length.

    ``model`` is a name in :data:`MODELS`.
    """
    start = time.perf_counter()
    trained = _model(model, settings, seed)
    loss = fit(trained, TASK, settings, seed)
    state = trained.state_dict()
    found = {"trained": test(trained, TASK, settings.length, settings, seed)}
    for method in TRIED[model]:
        for factor in factors(model):
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


experiment = Experiment(
    name="needles",
    purpose="Hide facts in longer texts than those of training, and ask for them.",
    method=METHOD,
    choices={"models": MODELS},
    result_type=Result,
    run_one=run,
)

main = experiment.main

if __name__ == "__main__":
    run_command(__spec__.name)
