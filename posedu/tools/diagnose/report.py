"""What a diagnosis says, in words."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from posedu._result_table import Table
from posedu.tools.configs.rotary_config import Reading, RotaryConfig
from posedu.tools.diagnose.behavior import Trial
from posedu.tools.diagnose.measurement import ROUNDED, Turning

FAULT, NOTE = "fault", "note"
COARSE = 1e-3  # of a cosine: far above float32's roundoff, half of bfloat16's
SIXTEEN = 1e-4  # below the roundoff of numbers of 16 bits, above that of float32


@dataclass(frozen=True)
class Finding:
    """Something that its reader should know, and what mends it.

    A ``"fault"`` contradicts the configuration, or spoils what a rotation is for; a
    ``"note"`` is as the model has it.
    """

    level: str
    name: str
    text: str
    mend: str = ""

    def __str__(self) -> str:
        return f"{self.level} ({self.name}): {self.text}" + (
            f" {self.mend}" if self.mend else ""
        )


@dataclass(frozen=True)
class Layer:
    """One call of attention: what it does, and what a configuration expects of it.

    ``expected`` are the rotations that are possible here, ``None`` among them if none
    is; it is empty where there is no configuration.
    """

    name: str
    query: Turning
    key: Turning
    expected: tuple[RotaryConfig | None, ...] = ()


@dataclass(frozen=True)
class Diagnosis(Table):
    """What a model does with positions.

    Parameters
    ----------
    model
        The name of its class.
    layers
        Its calls of attention, in order.
    reading
        What its configuration says, if it has one that can be read.
    trials
        How it behaves as a whole.
    findings
        In words, faults first.
    unread
        Why its configuration could not be read, empty if it could or there is none.
    """

    model: str
    layers: tuple[Layer, ...]
    reading: Reading | None = None
    trials: tuple[Trial, ...] = ()
    findings: tuple[Finding, ...] = field(default=())
    unread: str = ""

    @property
    def faults(self) -> list[Finding]:
        """Those that contradict the configuration, or each other."""
        return [f for f in self.findings if f.level == FAULT]

    @property
    def ok(self) -> bool:
        """Whether there are none, and no configuration that could not be read."""
        return not self.faults and not self.unread

    @property
    def uncompared(self) -> str:
        """Why nothing was compared with a configuration, empty if it was."""
        if self.unread:
            return f"its configuration could not be read: {self.unread}"
        return "" if self.reading else "the model has no configuration"

    def caption(self) -> str:
        """Of which model."""
        return f"Rotations of {self.model}, measured"

    def rows(self) -> Iterator[tuple[str, ...]]:
        """A row for each run of layers that do the same."""
        yield (
            *("layers", "columns", "of", "layout", "base", "fastest", "slowest"),
            "attention_factor",
        )
        for cells, run in groupby(self.layers, key=_cells):
            names = [layer.name for layer in run]
            who = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
            yield who, *cells

    def said(self) -> list[str]:
        """Findings, what was not compared, and how each trial went, a line each."""
        why = [f"not compared: {self.uncompared}"] if self.uncompared else []
        return [*map(str, self.findings), *why, *map(_told, self.trials)]

    def __str__(self) -> str:
        return "\n".join((super().__str__(), *self.said()))


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """What JSON can hold of it."""
    return {
        "model": diagnosis.model,
        "layers": [
            {
                "name": layer.name,
                "d": (turning := layer.query).d,
                "first": turning.first.tolist(),
                "second": turning.second.tolist(),
                "layout": turning.layout,
                "frequencies": turning.frequencies.tolist(),
                "attention_factor": layer.key.attention_factor,
                "permuted": turning.permuted,
                "unexplained": turning.unexplained,
            }
            for layer in diagnosis.layers
        ],
        "trials": [vars(trial) for trial in diagnosis.trials],
        "findings": [vars(finding) for finding in diagnosis.findings],
        "uncompared": diagnosis.uncompared,
    }


def series(turning: Turning) -> tuple[float, float] | None:
    """Base, as if of the columns that turn, and the fastest frequency; or none.

    ``None`` where the frequencies are no geometric series.
    """
    omega = np.abs(turning.frequencies)
    if len(omega) < 3 or (omega <= 4 * turning.spread).any():
        return None
    steps = np.arange(len(omega))
    sure = omega / (omega * 1e-4 + turning.spread)
    slope, start = np.polyfit(steps, np.log(omega), 1, w=sure)
    rest = np.abs(omega / np.exp(start + slope * steps) - 1)
    if (rest > 1e-4 + 4 * turning.spread / omega).any():
        return None
    return float(np.exp(-slope * len(omega))), float(np.exp(start))


def bases(turning: Turning) -> dict[str, float]:
    """The base of the frequencies, by what a part of the head that turns may be.

    ``"partial"``: base^(−2p/r) of the r columns that turn. ``"proportional"``:
    base^(−2p/d) of all d columns, of which the slowest pairs stand still. In halves the
    pairs tell, which are r/2 or d/2 columns apart. A whole head is both; frequencies
    that are no geometric series are neither.
    """
    found = series(turning)
    if found is None:
        return {}
    both = {"partial": found[0], "proportional": found[0] ** _share(turning)}
    apart = {"partial": turning.width // 2, "proportional": turning.d // 2}
    if turning.layout != "half":
        return both
    own = int(turning.second[0] - turning.first[0])
    return {name: both[name] for name in both if apart[name] == own} or both


def _share(turning: Turning) -> float:
    return turning.d / turning.width


def of_buffers(buffers: Mapping[str, torch.Tensor]) -> Iterator[Finding]:
    """Buffers of few bits whose numbers fall as frequencies do."""
    for name, buffer in buffers.items():
        dtype = str(buffer.dtype).removeprefix("torch.")
        falling = buffer.ndim == 1 and len(buffer) > 3 and dtype in ROUNDED
        if falling and buffer[-1] > 0 and (buffer[1:] < buffer[:-1]).all():
            yield Finding(
                FAULT,
                "coarse buffer",
                f"{name} is of {dtype}, and its numbers fall as frequencies do: angles "
                "made of them are wrong by a hundredth and more.",
                "Keep it in float32 when the weights are cast, or make it anew.",
            )


def of_parts(why: str) -> Finding:
    """That the model as a whole was not seen."""
    return Finding(
        NOTE,
        "alone",
        "measured on the model's rotary module and the function beside it, without "
        f"the rest: {why.splitlines()[0]}.",
        "What attention does with the result was not seen.",
    )


def of_unfilled(
    buffers: Mapping[str, torch.Tensor], kept: Container[str], reading: Reading | None
) -> Iterator[Finding]:
    """Buffers in no checkpoint, as many numbers as there are pairs, and no frequencies.

    ``kept`` are names that a checkpoint has. Frequencies fall, periods rise.
    """
    ropes = [rope for rope in reading.kinds.values() if rope] if reading else []
    wanted = [rope.frequencies() for rope in ropes]
    for name, buffer in buffers.items():
        if name in kept or buffer.ndim != 1 or not buffer.is_floating_point():
            continue
        found = buffer.double().cpu().numpy()
        steps = np.diff(found)
        monotone = (steps <= 0).all() or (steps >= 0).all()
        if np.isfinite(found).all() and found.any() and monotone and found.min() >= 0:
            continue
        alike = [np.sort(omega) for omega in wanted if len(omega) == len(found)]
        in_order = np.sort(found)  # each coordinate may have its own, one by one
        if alike and not any(np.allclose(in_order, w, rtol=0.02) for w in alike):
            yield Finding(
                FAULT,
                "unfilled buffer",
                f"{name} is in no checkpoint, has a number for each pair, and they are "
                f"no frequencies: {', '.join(f'{x:.3g}' for x in found[:3])}, … It was "
                "never filled, as after the meta device and to_empty.",
                "Make it anew: build its module on the device, or call what fills it.",
            )


def findings(
    layers: Sequence[Layer], trials: Sequence[Trial], reading: Reading | None
) -> tuple[Finding, ...]:
    """All that there is to say, each once, faults first."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for layer in layers:
        for finding in _of_layer(layer):
            key = (finding.level, finding.name, finding.text, finding.mend)
            found.setdefault(key, []).append(layer.name)
    said = [
        Finding(level, name, f"{_listed(names, len(layers))}: {text}", mend)
        for (level, name, text, mend), names in found.items()
    ]
    said += _of_trials(layers, trials, reading)
    return tuple(sorted(said, key=lambda f: f.level != FAULT))


def _listed(names: Sequence[str], count: int) -> str:
    if len(names) == count > 1:
        return "all layers"
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _of_layer(layer: Layer) -> Iterator[Finding]:
    q, k = layer.query, layer.key
    if not (q.finite and k.finite):
        yield Finding(
            FAULT,
            "not finite",
            "queries or keys are not finite.",
            "Look for buffers that were never filled: those of a model that was made "
            "on the meta device are in no checkpoint.",
        )
        return
    if max(q.eps, k.eps) > SIXTEEN:
        yield Finding(
            NOTE,
            "16 bits",
            "queries and keys are numbers of 16 bits: slow pairs are taken for still "
            "ones.",
            "Give the model in float32, as model.float().",
        )
    if q.unexplained or k.unexplained:
        yield Finding(
            NOTE,
            "unexplained",
            f"{max(q.unexplained, k.unexplained)} of {q.d} columns change with the "
            "position, and not by a rotation of pairs.",
        )
    if q.moved:
        yield Finding(
            NOTE,
            "absolute",
            "features depend on the position before they are turned: a table is added "
            "to the input, or an earlier layer looks at positions.",
        )
    against = list(_of_config(layer)) if layer.expected else []
    if q.width or k.width:
        yield from _of_sides(q, k)
        told = {finding.name for finding in against}
        yield from (f for f in _of_angles(q) if f.name not in told)
    yield from against


def _of_sides(q: Turning, k: Turning) -> Iterator[Finding]:
    if not (_turns_in(q, k) and _turns_in(k, q)):
        yield Finding(
            FAULT,
            "one side",
            f"{q.width} columns of the queries turn and {k.width} of the keys, or by "
            "other angles: the score does not depend on the offset alone.",
            "Turn both by the same table.",
        )
    if q.permuted != k.permuted:
        yield Finding(
            FAULT,
            "permuted",
            "columns of the queries leave in another order than those of the keys.",
            "Permute both or neither.",
        )
    elif q.permuted:
        yield Finding(
            NOTE,
            "permuted",
            "columns leave in another order than the projection made them: scores are "
            "the same, a cache or a kernel of the other order is not.",
        )
    if q.clockwise:
        yield Finding(
            NOTE,
            "clockwise",
            "pairs turn from the second column to the first: as relative as the other "
            "sense, and weights trained with one are wrong for the other.",
            "posedu.tools.convert changes weights from one to the other.",
        )


def _turns_in(one: Turning, other: Turning) -> bool:
    """Whether the other turns each pair that surely turns in one, by the same angle."""
    pairs = zip(other.first, other.second, other.frequencies, strict=True)
    there = {(int(a), int(b)): w for a, b, w in pairs}
    spread = max(one.spread, other.spread)
    for a, b, w in zip(one.first, one.second, one.frequencies, strict=True):
        found = there.get((int(a), int(b)))
        if found is None and abs(w) > 8 * spread:
            return False
        if found is not None and not abs(w - found) < 1e-5 + spread:
            return False
    return True


def _of_angles(turning: Turning) -> Iterator[Finding]:
    off = max(turning.off.values(), default=0.0)
    limit = COARSE + 2 * turning.eps
    if turning.positions:
        far = max(turning.off)
        yield Finding(
            FAULT,
            "positions",
            f"positions are rounded to {turning.positions}: {far} is taken for "
            f"{_rounded(far, turning.positions):g}.",
            "Keep positions and angles in float32, under autocast, too.",
        )
    elif off > limit > 8 * turning.stretch:
        yield Finding(
            FAULT,
            "angles",
            f"angles are off by up to {off:.1e} from a frequency times the position, "
            "and cosines and sines belong to them.",
            "Look for a buffer of frequencies that was never filled, or positions that "
            "are changed on the way.",
        )
    elif max(turning.stretch, off) > limit:
        yield Finding(
            FAULT,
            "coarse table",
            f"pairs are stretched by up to {turning.stretch:.1e} and angles off by up "
            f"to {off:.1e}: cosines and sines are rounded to "
            "fewer bits than the features have.",
            "Make the table in float32 and cast the product.",
        )
    low = _few_bits(np.abs(turning.frequencies), turning.spread)
    if low:
        yield Finding(
            FAULT,
            "coarse frequencies",
            f"the frequencies are numbers of {low}: they were cast with the weights.",
            "Keep the buffer in float32, or make it anew after the cast.",
        )


def _few_bits(omega: Float[np.ndarray, "pairs"], spread: float) -> str:
    """The dtype that frequencies were rounded to, empty if none can be told."""
    known = omega[omega > 1e5 * spread]
    fractions = np.log2(known) % 1 if len(known) else known
    known = known[
        np.minimum(fractions, 1 - fractions) > 1e-4
    ]  # a power of two is exact
    if len(known) < 4:
        return ""
    for name in ROUNDED:
        if all(abs(_rounded(w, name) / w - 1) < 2e-5 for w in known):
            return name
    return ""


def _rounded(value: float, name: str) -> float:
    return float(torch.tensor(value, dtype=torch.float64).to(ROUNDED[name]).double())


def _of_config(layer: Layer) -> Iterator[Finding]:
    q = layer.query
    ropes = [rope for rope in layer.expected if rope is not None]
    if not q.width:
        if None not in layer.expected and q.unexplained:
            yield Finding(
                FAULT,
                "no pairs",
                f"{q.unexplained} of {q.d} columns change with the position, none by "
                "turning with one other, and the configuration says that pairs turn.",
                "Look at what is done to queries and keys besides.",
            )
        elif None not in layer.expected:
            yield Finding(
                FAULT,
                "no rotation",
                "nothing turns, and the configuration says that it does.",
                "A table of zeros turns nothing: see whether its buffer was filled.",
            )
        return
    if not ropes:
        yield Finding(
            FAULT,
            "rotation",
            "queries turn in a layer that the configuration has without rotation.",
            "Leave them as they are in these layers.",
        )
        return
    fitting = [rope for rope in ropes if _agrees(q, rope)]
    if not fitting:
        yield _departure(q, ropes[0])
        return
    rope = fitting[0]
    if rope.layout and q.layout in ("half", "interleaved") and q.layout != rope.layout:
        apart = int(q.second[0] - q.first[0])
        pair = {"half": f"(i, i + {apart})", "interleaved": "(2i, 2i + 1)"}
        yield Finding(
            FAULT,
            "layout",
            f"pairs are {pair[q.layout]}, {q.layout}, where this family's weights are "
            f"{rope.layout}.",
            "posedu.tools.convert changes the weights; or turn the other pairs.",
        )
    found = layer.key.attention_factor
    scales = (1.0, q.d**-0.25)  # the root of that of scores, if both sides take it
    if found is not None and all(
        abs(found / (scale * rope.attention_factor) - 1) > COARSE + q.eps
        for scale in scales
    ):
        yield Finding(
            FAULT,
            "attention_factor",
            f"keys are multiplied by {found:.6g} as they turn, and the configuration "
            f"says {rope.attention_factor:.6g}.",
            "Multiply cosines and sines by it once, and the scores by nothing.",
        )


def _agrees(turning: Turning, rope: RotaryConfig) -> bool:
    return _same(turning, rope.frequencies(), ordered=not rope.sections)


def _same(
    turning: Turning, wanted: Float[np.ndarray, "pairs"], *, ordered: bool = True
) -> bool:
    """Unordered: of several coordinates it is not asked which has which pair."""
    visible = 8 * turning.spread
    omega = np.abs(turning.frequencies)
    omega, wanted = omega[omega > visible], wanted[wanted > visible]
    if not ordered:
        omega, wanted = np.sort(omega), np.sort(wanted)
    if len(omega) != len(wanted):
        return False
    return bool((np.abs(omega - wanted) <= 1e-5 * wanted + turning.spread).all())


def _departure(turning: Turning, rope: RotaryConfig) -> Finding:
    """Which other rotation it is than the one that is expected."""
    wanted = rope.frequencies()
    plain = wanted
    if rope.method != "default":
        plain = replace(rope, method="default", options={}).frequencies()
    for name in ROUNDED:
        cast = np.array([_rounded(w, name) for w in wanted])
        if _same(turning, cast):
            return Finding(
                FAULT,
                "coarse frequencies",
                f"the frequencies are those of the configuration, rounded to {name}.",
                "Keep the buffer in float32, or make it anew after the cast.",
            )
    if rope.method != "default" and _same(turning, plain):
        return Finding(
            FAULT,
            "method",
            f"the frequencies are those without {rope.method}, which the configuration "
            "asks for.",
            "See whether the code reads the spelling that this configuration has.",
        )
    found = series(turning)
    if found is not None and (wanted == 0).any():
        found = found[0] ** _share(turning), found[1]
    if turning.width != 2 * np.count_nonzero(wanted) and (
        found is None or abs(found[0] / rope.base - 1) < 1e-3
    ):
        return Finding(
            FAULT,
            "width",
            f"{turning.width} of {turning.d} columns turn, and the configuration says "
            f"{2 * np.count_nonzero(wanted)}.",
            "See whether the code reads the share of the head that turns.",
        )
    if found is None:
        return Finding(
            FAULT,
            "frequencies",
            f"the frequencies, from {np.abs(turning.frequencies).max():.4g} to "
            f"{np.abs(turning.frequencies).min():.4g}, are no geometric series and not "
            f"those of the configuration ({rope.method}, base {_plain(rope.base)}).",
            "Look for a buffer that was never filled, or another method's.",
        )
    base, fastest = found
    slower = (
        "" if abs(fastest - 1) < 1e-4 else f" and all {1 / fastest:.4g} times slower"
    )
    return Finding(
        FAULT,
        "base",
        f"the frequencies are those of base {_plain(base)}{slower}, and the "
        f"configuration says {_plain(rope.base)} ({rope.method}).",
        "See whether the code reads the spelling that this configuration has.",
    )


def _of_trials(
    layers: Sequence[Layer], trials: Sequence[Trial], reading: Reading | None
) -> Iterator[Finding]:
    results = {trial.name: trial for trial in trials}
    only_turns = all(
        layer.query.width and not layer.query.moved and not layer.query.unexplained
        for layer in layers
    )
    temperature = reading is not None and reading.temperature is not None

    def failed(name: str) -> bool:
        return name in results and results[name].ok is False

    def by(name: str) -> str:
        return f"{results[name].differs:.1e} of its size"

    if failed("elsewhere"):
        relative = only_turns and not temperature
        yield Finding(
            FAULT if relative else NOTE,
            "elsewhere",
            f"the output changes by {by('elsewhere')} when all positions grow by the "
            "same number.",
            "Rotations alone would not see it: look for what else reads positions."
            if relative
            else "",
        )
    if failed("padded and counted"):
        yield Finding(
            FAULT,
            "padding",
            f"padding on the left changes the output by {by('padded and counted')}, "
            "though it is masked and positions begin after it.",
            "See whether the mask reaches attention.",
        )
    elif failed("padded"):
        yield Finding(
            NOTE,
            "padding",
            f"padding on the left changes the output by {by('padded')} where no "
            "positions are given.",
            "Give position_ids that count tokens: posedu.tools.padded_positions.",
        )
    if failed("cached"):
        yield Finding(
            FAULT,
            "cache",
            f"reading token by token with a cache changes the output by "
            f"{by('cached')}.",
            "Positions of new tokens begin at the number of cached ones, and cached "
            "keys keep the frequencies that they were turned with.",
        )
    if failed("packed"):
        yield Finding(
            NOTE,
            "packed",
            f"a text in the same row changes the output by {by('packed')}: positions "
            "that begin anew do not keep texts apart.",
            "Give a mask of blocks, or lengths to a kernel that takes them.",
        )


def _plain(base: float) -> str:
    """Five digits, and no exponent."""
    return f"{float(f'{base:.5g}'):,.10g}"


def _told(trial: Trial) -> str:
    if trial.ok is None:
        return f"not tried: {trial.name}, {trial.why}"
    mark = "✓" if trial.ok else "✗"
    return f"{mark} {trial.name}: {trial.differs:.1e} (at most {trial.bound:.1e})"


def _cells(layer: Layer) -> tuple[str, ...]:
    turning = layer.query
    if not turning.finite:
        return ("not finite", str(turning.d), *[""] * 5)
    if not turning.width:
        change = f"{turning.unexplained} changed" if turning.unexplained else "none"
        return (change, str(turning.d), *[""] * 5)
    omega = np.abs(turning.frequencies)
    found = bases(turning)
    said = [_plain(base) for base in found.values()]
    if turning.width < turning.d:
        said = [f"{base}, {name}" for base, name in zip(said, found, strict=True)]
    attention_factor = layer.key.attention_factor
    return (
        f"{turning.columns[0]}–{turning.columns[-1]}: {turning.width}",
        str(turning.d),
        turning.layout + (", permuted" if turning.permuted else ""),
        " or ".join(dict.fromkeys(said)) or "no series",
        f"{omega.max():.4g}",
        f"{omega.min():.4g}",
        "not seen" if attention_factor is None else f"{attention_factor:.5g}",
    )
