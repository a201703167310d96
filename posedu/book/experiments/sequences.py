"""Four tasks that need content for a small causal transformer, at any length.

Every batch has fresh sequences. A model is trained at one length and tested on fresh
sequences at that length and at longer ones. With one seed, all encodings get the same
sequences in the same order and the same initial weights, except for their own.

``"count"``: after every token, count the increments since the last reset, among
distractors. ``"copy"``: repeat in order, after the last blank, eight letters that stood
among blanks. ``"recall"``: keys are assigned values again and again; return the last
value of this key. ``"n-back"``: return the value before the last.

All encodings share one set of settings, which was chosen on seed 0; the reported seeds
are 1, 2, … This command remakes the book's result in an hour on two idle cores; after
an interrupt it continues::

    python -m posedu.book.experiments.sequences --seeds 5 \
        --out book/data/sequences-cpu.json
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import require_choice, require_dimension
from posedu.book.experiments.runs import Run as AnyRun
from posedu.book.experiments.runs import Runs, command, in_percent, interval
from posedu.book.experiments.training import CausalModel, optimization
from posedu.book.provenance import keep_memory
from posedu.torch import TAPE, CoPE, Encoding, FoX, RoPE, StickBreaking

IGNORED = -100  # the label of a token that is not asked
LETTERS = 8
COPIED = 8  # letters of a sequence to copy
LARGEST_COUNT = 10
KEYS, VALUES = 4, 8

METHOD = (
    "Accuracy over the tokens that are asked, on fresh sequences of each length, which "
    "are the same for all encodings of a seed. With k times the training length, count "
    "has 1/k of its resets and increments a token, copy the same eight letters."
)


@dataclass(frozen=True)
class Settings:
    """Settings of all runs."""

    steps: int = 1000
    batch: int = 32
    length: int = 64
    layers: int = 2
    heads: int = 4
    d: int = 16
    rate: float = 3e-3
    decay: float = 0.05
    tested: int = 128


MULTIPLES = (1, 2, 4, 8)
"""Test lengths over the training length."""

Batch = tuple[Int[Tensor, "batch tokens"], Int[Tensor, "batch tokens"]]


def _require_sizes(batch: int, length: int, trained: int) -> None:
    require_dimension("batch", batch, 1)
    require_dimension("length", length, 1)
    require_dimension("trained", trained, 1)


def count(batch: int, length: int, trained: int, generator: torch.Generator) -> Batch:
    """Return tokens 0 reset, 1 increment, 2 … 6 distractors; labels count so far.

    1/16 of ``trained`` tokens are resets and 1/4 increments; longer sequences have as
    many of each in all. A count that would exceed the largest is reset instead.
    """
    _require_sizes(batch, length, trained)
    chance = torch.rand(batch, length, generator=generator) * length / trained
    tokens = torch.randint(2, 7, (batch, length), generator=generator)
    tokens[chance < 5 / 16] = 1
    tokens[chance < 1 / 16] = 0
    tokens[:, 0] = 0
    labels = torch.zeros_like(tokens)
    so_far = torch.zeros(batch, dtype=torch.long)
    for i in range(length):
        so_far = so_far + (tokens[:, i] == 1)
        tokens[:, i] = tokens[:, i].masked_fill(so_far > LARGEST_COUNT, 0)
        so_far = so_far.masked_fill(tokens[:, i] == 0, 0)
        labels[:, i] = so_far
    return tokens, labels


def copy(batch: int, length: int, trained: int, generator: torch.Generator) -> Batch:
    """Return tokens 0 blank, 1 begin, 2 … letters, which follow "begin" in order.

    Every letter is asked for at the token before it.
    """
    _require_sizes(batch, length, trained)
    if length < 2 * COPIED:
        raise ValueError(
            f"{COPIED} letters to copy need a length of at least {2 * COPIED}, "
            f"got {length}"
        )
    blanks = length - COPIED
    places = torch.rand(batch, blanks, generator=generator).argsort(-1)[:, :COPIED]
    letters = torch.randint(2, 2 + LETTERS, (batch, COPIED), generator=generator)
    tokens = torch.zeros(batch, length, dtype=torch.long)
    tokens.scatter_(1, places.sort(-1).values, letters)
    tokens[:, blanks] = 1
    tokens[:, blanks + 1 :] = letters[:, :-1]
    labels = torch.full_like(tokens, IGNORED)
    labels[:, blanks:] = letters - 2
    return tokens, labels


def recall(
    batch: int,
    length: int,
    trained: int,
    generator: torch.Generator,
    *,
    back: int = 1,
) -> Batch:
    """Return tokens of which half write a value to a key and half read a key.

    Tokens below KEYS · VALUES write value token mod VALUES to key token div VALUES; the
    others read. The label of a reading is the value of the ``back``-th last writing to
    its key, where there is one.
    """
    _require_sizes(batch, length, trained)
    shape = (batch, length)
    keys = torch.randint(KEYS, shape, generator=generator)
    values = torch.randint(VALUES, shape, generator=generator)
    is_reading = torch.rand(shape, generator=generator) < 0.5
    tokens = torch.where(is_reading, KEYS * VALUES + keys, keys * VALUES + values)
    written = torch.full((batch, KEYS, back), IGNORED)
    rows = torch.arange(batch)
    labels = torch.full_like(tokens, IGNORED)
    for i in range(length):
        own = written[rows, keys[:, i]]
        labels[:, i] = torch.where(is_reading[:, i], own[:, -1], IGNORED)
        newer = torch.cat((values[:, i, None], own[:, :-1]), -1)
        written[rows, keys[:, i]] = torch.where(is_reading[:, i, None], own, newer)
    return tokens, labels


def n_back(batch: int, length: int, trained: int, generator: torch.Generator) -> Batch:
    """Return :func:`recall` of the writing before the last."""
    return recall(batch, length, trained, generator, back=2)


@dataclass(frozen=True)
class Task:
    """A maker of batches, and the sizes of its alphabets."""

    title: str
    make: Callable[[int, int, int, torch.Generator], Batch]
    tokens: int
    labels: int


TASKS: Mapping[str, Task] = MappingProxyType(
    {
        "count": Task("Counting among distractors", count, 7, LARGEST_COUNT + 1),
        "copy": Task("Selective copy", copy, 2 + LETTERS, LETTERS),
        "recall": Task(
            "Recall of the last value", recall, KEYS * VALUES + KEYS, VALUES
        ),
        "n-back": Task(
            "Recall of the value before", n_back, KEYS * VALUES + KEYS, VALUES
        ),
    }
)
"""Tasks by name."""


@dataclass(frozen=True)
class Condition:
    """An encoding of the experiment, and the route that attention takes with it."""

    title: str
    make: Callable[[Settings], Encoding]
    route: str = "eager"


CONDITIONS: Mapping[str, Condition] = MappingProxyType(
    {
        "none": Condition("no encoding", lambda s: Encoding(), "sdpa"),
        "rope": Condition("RoPE", lambda s: RoPE(s.d, layout="half"), "sdpa"),
        "fixed": Condition(
            "fixed gates (ALiBi)",
            lambda s: FoX(
                s.heads * s.d, s.heads, gate="fixed", gate_bias=(2.0, float(s.length))
            ),
            "folded",
        ),
        "fox": Condition("FoX", lambda s: FoX(s.heads * s.d, s.heads), "folded"),
        "fox-spread": Condition(
            "FoX, started as ALiBi",
            lambda s: FoX(s.heads * s.d, s.heads, gate_bias=(2.0, float(s.length))),
            "folded",
        ),
        "cope": Condition(
            "CoPE", lambda s: CoPE(s.d, npos=s.length, scaling="code"), "sdpa"
        ),
        "stickbreaking": Condition(
            "stick-breaking",
            lambda s: StickBreaking(attend_current=False, remainder="drop"),
        ),
    }
)
"""Encodings by name; stick-breaking is the only one without a stock kernel.

FoX occurs twice: all gates start at one half, as in the paper's code, or with the time
scales of the fixed gates, from 2 tokens to the training length. The latter differs from
the fixed gates only in that its gates are learned.
"""

CONTEXTUALIZED: Mapping[str, Condition] = MappingProxyType(
    {
        "tape": Condition(
            "TAPE",
            lambda s: TAPE(s.d, s.heads, s.heads * s.d, layout="half", mixing="heads"),
        ),
    }
)
"""Encodings with contextualized positions, which are reported separately."""

ALL: Mapping[str, Condition] = MappingProxyType({**CONDITIONS, **CONTEXTUALIZED})


class Model(CausalModel):
    """A causal transformer for a task, with the encoding of a condition."""

    def __init__(self, condition: Condition, task: Task, settings: Settings, seed: int):
        super().__init__(
            lambda: condition.make(settings),
            tokens=task.tokens,
            labels=task.labels,
            layers=settings.layers,
            heads=settings.heads,
            d=settings.d,
            route=condition.route,
            seed=seed,
        )


@dataclass(frozen=True, kw_only=True)
class Run(AnyRun):
    """One training: ``accuracy`` by length (as text), ``loss`` of the last tenth."""

    task: str

    def __post_init__(self) -> None:
        require_choice("task", self.task, tuple(TASKS))
        require_choice("encoding", self.encoding, tuple(ALL))
        super().__post_init__()

    @property
    def key(self) -> tuple[str | int, ...]:
        """Task, encoding and seed."""
        return self.task, *super().key


@dataclass
class Result(Runs):
    """Runs of the experiment, its method and its settings."""

    settings_type = Settings
    run_type = Run

    def accuracy(
        self, task: str, encoding: str, length: int
    ) -> Float[np.ndarray, "seeds"]:
        """Return accuracies of one encoding, task and length, by rising seed."""
        runs = sorted(self.runs, key=lambda run: run.seed)
        return np.array(
            [
                run.accuracy[str(length)]
                for run in runs
                if (run.task, run.encoding) == (task, encoding)
            ]
        )

    def encodings(self, task: str) -> list[str]:
        """Return the :data:`CONDITIONS` that were trained at a task, in that order."""
        trained = {run.encoding for run in self.runs if run.task == task}
        return [name for name in CONDITIONS if name in trained]

    def lengths(self) -> list[int]:
        """Return the tested lengths, the training length first."""
        return [m * self.settings.length for m in MULTIPLES]

    def evaluations(self) -> list[str]:
        """Return the lengths, as text."""
        return [str(n) for n in self.lengths()]

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the accuracies of every task and encoding at every length."""
        yield ("accuracy in %", "encoding", *(f"L = {n}" for n in self.lengths()))
        trained = {run.key[:2] for run in self.runs}
        for task, condition in product(TASKS, ALL):
            if (task, condition) in trained:
                values = [self.accuracy(task, condition, n) for n in self.lengths()]
                cells = (in_percent(v, interval) for v in values)
                yield (TASKS[task].title, ALL[condition].title, *cells)


def _make_batch(
    task: Task, batch: int, length: int, trained: int, generator: torch.Generator
) -> Batch:
    """Return a batch of a task, in which at least one token is asked."""
    tokens, labels = task.make(batch, length, trained, generator)
    if (labels == IGNORED).all():
        raise ValueError(
            f"nothing is asked in {batch} sequences of {length} tokens; "
            "make them longer or more"
        )
    return tokens, labels


def fit(model: CausalModel, task: Task, settings: Settings, seed: int) -> float:
    """Train and return the mean loss of the last tenth of the steps."""
    optimizer, schedule = optimization(
        model, rate=settings.rate, decay=settings.decay, steps=settings.steps
    )
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(settings.steps):
        tokens, labels = _make_batch(
            task, settings.batch, settings.length, settings.length, generator
        )
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(tokens).mT, labels, ignore_index=IGNORED)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return float(np.mean(losses[-max(1, settings.steps // 10) :]))


@torch.no_grad()
def test(
    model: CausalModel, task: Task, length: int, settings: Settings, seed: int
) -> float:
    """Return the accuracy on fresh sequences of one length."""
    generator = torch.Generator().manual_seed(10**6 + seed)
    tokens, labels = _make_batch(
        task, settings.tested, length, settings.length, generator
    )
    right = [
        (model(t).argmax(-1) == asked)[asked != IGNORED]
        for t, asked in zip(tokens.split(16), labels.split(16), strict=True)
    ]
    return torch.cat(right).double().mean().item()


def run(task: str, encoding: str, seed: int, settings: Settings) -> Run:
    """Train one encoding at one task with one seed and test it at every length."""
    start = time.perf_counter()
    with torch.random.fork_rng(devices=[]):
        model = Model(ALL[encoding], TASKS[task], settings, seed)
    loss = fit(model, TASKS[task], settings, seed)
    return Run(
        task=task,
        encoding=encoding,
        seed=seed,
        accuracy={
            str(n): test(model, TASKS[task], n, settings, seed)
            for n in (m * settings.length for m in MULTIPLES)
        },
        loss=loss,
        seconds=time.perf_counter() - start,
    )


def experiment(
    *,
    tasks: Sequence[str] = tuple(TASKS),
    encodings: Sequence[str] = tuple(ALL),
    seeds: int = 5,
    settings: Settings | None = None,
    processes: int = 1,
    backend: str = "loky",
    save_to: str | Path | None = None,
) -> Result:
    """Run every task and encoding with seeds 1, 2, … and save each finished run.

    Parameters
    ----------
    tasks, encodings
        Keys of :data:`TASKS` and :data:`ALL`.
    seeds
        Number of seeds.
    settings
        Default :class:`Settings`.
    processes, backend
        Runs at a time, each on one thread, and how joblib starts them.
    save_to
        A file that is rewritten after every run. Runs that it already has are not
        repeated.

    Returns
    -------
    Result
        Also when interrupted, with the runs that were finished.

    Raises
    ------
    ValueError, TypeError
        Unknown tasks or encodings, counts that are not positive integers, a file that
        was made with other settings, a training that diverged.
    OSError
        The file cannot be written; known before the first run.
    """
    for name in tasks:
        require_choice("task", name, tuple(TASKS))
    for name in encodings:
        require_choice("encoding", name, tuple(ALL))
    require_dimension("seeds", seeds, 1)
    require_dimension("processes", processes, 1)
    settings = settings or Settings()
    require_dimension("steps", settings.steps, 1)
    result = Result.begin(settings, save_to, METHOD)
    every = dict.fromkeys(
        (t, e, s) for s in range(1, seeds + 1) for t in tasks for e in encodings
    )
    result.add(run, every, processes=processes, backend=backend, save_to=save_to)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment, or the rest of it, and print a table of accuracies."""
    return command(
        "sequences",
        "Train a small causal transformer with each encoding on each task.",
        choices={"tasks": TASKS, "encodings": ALL},
        seeds=5,
        length="steps",
        settings=Settings,
        experiment=experiment,
        arguments=arguments,
    )


if __name__ == "__main__":
    from posedu.book.experiments import (
        sequences,  # the name that worker processes import
    )

    keep_memory()
    sys.exit(sequences.main())
