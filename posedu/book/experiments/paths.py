"""Six tasks for encodings whose transitions read the text, at any length.

Three tasks need the state of a machine that every token changes: the parity of the ones
so far, the sum of all numbers so far modulo three, and the order of three objects of
which tokens swap two (:func:`words`). The fourth is the word problem of all
permutations of three objects. Two need content: repeating a string, and recalling the
values of keys. A model is trained at one length and tested on fresh sequences at that
length and at longer ones; models and runs are those of
:mod:`posedu.book.experiments.sequences`. The tasks of the first kind have one layer,
since the theorems on transitions are about one.

All encodings share one set of settings, which was chosen on seed 0; the reported seeds
are 1, 2, … This command remakes the book's result in two hours on two idle cores; after
an interrupt it continues::

    python -m posedu.book.experiments.paths --out book/data/paths-cpu.json
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from posedu._arguments import require_dimension
from posedu.book.experiments import sequences
from posedu.book.experiments.runs import Experiment, run_command
from posedu.book.experiments.sequences import IGNORED, Batch, Condition, Task, make_run
from posedu.torch import (
    Encoding,
    FoX,
    PaTH,
    PaTHFoX,
    Retention,
    RoPE,
    SelectiveRoPE,
    Tokens,
    Wall,
)

MODULUS = 3
LETTERS = 16  # of strings to repeat
SHORTEST = 8  # letters of a string to repeat
PAIRS, KEYS, VALUES = 8, 16, 16  # pairs of a key and its value, and how many there are

METHOD = (
    "Accuracy over the tokens that are asked, on fresh sequences of each length, which "
    "are the same for all encodings of a seed. With k times the training length, "
    "strings to repeat are up to k times as long, and there are as many keys to recall."
)


@dataclass(frozen=True)
class Settings(sequences.Settings):
    """Sizes and training settings of all runs (single trainings).

    As in :class:`posedu.book.experiments.sequences.Settings`; ``layers`` holds for the
    tasks that need content.
    """

    tested: int = 64


MULTIPLES = (1, 2, 4, 8, 16)
"""Test lengths over the training length."""


def words(
    batch: int,
    length: int,
    trained: int,
    generator: torch.Generator,
    *,
    group: Sequence[tuple[int, ...]],
    letters: Sequence[int],
) -> Batch:
    """Return words of a permutation group; a token's label is the product up to it.

    ``group`` has all permutations, each a tuple of the places to which it moves the
    objects; ``letters`` are the indices in it of those that tokens stand for. Token n
    above 0 stands for letter n − 1; the first token is 0, which occurs nowhere else. A
    label is the index in ``group`` of the product of all permutations so far, the
    newest last; that of the first token is ``IGNORED``. Token ids and labels are
    [``batch``, ``length``]; ``generator`` draws the sequences, and ``trained``, the
    training length, changes nothing here.
    """
    require_dimension("batch", batch, 1)
    if length < 2:
        raise ValueError(f"a word needs a length of at least 2, got {length}")
    number = {element: n for n, element in enumerate(group)}
    after = torch.tensor(
        [
            [
                number[tuple(group[letter][place] for place in so_far)]
                for so_far in group
            ]
            for letter in letters
        ]
    )
    read = torch.randint(len(letters), (batch, length - 1), generator=generator)
    states = [torch.full((batch,), number[tuple(range(len(group[0])))])]
    for letter in read.unbind(1):
        states.append(after[letter, states[-1]])
    labels = torch.stack(states, 1)
    labels[:, 0] = IGNORED
    return functional.pad(read + 1, (1, 0)), labels


def repeat(batch: int, length: int, trained: int, generator: torch.Generator) -> Batch:
    """Return strings of letters and an end mark, repeated to the end of the sequence.

    Token 0 is the mark, 1 and above are letters. A string has 8 letters or more, and is
    followed by its copy, or most of it. The label is the next token, from the first
    mark on; before it, labels are ``IGNORED``. Token ids and labels are [``batch``,
    ``length``]; ``generator`` draws the sequences, and ``trained``, the training
    length, changes nothing here.
    """
    require_dimension("batch", batch, 1)
    if length < 2 * SHORTEST:
        raise ValueError(
            f"a string of {SHORTEST} letters and its copy need a length of at least "
            f"{2 * SHORTEST}, got {length}"
        )
    longest = length // 2
    letters = torch.randint(1, LETTERS + 1, (batch, longest + 1), generator=generator)
    size = torch.randint(SHORTEST, longest + 1, (batch, 1), generator=generator)
    letters.scatter_(1, size, 0)
    text = letters.gather(1, torch.arange(length + 1) % (size + 1))
    is_asked = torch.arange(length) >= size
    return text[:, :-1], torch.where(is_asked, text[:, 1:], IGNORED)


def recall(batch: int, length: int, trained: int, generator: torch.Generator) -> Batch:
    """Return eight keys, each followed by its value, and then keys whose value to say.

    Tokens below ``KEYS`` are keys, the others values. All tokens after the pairs are
    keys that occurred, each with the label of its value; all other labels are
    ``IGNORED``. Token ids and labels are [``batch``, ``length``]; ``generator`` draws
    the sequences, and ``trained``, the training length, changes nothing here.
    """
    require_dimension("batch", batch, 1)
    if length <= 2 * PAIRS:
        raise ValueError(
            f"{PAIRS} pairs and a question need a length of at least {2 * PAIRS + 1}, "
            f"got {length}"
        )
    keys = torch.rand(batch, KEYS, generator=generator).argsort(-1)[:, :PAIRS]
    values = torch.randint(VALUES, (batch, PAIRS), generator=generator)
    asked = torch.randint(PAIRS, (batch, length - 2 * PAIRS), generator=generator)
    pairs = torch.stack((keys, KEYS + values), -1).flatten(1)
    tokens = torch.cat((pairs, keys.gather(1, asked)), -1)
    labels = torch.full_like(tokens, IGNORED)
    labels[:, 2 * PAIRS :] = values.gather(1, asked)
    return tokens, labels


def _rotations(n: int) -> list[tuple[int, ...]]:
    return [tuple((place + turn) % n for place in range(n)) for turn in range(n)]


def _word_problem(
    title: str, group: Sequence[tuple[int, ...]], letters: Sequence[int] | None = None
) -> Task:
    letters = range(len(group)) if letters is None else letters
    make = partial(words, group=group, letters=letters)
    return Task(title, make, len(letters) + 1, len(group), layers=1)


PERMUTATIONS = tuple(permutations(range(3)))
SWAPS = tuple(  # and doing nothing, without which the number of tokens tells the sign
    n for n, p in enumerate(PERMUTATIONS) if sum(a != b for a, b in enumerate(p)) < 3
)
"""Indices in ``PERMUTATIONS`` of the identity and of the swaps of two objects."""

TASKS: Mapping[str, Task] = MappingProxyType(
    {
        "parity": _word_problem("Parity", _rotations(2)),
        "modular": _word_problem(f"Addition modulo {MODULUS}", _rotations(MODULUS)),
        "swaps": _word_problem("Swaps of three", PERMUTATIONS, SWAPS),
        "permutations": _word_problem("Permutations of three", PERMUTATIONS),
        "repeat": Task("Repeating a string", repeat, LETTERS + 1, LETTERS + 1),
        "recall": Task("Recall of values by keys", recall, KEYS + VALUES, VALUES),
    }
)
"""Tasks by name. Labels of ``"recall"`` are values, counted from 0."""


class ForgettingSelectiveRoPE(SelectiveRoPE):
    """Selective RoPE and FoX together: rotations and decays that both read the text.

    Arguments and errors as for :class:`posedu.torch.SelectiveRoPE`.
    """

    def __init__(self, d_model: int, heads: int, d: int, **options: Any):
        super().__init__(d_model, heads, d, **options)
        self.fox = FoX(d_model, heads)

    def remember(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> Mapping[str, Float[Tensor, "batch tokens ..."]]:
        """Return what both encodings cache of each token."""
        return {**super().remember(x), **self.fox.remember(x)}

    def fold(
        self, tokens: Tokens
    ) -> tuple[Float[Tensor, "batch heads queries"], Float[Tensor, "batch heads keys"]]:
        """Return the terms of FoX's bias; see :meth:`posedu.torch.FoX.fold`."""
        return self.fox.fold(tokens)


def selective_rope(
    heads: int,
    d: int,
    *,
    gate: bool = False,
    module: type[SelectiveRoPE] = SelectiveRoPE,
    tracks_states: bool = True,
) -> SelectiveRoPE:
    """Return Selective RoPE as its authors configure it.

    ``tracks_states`` chooses their configurations for state tracking, with temperatures
    1 and phase biases; the others are those for language. ``gate`` adds the gate of the
    phases, ``module`` is Selective RoPE's class or a subclass.
    """
    return module(
        *(heads * d, heads, d),
        layout="half",
        gate=gate,
        phase_bias=tracks_states,
        temperature="one" if tracks_states else "rope",
    )


CONDITIONS: Mapping[str, Condition] = MappingProxyType(
    {
        "none": Condition("no encoding", lambda s: Encoding(), "sdpa"),
        "rope": Condition("RoPE", lambda s: RoPE(s.d, layout="half"), "sdpa"),
        "retention": Condition(
            "retention",
            lambda s: Retention(
                *(s.heads, s.d),
                layout="interleaved",
                spacing="torchscale",
                normalization="paper",
            ),
        ),
        "fox": Condition("FoX", lambda s: FoX(s.heads * s.d, s.heads), "folded"),
        "wall": Condition("Wall", lambda s: Wall(s.heads * s.d, s.heads, s.d)),
        "selective-rope": Condition(
            "Selective RoPE", lambda s: selective_rope(s.heads, s.d), "sdpa"
        ),
        "selective-rope-gate": Condition(
            "Selective RoPE with gate",
            lambda s: selective_rope(s.heads, s.d, gate=True),
            "sdpa",
        ),
        "selective-rope-fox": Condition(
            "Selective RoPE and FoX",
            lambda s: selective_rope(s.heads, s.d, module=ForgettingSelectiveRoPE),
            "folded",
        ),
        "path": Condition("PaTH", lambda s: PaTH(s.heads * s.d, s.heads, s.d)),
        "path-fox": Condition(
            "PaTH-FoX",
            lambda s: PaTHFoX(s.heads * s.d, s.heads, s.d, scaling="product"),
        ),
    }
)
"""Encodings by name.

Temperatures and phase bias of Selective RoPE are those of its authors' configurations
for state tracking. Retention has neither RetNet's norm of a head's output nor its gate.
"""


@dataclass(frozen=True, kw_only=True)
class Run(sequences.Run):
    """Result of one training of one encoding at one of these tasks."""

    tasks = TASKS
    conditions = CONDITIONS


@dataclass
class Result(sequences.Result):
    """All runs of the paths experiment, with its method and settings."""

    settings_type = Settings
    run_type = Run
    shown = CONDITIONS
    multiples = MULTIPLES


def run(task: str, encoding: str, seed: int, settings: Settings) -> sequences.Run:
    """Train one encoding at one task with one seed and test it at every length.

    ``task`` is a name in :data:`TASKS`, ``encoding`` a name in :data:`CONDITIONS`.
    """
    return make_run(Result, task, encoding, seed, settings)


experiment = Experiment(
    name="paths",
    purpose="Train a small causal transformer whose transitions read the text.",
    method=METHOD,
    choices={"tasks": tuple(TASKS), "encodings": tuple(CONDITIONS)},
    result_type=Result,
    run_one=run,
)

main = experiment.main

if __name__ == "__main__":
    run_command(__spec__.name)
