"""Character models beyond the training length, with different encodings.

The text is the source of Python's standard library, split by file into a training and a
test text. A small causal transformer is trained on windows of one length and tested at
longer ones, always on the same characters: the last ones of a window. A longer test
shows more of the window before them, so only the context changes with the length.

With one seed, all encodings get the same windows in the same order and the same initial
weights, except for the encodings' own parameters. All share one learning rate: of the
rates that were tried, the one with the fewest bits per character at the training
length, averaged over the encodings and over two seeds that are not reported. This
command remakes the book's result in two hours on two idle cores; after an interrupt it
continues::

    python -m posedu.book.experiments.characters --out book/data/characters-cpu.json
"""

import hashlib
import math
import sys
import sysconfig
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import require_choice, require_finite
from posedu.book.experiments import paths, sequences
from posedu.book.experiments.runs import Experiment, Runs, interval, run_command
from posedu.book.experiments.runs import Run as AnyRun
from posedu.book.experiments.training import CausalModel, optimization
from posedu.numpy.frequencies import frequencies
from posedu.torch import (
    CAPE,
    DAPE,
    FIRE,
    FLOATER,
    T5,
    TAPE,
    TUPE,
    ALiBi,
    Attention,
    CoPE,
    DeBERTa,
    Encoding,
    FoPE,
    FoX,
    FoXPro,
    KERPLELog,
    Learned,
    LearnedPerLayer,
    MusicTransformer,
    PoPE,
    Random,
    Randomized,
    RoPE,
    Sandwich,
    Shaw,
    Sinusoidal,
    StickBreaking,
    TransformerXL,
)

KNOWN = "\n" + "".join(map(chr, range(32, 127)))
CHARACTERS = len(KNOWN) + 1  # the last index stands for all other characters
ONE_IN = 8  # one file in eight is for testing
MULTIPLES = (1, 2, 4, 8, 16)
"""Test lengths over the training length."""
RATES = (3e-3, 1e-2, 3e-2, 1e-1)
CHOOSING = (1, 2)
"""Seeds on which the learning rate is chosen; the reported seeds are larger."""

METHOD = (
    "Bits are the mean of −log2 p over the last characters of test windows, half as "
    "many as the training length; accuracy is how often the most probable character is "
    "the right one. The windows of a seed are the same for all encodings, their last "
    "characters the same at all lengths."
)


@dataclass(frozen=True)
class Text:
    """A text as character numbers (indices in ``KNOWN``), with a checksum.

    ``training``, [characters], is the training text, ``testing`` has a tensor for each
    test file, and ``digest`` are the first 12 hex digits of the SHA-256 of all files.
    Characters that are not in ``KNOWN`` share one more number.
    """

    training: Int[Tensor, "characters"]
    testing: tuple[Int[Tensor, "_"], ...]
    digest: str


@cache
def standard_library() -> Text:
    """Return the text of Python's standard library: source of modules, no packages.

    A file is for testing or for training by the checksum of the file's name; about one
    file in eight is for testing.
    """
    folder = Path(sysconfig.get_path("stdlib"))
    files = sorted(
        file for file in folder.glob("*.py") if file.stem in sys.stdlib_module_names
    )
    number = {character: n for n, character in enumerate(KNOWN)}
    digest = hashlib.sha256()
    training, testing = [], []
    for file in files:
        text = file.read_text("utf-8")
        digest.update(text.encode())
        numbers = torch.tensor([number.get(c, len(KNOWN)) for c in text])
        is_for_testing = zlib.crc32(file.name.encode()) % ONE_IN == 0
        (testing if is_for_testing else training).append(numbers)
    return Text(torch.cat(training), tuple(testing), digest.hexdigest()[:12])


@dataclass(frozen=True)
class Settings:
    """Model sizes and training settings that all runs (single trainings) share.

    ``steps`` is the number of training steps, ``batch`` the number of windows in each,
    ``length`` the training length in characters, ``d`` the head dimension, ``decay``
    the weight decay, ``tested`` the number of test windows, and ``text`` the checksum
    of the text.
    """

    steps: int = 1000
    batch: int = 32
    length: int = 64
    layers: int = 2
    heads: int = 4
    d: int = 16
    decay: float = 0.05
    tested: int = 128
    text: str = field(default_factory=lambda: standard_library().digest)

    @property
    def d_model(self) -> int:
        """Width of the hidden states: heads times head dimension."""
        return self.heads * self.d


def text_of(settings: Settings) -> Text:
    """Return the text of the experiment; raise ValueError if its checksum is wrong.

    The checksum must be the one in the ``settings``. The text is
    :func:`standard_library`, which differs between versions of Python.
    """
    text = standard_library()
    if settings.text != text.digest:
        raise ValueError(
            f"the settings are of the text {settings.text}; that of this Python is "
            f"{text.digest}"
        )
    return text


def base_of(model: str, length: int) -> float:
    """Return the base of RoPE's frequencies in a model trained at ``length``.

    "rope-500" has 500. "rope-matched" has the base with which the same share of pairs
    completes no turn as in Llama 2, whose base is 10,000 and whose training length is
    4,096: base^x = length/2π for the x of Llama 2. Every other model has 10,000.
    """
    if model == "rope-500":
        return 500.0
    if model == "rope-matched":
        share = math.log(4096 / (2 * math.pi)) / math.log(10_000)
        return (length / (2 * math.pi)) ** (1 / share)
    return 10_000.0


def unturned(model: str, settings: "Settings | sequences.Settings") -> int:
    """Return how many of RoPE's pairs complete no full turn in training.

    A pair does if its frequency times the longest offset, the training length minus 1,
    is 2π or more. The base is that of :func:`base_of` for ``model``.
    """
    own = frequencies(settings.d, base=base_of(model, settings.length))
    return int((own * (settings.length - 1) < 2 * np.pi).sum())


@dataclass(frozen=True)
class Condition:
    """An encoding to compare: its title and how it is made for each layer.

    ``make`` returns the encoding of the first layer from the settings. ``later``
    returns that of a later layer from the settings and the first layer's encoding;
    without ``later``, ``make`` serves every layer. ``layer`` returns an attention layer
    of another class than :class:`posedu.torch.attention.Attention`; ``start`` changes
    the initial weights of one.
    """

    title: str
    make: Callable[[Settings], Encoding]
    later: Callable[[Settings, Encoding], Encoding] | None = None
    layer: Callable[[Settings], Attention] | None = None
    start: Callable[[Attention], None] | None = None

    def layers(self, settings: Settings) -> list[Encoding]:
        """Return the encoding of each layer, for models of the ``settings``."""
        first = self.make(settings)
        return [
            first,
            *(
                self.later(settings, first) if self.later else self.make(settings)
                for _ in range(1, settings.layers)
            ),
        ]


def _rows(s: Settings) -> int:
    """Return the number of rows of a learned position table, one for each position.

    ``s`` are the settings. The rows are enough for the longest test length; rows beyond
    the training length stay untrained.
    """
    return MULTIPLES[-1] * s.length


def _floater(s: Settings, first: Encoding | None = None) -> FLOATER:
    field = first.field if isinstance(first, FLOATER) else None
    return FLOATER(s.heads, s.d, tableau="3/8", delta=0.1, steps=1, field=field)


def _sinusoidal(s: Settings) -> Sinusoidal:
    return Sinusoidal(s.d_model, layout="interleaved")


def _kerple(s: Settings) -> KERPLELog:
    return KERPLELog(s.heads, scaling="code")


def _shaw(clip: int) -> Callable[[Settings], Shaw]:
    return lambda s: Shaw(s.d, past=clip, future=0)


CONDITIONS: Mapping[str, Condition] = MappingProxyType(
    {
        "none": Condition("no encoding", lambda s: Encoding()),
        "learned": Condition(
            "learned absolute",
            lambda s: Learned(s.d_model, _rows(s), beyond="raise"),
        ),
        "sinusoidal": Condition("sinusoidal", _sinusoidal),
        "rope": Condition("RoPE", lambda s: RoPE(s.d, layout="half")),
        "t5": Condition(
            "T5",
            lambda s: T5(s.heads, bidirectional=False, buckets=16, distance=32),
        ),
        "alibi": Condition("ALiBi", lambda s: ALiBi(s.heads, slopes="authors")),
        "kerple-log": Condition("KERPLE-log", _kerple),
        "sandwich": Condition(
            "Sandwich",
            lambda s: Sandwich(s.heads, width=s.d_model, index_from=1, diagonal="zero"),
        ),
        "fire": Condition(
            "FIRE",
            lambda s: FIRE(
                s.heads, threshold=s.length / 4, activation="relu", later="distance"
            ),
        ),
        "dape": Condition(
            "DAPE over KERPLE-log",
            lambda s: DAPE(s.heads, over=_kerple(s), kernel=1, residual=True),
        ),
        "shaw": Condition("Shaw, clip 16", _shaw(16)),
        "transformer-xl": Condition(
            "Transformer-XL",
            lambda s: TransformerXL(s.d, s.heads, s.d_model, layout="half"),
        ),
        "fox": Condition("FoX", lambda s: FoX(s.d_model, s.heads)),
    }
)
"""Encodings by name.

T5's last bucket starts within the training length, and FIRE's threshold starts at a
quarter of it and is trained, as in their papers. Transformer-XL has no memory here.
"""

CLIPS: Mapping[str, Condition] = MappingProxyType(
    {f"shaw-{k}": Condition(f"Shaw, clip {k}", _shaw(k)) for k in (1, 2, 4, 64)}
)
"""Shaw's tables with other clip distances, which are reported separately."""

ABSOLUTE: Mapping[str, Condition] = MappingProxyType(
    {
        "random": Condition("random absolute", lambda s: Random(s.d_model, _rows(s))),
        "learned-per-layer": Condition(
            "learned in each layer",
            lambda s: LearnedPerLayer(s.d_model, _rows(s), beyond="raise"),
        ),
        "floater": Condition("FLOATER", _floater, later=_floater),
        "cape": Condition(
            "CAPE",
            lambda s: CAPE(
                max_shift=5.0,
                max_jitter=0.5,
                max_scale=1.03,
                normalize=False,
                inner=_sinusoidal(s),
            ),
        ),
        "randomized": Condition(
            "randomized positions",
            lambda s: Randomized(2 * _rows(s), per="sequence", inner=_sinusoidal(s)),
        ),
    }
)
"""Further encodings of absolute positions, which are reported separately.

FLOATER takes one Runge–Kutta step from a position to the next, in place of five. CAPE
has the settings for text of the port of its code. CAPE's and the randomized positions
are encoded by sinusoids; the randomized ones have twice the range of the longest test.
"""

BASES: Mapping[str, Condition] = MappingProxyType(
    {
        name: Condition(
            title,
            lambda s, name=name: RoPE(s.d, layout="half", base=base_of(name, s.length)),
        )
        for name, title in (
            ("rope-500", "RoPE, base 500"),
            ("rope-matched", "RoPE, matched base"),
        )
    }
)
"""RoPE with the other bases of :func:`base_of`, which are reported separately."""


class InEveryLayer(Encoding):
    """Encoding that adds position vectors to the input of every layer.

    ``inner`` is a module that adds them, for example sinusoids.
    """

    def __init__(self, inner: Sinusoidal):
        super().__init__()
        self.inner = inner

    def enter(
        self, x: Float[Tensor, "batch tokens d_model"], positions: Tensor
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Add the position vectors to the hidden states ``x``."""
        return self.inner(x, positions)


def _frozen_fire(s: Settings) -> FIRE:
    encoding = CONDITIONS["fire"].make(s)
    assert isinstance(encoding, FIRE)
    for parameter in (encoding.c, encoding.multiplier):
        parameter.requires_grad_(False)
    return encoding


@torch.no_grad()
def _as_in_t5(layer: Attention) -> None:
    encoding = layer.encoding
    assert isinstance(encoding, T5)
    layer.q.weight /= math.sqrt(layer.d)
    nn.init.normal_(encoding.table, std=layer.d_model**-0.5)


def _random(std: float) -> Callable[[Settings], Random]:
    return lambda s: Random(s.d_model, _rows(s), std=std, seed=torch.initial_seed())


STARTS: Mapping[str, Condition] = MappingProxyType(
    {
        "alibi-steep": Condition(
            "ALiBi, slopes 1/2 to 1/16",
            lambda s: ALiBi(s.heads, slopes="authors", bias_max=4.0),
        ),
        "fire-frozen": Condition("FIRE, c and threshold not trained", _frozen_fire),
        "learned-wide": Condition(
            "learned absolute, started at 1",
            lambda s: Learned(s.d_model, _rows(s), beyond="raise", std=1.0),
        ),
        "random-drawn": Condition("random absolute, drawn for each seed", _random(1.0)),
        "random-narrow": Condition("the same, of deviation 0.02", _random(0.02)),
        "sinusoidal-per-layer": Condition(
            "sinusoidal in each layer", lambda s: InEveryLayer(_sinusoidal(s))
        ),
        "t5-drawn": Condition(
            "T5, queries and table started as in its code",
            CONDITIONS["t5"].make,
            start=_as_in_t5,
        ),
    }
)
"""Controls: other starts, places and slopes, which are reported separately.

Learned tables start with the deviation 0.02, random ones have 1, so each is trained
with the other's, too; the random ones are drawn from the seed of the run. FLOATER adds
vectors in every layer, so sinusoids do, too. T5's code draws queries smaller by √d, as
its logits are not divided by it, and a table that is not 0. Of ALiBi's slopes for four
heads, 1/64 and 1/256 change weights by less than a factor of e over the training
length; the steeper slopes have 1/2 and 1/8 in place of these two.
"""

FURTHER: Mapping[str, Condition] = MappingProxyType(
    {
        "music-transformer": Condition(
            "Music Transformer",
            lambda s: MusicTransformer(s.d, table_length=s.length, beyond="clip"),
        ),
        "deberta": Condition(
            "DeBERTa",
            lambda s: DeBERTa(
                *(s.d, s.heads, s.d_model), span=32, rows="paper", index="paper"
            ),
        ),
        "tupe": Condition(
            "TUPE-R",
            lambda s: TUPE(
                *(s.d, s.heads, s.d_model, _rows(s)),
                first_token="tied",
                norm=True,
                relative=True,
                buckets=32,
                distance=32,
            ),
        ),
        "pope": Condition("PoPE", lambda s: PoPE(s.d, s.heads)),
        "fope": Condition(
            "FoPE",
            lambda s: FoPE(
                s.d,
                layout="half",
                length=s.length,
                padding="ones",
                coefficients="code",
            ),
        ),
        "tape": Condition(
            "TAPE",
            lambda s: TAPE(s.d, s.heads, s.d_model, layout="half", mixing="heads"),
        ),
        "cope": Condition("CoPE", lambda s: CoPE(s.d, npos=s.length, scaling="code")),
        "stickbreaking": Condition(
            "stick-breaking",
            lambda s: StickBreaking(attend_current=False, remainder="drop"),
        ),
        "fox-pro": Condition(
            "FoX Pro",
            lambda s: Encoding(),
            layer=lambda s: FoXPro(s.d_model, s.heads),
        ),
    }
)
"""Further encodings, which are reported separately.

Music Transformer's table has a row for each offset of training, DeBERTa's spans 32
tokens either way, TUPE's last bucket starts at 32 tokens. CoPE's table has a row for
each token of training.
"""

_language = partial(paths.selective_rope, tracks_states=False)

PATHS: Mapping[str, Condition] = MappingProxyType(
    {
        **{
            name: Condition(paths.CONDITIONS[name].title, paths.CONDITIONS[name].make)
            for name in ("retention", "wall", "path", "path-fox")
        },
        "selective-rope": Condition(
            "Selective RoPE", lambda s: _language(s.heads, s.d)
        ),
        "selective-rope-gate": Condition(
            "Selective RoPE with gate", lambda s: _language(s.heads, s.d, gate=True)
        ),
        "selective-rope-fox": Condition(
            "Selective RoPE and FoX",
            lambda s: _language(s.heads, s.d, module=paths.ForgettingSelectiveRoPE),
        ),
    }
)
"""Products over the path, which are reported separately.

Selective RoPE is as its authors configure it for language; the others are those of
:mod:`posedu.book.experiments.paths`.
"""

ALL: Mapping[str, Condition] = MappingProxyType(
    {**CONDITIONS, **CLIPS, **ABSOLUTE, **BASES, **STARTS, **FURTHER, **PATHS}
)


class Model(CausalModel):
    """Causal transformer over characters with the encoding of a :class:`Condition`."""

    def __init__(self, condition: Condition, settings: Settings, seed: int):
        super().__init__(
            partial(condition.layers, settings),
            tokens=CHARACTERS,
            labels=CHARACTERS,
            heads=settings.heads,
            d=settings.d,
            route=None,
            seed=seed,
        )
        for block in self.trunk.blocks:
            if condition.layer is not None:
                own_layer = condition.layer(settings)
                own_layer.load_state_dict(block.attention.state_dict(), strict=False)
                block.attention = own_layer
            if condition.start is not None:
                condition.start(block.attention)


@dataclass(frozen=True, kw_only=True)
class BitsRun(AnyRun):
    """Result of one training: bits per character and accuracy at each test length.

    ``bits`` and ``accuracy`` map each test length, written as text, to the value;
    ``loss`` is the mean training loss of the last tenth of the steps, in bits.
    """

    bits: dict[str, float]

    known: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        require_choice("encoding", self.encoding, self.known)
        super().__post_init__()
        for length, value in self.bits.items():
            require_finite(f"{self.name}: bits at {length}", value)


@dataclass(frozen=True, kw_only=True)
class Run(BitsRun):
    """Result of one training at one learning rate, ``rate``.

    ``trained`` has the values of an encoding's parameters that are single numbers, by
    layer and name, such as "0.c".
    """

    rate: float
    trained: dict[str, float] = field(default_factory=dict)

    known = tuple(ALL)

    @property
    def key(self) -> tuple[str | int | float, ...]:
        """Learning rate, encoding and seed, which identify the run."""
        return self.rate, *super().key


@dataclass
class BitsResult(Runs):
    """All runs of an experiment on bits per character, with its method and settings.

    ``shown`` are its encodings or models by name, ``multiples`` the test lengths over
    the training length.
    """

    shown: ClassVar[Mapping[str, "Condition | sequences.Condition"]]
    multiples: ClassVar[tuple[int, ...]]

    def lengths(self) -> list[int]:
        """Return the tested lengths, the training length first."""
        return [m * self.settings.length for m in self.multiples]

    def evaluations(self) -> list[str]:
        """Return the tested lengths as text, the keys of bits and accuracies."""
        return [str(n) for n in self.lengths()]

    def bits(self, encoding: str, length: int) -> Float[np.ndarray, "seeds"]:
        """Return bits per character of one encoding at one length, by rising seed.

        Only reported runs count; the array is empty if the encoding has none.
        """
        of = [run for run in self.reported() if run.encoding == encoding]
        ordered = sorted(of, key=lambda run: run.seed)
        return np.array([run.bits[str(length)] for run in ordered])

    def encodings(self) -> list[str]:
        """Return the names of encodings with reported runs, as ``shown`` has them."""
        trained = {run.encoding for run in self.reported()}
        return [name for name in self.shown if name in trained]

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows of the printed table: the head, then a row for each encoding.

        A row has the encoding's title and its mean bits at every test length, as text.
        """
        yield ("bits per character", *(f"L = {n}" for n in self.lengths()))
        for name in self.encodings():
            values = (self.bits(name, n) for n in self.lengths())
            yield (self.shown[name].title, *map(in_bits, values))


@dataclass
class Result(BitsResult):
    """All runs of the character experiment, with its method and settings."""

    settings_type = Settings
    run_type = Run
    shown = ALL
    multiples = MULTIPLES

    def choosing(self) -> list[Run]:
        """Return the runs on the seeds that only serve to choose the learning rate."""
        return [run for run in self.runs if run.seed in CHOOSING]

    def chosen(self) -> float | None:
        """Return the learning rate with the fewest mean bits at the training length.

        Only the runs on the seeds of :data:`CHOOSING` count. ``None`` if there are no
        such runs, or while the candidates have been run with different encodings or
        seeds.
        """
        near = str(self.settings.length)
        found: dict[float, dict[tuple, float]] = {rate: {} for rate in RATES}
        for run in self.choosing():
            found[run.rate][run.encoding, run.seed] = run.bits[near]
        first, *others = (set(runs) for runs in found.values())
        if not first or any(other != first for other in others):
            return None
        return min(RATES, key=lambda rate: np.mean([*found[rate].values()]))

    def own_rate(self, encoding: str) -> float:
        """Return the learning rate with the fewest mean bits for one encoding alone.

        As for :meth:`chosen`, runs on the seeds of :data:`CHOOSING` count, at the
        training length. An encoding without such runs has the chosen rate.
        """
        near, found = str(self.settings.length), {}
        for run in self.choosing():
            if run.encoding == encoding:
                found.setdefault(run.rate, []).append(run.bits[near])
        if not found:
            found = {self.chosen(): [0.0]}
        return min(found, key=lambda rate: np.mean(found[rate]))

    def at_own_rate(self, encoding: str, length: int) -> Float[np.ndarray, "seeds"]:
        """Return bits per character at the encoding's own best rate, by rising seed.

        Seeds of :data:`CHOOSING` do not count.
        """
        rate = self.own_rate(encoding)
        runs = [
            run
            for run in sorted(self.runs, key=lambda run: run.seed)
            if (run.encoding, run.rate) == (encoding, rate) and run.seed not in CHOOSING
        ]
        return np.array([run.bits[str(length)] for run in runs])

    def reported(self) -> list[Run]:
        """Return the runs with the chosen rate on reported seeds, by rising seed.

        Reported are the seeds that are not in :data:`CHOOSING`. While no rate is
        chosen, the list is empty.
        """
        rate = self.chosen()
        runs = [r for r in self.runs if r.rate == rate and r.seed not in CHOOSING]
        return sorted(runs, key=lambda run: run.seed)

    @property
    def complete(self) -> bool:
        """Return whether all encodings were trained with equal seeds, uninterrupted.

        Only the reported runs count: those with the chosen learning rate on reported
        seeds.
        """
        seeds: dict[str, set] = {}
        for run in self.reported():
            seeds.setdefault(run.encoding, set()).add(run.seed)
        same = len({*map(frozenset, seeds.values())}) == 1
        return not self.interrupted and same


def in_bits(values: Float[np.ndarray, "seeds"]) -> str:
    """Format bits per character as text: mean over seeds ± half-width of its interval.

    ``values`` has a number for each seed. The interval is Student's t interval of the
    mean at 95 %. One seed gives its value alone.
    """
    if len(values) < 2:
        return f"{values.mean():.3f}"
    mean, half = interval(values)
    return f"{mean:.3f} ± {half:.3f}"


def parameters(encoding: str, settings: Settings) -> int:
    """Return how many trained parameters the model of an encoding has.

    ``encoding`` is a name in :data:`ALL`.
    """
    with torch.random.fork_rng(devices=[]):
        model = Model(ALL[encoding], settings, 0)
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def training_windows(
    text: Text, settings: Settings, seed: int
) -> Iterator[Int[Tensor, "batch characters"]]:
    """Yield each training step's batch of windows from random places in the text.

    A window has one character more than the training length: all but the last are
    inputs, all but the first are labels. ``seed`` fixes the places.
    """
    generator = torch.Generator().manual_seed(seed)
    window = torch.arange(settings.length + 1)
    last = len(text.training) - len(window)
    for _ in range(settings.steps):
        starts = torch.randint(last + 1, (settings.batch, 1), generator=generator)
        yield text.training[starts + window]


def test_windows(
    text: Text, settings: Settings, seed: int, longest: int = MULTIPLES[-1]
) -> Int[Tensor, "windows characters"]:
    """Return the test windows, each of the longest length and within one test file.

    Every start in every file of ``text`` that is long enough is equally likely;
    ``seed`` fixes the choice. A window has one character more than the longest length,
    ``longest`` times the training length: the last label.

    Raises
    ------
    ValueError
        No test file is long enough.
    """
    width = longest * settings.length + 1
    windows = [f.unfold(0, width, 1) for f in text.testing if len(f) >= width]
    if not windows:
        raise ValueError(
            f"windows of {width} characters need a test file of that length; the "
            f"longest has {max(map(len, text.testing))}"
        )
    generator = torch.Generator().manual_seed(10**6 + seed)
    chances = torch.tensor([float(len(of_file)) for of_file in windows])
    files = chances.multinomial(settings.tested, replacement=True, generator=generator)
    starts = torch.rand(settings.tested, generator=generator, dtype=torch.float64)
    return torch.stack(
        [
            windows[file][int(start * len(windows[file]))]
            for file, start in zip(files.tolist(), starts.tolist(), strict=True)
        ]
    )


def fit(
    model: nn.Module, text: Text, settings: Settings, rate: float, seed: int
) -> float:
    """Train the model; return the mean loss of the last tenth of the steps, in bits.

    The training windows are from ``text``, and ``seed`` fixes them; ``rate`` is the
    learning rate.
    """
    optimizer, schedule = optimization(
        model, rate=rate, decay=settings.decay, steps=settings.steps
    )
    losses = []
    for window in training_windows(text, settings, seed):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(window[:, :-1]).mT, window[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return float(np.mean(losses[-max(1, settings.steps // 10) :]) / np.log(2))


@torch.no_grad()
def test(
    model: nn.Module,
    windows: Int[Tensor, "windows characters"],
    length: int,
    asked: int,
) -> tuple[float, float]:
    """Return the model's bits per character and its accuracy on test windows.

    The model sees ``length`` characters of each window; only the predictions of the
    last ``asked`` characters count.
    """
    shown, next_ones = windows[:, -length - 1 : -1], windows[:, -asked:]
    logits = torch.cat([model(part)[:, -asked:] for part in shown.split(1)])
    bits = functional.cross_entropy(logits.double().mT, next_ones) / np.log(2)
    return bits.item(), (logits.argmax(-1) == next_ones).double().mean().item()


def run(rate: float, encoding: str, seed: int, settings: Settings) -> Run:
    """Train a model with one encoding, learning rate and seed; test at every length.

    ``rate`` is the learning rate, ``encoding`` a name in :data:`ALL`.
    """
    start = time.perf_counter()
    # random positions use the model's seed, too
    with torch.random.fork_rng(devices=[]):
        model = Model(ALL[encoding], settings, seed)
        found = fitted(model, settings, rate, seed, MULTIPLES)
    return Run(
        rate=rate,
        encoding=encoding,
        seed=seed,
        trained=single_numbers(model),
        seconds=time.perf_counter() - start,
        **found,
    )


def fitted(
    model: nn.Module,
    settings: Settings,
    rate: float,
    seed: int,
    multiples: Sequence[int],
) -> dict[str, Any]:
    """Train a model on the text and test it; return loss, bits and accuracies.

    ``multiples`` are the test lengths over the training length, by which the bits and
    the accuracies are found; ``rate`` is the learning rate.
    """
    text = text_of(settings)
    windows = test_windows(text, settings, seed, multiples[-1])
    asked = max(1, settings.length // 2)
    loss = fit(model.train(), text, settings, rate, seed)
    found = {
        str(n): test(model.eval(), windows, n, asked)
        for n in (m * settings.length for m in multiples)
    }
    return {
        "loss": loss,
        "bits": {n: bits for n, (bits, _) in found.items()},
        "accuracy": {n: accuracy for n, (_, accuracy) in found.items()},
    }


def single_numbers(model: Model) -> dict[str, float]:
    """Return the trained single numbers of a model's encodings, by layer and name."""
    return {
        f"{layer}.{name}": value.item()
        for layer, block in enumerate(model.trunk.blocks)
        for name, value in block.attention.encoding.named_parameters()
        if value.numel() == 1 and value.requires_grad
    }


@dataclass(kw_only=True)
class RateExperiment(Experiment):
    """Experiment that first chooses the learning rate, on seeds that are not reported.

    ``choosing`` are the encodings or models whose bits on the seeds of
    :data:`CHOOSING` choose the rate.
    """

    choosing: Sequence[str]

    def require_trainable(
        self, settings: Settings, chosen: Mapping[str, Sequence[str]]
    ) -> None:
        """Raise an error if training cannot start with these settings and names.

        ``chosen`` maps "encodings" or "models" to the names chosen for training. The
        names must exist, and one of them must be in ``choosing``. The text must have
        the checksum that is in the settings.
        """
        super().require_trainable(settings, chosen)
        text_of(settings)
        ((of, names),) = chosen.items()
        if not {*names} & {*self.choosing}:
            raise ValueError(
                f"{' or '.join(self.choosing)} must be among the {of}, to choose the "
                "learning rate"
            )

    def phases(
        self, result: Runs, seeds: int, chosen: Mapping[str, Sequence[str]]
    ) -> Iterator[list[tuple]]:
        """Yield lists of jobs: to choose the learning rate, then with this rate.

        The last jobs are those with an encoding's own best rate where it is another. A
        job is a tuple (rate, name, seed) for one training. ``result`` has the
        finished runs, ``seeds`` is the number of reported seeds, and ``chosen`` maps
        "encodings" or "models" to the names chosen for training.
        """
        (names,) = chosen.values()
        choosing = [name for name in names if name in self.choosing]
        yield [(r, name, s) for s in CHOOSING for name in choosing for r in RATES]
        rate, first = result.chosen(), CHOOSING[-1] + 1
        yield [(rate, name, first + s) for s in range(seeds) for name in names]
        own = {name: result.own_rate(name) for name in choosing}
        yield [
            (own[name], name, first + s)
            for s in range(seeds)
            for name in choosing
            if own[name] != rate
        ]


experiment = RateExperiment(
    name="characters",
    purpose="Train a small model of characters with each encoding.",
    method=METHOD,
    choices={"encodings": tuple(ALL)},
    choosing=tuple(CONDITIONS),
    result_type=Result,
    run_one=run,
)

main = experiment.main

if __name__ == "__main__":
    run_command(__spec__.name)
