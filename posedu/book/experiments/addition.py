"""Addition of longer numbers than in training, with ids of significance and without.

A small causal transformer reads two numbers and writes their sum. All numbers are
written least digit first; both summands have n digits, zeros in front among them, and
the sum has n + 1. Training has 1 to 10 digits, one n for each batch; tests go up to 30.
Abacus and position coupling give digits of equal significance one position; they are
compared with no encoding, RoPE, FIRE, and randomized positions, which do not know what
a digit is.

With one seed, all encodings get the same numbers in the same order and the same initial
weights, except for the encodings' own parameters. They share one set of settings, which
was chosen on seed 0; the reported seeds are 1, 2, … This command remakes the book's
result in an hour on two idle cores; after an interrupt it continues::

    python -m posedu.book.experiments.addition --out book/data/addition-cpu.json
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

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
from posedu.torch import (
    FIRE,
    Abacus,
    Encoding,
    Learned,
    PositionCoupling,
    Randomized,
    RoPE,
)
from posedu.torch.absolute import coupled_indices, digit_indices

PLUS, EQUALS, START = 10, 11, 12  # token ids after those of the digits
TOKENS = 13

METHOD = (
    "Shares of fresh sums of n digits whose digits are all right, and of digits. Each "
    "digit is predicted from the right ones before it; so all are right if and only if "
    "the generated sum is. The sums are the same for all encodings of a seed."
)


@dataclass(frozen=True)
class Settings:
    """Sizes and training settings of all runs (single trainings).

    ``digits`` is the largest number of digits in training, ``d`` the head dimension,
    ``decay`` the weight decay, ``tested`` the number of sums for each test length, and
    ``tested_digits`` are these lengths. ``largest`` is the largest position of the
    encodings by significance, ``limit`` that of randomized positions.
    """

    steps: int = 10000
    batch: int = 64
    digits: int = 10
    layers: int = 2
    heads: int = 4
    d: int = 16
    rate: float = 3e-3
    decay: float = 0.05
    tested: int = 256
    largest: int = 40
    limit: int = 128


TESTED = (5, 10, 12, 15, 20, 30)
"""Test lengths in digits."""


def sums(
    batch: int, digits: int, generator: torch.Generator
) -> tuple[Int[Tensor, "batch tokens"], Int[Tensor, "batch answer"]]:
    """Return texts ``start a + b = c``, without the last digit of c, and those of c.

    a and b have ``digits`` uniform digits each, c has one more, all least digit first.
    Token ids below 10 are digits. ``generator`` draws the numbers.
    """
    require_dimension("batch", batch, 1)
    require_dimension("digits", digits, 1)
    a, b = torch.randint(10, (2, batch, digits), generator=generator)
    carry, answer = torch.zeros(batch, dtype=torch.long), []
    for of_a, of_b in zip(a.unbind(1), b.unbind(1), strict=True):
        total = of_a + of_b + carry
        answer.append(total % 10)
        carry = total // 10
    c = torch.stack((*answer, carry), 1)
    start, plus, equals = (
        torch.full((batch, 1), token) for token in (START, PLUS, EQUALS)
    )
    return torch.cat((start, a, plus, b, equals, c[:, :-1]), 1), c


def indices(tokens: Int[Tensor, "batch tokens"]) -> Int[Tensor, "batch tokens"]:
    """Return the indices of digits in their numbers, Abacus's positions."""
    return digit_indices(tokens < 10)


def couplings(tokens: Int[Tensor, "batch tokens"]) -> Int[Tensor, "batch tokens"]:
    """Return the positions of position coupling; the start token has −1."""
    roles = torch.where(tokens < 10, 2, torch.where(tokens == START, -1, 0))
    return coupled_indices(roles)


@dataclass(frozen=True)
class Condition:
    """An encoding to compare, its attention kernel (``route``) and its positions.

    ``positions`` makes positions of the tokens from token ids; by default they are 0,
    1, 2, …
    """

    title: str
    make: Callable[[Settings], Encoding]
    route: str = "sdpa"
    positions: Callable[[Tensor], Tensor] | None = None


def _table(settings: Settings, rows: int) -> Learned:
    return Learned(settings.heads * settings.d, rows, beyond="raise", std=1.0)


CONDITIONS: Mapping[str, Condition] = MappingProxyType(
    {
        "none": Condition("no encoding", lambda s: Encoding()),
        "rope": Condition("RoPE", lambda s: RoPE(s.d, layout="half")),
        "fire": Condition(
            "FIRE",
            lambda s: FIRE(
                s.heads,
                threshold=float(s.digits),
                activation="relu",
                later="distance",
            ),
            "eager",
        ),
        "randomized": Condition(
            "randomized positions",
            lambda s: Randomized(s.limit, per="sequence", inner=_table(s, s.limit)),
        ),
        "abacus": Condition(
            "Abacus",
            lambda s: Abacus(
                s.largest - s.digits,
                per="batch",
                inner=_table(s, s.largest + 1),
            ),
            positions=indices,
        ),
        "coupling": Condition(
            "position coupling",
            lambda s: PositionCoupling(s.largest, inner=_table(s, s.largest + 1)),
            positions=couplings,
        ),
    }
)
"""Encodings by name.

Randomized positions, Abacus and coupled positions are rows of a trained table. Position
0 of the latter two is a row of its own, that of tokens without a place.
"""


class Model(CausalModel):
    """Causal transformer that predicts digits, with the encoding of one condition."""

    def __init__(self, condition: Condition, settings: Settings, seed: int):
        super().__init__(
            lambda: [condition.make(settings) for _ in range(settings.layers)],
            tokens=TOKENS,
            labels=10,
            heads=settings.heads,
            d=settings.d,
            route=condition.route,
            seed=seed,
        )
        self.positions = condition.positions

    def forward(
        self, tokens: Int[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch answer 10"]:
        """Return the logits of the digits of the sum, least digit first.

        ``tokens`` are token ids of :func:`sums`; the first digit is predicted after =.
        """
        positions = None if self.positions is None else self.positions(tokens)
        out = self.trunk(self.embedding(tokens), positions)
        digits = (tokens.shape[1] - 3) // 3
        return self.answer(out[:, -digits - 1 :])


@dataclass(frozen=True, kw_only=True)
class Run(AnyRun):
    """Result of one training of one encoding.

    ``accuracy`` maps "exact n" and "digits n" to the share of right sums of n digits,
    and of right digits; ``loss`` is the mean training loss of the last tenth of the
    steps.
    """

    def __post_init__(self) -> None:
        require_choice("encoding", self.encoding, tuple(CONDITIONS))
        super().__post_init__()


@dataclass
class Result(Runs):
    """All runs of the addition experiment, with its method and settings."""

    settings_type = Settings
    run_type = Run

    def accuracy(
        self, encoding: str, score: str, digits: int
    ) -> Float[np.ndarray, "seeds"]:
        """Return the scores of an encoding at a number of digits, by rising seed.

        ``score`` is "exact" or "digits".
        """
        runs = sorted(self.runs, key=lambda run: run.seed)
        return np.array(
            [
                run.accuracy[f"{score} {digits}"]
                for run in runs
                if run.encoding == encoding
            ]
        )

    def encodings(self) -> list[str]:
        """Return the names of the encodings that were trained."""
        trained = {run.encoding for run in self.runs}
        return [name for name in CONDITIONS if name in trained]

    def evaluations(self) -> list[str]:
        """Return the keys of accuracies: exact and digits at every test length."""
        return _evaluations()

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows of the printed table: the head, then two for each encoding."""
        lengths = TESTED
        yield ("in %", "right are", *(f"{n} digits" for n in lengths))
        for name in self.encodings():
            for score, title in (("exact", "sums"), ("digits", "digits")):
                values = [self.accuracy(name, score, n) for n in lengths]
                cells = (in_percent(v, interval) for v in values)
                yield (CONDITIONS[name].title, title, *cells)


def _evaluations() -> list[str]:
    return [f"{score} {n}" for score in ("exact", "digits") for n in TESTED]


def fit(model: Model, settings: Settings, seed: int) -> float:
    """Train the model; return the mean loss of the last tenth of the steps.

    ``seed`` fixes the numbers and the random positions.
    """
    optimizer, schedule = optimization(
        model, rate=settings.rate, decay=settings.decay, steps=settings.steps
    )
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(settings.steps):
        digits = 1 + int(torch.randint(settings.digits, (), generator=generator))
        tokens, answer = sums(settings.batch, digits, generator)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(tokens).mT, answer)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return float(np.mean(losses[-max(1, settings.steps // 10) :]))


@torch.no_grad()
def test(
    model: nn.Module, digits: int, settings: Settings, seed: int
) -> tuple[float, float]:
    """Return the shares of right sums and of right digits among fresh sums.

    The summands have ``digits`` digits; ``seed`` fixes them.
    """
    model.eval()
    generator = torch.Generator().manual_seed(10**6 + seed)
    tokens, answer = sums(settings.tested, digits, generator)
    guessed = torch.cat([model(part).argmax(-1) for part in tokens.split(64)])
    right = (guessed == answer).double()
    return right.amin(1).mean().item(), right.mean().item()


def run(encoding: str, seed: int, settings: Settings) -> Run:
    """Train one encoding with one seed and test it at every length.

    ``encoding`` is a name in :data:`CONDITIONS`.
    """
    start = time.perf_counter()
    with torch.random.fork_rng(devices=[]):
        model = Model(CONDITIONS[encoding], settings, seed)
        torch.manual_seed(seed)
        loss = fit(model, settings, seed)
        scores = [test(model, n, settings, seed) for n in TESTED]
    exact, right = zip(*scores, strict=True)
    return Run(
        encoding=encoding,
        seed=seed,
        accuracy=dict(zip(_evaluations(), (*exact, *right), strict=True)),
        loss=loss,
        seconds=time.perf_counter() - start,
    )


experiment = Experiment(
    name="addition",
    purpose="Train a small causal transformer with each encoding to add numbers.",
    method=METHOD,
    choices={"encodings": tuple(CONDITIONS)},
    result_type=Result,
    run_one=run,
)

main = experiment.main

if __name__ == "__main__":
    run_command(__spec__.name)
