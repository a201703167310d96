"""Context extension of character models with RoPE, without and with tuning.

A model is trained at one length, with text, training and test of
:mod:`posedu.book.experiments.characters`. Then a method changes RoPE's frequencies for
texts that are several times as long, and the model is tested on such texts, untuned and
after a little tuning at their length. Models have RoPE with three bases, which differ
in how many pairs of features complete no turn within the training length. One more
model has NoPE layers (no positional encoding) that alternate with windowed RoPE layers.
This command remakes the book's result in an hour and a half on two idle cores; after an
interrupt it continues::

    python -m posedu.book.experiments.context_extension \
        --out book/data/context-extension-cpu.json
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from posedu._arguments import TemperatureGrowth
from posedu.book.experiments import characters, sequences
from posedu.book.experiments.characters import (
    CHARACTERS,
    CHOOSING,
    RateExperiment,
    Text,
    base_of,
    fit,
    in_bits,
    test,
    test_windows,
    text_of,
)
from posedu.book.experiments.runs import run_command
from posedu.book.experiments.training import CausalModel
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import (
    llama3,
    ntk,
    ntk_dynamic,
    pi,
    yarn,
    yarn_attention_factor,
)
from posedu.torch import Encoding, LogN, RoPE

FACTORS = (2, 4, 8)
"""Test lengths over the training length."""
CASES = (
    *((factor, how) for factor in FACTORS for how in ("plain", "tuned")),
    (FACTORS[-1], "near"),
)
"""Measurements of a method: a factor and how.

``"plain"`` and ``"tuned"`` are at ``factor`` times the training length; ``"near"`` is
at the training length itself, with the method set for the largest factor.
"""
MODELS = ("rope", "rope-500", "rope-matched", "windows")
TUNING_RATE = 0.1  # learning rate of tuning over that of training
METHOD = (
    "Bits per character, of the same characters at every length: the last half of a "
    "training length. Tuning takes as many tokens a step as training did."
)


@dataclass(frozen=True)
class Settings(characters.Settings):
    """Sizes and training settings of all runs (single trainings).

    ``tuning`` is the number of tuning steps at a longer length, after training.
    """

    batch: int = 16
    length: int = 128
    heads: int = 2
    d: int = 32
    tuning: int = 50


AnySettings = Settings | sequences.Settings
Frequencies = Float[np.ndarray, "pairs"]


@dataclass(frozen=True)
class Method:
    """Method of context extension, for example PI or YaRN.

    ``make`` is a function that returns the encoding. Its arguments are RoPE's
    frequencies in training, the training length, the factor by which texts become
    longer than in training, and the test length.
    """

    title: str
    make: Callable[[Frequencies, int, int, int], Encoding]


def _rope(frequencies: Frequencies, attention_factor: float = 1.0) -> RoPE:
    return RoPE(
        2 * len(frequencies),
        layout="half",
        frequencies=torch.tensor(frequencies),
        attention_factor=attention_factor,
    )


def _temperature(length: int, over: RoPE | None = None) -> LogN:
    """Return an encoding that multiplies the logits of queries with n > L keys.

    The factor is ln n/ln L. L is the training length ``length``; ``over`` is the RoPE
    that is applied too, or None for no RoPE.
    """
    return LogN(
        growth="floor",
        index_from=1,
        alpha=1 / math.log(length),
        length=length,
        over=over,
    )


def _yarn(frequencies: Frequencies, length: int, factor: int) -> Frequencies:
    return yarn(frequencies, factor=factor, trained=length, ramp="index")


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "none": Method("RoPE, unchanged", lambda w, trained, f, n: _rope(w)),
        "pi": Method("PI", lambda w, trained, f, n: _rope(pi(w, factor=f))),
        "ntk": Method("NTK", lambda w, trained, f, n: _rope(ntk(w, factor=f))),
        "ntk-dynamic": Method(
            "dynamic NTK",
            lambda w, trained, f, n: _rope(
                ntk_dynamic(w, factor=1.0, trained=trained, length=n)
            ),
        ),
        "llama3": Method(
            "Llama 3's scaling",
            lambda w, trained, f, n: _rope(llama3(w, factor=f, trained=trained)),
        ),
        "yarn-cold": Method(
            "YaRN without attention factor",
            lambda w, trained, f, n: _rope(_yarn(w, trained, f)),
        ),
        "yarn": Method(
            "YaRN",
            lambda w, trained, f, n: _rope(
                _yarn(w, trained, f), yarn_attention_factor(f)
            ),
        ),
        "log-n": Method(
            "log-n temperature",
            lambda w, trained, f, n: _temperature(trained, over=_rope(w)),
        ),
    }
)
"""Methods by name."""


def _shipped(growth: TemperatureGrowth, index_from: int) -> Callable[..., LogN]:
    return lambda w, trained, f, n: LogN(
        growth=growth, index_from=index_from, alpha=0.1, length=trained
    )


TEMPERATURES: Mapping[str, Method] = MappingProxyType(
    {
        "log-n": Method(
            METHODS["log-n"].title, lambda w, trained, f, n: _temperature(trained)
        ),
        "llama4": Method("Llama 4's temperature", _shipped("steps", 1)),
        "ministral3": Method("Ministral 3's temperature", _shipped("steps", 0)),
        "inkling2": Method("Inkling-2's temperature", _shipped("floor", 1)),
        "beam": Method("Beam's temperature", _shipped("power", 1)),
    }
)
"""Temperatures of NoPE layers by name: log-n, and shipped ones with their α of 0.1."""

TRIED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        name: ("none", "log-n") if name == "windows" else tuple(METHODS)
        for name in MODELS
    }
)
"""Methods tried on each model; those for windows change no frequency."""


def encodings(
    model: str, method: str, settings: AnySettings, factor: int, length: int
) -> list[Encoding]:
    """Return the encoding of each layer of a model, extended by a method.

    ``model`` is a name in :data:`MODELS` or "windows-learned", ``method`` one in
    :data:`METHODS` or :data:`TEMPERATURES`, ``factor`` says how many times as long as
    in training texts become, and ``length`` is the test length. Layers of the model
    "windows" alternate: RoPE in windowed layers, no encoding in global-attention
    layers, whose logits the methods of :data:`TEMPERATURES` multiply by a temperature.
    Those of "windows-learned" have the trained temperature of Mistral-Large-4.
    """
    trained = settings.length
    own = frequencies(settings.d, base=base_of(model, trained))
    how = own, trained, factor, length

    def encoding(layer: int) -> Encoding:
        if not model.startswith("windows"):
            return METHODS[method].make(*how)
        if layer % 2 == 0:
            return _rope(own)
        if model == "windows-learned":
            return LogN(growth="learned", index_from=1, heads=settings.heads)
        return TEMPERATURES[method].make(*how) if method != "none" else Encoding()

    return [encoding(layer) for layer in range(settings.layers)]


class Model(CausalModel):
    """Causal transformer whose encodings a context extension method set for one length.

    ``model``, ``method`` and ``factor`` are as in :func:`encodings`.
    """

    def __init__(
        self,
        model: str,
        settings: AnySettings,
        seed: int,
        *,
        tokens: int = CHARACTERS,
        labels: int = CHARACTERS,
        method: str = "none",
        factor: int = 1,
        length: int | None = None,
    ):
        length = settings.length if length is None else length
        windows = [
            None if n % 2 else settings.length // 4 for n in range(settings.layers)
        ]
        super().__init__(
            partial(encodings, model, method, settings, factor, length),
            tokens=tokens,
            labels=labels,
            heads=settings.heads,
            d=settings.d,
            route=None,
            seed=seed,
            window=windows if model.startswith("windows") else None,
        )


@dataclass(frozen=True, kw_only=True)
class Run(characters.Run):
    """Result of one training: bits per character, without and with context extension.

    ``bits`` maps the training length, and each name of :func:`labels` for a method at a
    length, to the bits per character.
    """

    known: ClassVar[tuple[str, ...]] = MODELS


def label(method: str, factor: int, how: str) -> str:
    """Return the name of a measured number of bits, for example "yarn × 4, tuned".

    The number is of bits per character; ``method`` is the context extension method.
    ``how`` is "plain" (untuned) or "tuned", both at ``factor`` times the training
    length, or "near": at the training length, with the method set for ``factor``.
    """
    return f"{method} × {factor}, {how}"


def labels(model: str) -> list[str]:
    """Return the names of all measurements of a model whose context is extended.

    Each is a measurement of bits per character, named by :func:`label`.
    """
    return [
        *(
            label(m, f, h)
            for m in TRIED[model]
            for f in FACTORS
            for h in ("plain", "tuned")
        ),
        *(label(m, FACTORS[-1], "near") for m in TRIED[model]),
    ]


@dataclass
class Result(characters.Result):
    """All runs of the context extension experiment, with its method and settings."""

    settings_type = Settings
    run_type = Run

    def lengths(self) -> list[int]:
        """Return the training length, the only one at which runs have accuracies."""
        return [self.settings.length]

    def encodings(self) -> list[str]:
        """Return the names of the models that have reported runs."""
        trained = {run.encoding for run in self.reported()}
        return [name for name in MODELS if name in trained]

    def values(self, model: str, what: str) -> Float[np.ndarray, "seeds"]:
        """Return the bits per character of one measurement, one number for each seed.

        ``model`` is the model's name, ``what`` the measurement's name by :func:`label`,
        or the training length as text.
        """
        runs = [run for run in self.reported() if run.encoding == model]
        return np.array([run.bits[what] for run in runs])

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows of the printed table: the head, then a row for each method.

        A row has the mean bits per character of each measurement, as text.
        """
        yield ("bits per character", *(f"× {f}, {how}" for f, how in CASES))
        for model in self.encodings():
            for method in TRIED[model]:
                values = (self.values(model, label(method, *case)) for case in CASES)
                yield (f"{model}, {METHODS[method].title}", *map(in_bits, values))

    def _require_sound(self) -> None:
        super()._require_sound()
        near = str(self.settings.length)
        for run in self.runs:
            asked = [] if run.seed in CHOOSING else labels(run.encoding)
            if {*run.bits} != {near, *asked}:
                raise ValueError(f"{run.name} must have bits of {near}, {asked}")


def extended_bits(
    trained: Model,
    model: str,
    text: Text,
    windows: Tensor,
    settings: Settings,
    rate: float,
    seed: int,
) -> dict[str, float]:
    """Return the bits per character of every method and factor, by :func:`label`.

    ``trained`` is the trained model of the name ``model``, ``text`` is the text for
    tuning, ``windows`` are the test windows, and ``rate`` is the learning rate. At each
    factor, the model is tested untuned and tuned.
    """
    asked = settings.length // 2
    state = trained.state_dict()

    def bits(changed: Model, length: int) -> float:
        return test(changed, windows, length, asked)[0]

    def changed(method: str, factor: int, length: int) -> Model:
        with torch.random.fork_rng(devices=[]):
            own = Model(
                model, settings, seed, method=method, factor=factor, length=length
            )
        own.load_state_dict(state)
        return own

    found = {}
    for method in TRIED[model]:
        for factor in FACTORS:
            length = factor * settings.length
            longer = changed(method, factor, length)
            found[label(method, factor, "plain")] = bits(longer, length)
            tuning = replace(
                settings,
                steps=settings.tuning,
                length=length,
                batch=max(1, settings.batch // factor),
            )
            fit(longer, text, tuning, TUNING_RATE * rate, seed)
            found[label(method, factor, "tuned")] = bits(longer, length)
        near = changed(method, FACTORS[-1], settings.length)
        found[label(method, FACTORS[-1], "near")] = bits(near, settings.length)
    return found


def run(rate: float, model: str, seed: int, settings: Settings) -> Run:
    """Train one model with one seed and test it with every extension method.

    ``rate`` is the learning rate, ``model`` a name in :data:`MODELS`. A seed that
    chooses the learning rate is tested at the training length only.
    """
    start = time.perf_counter()
    text = text_of(settings)
    with torch.random.fork_rng(devices=[]):
        trained = Model(model, settings, seed)
    loss = fit(trained, text, settings, rate, seed)
    windows = test_windows(text, settings, seed)
    near, accuracy = test(trained, windows, settings.length, settings.length // 2)
    found = {}
    if seed not in CHOOSING:
        found = extended_bits(trained, model, text, windows, settings, rate, seed)
    return Run(
        rate=rate,
        encoding=model,
        seed=seed,
        bits={str(settings.length): near, **found},
        accuracy={str(settings.length): accuracy},
        loss=loss,
        seconds=time.perf_counter() - start,
    )


experiment = RateExperiment(
    name="context-extension",
    purpose="Extend the context of a small model of characters by each method.",
    method=METHOD,
    choices={"models": MODELS},
    choosing=("rope",),
    result_type=Result,
    run_one=run,
    lengths=("steps", "tuning"),
)

main = experiment.main

if __name__ == "__main__":
    run_command(__spec__.name)
