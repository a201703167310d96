"""Report of a model's diagnosis: the findings in words, as a table and as JSON."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from posedu._argument_types import check_types
from posedu._result_table import Table
from posedu.tools.configs.rotary_config import Reading, RotaryConfig
from posedu.tools.diagnose.behavior import Trial
from posedu.tools.diagnose.measurement import ROUNDED, MeasuredRotation

FAULT, NOTE = "fault", "note"
COARSE = 1e-3  # error of a cosine, far above float32's roundoff and half of bfloat16's
SIXTEEN = 1e-4  # below the eps of 16-bit floats, above that of float32


@check_types
@dataclass(frozen=True)
class Finding:
    """A fault or note that a diagnosis found in a model, and the way to mend it.

    A ``"fault"`` contradicts the configuration, or makes scores depend on more than the
    offset. A ``"note"`` describes the model.
    """

    level: str
    name: str
    text: str
    mend: str = ""

    def __str__(self) -> str:
        return f"{self.level} ({self.name}): {self.text}" + (
            f" {self.mend}" if self.mend else ""
        )


@check_types
@dataclass(frozen=True)
class Layer:
    """One call of attention: its measured and its expected rotations.

    ``expected`` holds the rotary embeddings that the configuration allows in this
    layer; if ``None`` is among them, the layer may have no rotation. The tuple is empty
    if the model has no configuration.
    """

    name: str
    query: MeasuredRotation
    key: MeasuredRotation
    expected: tuple[RotaryConfig | None, ...] = ()


@check_types
@dataclass(frozen=True)
class Diagnosis(Table):
    """Result of a model's diagnosis: measured rotations, trials and findings.

    A trial compares two outputs of the model that should be equal.

    Parameters
    ----------
    model
        The name of the model's class.
    layers
        The model's calls of attention, in order.
    reading
        The rotary embeddings of the model's configuration, ``None`` if there is no
        configuration or it could not be read.
    trials
        The results of the trials.
    findings
        Findings in words, faults first.
    config_error
        The reason why the model's configuration could not be read, empty if it could or
        there is none.
    is_unrotated
        Whether no layer rotates, and the configuration requires no rotation.
    left_out
        What was not tried, besides trials: each a name with the reason in parentheses.
    """

    model: str
    layers: tuple[Layer, ...]
    reading: Reading | None = None
    trials: tuple[Trial, ...] = ()
    findings: tuple[Finding, ...] = field(default=())
    config_error: str = ""
    is_unrotated: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def faults(self) -> list[Finding]:
        """Findings that are faults, without the notes."""
        return [f for f in self.findings if f.level == FAULT]

    @property
    def ok(self) -> bool:
        """True if there is no fault, and the configuration, if any, could be read."""
        return not self.faults and not self.config_error

    @property
    def uncompared(self) -> str:
        """Reason why the model was compared with no configuration, empty if it was."""
        if self.config_error:
            return f"its configuration could not be read: {self.config_error}"
        is_compared = self.reading or self.is_unrotated
        return "" if is_compared else "the model has no configuration"

    @property
    def untried(self) -> tuple[str, ...]:
        """Untried comparisons, each a name with the reason in parentheses."""
        trials = (f"{t.name} ({t.why})" for t in self.trials if t.ok is None)
        return (*trials, *self.left_out)

    @property
    def summary(self) -> str:
        """Return one line: the number of faults, and what was not tried."""
        count = len(self.faults)
        found = {0: "no fault", 1: "1 fault"}.get(count, f"{count} faults")
        by_reason: dict[str, list[str]] = {}
        for text in self.untried:
            name, _, reason = text.partition(" (")
            by_reason.setdefault(reason, []).append(name)
        untried = ", ".join(f"{', '.join(n)} ({why}" for why, n in by_reason.items())
        return f"{found}; not tried: {untried}" if untried else found

    def caption(self) -> str:
        """Return the caption of the table of rotations, which names the model."""
        return f"Measured rotations of {self.model}"

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the column heads, then a row for each group of equal layers.

        A group is a sequence of neighboring layers with equal measurements.
        """
        yield (
            "layers",
            "rotated columns",
            "head dimension",
            "layout",
            "base",
            "highest frequency",
            "lowest frequency",
            "attention factor",
        )
        for cells, run in groupby(self.layers, key=_cells):
            names = [layer.name for layer in run]
            who = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
            yield who, *cells

    def lines(self) -> list[str]:
        """Return the lines below the report's table: findings, trials, a summary.

        A comparison with the model's configuration has a line only if it is missing.
        A trial compares two outputs of the model that should be equal; those that could
        not be run are in the summary.
        """
        missing = [f"not compared: {self.uncompared}"] if self.uncompared else []
        tried = [_trial_line(trial) for trial in self.trials if trial.ok is not None]
        return [*map(str, self.findings), *missing, *tried, self.summary]

    def __str__(self) -> str:
        return "\n".join((super().__str__(), *self.lines()))


@check_types
def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a :class:`Diagnosis` as JSON data."""
    return {
        "model": diagnosis.model,
        "layers": [
            {
                "name": layer.name,
                "d": (measured := layer.query).d,
                "first": measured.first.tolist(),
                "second": measured.second.tolist(),
                "layout": measured.layout,
                "frequencies": measured.frequencies.tolist(),
                "attention_factor": layer.key.attention_factor,
                "permuted": measured.permuted,
                "unexplained": measured.unexplained,
            }
            for layer in diagnosis.layers
        ],
        "trials": [vars(trial) for trial in diagnosis.trials],
        "findings": [vars(finding) for finding in diagnosis.findings],
        "uncompared": diagnosis.uncompared,
        "untried": list(diagnosis.untried),
    }


def series(measured: MeasuredRotation) -> tuple[float, float] | None:
    """Return the base and the highest frequency of measured frequencies, if geometric.

    Frequency p is then highest · base^(−2p/d), where d is the number of rotated
    columns. The result is ``None`` if the frequencies are no geometric series, or fewer
    than three.
    """
    omega = np.abs(measured.frequencies)
    if len(omega) < 3 or (omega <= 4 * measured.uncertainty).any():
        return None
    steps = np.arange(len(omega))
    weights = omega / (omega * 1e-4 + measured.uncertainty)
    slope, start = np.polyfit(steps, np.log(omega), 1, w=weights)
    rest = np.abs(omega / np.exp(start + slope * steps) - 1)
    if (rest > 1e-4 + 4 * measured.uncertainty / omega).any():
        return None
    return float(np.exp(-slope * len(omega))), float(np.exp(start))


def bases(measured: MeasuredRotation) -> dict[str, float]:
    """Return the base of the measured frequencies, by the kind of partial rotation.

    ``"partial"``: base^(−2p/r) of the r rotated columns. ``"proportional"``:
    base^(−2p/d) of all d columns; pairs of the lowest frequencies are not rotated. In
    the half layout the pairs distinguish the two kinds: their columns are r/2 or d/2
    apart. If the whole head is rotated, both kinds are given; if the frequencies are no
    geometric series, neither is.
    """
    found = series(measured)
    if found is None:
        return {}
    both = {"partial": found[0], "proportional": found[0] ** _share(measured)}
    apart = {"partial": measured.width // 2, "proportional": measured.d // 2}
    if measured.layout != "half":
        return both
    own = int(measured.second[0] - measured.first[0])
    return {name: both[name] for name in both if apart[name] == own} or both


def _share(measured: MeasuredRotation) -> float:
    return measured.d / measured.width


def coarse_buffers(buffers: Mapping[str, torch.Tensor]) -> Iterator[Finding]:
    """Yield a fault for each 16-bit buffer whose numbers decrease as frequencies do.

    ``buffers`` are the model's buffers (tensors that are not trained) by name.
    """
    for name, buffer in buffers.items():
        dtype = str(buffer.dtype).removeprefix("torch.")
        falling = buffer.ndim == 1 and len(buffer) > 3 and dtype in ROUNDED
        if falling and buffer[-1] > 0 and (buffer[1:] < buffer[:-1]).all():
            yield Finding(
                FAULT,
                "coarse buffer",
                f"{name} is in {dtype}, and its numbers decrease as frequencies do: "
                "angles computed from them are off by a hundredth or more.",
                "Keep it in float32 when the weights are cast, or compute it again.",
            )


def measured_alone(reason: str) -> Finding:
    """Return the note that only the model's rotary module was measured.

    ``reason`` says why the whole model was not; its first line is in the note.
    """
    return Finding(
        NOTE,
        "alone",
        "only the model's rotary module and the function that applies its table were "
        f"measured: {reason.splitlines()[0]}.",
        "Attention with the rotated features was not seen.",
    )


def without_attention(finding: Finding) -> Finding:
    """Return what a finding is worth where attention was not seen.

    A layout is a note then: attention may reorder features before it rotates them, as
    that of Qwen2.5-Omni's diffusion transformer.
    """
    if finding.name != "layout":
        return finding
    text = f"{finding.text} Attention, which was not seen, may reorder the features."
    return replace(finding, level=NOTE, text=text)


def unrotated() -> Finding:
    """Return the note that neither a model nor its configuration has a rotation."""
    return Finding(
        NOTE,
        "unrotated",
        "no layer rotates queries or keys, and the configuration requires no "
        "rotation: positions come in another way, or not at all.",
    )


def ignored() -> Finding:
    """Return the fault that the model does not use the positions that it is given."""
    return Finding(
        FAULT,
        "ignored",
        "positions are ignored: forward takes position_ids, but queries and keys are "
        "rotated by positions that the model counts itself.",
        "Pass position_ids on to the rotation.",
    )


def unfilled_buffers(
    buffers: Mapping[str, torch.Tensor], stored: Container[str], reading: Reading | None
) -> Iterator[Finding]:
    """Yield a fault for each buffer for frequencies that contains no frequencies.

    ``buffers`` are the model's buffers (tensors that are not trained) by name. A buffer
    for frequencies is in no checkpoint (``stored`` are a checkpoint's names) and has a
    number for each pair that ``reading``, the model's configuration, rotates.
    Frequencies decrease, and periods increase. Without a configuration there is no
    fault.
    """
    ropes = [rope for rope in reading.kinds.values() if rope] if reading else []
    wanted = [rope.frequencies() for rope in ropes]
    for name, buffer in buffers.items():
        if name in stored or buffer.ndim != 1 or not buffer.is_floating_point():
            continue
        found = buffer.double().cpu().numpy()
        steps = np.diff(found)
        monotone = (steps <= 0).all() or (steps >= 0).all()
        if np.isfinite(found).all() and found.any() and monotone and found.min() >= 0:
            continue
        as_many = [np.sort(omega) for omega in wanted if len(omega) == len(found)]
        in_order = np.sort(found)  # The frequencies of coordinates may be in any order.
        start = ", ".join(f"{x:.3g}" for x in found[:3])
        if as_many and not any(np.allclose(in_order, w, rtol=0.02) for w in as_many):
            yield Finding(
                FAULT,
                "unfilled buffer",
                f"{name} is in no checkpoint and has a number for each pair, but the "
                f"numbers are no frequencies: {start}, … It was never filled, as "
                "happens after the meta device and to_empty.",
                "Build its module on the device, or run the code that fills it.",
            )


def findings(
    layers: Sequence[Layer],
    trials: Sequence[Trial],
    reading: Reading | None,
    *,
    is_pooled: bool = False,
) -> tuple[Finding, ...]:
    """Return what measured layers and trials show, each finding once, faults first.

    ``is_pooled`` is true if some keys are pooled from several tokens.
    A trial compares two outputs of the model that should be equal. ``reading`` is the
    content of the model's configuration, ``None`` if there is none or it could not be
    read.
    """
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for layer in layers:
        for finding in of_layer(layer):
            key = (finding.level, finding.name, finding.text, finding.mend)
            found.setdefault(key, []).append(layer.name)
    of_layers = [
        Finding(level, name, f"{listed(names, len(layers))}: {text}", mend)
        for (level, name, text, mend), names in found.items()
    ]
    of_layers += _of_trials(layers, trials, reading, is_pooled)
    return tuple(sorted(of_layers, key=lambda f: f.level != FAULT))


def listed(names: Sequence[str], count: int) -> str:
    """Return names in short: "all layers" if there are ``count`` and more than one."""
    if len(names) == count > 1:
        return "all layers"
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def of_layer(layer: Layer) -> Iterator[Finding]:
    """Yield findings on one layer: its rotations, compared with the expected ones."""
    q, k = layer.query, layer.key
    if not (q.finite and k.finite):
        yield Finding(
            FAULT,
            "not finite",
            "queries or keys are not finite.",
            "Look for buffers that were never filled: those of a model that was built "
            "on the meta device are in no checkpoint.",
        )
        return
    if max(q.eps, k.eps) > SIXTEEN:
        yield Finding(
            NOTE,
            "16 bits",
            "queries and keys are in 16 bits: pairs with low frequencies seem to be "
            "unrotated.",
            "Give the model in float32, as model.float().",
        )
    if q.unexplained or k.unexplained:
        yield Finding(
            NOTE,
            "unexplained",
            f"{max(q.unexplained, k.unexplained)} of {q.d} columns change with the "
            "position, and not by a rotation of pairs.",
        )
    if q.is_absolute:
        yield Finding(
            NOTE,
            "absolute",
            "features depend on the position before they are rotated: a table is added "
            "to the input, or an earlier layer uses positions.",
        )
    of_config = list(_of_config(layer)) if layer.expected and not q.is_zero else []
    if q.is_zero or k.is_zero:
        yield Finding(
            NOTE,
            "zero",
            "queries or keys are zero for all tokens, so their rotation is not seen.",
            "Give a model with trained or random weights.",
        )
    elif q.width or k.width:
        yield from _of_sides(q, k)
    if q.width:
        names = {finding.name for finding in of_config}
        yield from (f for f in _of_angles(q) if f.name not in names)
    yield from of_config


def _of_sides(q: MeasuredRotation, k: MeasuredRotation) -> Iterator[Finding]:
    if not (_is_rotated_in(q, k) and _is_rotated_in(k, q)):
        yield Finding(
            FAULT,
            "one side",
            f"{q.width} columns of the queries and {k.width} of the keys are rotated, "
            "or their angles differ: the score does not depend on the offset alone.",
            "Rotate both by the same table.",
        )
    if q.permuted != k.permuted:
        yield Finding(
            FAULT,
            "permuted",
            "columns of the queries are in another order than those of the keys.",
            "Permute both or neither.",
        )
    elif q.permuted:
        yield Finding(
            NOTE,
            "permuted",
            "columns are in another order than in the projection's output: scores are "
            "the same, but a cache or a kernel in the other order does not fit.",
        )
    if q.clockwise:
        yield Finding(
            NOTE,
            "clockwise",
            "pairs are rotated from the second column to the first: this is as "
            "relative as the opposite direction, but weights trained with one are "
            "wrong for the other.",
            "posedu.tools.convert changes weights from one to the other.",
        )


def _is_rotated_in(one: MeasuredRotation, other: MeasuredRotation) -> bool:
    """True if ``other`` rotates each pair that ``one`` rotates, by an equal angle.

    Both are measured rotations, of the queries or the keys of a layer.
    """
    pairs = zip(other.first, other.second, other.frequencies, strict=True)
    there = {(int(a), int(b)): w for a, b, w in pairs}
    spread = max(one.uncertainty, other.uncertainty)
    for a, b, w in zip(one.first, one.second, one.frequencies, strict=True):
        found = there.get((int(a), int(b)))
        if found is None and abs(w) > 8 * spread:
            return False
        if found is not None and not abs(w - found) < 1e-5 + spread:
            return False
    return True


def _of_angles(measured: MeasuredRotation) -> Iterator[Finding]:
    off = float(np.max([*measured.angle_errors.values()], initial=0.0))
    limit = COARSE + 2 * measured.eps
    if measured.positions_dtype:
        far = max(measured.angle_errors)
        yield Finding(
            FAULT,
            "positions",
            f"positions are rounded to {measured.positions_dtype}: {far} is taken for "
            f"{_rounded(far, measured.positions_dtype):g}.",
            "Keep positions and angles in float32, also under autocast.",
        )
    elif off > limit > 8 * measured.stretch:
        yield Finding(
            FAULT,
            "angles",
            f"angles differ by up to {off:.1e} from frequency times position, and "
            "cosines and sines agree with these angles.",
            "Look for a buffer of frequencies that was never filled, or for positions "
            "that are changed before they are used.",
        )
    elif not (measured.stretch <= limit and off <= limit):  # also NaN
        yield Finding(
            FAULT,
            "coarse table",
            f"lengths of pairs change by up to {measured.stretch:.1e} and angles are "
            f"off by up to {off:.1e}: cosines and sines are rounded to fewer bits than "
            "the features have.",
            "Compute the table in float32 and cast the product.",
        )
    low = _few_bits(np.abs(measured.frequencies), measured.uncertainty)
    if low:
        yield Finding(
            FAULT,
            "coarse frequencies",
            f"the frequencies are rounded to {low}: they were cast with the weights.",
            "Keep the buffer in float32, or compute it again after the cast.",
        )


def _few_bits(omega: Float[np.ndarray, "pairs"], uncertainty: float) -> str:
    """Return the 16-bit dtype that frequencies were rounded to, empty if none is seen.

    ``uncertainty`` is the bound on the error of the frequencies ``omega``. The text is
    also empty if fewer than four frequencies are far above the bound.
    """
    known = omega[omega > 1e5 * uncertainty]
    fractions = np.log2(known) % 1 if len(known) else known
    # Every dtype represents powers of two, so these show nothing.
    known = known[np.minimum(fractions, 1 - fractions) > 1e-4]
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
                "the rotation of a pair, but the configuration requires rotated pairs.",
                "Look for other code that changes queries and keys.",
            )
        elif None not in layer.expected:
            yield Finding(
                FAULT,
                "no rotation",
                "no column is rotated, but the configuration requires rotation.",
                "A table of zeros, or positions that are all 0, rotate nothing: check "
                "that the buffer was filled, and that positions reach the rotation.",
            )
        return
    if not ropes:
        yield Finding(
            FAULT,
            "rotation",
            "queries are rotated in a layer that must have no rotation by the "
            "configuration.",
            "Do not rotate queries and keys in these layers.",
        )
        return
    fitting = [rope for rope in ropes if agrees(q, rope)]
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
            f"pairs are {pair[q.layout]}, the layout {q.layout!r}, but weights of this "
            f"family have the layout {rope.layout!r}.",
            "Convert the weights with posedu.tools.convert, or rotate the other pairs.",
        )
    found = None if layer.key.is_zero else layer.key.attention_factor
    # Both sides may have the square root of the scale of scores.
    scales = (1.0, q.d**-0.25)
    if found is not None and all(
        abs(found / (scale * rope.attention_factor) - 1) > COARSE + q.eps
        for scale in scales
    ):
        yield Finding(
            FAULT,
            "attention_factor",
            f"rotated keys are multiplied by {found:.6g}, but the attention factor "
            f"(mscale) of the configuration is {rope.attention_factor:.6g}.",
            "Multiply cosines and sines by it once, and do not multiply the scores.",
        )


def agrees(measured: MeasuredRotation, rope: RotaryConfig) -> bool:
    """Return whether measured frequencies are those of ``rope``."""
    return _same(measured, rope.frequencies(), ordered=not rope.sections)


def _same(
    measured: MeasuredRotation,
    wanted: Float[np.ndarray, "pairs"],
    *,
    ordered: bool = True,
) -> bool:
    """True if the measured frequencies equal ``wanted``, up to their uncertainty.

    ``wanted`` are the expected frequencies of the pairs. If not ``ordered``, the order
    of frequencies does not matter, as any coordinate of a position may rotate any pair.
    """
    visible = 8 * measured.uncertainty
    omega = np.abs(measured.frequencies)
    omega, wanted = omega[omega > visible], wanted[wanted > visible]
    if not ordered:
        omega, wanted = np.sort(omega), np.sort(wanted)
    if len(omega) != len(wanted):
        return False
    return bool((np.abs(omega - wanted) <= 1e-5 * wanted + measured.uncertainty).all())


def _departure(measured: MeasuredRotation, rope: RotaryConfig) -> Finding:
    """Return the fault that says how a measured rotation differs from ``rope``.

    ``rope`` is the rotary embedding that the configuration requires.
    """
    wanted = rope.frequencies()
    plain = wanted
    if rope.method != "default":
        plain = replace(rope, method="default", options={}).frequencies()
    for name in ROUNDED:
        cast = np.array([_rounded(w, name) for w in wanted])
        if _same(measured, cast):
            return Finding(
                FAULT,
                "coarse frequencies",
                f"the frequencies are those of the configuration, rounded to {name}.",
                "Keep the buffer in float32, or compute it again after the cast.",
            )
    if rope.method != "default" and _same(measured, plain):
        return Finding(
            FAULT,
            "method",
            f"the frequencies are those without {rope.method}, which the configuration "
            "requires.",
            "Check that the code reads the format of this configuration.",
        )
    found = series(measured)
    if found is not None and (wanted == 0).any():
        found = found[0] ** _share(measured), found[1]
    if measured.width != 2 * np.count_nonzero(wanted) and (
        found is None or abs(found[0] / rope.base - 1) < 1e-3
    ):
        return Finding(
            FAULT,
            "width",
            f"{measured.width} of {measured.d} columns are rotated, but the "
            f"configuration requires {2 * np.count_nonzero(wanted)}.",
            "Check that the code reads the share of the head that is rotated.",
        )
    if found is None:
        return Finding(
            FAULT,
            "frequencies",
            f"the frequencies, from {np.abs(measured.frequencies).max():.4g} to "
            f"{np.abs(measured.frequencies).min():.4g}, are no geometric series and "
            f"not those of the configuration ({rope.method}, base "
            f"{_plain(rope.base)}).",
            "Look for a buffer that was never filled, or that has another method's "
            "frequencies.",
        )
    base, fastest = found
    scaled = "" if abs(fastest - 1) < 1e-4 else f", all multiplied by {fastest:.4g}"
    return Finding(
        FAULT,
        "base",
        f"the frequencies are those of base {_plain(base)}{scaled}, but the "
        f"configuration requires base {_plain(rope.base)} ({rope.method}).",
        "Check that the code reads the format of this configuration.",
    )


def _of_trials(
    layers: Sequence[Layer],
    trials: Sequence[Trial],
    reading: Reading | None,
    is_pooled: bool,
) -> Iterator[Finding]:
    results = {trial.name: trial for trial in trials}
    only_rotates = all(
        layer.query.width
        and not layer.query.is_absolute
        and not layer.query.unexplained
        for layer in layers
    )
    has_temperature = reading is not None and reading.temperature is not None

    def failed(name: str) -> bool:
        return name in results and results[name].ok is False

    def change(name: str) -> str:
        return f"{results[name].differs:.1e} of its size"

    is_relative = only_rotates and not has_temperature and not is_pooled
    if failed("own positions"):
        yield Finding(
            FAULT if is_relative else NOTE,
            "own positions",
            f"the output changes by {change('own positions')} when positions 0, 1, 2, "
            "… are given: the model itself counts others.",
            "Positions that are one apart must give the same output."
            if is_relative
            else "Give positions as it counts them; RoBERTa's begin at 2.",
        )
    if failed("elsewhere"):
        yield Finding(
            FAULT if is_relative else NOTE,
            "elsewhere",
            f"the output changes by {change('elsewhere')} when all positions are "
            "shifted by the same number.",
            "Rotations alone do not depend on it: look for other code that uses "
            "positions."
            if is_relative
            else "",
        )
    if failed("padded and counted"):
        yield Finding(
            NOTE if is_pooled else FAULT,
            "padding",
            f"padding on the left changes the output by {change('padded and counted')},"
            " although it is masked and positions begin after it.",
            "Some keys are pooled from several tokens: padding moves the bounds."
            if is_pooled
            else "Check that the mask reaches attention, and that no convolution or "
            "mean over tokens sees padding.",
        )
    elif failed("padded"):
        yield Finding(
            NOTE,
            "padding",
            f"padding on the left changes the output by {change('padded')} if no "
            "positions are given.",
            "Give position_ids that count real tokens: posedu.tools.padded_positions"
            + (", plus the model's first position." if failed("own positions") else ".")
            if results.get("padded and counted", results["padded"]).ok is not None
            else "",
        )
    if failed("cached"):
        yield Finding(
            FAULT,
            "cache",
            "reading token by token with a cache changes the output by "
            f"{change('cached')}.",
            "Positions of new tokens must begin at the number of cached tokens, and "
            "cached keys must have been rotated with the same frequencies.",
        )
    elif failed("padded and cached"):
        yield Finding(
            FAULT,
            "padded cache",
            "reading a padded text token by token with a cache changes the output by "
            f"{change('padded and cached')}; without padding, the cache changes "
            "nothing.",
            "New tokens need the positions that they are given, not the number of "
            "cached tokens, and the mask of all cached keys.",
        )
    if failed("after a longer text"):
        yield Finding(
            FAULT,
            "longer text",
            "the same text has an output that differs by "
            f"{change('after a longer text')} after a longer text: something is kept "
            "from text to text, such as the frequencies for the longest so far.",
            "Compute the frequencies from the length of each text.",
        )
    if failed("packed"):
        yield Finding(
            NOTE,
            "packed",
            f"a text in the same row changes the output by {change('packed')}: "
            "positions that begin again at 0 do not separate texts.",
            "Give a block-diagonal mask, or give the lengths to a kernel that takes "
            "them.",
        )


def _plain(base: float) -> str:
    """Format a number with five significant digits and commas between thousands.

    A number from 10⁻⁴ to below 10¹⁰ has no exponent.
    """
    return f"{float(f'{base:.5g}'):,.10g}"


def _trial_line(trial: Trial) -> str:
    mark = "✓" if trial.ok else "✗"
    return f"{mark} {trial.name}: {trial.differs:.1e} (at most {trial.bound:.1e})"


def _cells(layer: Layer) -> tuple[str, ...]:
    measured = layer.query
    if not measured.finite:
        return ("not finite", str(measured.d), *[""] * 5)
    if not measured.width:
        change = "none"
        if measured.unexplained:
            change += f", {measured.unexplained} change otherwise"
        return (change, str(measured.d), *[""] * 5)
    omega = np.abs(measured.frequencies)
    found = bases(measured)
    texts = [_plain(base) for base in found.values()]
    if measured.width < measured.d:
        texts = [f"{base}, {name}" for base, name in zip(texts, found, strict=True)]
    attention_factor = layer.key.attention_factor
    return (
        f"{measured.columns[0]}–{measured.columns[-1]}: {measured.width}",
        str(measured.d),
        measured.layout + (", permuted" if measured.permuted else ""),
        " or ".join(dict.fromkeys(texts)) or "no series",
        f"{omega.max():.4g}",
        f"{omega.min():.4g}",
        "not seen" if attention_factor is None else f"{attention_factor:.5g}",
    )
