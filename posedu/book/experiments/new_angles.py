"""Bits per character lost beyond the training length, to more keys and to new angles.

A character model with RoPE is trained at one length and tested at longer ones, with
text, training and test of :mod:`posedu.book.experiments.characters`. Three changes at
the test keep a part of what is new from the model:

- a window of the training length: no more keys and no new angle;
- all keys, but every offset beyond the training length is rotated like the longest one
  of training: more keys, no new angle;
- the same for the pairs alone that complete no turn in training: their angles are not
  new, and those of the other pairs, which have been everywhere on their circles, meet
  in combinations that are.

The differences of these and of the unchanged model say what more keys cost, what new
combinations of angles, and what new angles of single pairs. This command remakes the
book's result in an hour on two idle cores; after an interrupt it continues::

    python -m posedu.book.experiments.new_angles --out book/data/new-angles-cpu.json
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posedu._arguments import require_choice, require_finite
from posedu.book.experiments import characters
from posedu.book.experiments.characters import (
    CHARACTERS,
    base_of,
    fit,
    in_bits,
    test,
    test_windows,
    text_of,
)
from posedu.book.experiments.runs import Experiment, Runs, run_command
from posedu.book.experiments.runs import Run as AnyRun
from posedu.book.experiments.training import CausalModel
from posedu.numpy.frequencies import frequencies
from posedu.torch import Encoding, RoPE, Tokens

FACTORS = (2, 4, 8)
"""Test lengths over the training length."""
MODELS = ("rope", "rope-500", "rope-matched", "rope-turned")
"""Models, which differ in the base of RoPE's frequencies (:func:`base`)."""
CHANGES = ("window", "all pairs", "unturned pairs", "none")
"""Changes at the test, from the one that hides most of what is new."""
METHOD = (
    "Bits per character, of the same characters at every length: the last half of a "
    "training length."
)


@dataclass(frozen=True)
class Settings(characters.Settings):
    """Sizes and training settings of all runs (single trainings).

    They are those of the experiment of context extension, with the learning rate
    ``rate`` that it chose, and half as many test windows.
    """

    batch: int = 16
    length: int = 128
    heads: int = 2
    d: int = 32
    tested: int = 64
    rate: float = 0.03


def base(model: str, settings: Settings) -> float:
    """Return the base of RoPE's frequencies in a model.

    With "rope-turned" the slowest pair completes just one turn in the longest offset of
    training, and every other pair more. Other bases are those of
    :func:`posedu.book.experiments.characters.base_of`.
    """
    if model != "rope-turned":
        return base_of(model, settings.length)
    longest, d = settings.length - 1, settings.d
    return (longest / (2 * np.pi)) ** (d / (d - 2))


def unturned_pairs(model: str, settings: Settings) -> Bool[np.ndarray, "pairs"]:
    """Return for each pair whether it completes no turn in training."""
    own = frequencies(settings.d, base=base(model, settings))
    return own * (settings.length - 1) < (1 - 1e-9) * 2 * np.pi


class CappedRoPE(Encoding):
    """RoPE whose offsets are capped in some pairs, for layers that RoPE trained.

    ``capped``, ``[pairs]``, is true for pairs in which every offset above ``cap`` is
    rotated like ``cap``.
    """

    def __init__(self, rope: RoPE, capped: Bool[np.ndarray, "pairs"], cap: int):
        super().__init__()
        self.rope, self.cap, self.d = rope, cap, rope.d
        self.register_buffer("capped", torch.tensor(capped).repeat(2))

    def logits(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return the logits of every (query, key) pair."""
        q, k = tokens.q * self.scale(tokens.d), tokens.k
        i, j = tokens.query_positions, tokens.key_positions
        rotated_q, rotated_k = self.rope(q, i), self.rope(k, j)
        far = self.rope(q, torch.full_like(i, self.cap))
        free = (rotated_q * ~self.capped) @ rotated_k.mT
        near = (rotated_q * self.capped) @ rotated_k.mT
        capped = (far * self.capped) @ k.mT
        return free + torch.where(tokens.offsets <= self.cap, near, capped)


class Model(CausalModel):
    """Causal transformer with RoPE, changed for the test.

    ``model`` is a name in :data:`MODELS`, ``change`` one in :data:`CHANGES`.
    """

    def __init__(self, model: str, settings: Settings, seed: int, change: str = "none"):
        require_choice("change", change, CHANGES)
        own = frequencies(settings.d, base=base(model, settings))
        longest, unturned = settings.length - 1, unturned_pairs(model, settings)

        def make() -> Encoding:
            rope = RoPE(settings.d, layout="half", frequencies=torch.tensor(own))
            if change == "all pairs":
                return CappedRoPE(rope, np.full_like(unturned, True), longest)
            if change == "unturned pairs":
                return CappedRoPE(rope, unturned, longest)
            return rope

        super().__init__(
            lambda: [make() for _ in range(settings.layers)],
            tokens=CHARACTERS,
            labels=CHARACTERS,
            heads=settings.heads,
            d=settings.d,
            route=None,
            seed=seed,
            window=[settings.length] * settings.layers if change == "window" else None,
        )


def label(change: str, factor: int) -> str:
    """Return the name of a measured number of bits, for example "window × 4".

    ``factor`` is the test length over the training length.
    """
    return f"{change} × {factor}"


@dataclass(frozen=True, kw_only=True)
class Run(AnyRun):
    """Result of one training: bits per character at each length, with each change.

    ``bits`` maps the training length, and each name of :func:`label`, to bits.
    """

    bits: dict[str, float]

    known: ClassVar[tuple[str, ...]] = MODELS

    def __post_init__(self) -> None:
        require_choice("model", self.encoding, self.known)
        super().__post_init__()
        for name, value in self.bits.items():
            require_finite(f"{self.name}: bits of {name}", value)


@dataclass
class Result(Runs):
    """All runs of the experiment, with its method and settings."""

    settings_type = Settings
    run_type = Run

    def evaluations(self) -> list[str]:
        """Return the training length as text, the only length with an accuracy."""
        return [str(self.settings.length)]

    def encodings(self) -> list[str]:
        """Return the names of the models that were trained."""
        trained = {run.encoding for run in self.runs}
        return [name for name in MODELS if name in trained]

    def bits(self, model: str, what: str) -> Float[np.ndarray, "seeds"]:
        """Return bits per character of one measurement, by rising seed.

        ``what`` is a name of :func:`label`, or the training length as text.
        """
        runs = sorted(self.runs, key=lambda run: run.seed)
        return np.array([run.bits[what] for run in runs if run.encoding == model])

    def cost(self, model: str, part: int, factor: int) -> Float[np.ndarray, "seeds"]:
        """Return the bits per character that one part of what is new costs.

        ``part`` 1 are more keys, 2 new combinations of angles, 3 new angles of single
        pairs: the bits with a change less those with the one before in
        :data:`CHANGES`.
        """
        before, after = (label(CHANGES[n], factor) for n in (part - 1, part))
        return self.bits(model, after) - self.bits(model, before)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows of the printed table: the head, then a row for each change.

        A row has the mean bits per character at every test length, as text.
        """
        yield ("bits per character", "change", *(f"× {f}" for f in FACTORS))
        for model, change in product(self.encodings(), CHANGES):
            values = (self.bits(model, label(change, f)) for f in FACTORS)
            yield (model, change, *map(in_bits, values))

    def _require_sound(self) -> None:
        super()._require_sound()
        needed = {str(self.settings.length)} | {
            label(*case) for case in product(CHANGES, FACTORS)
        }
        for run in self.runs:
            if {*run.bits} != needed:
                raise ValueError(f"{run.name} must have bits of {sorted(needed)}")


def run(model: str, seed: int, settings: Settings) -> Run:
    """Train one model with one seed and test it with every change at every length."""
    start = time.perf_counter()
    text, asked = text_of(settings), settings.length // 2

    def changed(change: str) -> Model:
        with torch.random.fork_rng(devices=[]):
            return Model(model, settings, seed, change)

    trained = changed("none")
    loss = fit(trained, text, settings, settings.rate, seed)
    windows, state = test_windows(text, settings, seed), trained.state_dict()
    near, accuracy = test(trained, windows, settings.length, asked)
    found = {str(settings.length): near}
    for change in CHANGES:
        other = changed(change)
        other.load_state_dict(state, strict=False)
        for factor in FACTORS:
            bits, _ = test(other, windows, factor * settings.length, asked)
            found[label(change, factor)] = bits
    return Run(
        encoding=model,
        seed=seed,
        bits=found,
        accuracy={str(settings.length): accuracy},
        loss=loss,
        seconds=time.perf_counter() - start,
    )


experiment = Experiment(
    name="new-angles",
    purpose="Measure what longer texts cost a model with RoPE, and why.",
    method=METHOD,
    choices={"models": MODELS},
    result_type=Result,
    run_one=run,
)

main = experiment.main

if __name__ == "__main__":
    run_command(__spec__.name)
