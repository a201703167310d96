"""Recurrent layers, attention, and mixtures of them at five tasks, at any length.

All models have four layers of the same width. Their layers are attention without an
encoding or with RoPE, Gated DeltaNet, or a mixture: three recurrent layers and then one
of attention, or one and one by turns. The layers differ in nothing else, and a
recurrent one has no convolution: what is compared is where order comes from. Two tasks
need the state of a machine (parity, and swaps of three objects), three need content:
repeating a string, recall of values by keys, and of the value before the last. They are
those of :mod:`posedu.book.experiments.paths` and
:mod:`posedu.book.experiments.sequences`, as are models and runs. A model is trained at
one length and tested on fresh sequences at that length and at longer ones.

All models share one set of settings, which was chosen on seed 0; the reported seeds are
1, 2, … This command makes the result in an hour and a half on two idle cores; after an
interrupt it continues::

    python -m posedu.book.experiments.hybrids --out book/data/hybrids-cpu.json
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from posedu.book.experiments import paths, sequences
from posedu.book.experiments.runs import Experiment, run_command
from posedu.book.experiments.sequences import Condition, Task, make_run
from posedu.torch import Encoding, GatedDeltaNet, RoPE

METHOD = (
    "Accuracy over the tokens that are asked, on fresh sequences of each length, which "
    "are the same for all models of a seed. With k times the training length, strings "
    "to repeat are up to k times as long, and there are as many keys to recall."
)


@dataclass(frozen=True)
class Settings(sequences.Settings):
    """Sizes and training settings of all runs (single trainings).

    As in :class:`posedu.book.experiments.sequences.Settings`.
    """

    batch: int = 16
    layers: int = 4
    tested: int = 64


MULTIPLES = (1, 2, 4, 8, 16)
"""Test lengths over the training length."""

TASKS: Mapping[str, Task] = MappingProxyType(
    {
        name: replace(tasks[name], layers=None)
        for tasks, names in (
            (paths.TASKS, ("parity", "swaps", "repeat", "recall")),
            (sequences.TASKS, ("n-back",)),
        )
        for name in names
    }
)
"""Tasks by name, each with as many layers as the settings say."""


@dataclass(frozen=True)
class Mixture(Condition):
    """Recurrent layers, of which every so many is replaced by one of attention.

    Layer n, counted from 1, has the encoding ``attention`` where ``every`` divides n.
    """

    attention: Callable[[sequences.Settings], Encoding] = lambda s: Encoding()
    every: int = 4

    def encodings(self, settings: sequences.Settings, layers: int) -> list[Encoding]:
        """Return the encoding of each layer, from the first to the last."""
        return [
            (self.make if n % self.every else self.attention)(settings)
            for n in range(1, layers + 1)
        ]


def _recurrence(settings: sequences.Settings) -> Encoding:
    return GatedDeltaNet(
        settings.heads * settings.d, settings.heads, negative_eigenvalues=True
    )


def _rope(settings: sequences.Settings) -> Encoding:
    return RoPE(settings.d, layout="half")


CONDITIONS: Mapping[str, Condition] = MappingProxyType(
    {
        "none": Condition("attention", lambda s: Encoding(), None),
        "rope": Condition("attention with RoPE", _rope, None),
        "recurrent": Condition("Gated DeltaNet", _recurrence, None),
        "three-none": Mixture("3 : 1 with attention", _recurrence, None),
        "three-rope": Mixture("3 : 1 with RoPE", _recurrence, None, _rope),
        "one-none": Mixture("1 : 1 with attention", _recurrence, None, every=2),
        "one-rope": Mixture("1 : 1 with RoPE", _recurrence, None, _rope, every=2),
    }
)
"""Models by name: where a layer is not said to have RoPE, it has no encoding.

The strengths of Gated DeltaNet are up to 2, so that its transitions may reflect.
"""


@dataclass(frozen=True, kw_only=True)
class Run(sequences.Run):
    """Result of one training of one model at one of these tasks."""

    tasks = TASKS
    conditions = CONDITIONS


@dataclass
class Result(sequences.Result):
    """All runs of the hybrids experiment, with its method and settings."""

    settings_type = Settings
    run_type = Run
    shown = CONDITIONS
    multiples = MULTIPLES


def run(task: str, encoding: str, seed: int, settings: Settings) -> sequences.Run:
    """Train one model at one task with one seed and test it at every length.

    ``task`` is a name in :data:`TASKS`, ``encoding`` a name in :data:`CONDITIONS`.
    """
    return make_run(Result, task, encoding, seed, settings)


experiment = Experiment(
    name="hybrids",
    purpose="Train small causal models of recurrent layers and attention.",
    method=METHOD,
    choices={"tasks": tuple(TASKS), "encodings": tuple(CONDITIONS)},
    result_type=Result,
    run_one=run,
)

main = experiment.main

if __name__ == "__main__":
    run_command(__spec__.name)
