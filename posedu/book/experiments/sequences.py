"""Four tasks that need content for a small causal transformer, at any length.

Every batch has fresh sequences. A model is trained at one length and tested on fresh
sequences at that length and at longer ones. With one seed, all encodings get the same
sequences in the same order and the same initial weights, except for the encodings' own
parameters.

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

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import require_choice, require_dimension
from posedu.book.experiments.runs import (
    Experiment,
    Runs,
    in_percent,
    interval,
    run_command,
)
from posedu.book.experiments.runs import Run as AnyRun
from posedu.book.experiments.training import CausalModel, optimization
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
    """Sizes and training settings of all runs (single trainings).

    ``length`` is the training length in tokens, ``d`` the head dimension, ``decay`` the
    weight decay, and ``tested`` the number of test sequences.
    """

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
    """Return sequences for counting: the label of a token is the count up to it.

    Token 0 resets the count, 1 increments it, 2 … 6 are distractors.

    1/16 of ``trained`` tokens are resets and 1/4 increments; longer sequences have as
    many of each in all. A count that would exceed the largest is reset instead. Token
    ids and labels are [``batch``, ``length``]; ``trained`` is the training length, and
    ``generator`` draws the sequences.
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
    """Return sequences for copying: scattered letters, repeated in order at the end.

    Token 0 is a blank, 1 says that the copy begins, 2 and above are letters.

    Every letter is asked for at the token before it; all other labels are ``IGNORED``.
    Token ids and labels are [``batch``, ``length``]; ``generator`` draws the sequences,
    and ``trained``, the training length, changes nothing here.
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
    """Return sequences for recall: half the tokens write a value to a key, half read.

    Tokens below KEYS · VALUES write value token mod VALUES to key token div VALUES; the
    others read. The label of a reading is the value of the ``back``-th last writing to
    its key, where there is one; all other labels are ``IGNORED``. Token ids and labels
    are [``batch``, ``length``]; ``generator`` draws the sequences, and ``trained``, the
    training length, changes nothing here.
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
    """Return sequences for recall of the value before the last, by :func:`recall`.

    Arguments and returned tensors as in :func:`recall`, with ``back`` = 2.
    """
    return recall(batch, length, trained, generator, back=2)


@dataclass(frozen=True)
class Task:
    """A task: its title and a function that makes batches of sequences.

    ``make(batch, length, trained, generator)`` returns token ids and labels, where
    ``trained`` is the training length. ``tokens`` and ``labels`` are the numbers of
    different ids and labels, ``layers`` the number of the model's layers (None: that of
    the settings).
    """

    title: str
    make: Callable[[int, int, int, torch.Generator], Batch]
    tokens: int
    labels: int
    layers: int | None = None


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
    """An encoding to compare, and the attention kernel (``route``) used with it.

    The route ``None`` is each layer's default.
    """

    title: str
    make: Callable[[Settings], Encoding]
    route: str | None = "eager"

    def encodings(self, settings: Settings, layers: int) -> list[Encoding]:
        """Return the encoding of each layer, from the first to the last."""
        return [self.make(settings) for _ in range(layers)]


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

FoX occurs twice: all gates start near one half, as in the paper's code, or near the
fixed gates, whose time scales are 2 tokens to the training length. The latter differs
from the fixed gates only in that its gates are learned.
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
    """Causal transformer for one task with the encoding of one :class:`Condition`."""

    def __init__(self, condition: Condition, task: Task, settings: Settings, seed: int):
        layers = settings.layers if task.layers is None else task.layers
        super().__init__(
            partial(condition.encodings, settings, layers),
            tokens=task.tokens,
            labels=task.labels,
            heads=settings.heads,
            d=settings.d,
            route=condition.route,
            seed=seed,
        )


@dataclass(frozen=True, kw_only=True)
class Run(AnyRun):
    """Result of one training of one encoding at one task.

    ``accuracy`` maps each test length, written as text, to the accuracy; ``loss`` is
    the mean training loss of the last tenth of the steps.
    """

    tasks: ClassVar[Mapping[str, Task]] = TASKS
    conditions: ClassVar[Mapping[str, Condition]] = ALL

    task: str

    def __post_init__(self) -> None:
        require_choice("task", self.task, tuple(self.tasks))
        require_choice("encoding", self.encoding, tuple(self.conditions))
        super().__post_init__()

    @property
    def key(self) -> tuple[str | int, ...]:
        """Task, encoding and seed, which identify the run."""
        return self.task, *super().key


@dataclass
class Result(Runs):
    """All runs of the sequences experiment, with its method and settings."""

    settings_type = Settings
    run_type: ClassVar[type[Run]] = Run
    shown: ClassVar[Mapping[str, Condition]] = CONDITIONS
    multiples: ClassVar[tuple[int, ...]] = MULTIPLES

    def accuracy(
        self, task: str, encoding: str, length: int
    ) -> Float[np.ndarray, "seeds"]:
        """Return the accuracies of an encoding at a task and length, by rising seed."""
        runs = sorted(self.runs, key=lambda run: run.seed)
        return np.array(
            [
                run.accuracy[str(length)]
                for run in runs
                if (run.task, run.encoding) == (task, encoding)
            ]
        )

    def encodings(self, task: str) -> list[str]:
        """Return the names of the ``shown`` encodings that were trained at a task."""
        trained = {run.encoding for run in self.runs if run.task == task}
        return [name for name in self.shown if name in trained]

    def lengths(self) -> list[int]:
        """Return the tested lengths, the training length first."""
        return [m * self.settings.length for m in self.multiples]

    def evaluations(self) -> list[str]:
        """Return the tested lengths as text, the keys of accuracies."""
        return [str(n) for n in self.lengths()]

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows of the printed table: the head, then a row for each encoding.

        Each task has rows of its own. A row has the accuracy at every test length, as
        text.
        """
        yield ("accuracy in %", "encoding", *(f"L = {n}" for n in self.lengths()))
        trained = {run.key[:2] for run in self.runs}
        tasks, conditions = self.run_type.tasks, self.run_type.conditions
        for task, condition in product(tasks, conditions):
            if (task, condition) in trained:
                values = [self.accuracy(task, condition, n) for n in self.lengths()]
                cells = (in_percent(v, interval) for v in values)
                yield (tasks[task].title, conditions[condition].title, *cells)


def _make_batch(
    task: Task, batch: int, length: int, trained: int, generator: torch.Generator
) -> Batch:
    """Return a batch of a task; raise ValueError if the batch asks for no token.

    ``batch`` is the number of sequences, ``length`` their length, ``trained`` the
    training length; ``generator`` draws the sequences. Token ids and labels are [batch,
    length].
    """
    tokens, labels = task.make(batch, length, trained, generator)
    if (labels == IGNORED).all():
        raise ValueError(
            f"nothing is asked in {batch} sequences of {length} tokens; "
            "make them longer or more"
        )
    return tokens, labels


def fit(model: CausalModel, task: Task, settings: Settings, seed: int) -> float:
    """Train the model; return the mean loss of the last tenth of the steps.

    ``seed`` fixes the training sequences.
    """
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
    """Return the model's accuracy at a task on fresh sequences of one length.

    The accuracy is the share of right answers among the tokens that have a label.
    ``seed`` fixes the sequences.
    """
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
    """Train one encoding at one task with one seed and test it at every length.

    ``task`` is a name in :data:`TASKS`, ``encoding`` a name in :data:`ALL`.
    """
    return make_run(Result, task, encoding, seed, settings)


def make_run(
    result_type: type[Result], task: str, encoding: str, seed: int, settings: Settings
) -> Run:
    """Train one encoding at one task with one seed and test it at every length.

    Tasks, encodings, test lengths and the type of the returned run are those of
    ``result_type``.
    """
    start = time.perf_counter()
    run_type = result_type.run_type
    of_task = run_type.tasks[task]
    with torch.random.fork_rng(devices=[]):
        model = Model(run_type.conditions[encoding], of_task, settings, seed)
    loss = fit(model, of_task, settings, seed)
    return run_type(
        task=task,
        encoding=encoding,
        seed=seed,
        accuracy={
            str(n): test(model, of_task, n, settings, seed)
            for n in (m * settings.length for m in result_type.multiples)
        },
        loss=loss,
        seconds=time.perf_counter() - start,
    )


experiment = Experiment(
    name="sequences",
    purpose="Train a small causal transformer with each encoding on each task.",
    method=METHOD,
    choices={"tasks": tuple(TASKS), "encodings": tuple(ALL)},
    result_type=Result,
    run_one=run,
)

main = experiment.main

if __name__ == "__main__":
    run_command(__spec__.name)
