"""Project "copy-length": absolute positions that make copying generalize in length.

A language model with sinusoidal encodings learns to copy letters from texts of 64
tokens and is tested at longer texts. Each letter of the copy is asked for by the same
token, so the content does not say which one is asked for. A learner's functions choose
the positions of the tokens, in training and at test.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from posedu._argument_types import check_types
from posedu.book import figures
from posedu.book.experiments.sequences import IGNORED, LETTERS, Settings
from posedu.book.experiments.training import optimization
from posedu.book.projects.records import Goal, Project, Report
from posedu.torch import LanguageModel, Sinusoidal

COPIED = 5
"""Letters of a text, and tokens at its end that ask for them."""
SETTINGS = Settings(steps=1800, rate=6e-3)
"""Sizes of the model and of its training."""
FACTORS = (1, 2, 4, 8)
"""Test lengths over the training length."""
FARTHEST = 10**4
"""The largest absolute value of a position."""

Positions = Callable[..., Any]


@check_types
def language_model(seed: int) -> LanguageModel:
    """Return a language model that adds sinusoidal encodings to its input.

    ``seed`` fixes its random weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        d_model = SETTINGS.heads * SETTINGS.d
        return LanguageModel(
            2 + LETTERS,
            d_model,
            SETTINGS.heads,
            SETTINGS.layers,
            input=Sinusoidal(d_model, layout="half"),
            expansion=2,
        )


@check_types
def texts(
    rows: int, length: int, generator: torch.Generator
) -> tuple[Int[Tensor, "rows length"], Int[Tensor, "rows length"]]:
    """Return the tokens and labels of ``rows`` texts with letters to copy.

    Token 0 is a blank, 1 asks for a letter, 2 and above are letters, which stand at
    random places before the tokens that ask. The n-th of these has the n-th letter as
    its label; all other labels are ``IGNORED``.
    """
    before = length - COPIED
    order = torch.rand(rows, before, generator=generator).argsort(-1)
    places = order[:, :COPIED].sort(-1).values
    letters = torch.randint(LETTERS, (rows, COPIED), generator=generator)
    tokens = torch.zeros(rows, length, dtype=torch.long).scatter(1, places, 2 + letters)
    tokens[:, before:] = 1
    labels = torch.full_like(tokens, IGNORED)
    labels[:, before:] = letters
    return tokens, labels


def _positions(
    function: Positions, rows: int, length: int, generator: torch.Generator
) -> Float[Tensor, "rows length"]:
    """Return the positions that a learner's function gives; raise if they are none."""
    given = function(rows, length, generator)
    name = getattr(function, "__name__", "the function")
    if not isinstance(given, Tensor):
        raise TypeError(
            f"{name} must return a torch.Tensor, got {type(given).__name__}"
        )
    if given.dtype == torch.bool or given.is_complex():
        raise TypeError(f"{name} must return real numbers, got {given.dtype}")
    if given.shape != (rows, length):
        raise ValueError(
            f"{name} must return [{rows}, {length}], a position for each token of each "
            f"text, got shape {list(given.shape)}"
        )
    given = given.detach().double()
    if not given.isfinite().all() or given.abs().max() > FARTHEST:
        raise ValueError(
            f"{name} must return finite positions from {-FARTHEST} to {FARTHEST}, got "
            f"{given.min():g} to {given.max():g}"
        )
    return given


@check_types
def train(
    model: nn.Module, training_positions: Positions, seed: int, steps: int
) -> None:
    """Train a model to copy, at positions drawn for each step; ``seed`` fixes texts."""
    optimizer, schedule = optimization(
        model, rate=SETTINGS.rate, decay=SETTINGS.decay, steps=steps
    )
    generator = torch.Generator().manual_seed(seed)
    own = torch.Generator().manual_seed(10**7 + seed)
    for _ in range(steps):
        tokens, labels = texts(SETTINGS.batch, SETTINGS.length, generator)
        positions = _positions(training_positions, SETTINGS.batch, SETTINGS.length, own)
        optimizer.zero_grad()
        logits = model(tokens, positions)[..., :LETTERS]
        functional.cross_entropy(logits.mT, labels, ignore_index=IGNORED).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()


@check_types
@torch.no_grad()
def accuracy(
    model: nn.Module, test_positions: Positions, length: int, seed: int
) -> float:
    """Return the share of letters of fresh texts that the model copies rightly."""
    generator = torch.Generator().manual_seed(10**6 + seed)
    own = torch.Generator().manual_seed(10**8 + seed)
    tokens, labels = texts(SETTINGS.tested, length, generator)
    positions = _positions(test_positions, len(tokens), length, own)
    right = [
        (model(t, at)[..., :LETTERS].argmax(-1) == wanted)[wanted != IGNORED]
        for t, at, wanted in zip(
            tokens.split(16), positions.split(16), labels.split(16), strict=True
        )
    ]
    return torch.cat(right).double().mean().item()


@check_types
def measure(
    training_positions: Positions, test_positions: Positions, *, seed: int
) -> dict[str, float]:
    """Return the accuracies at each length of a model trained at 64 tokens.

    The learner's functions get the number of texts, their length and a generator, and
    return a position for each token, [texts, length].
    """
    for function in (training_positions, test_positions):
        _positions(function, 2, SETTINGS.length, torch.Generator().manual_seed(seed))
    model = language_model(seed)
    train(model, training_positions, seed, SETTINGS.steps)
    lengths = (factor * SETTINGS.length for factor in FACTORS)
    return {
        f"accuracy at {n}": accuracy(model, test_positions, n, seed) for n in lengths
    }


def plot(report: Report) -> figures.Figure:
    """Draw the accuracy of each seed over the length, and the goals."""
    names = list(report.measured[0])
    lengths = [int(name.rpartition(" ")[2]) for name in names]
    values = np.array([[row[name] for name in names] for row in report.measured])
    figure, ((axes,),) = figures.canvas()
    for row in values:
        axes.plot(lengths, row, "o-", color="C0", alpha=0.7)
    for goal in PROJECT.goals:
        at = int(goal.quantity.rpartition(" ")[2])
        axes.plot([at / 1.2, at * 1.2], [goal.least] * 2, color="C1", linestyle="--")
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.set(xlabel="tokens", ylabel="share of letters", ylim=(0, 1.03))
    low, high = values.min(0), values.max(0)
    spread = ", ".join(
        f"{a:.0%} to {b:.0%} at {n}" for a, b, n in zip(low, high, lengths, strict=True)
    )
    return figures.finish(
        figure,
        caption=f"Share of letters copied rightly by models trained at {lengths[0]} "
        f"tokens, {len(values)} seeds: {spread} tokens. The dashed lines are goals.",
        alt=f"A line for each seed over {len(lengths)} lengths: {spread} tokens; short "
        "dashed lines are goals.",
    )


PROJECT = Project(
    name="copy-length",
    title="Project: copy at four times the length",
    part="Absolute positions",
    minutes=90,
    cpu_minutes=6,
    uses=("randomized-positions-2", "randomized-positions-4"),
    answers=("training_positions", "test_positions"),
    measure=measure,
    goals=(
        Goal("accuracy at 64", least=0.85),
        Goal("accuracy at 256", least=0.75),
    ),
    plot=plot,
)
