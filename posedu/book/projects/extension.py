"""Project "extension": models with RoPE are extended to eight times their length.

One model reads Python's source, one character a token, and one keeps notes, the last of
which is asked for later. Both are trained at 128 tokens. A learner's functions choose
RoPE's new frequencies, a temperature, and the lengths and learning rates of 120 further
training steps, the same for both; then the models read 1024 tokens.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from posedu._argument_types import check_types
from posedu._arguments import require_choice
from posedu.book import figures
from posedu.book.experiments.characters import (
    CHARACTERS,
    Settings,
    fit,
    standard_library,
    test,
    test_windows,
)
from posedu.book.experiments.sequences import IGNORED, KEYS, VALUES
from posedu.book.experiments.training import optimization
from posedu.book.projects.records import Goal, Project, Report
from posedu.numpy.frequencies import frequencies
from posedu.torch import LanguageModel, RoPE

SETTINGS = Settings(steps=400, batch=16, length=128, heads=2, d=32, tested=96)
"""Sizes of the models, and the training of the one that reads characters."""
NOTES, NOISE, ASKED = 16, 8, 32
"""Notes in a text, kinds of tokens that say nothing, and tokens that ask for a note."""
FACTOR = 8
"""Ratio of the length at test to the length in training."""
STEPS = 120
"""Steps of the training after the extension."""
TOKENS = SETTINGS.batch * SETTINGS.length
"""Tokens of each of these steps: texts times their length."""
HIGHEST = 0.3
"""The highest learning rate of these steps."""

Array = np.ndarray
Plan = list[tuple[int, float]]


@dataclass(frozen=True)
class Kind:
    """Kind of texts: numbers of tokens and labels, training steps and rate."""

    tokens: int
    labels: int
    steps: int
    rate: float


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "source": Kind(CHARACTERS, CHARACTERS, SETTINGS.steps, 3e-2),
        "notes": Kind(KEYS * VALUES + KEYS + NOISE, VALUES, 1500, 6e-3),
    }
)
"""Kinds of texts by name; there is a model for each."""


def trained() -> int:
    """Return the number of tokens of texts in training."""
    return SETTINGS.length


def longest() -> int:
    """Return the number of tokens of texts after the extension."""
    return FACTOR * SETTINGS.length


def notes(
    rows: int, length: int, generator: torch.Generator
) -> tuple[Int[Tensor, "rows length"], Int[Tensor, "rows length"]]:
    """Return the tokens and labels of ``rows`` texts with notes.

    Token VALUES · key + value is a note: it writes a value to a key. Then come KEYS
    tokens that ask for a key, and tokens that say nothing. The last tokens of a text
    ask; their labels are the values that were last written to their keys, and all other
    labels are ``IGNORED``. The last quarter of a text has no note: at 1024 tokens every
    note is farther from a token that asks than any token is from another at 128.
    """
    room = length - length // 4
    keys = torch.randint(KEYS, (rows, NOTES), generator=generator)
    values = torch.randint(VALUES, (rows, NOTES), generator=generator)
    order = torch.rand(rows, room, generator=generator).argsort(-1)
    places = order[:, :NOTES].sort(-1).values
    asked = keys.gather(1, torch.randint(NOTES, (rows, ASKED), generator=generator))
    tokens = torch.randint(NOISE, (rows, length), generator=generator)
    tokens += KEYS * VALUES + KEYS
    tokens.scatter_(1, places, VALUES * keys + values)
    tokens[:, -ASKED:] = KEYS * VALUES + asked
    is_written = keys[:, None] == asked[..., None]
    last = (is_written * torch.arange(1, NOTES + 1)).argmax(-1)
    labels = torch.full_like(tokens, IGNORED)
    labels[:, -ASKED:] = values.gather(1, last)
    return tokens, labels


def texts(
    kind: str, rows: int, length: int, generator: torch.Generator
) -> tuple[Int[Tensor, "rows length"], Int[Tensor, "rows length"]]:
    """Return the tokens and labels of ``rows`` texts of a kind, to train with."""
    require_choice("kind", kind, tuple(KINDS))
    if kind == "notes":
        return notes(rows, length, generator)
    text = standard_library().training
    starts = torch.randint(len(text) - length, (rows, 1), generator=generator)
    window = text[starts + torch.arange(length + 1)]
    return window[:, :-1], window[:, 1:]


class ExtendedRoPE(RoPE):
    """RoPE with given frequencies, and a temperature that multiplies the logits.

    ``omega`` are the frequencies, ``tau`` the temperature of a query with one key, two
    keys, and so on. Tokens have the positions 0, 1, 2, …
    """

    def __init__(self, omega: Float[Array, "pairs"], tau: Float[Array, "longest"]):
        super().__init__(
            2 * len(omega), layout="half", frequencies=torch.from_numpy(omega)
        )
        self.tau = torch.from_numpy(tau).float()

    def rotate(self, q: Tensor, k: Tensor, positions: Any) -> tuple[Tensor, Tensor]:
        """Rotate q and k, and multiply q by the temperature."""
        q, k = super().rotate(q, k, positions)
        return q * self.tau[: q.shape[-2], None], k


@check_types
def language_model(
    kind: str,
    omega: Float[Array, "pairs"],
    tau: Float[Array, "longest"],
    seed: int,
) -> LanguageModel:
    """Return a model for texts of a kind with these frequencies and temperatures.

    Its weights are random, and ``seed`` fixes them.
    """
    require_choice("kind", kind, tuple(KINDS))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LanguageModel(
            KINDS[kind].tokens,
            SETTINGS.d_model,
            SETTINGS.heads,
            SETTINGS.layers,
            encoding=ExtendedRoPE(omega, tau),
            expansion=2,
        )


@lru_cache(maxsize=8)
def _trained_model(kind: str, seed: int, settings: Settings) -> LanguageModel:
    omega = frequencies(settings.d)
    model = language_model(kind, omega, np.ones(FACTOR * settings.length), seed)
    steps, rate = KINDS[kind].steps, KINDS[kind].rate
    if kind == "source":
        fit(model, standard_library(), settings, rate, seed)
        return model
    optimizer, schedule = optimization(
        model, rate=rate, decay=settings.decay, steps=steps
    )
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        shown = texts(kind, settings.batch, settings.length, generator)
        _step(kind, model, optimizer, *shown)
        schedule.step()
    return model


@check_types
def trained_model(kind: str, seed: int) -> LanguageModel:
    """Return a kind's model after training at 128; ``seed`` fixes start and texts.

    A model that was trained before is not trained again.
    """
    require_choice("kind", kind, tuple(KINDS))
    return _trained_model(kind, seed, SETTINGS)


@check_types
def extended(
    kind: str,
    omega: Float[Array, "pairs"],
    tau: Float[Array, "longest"],
    seed: int,
) -> LanguageModel:
    """Return the trained model with other frequencies and with temperatures."""
    model = language_model(kind, omega, tau, seed)
    model.load_state_dict(trained_model(kind, seed).state_dict())
    return model


@check_types
def tune(kind: str, model: nn.Module, plan: Plan, seed: int) -> None:
    """Train a model further, one step for each (length, rate) of the plan.

    A step has :data:`TOKENS` tokens, in texts of the given length.
    """
    optimizer, _ = optimization(model, rate=1.0, decay=SETTINGS.decay, steps=len(plan))
    generator = torch.Generator().manual_seed(10**7 + seed)
    for length, rate in plan:
        for group in optimizer.param_groups:
            group["lr"] = rate
        shown = texts(kind, max(1, TOKENS // length), length, generator)
        _step(kind, model, optimizer, *shown)


def _step(
    kind: str,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    tokens: Int[Tensor, "rows length"],
    labels: Int[Tensor, "rows length"],
) -> None:
    optimizer.zero_grad()
    logits = model(tokens)[..., : KINDS[kind].labels]
    functional.cross_entropy(logits.mT, labels, ignore_index=IGNORED).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


@check_types
def bits(model: nn.Module, length: int, seed: int) -> float:
    """Return bits per character of test source of which the model sees ``length``.

    The characters that count, the last ones of each text, are the same at all lengths.
    """
    windows = test_windows(standard_library(), SETTINGS, seed)
    return test(model, windows, length, SETTINGS.length // 2)[0]


@check_types
@torch.no_grad()
def forgotten(model: nn.Module, length: int, seed: int) -> float:
    """Return the share of notes asked for that the model does not know.

    The texts are fresh, of the given length, and have as many notes at every length.
    """
    generator = torch.Generator().manual_seed(10**6 + seed)
    tokens, labels = notes(SETTINGS.tested, length, generator)
    wrong = [
        model(shown)[:, -ASKED:, :VALUES].argmax(-1) != wanted[:, -ASKED:]
        for shown, wanted in zip(tokens.split(8), labels.split(8), strict=True)
    ]
    return torch.cat(wrong).double().mean().item()


TESTS: Mapping[str, Callable[[nn.Module, int, int], float]] = MappingProxyType(
    {"source": bits, "notes": forgotten}
)
"""The measured quantity of each kind of model: bits per character, or a share."""
COSTS: Mapping[str, str] = MappingProxyType(
    {"source": "more bits", "notes": "more forgotten"}
)
"""Names of the differences between extended and trained model, by kind."""


def _require_numbers(name: str, value: Any, count: int, what: str) -> Array:
    """Return a learner's array of ``count`` numbers in float64; raise if it is none."""
    if not isinstance(value, Array) or value.dtype.kind not in "iuf":
        raise TypeError(f"{name} must return a NumPy array of numbers, got {value!r}")
    if value.shape != (count,):
        raise ValueError(
            f"{name} must return [{count}], a number for each {what}, got shape "
            f"{list(value.shape)}"
        )
    if not np.isfinite(value).all() or (value < 0).any():
        raise ValueError(
            f"{name} must return finite numbers of at least 0, got {value.min()} to "
            f"{value.max()}"
        )
    return value.astype(np.float64)


def _require_plan(given: Any) -> Plan:
    """Return a learner's plan as a list of (length, rate); raise if it is none."""
    rows = list(given) if isinstance(given, Iterable) else given
    if not isinstance(rows, list) or len(rows) != STEPS:
        got = len(rows) if isinstance(rows, list) else repr(rows)
        raise ValueError(f"plan must return {STEPS} pairs (length, rate), got {got}")
    plan = []
    for n, row in enumerate(rows):
        if not isinstance(row, tuple | list) or len(row) != 2:
            raise ValueError(f"step {n} must be a pair (length, rate), got {row!r}")
        length, rate = row
        if not isinstance(length, int | np.integer) or not 2 <= length <= longest():
            raise ValueError(
                f"the length of step {n} must be an integer from 2 to {longest()}, got "
                f"{length!r}"
            )
        if not isinstance(rate, int | float | np.floating) or not 0 <= rate <= HIGHEST:
            raise ValueError(
                f"the rate of step {n} must be from 0 to {HIGHEST}, got {rate!r}"
            )
        plan.append((int(length), float(rate)))
    return plan


@check_types
def measure(
    extended_frequencies: Callable[..., Any],
    temperature: Callable[..., Any],
    plan: Callable[..., Any],
    *,
    seed: int,
) -> dict[str, float]:
    """Return how much more is lost by the extended models than before.

    Of the model of source, bits per character at 128 tokens are subtracted from those
    of the extended model at 1024 and at 128 tokens; the characters are the same. Of the
    model of notes it is the share of notes that it does not know.
    """
    omega = frequencies(SETTINGS.d)
    keys = np.arange(1.0, longest() + 1)
    slower = _require_numbers(
        "extended_frequencies",
        extended_frequencies(omega.copy(), trained(), FACTOR),
        len(omega),
        "pair",
    )
    tau = _require_numbers(
        "temperature", temperature(keys.copy(), trained()), len(keys), "number of keys"
    )
    steps = _require_plan(plan(STEPS, trained(), longest()))
    found: dict[str, float] = {}
    for kind, lost in TESTS.items():
        before = lost(trained_model(kind, seed), trained(), seed)
        model = extended(kind, slower, tau, seed)
        untuned = lost(model, longest(), seed)
        tune(kind, model, steps, seed)
        far, near = (lost(model, n, seed) for n in (longest(), trained()))
        cost = COSTS[kind]
        found |= {
            f"{cost.removeprefix('more ')} before": before,
            f"{cost} at 1024, untuned": untuned - before,
            f"{cost} at 1024": far - before,
            f"{cost} at 128": near - before,
        }
    return {name: v if math.isfinite(v) else math.inf for name, v in found.items()}


def plot(report: Report) -> figures.Figure:
    """Draw what the extended models lose with each seed, and the goals."""
    figure, (every,) = figures.canvas(1, 2, figsize=(6.4, 3.2))
    limits = {goal.quantity: goal.most for goal in PROJECT.goals}
    ends = (" at 1024, untuned", " at 1024", " at 128")
    captions, alts = [], []
    for axes, cost in zip(every, COSTS.values(), strict=True):
        names = [f"{cost}{end}" for end in ends]
        values = np.array([[row[name] for name in names] for row in report.measured])
        for n, name in enumerate(names):
            axes.plot([n] * len(values), values[:, n], "o", color="C0", alpha=0.7)
            if name in limits:
                axes.plot(
                    [n - 0.3, n + 0.3], [limits[name]] * 2, color="C1", linestyle="--"
                )
        axes.set_xticks(range(3), ["1024,\nuntuned", "1024,\ntuned", "128,\ntuned"])
        axes.set(ylabel=cost)
        low, high = values.min(0), values.max(0)
        captions.append(
            f"{cost}: {low[0]:.2f} to {high[0]:.2f} at 1024 without tuning, at most "
            f"{high[1]:.3f} after it, at most {high[2]:.3f} at 128"
        )
        alts.append(
            f"{cost}, after tuning: at 1024 from {low[1]:.3f} to {high[1]:.3f}, at 128 "
            f"from {low[2]:.3f} to {high[2]:.3f}"
        )
    return figures.finish(
        figure,
        caption="What the extended models lose, over what the models before lose at "
        f"128, {len(report.seeds)} seeds: bits per character of source (left) and the "
        f"share of notes (right). {'; '.join(captions)}. The dashed lines are goals.",
        alt=f"Two panels with three columns of points. {'; '.join(alts)}. Dashed lines "
        "are goals.",
    )


PROJECT = Project(
    name="extension",
    title="Project: eight times the length in 120 steps",
    part="Length",
    minutes=90,
    cpu_minutes=7,
    uses=("context-extension-2", "context-extension-3", "temperature-3"),
    answers=("extended_frequencies", "temperature", "plan"),
    measure=measure,
    goals=(
        Goal("more bits at 1024", most=0.05),
        Goal("more bits at 128", most=0.05),
        Goal("more forgotten at 1024", most=0.22),
        Goal("more forgotten at 128", most=0.22),
    ),
    plot=plot,
)
