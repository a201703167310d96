"""Project "extension": a model with RoPE is extended to eight times its length.

A language model of characters is trained at 128 tokens. A learner's functions choose
RoPE's new frequencies, a temperature, and the lengths and learning rates of 60 further
training steps; then the model reads 1024 tokens.
"""

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from posedu._argument_types import check_types
from posedu.book import figures
from posedu.book.experiments.characters import (
    CHARACTERS,
    Settings,
    fit,
    standard_library,
    test,
    test_windows,
)
from posedu.book.experiments.training import optimization
from posedu.book.projects.records import Goal, Project, Report
from posedu.numpy.frequencies import frequencies
from posedu.torch import LanguageModel, RoPE

SETTINGS = Settings(steps=400, batch=16, length=128, heads=2, d=32, tested=96)
"""Sizes of the model, and its training before the extension."""
RATE = 3e-2
"""Learning rate of that training."""
FACTOR = 8
"""Ratio of the length at test to the length in training."""
STEPS = 60
"""Steps of the training after the extension."""
TOKENS = SETTINGS.batch * SETTINGS.length
"""Tokens of each of these steps: windows times their length."""
HIGHEST = 0.3
"""The highest learning rate of these steps."""

Array = np.ndarray
Plan = list[tuple[int, float]]


def trained() -> int:
    """Return the number of tokens of texts in training."""
    return SETTINGS.length


def longest() -> int:
    """Return the number of tokens of texts after the extension."""
    return FACTOR * SETTINGS.length


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
    omega: Float[Array, "pairs"], tau: Float[Array, "longest"], seed: int
) -> LanguageModel:
    """Return a language model of characters with these frequencies and temperatures.

    Its weights are random, and ``seed`` fixes them.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LanguageModel(
            CHARACTERS,
            SETTINGS.d_model,
            SETTINGS.heads,
            SETTINGS.layers,
            encoding=ExtendedRoPE(omega, tau),
            expansion=2,
        )


@lru_cache(maxsize=8)
def _trained_model(seed: int, settings: Settings) -> LanguageModel:
    omega = frequencies(settings.d)
    model = language_model(omega, np.ones(FACTOR * settings.length), seed)
    fit(model, standard_library(), settings, RATE, seed)
    return model


@check_types
def trained_model(seed: int) -> LanguageModel:
    """Return the model after training at 128 tokens; ``seed`` fixes start and text.

    A model that was trained before is not trained again.
    """
    return _trained_model(seed, SETTINGS)


@check_types
def extended(
    omega: Float[Array, "pairs"], tau: Float[Array, "longest"], seed: int
) -> LanguageModel:
    """Return the trained model with other frequencies and with temperatures."""
    model = language_model(omega, tau, seed)
    model.load_state_dict(trained_model(seed).state_dict())
    return model


@check_types
def tune(model: nn.Module, plan: Plan, seed: int) -> None:
    """Train a model further, one step for each (length, rate) of the plan.

    A step has :data:`TOKENS` tokens, in windows of the given length.
    """
    optimizer, _ = optimization(model, rate=1.0, decay=SETTINGS.decay, steps=len(plan))
    text = standard_library().training
    generator = torch.Generator().manual_seed(10**7 + seed)
    for length, rate in plan:
        for group in optimizer.param_groups:
            group["lr"] = rate
        shape = max(1, TOKENS // length), 1
        starts = torch.randint(len(text) - length, shape, generator=generator)
        window = text[starts + torch.arange(length + 1)]
        optimizer.zero_grad()
        functional.cross_entropy(model(window[:, :-1]).mT, window[:, 1:]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@check_types
def bits(model: nn.Module, length: int, seed: int) -> float:
    """Return bits per character of test texts of which the model sees ``length``.

    The characters that count, the last ones of each text, are the same at all lengths.
    """
    windows = test_windows(standard_library(), SETTINGS, seed)
    return test(model, windows, length, SETTINGS.length // 2)[0]


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
    """Return how many more bits per character the extended model needs.

    The bits of the trained model at 128 tokens are subtracted from those of the
    extended model at 1024 and at 128 tokens. The characters are the same.
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
    before = bits(trained_model(seed), trained(), seed)
    model = extended(slower, tau, seed)
    untuned = bits(model, longest(), seed)
    tune(model, steps, seed)
    far, near = (bits(model, n, seed) for n in (longest(), trained()))
    found = {
        "bits before": before,
        "more bits at 1024, untuned": untuned - before,
        "more bits at 1024": far - before,
        "more bits at 128": near - before,
    }
    return {name: v if math.isfinite(v) else math.inf for name, v in found.items()}


def plot(report: Report) -> figures.Figure:
    """Draw the additional bits per character of each seed, and the goals."""
    shown = [
        "more bits at 1024, untuned",
        *(goal.quantity for goal in PROJECT.goals),
    ]
    values = np.array([[row[name] for name in shown] for row in report.measured])
    figure, ((axes,),) = figures.canvas()
    for n in range(len(shown)):
        axes.plot([n] * len(values), values[:, n], "o", color="C0", alpha=0.7)
    for n, goal in enumerate(PROJECT.goals, 1):
        axes.plot([n - 0.3, n + 0.3], [goal.most] * 2, color="C1", linestyle="--")
    axes.set_xticks(range(len(shown)), ["1024, untuned", "1024, tuned", "128, tuned"])
    axes.set(ylabel="more bits per character")
    low, high = values.min(0), values.max(0)
    return figures.finish(
        figure,
        caption=f"Bits per character of the extended model minus those of the model "
        f"before, at 128 characters, {len(values)} seeds: {low[0]:.2f} to "
        f"{high[0]:.2f} more without tuning, at most {high[1]:.3f} more after it, and "
        f"at most {high[2]:.3f} more at 128. The dashed lines are the goals.",
        alt="Three columns of points. Two have a dashed line each: the points at 1024 "
        f"characters lie between {low[1]:.3f} and {high[1]:.3f}, those at 128 between "
        f"{low[2]:.3f} and {high[2]:.3f}.",
    )


PROJECT = Project(
    name="extension",
    title="Project: eight times the length in sixty steps",
    part="Length",
    minutes=90,
    uses=("context-extension-2", "context-extension-3", "temperature-3"),
    answers=("extended_frequencies", "temperature", "plan"),
    measure=measure,
    goals=(
        Goal("more bits at 1024", most=0.05),
        Goal("more bits at 128", most=0.05),
    ),
    plot=plot,
)
