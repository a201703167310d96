"""Differences in effect of two configurations: rotations, factors, layers, layouts."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posedu._argument_types import check_types
from posedu._result_table import Table
from posedu.tools.configs.mixers import numbered
from posedu.tools.configs.rotary_config import Reading, RotaryConfig, Temperature

SAME = 2.0**-20
"""Relative difference up to which two frequencies are one: 8 roundings of float32, in
which files store bases and factors."""
ROTATIONS = "Same rotations in all layers."
UNROTATED = "No rotation in any layer of both"


@check_types
@dataclass(frozen=True)
class Difference:
    """One thing in which two configurations differ: where, what, and both values."""

    where: str
    what: str
    one: str
    other: str


@check_types
@dataclass(frozen=True)
class Differences(Table):
    """Differences of two configurations, layer by layer and pair by pair.

    Parameters
    ----------
    names
        The names of the two configurations, the heads of the table's columns.
    found
        The differences, empty if the configurations have the same effect.
    unknown
        What could not be compared, since a configuration does not say it.
    alike
        What is the same in both if there are no differences, a sentence.
    """

    names: tuple[str, str]
    found: tuple[Difference, ...]
    unknown: tuple[str, ...] = ()
    alike: str = ROTATIONS

    def caption(self) -> str:
        """Return a sentence: how many things differ, and what is not known."""
        count = len(self.found)
        text = self.alike
        if count:
            text = f"{count} thing{'s' * (count > 1)} differ{'s' * (count == 1)}."
        if self.unknown:
            text += f" Not compared: {'; '.join(self.unknown)}."
        return text

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the column heads, then a row for each difference."""
        yield ("where", "what", *self.names)
        for each in self.found:
            yield (each.where, each.what, each.one, each.other)


@check_types
def differences(
    one: Reading, other: Reading, *, names: tuple[str, str] = ("first", "second")
) -> Differences:
    """Return in what two configurations differ in effect, however they are written.

    Layers are compared one by one if both configurations list them, otherwise kinds of
    layer by name; a single kind stands for all layers. Frequencies are those of a text
    of the training length, and where a method follows the length, also of the longest
    text.

    Parameters
    ----------
    one, other
        The configurations, as :func:`posedu.tools.read_rope` returns them.
    names
        Their names in the table.
    """
    found: list[Difference] = []
    unknown: list[str] = []
    for where, a, b in _pairs(one, other, unknown):
        found += _of_kind(where, a, b, unknown)
    found += _of_mixers(one, other)
    alike = ROTATIONS
    if not (one.is_rotated and other.is_rotated):
        found += _of_order(one, other, unknown)
        is_known = one.order and one.encodings == other.encodings
        same = f"; the order of tokens comes from {one.order}" if is_known else ""
        alike = f"{UNROTATED}{same}."
    found += _of_temperature(one.temperature, other.temperature)
    return Differences(names, tuple(found), tuple(dict.fromkeys(unknown)), alike)


Kind = tuple[str, RotaryConfig | None, RotaryConfig | None]


def _pairs(one: Reading, other: Reading, unknown: list[str]) -> Iterator[Kind]:
    """Yield what each layer, or each kind of layer, has in both configurations.

    Neighboring layers that are alike come once. What is in one of them alone, or is
    listed by one alone, is added to ``unknown``.
    """
    if one.layers and other.layers:
        if len(one.layers) != len(other.layers):
            unknown.append(
                f"layers beyond the shorter list, {len(one.layers)} and "
                f"{len(other.layers)} layers"
            )
        both = [*zip(one.layers, other.layers, strict=False)]
        for pair in dict.fromkeys(both):
            places = [
                n
                for n, each in enumerate(both)
                if each == pair and (_attends(one, n) or _attends(other, n))
            ]
            if not places:
                continue
            a, b = one.kinds.get(pair[0]), other.kinds.get(pair[1])
            yield (numbered(places), a, b)
        return
    if one.layers or other.layers:
        unknown.append("which layers have which kind, listed in one of them alone")
    if len(one.kinds) == 1 or len(other.kinds) == 1:
        for name, a in one.kinds.items():
            for title, b in other.kinds.items():
                yield (title if len(one.kinds) == 1 else name, a, b)
        return
    for name in dict.fromkeys((*one.kinds, *other.kinds)):
        if name in one.kinds and name in other.kinds:
            yield (name, one.kinds[name], other.kinds[name])
        else:
            unknown.append(f"layers of the kind {name!r}, in one of them alone")


def _attends(reading: Reading, layer: int) -> bool:
    """True if a layer has attention, or if that is not known."""
    roles = () if reading.mixers is None else reading.mixers.roles
    return layer >= len(roles) or roles[layer] in ("attention", "both")


def _of_mixers(one: Reading, other: Reading) -> Iterator[Difference]:
    if one.mixers != other.mixers:
        shown = (str(each or "none") for each in (one.mixers, other.mixers))
        yield Difference("layers", "recurrence", *shown)


def _of_kind(
    where: str, a: RotaryConfig | None, b: RotaryConfig | None, unknown: list[str]
) -> Iterator[Difference]:
    if a is None or b is None:
        if a is not b:
            rotated = ("no" if each is None else "yes" for each in (a, b))
            yield Difference(where, "rotated", *rotated)
        return
    if a.head_dim != b.head_dim:
        yield Difference(where, "head dimension", str(a.head_dim), str(b.head_dim))
    texts = [None]
    if a.follows_length or b.follows_length:
        texts += [a.longest or b.longest]
    for length in texts:
        what = "frequencies" if length is None else f"frequencies at {length:,} tokens"
        yield from _of_frequencies(
            where, what, a.frequencies(length), b.frequencies(length)
        )
    for what, x, y in (
        ("attention factor", a.attention_factor, b.attention_factor),
        ("further scale of scores", a.softmax, b.softmax),
    ):
        if abs(x - y) > SAME * max(x, y):
            yield Difference(where, what, f"{x:.7g}", f"{y:.7g}")
    if a.layout and b.layout:
        if a.layout != b.layout:
            yield Difference(where, "layout", a.layout, b.layout)
    else:
        unknown.append("the layout, which one of them does not give")
    if (a.sections, a.order) != (b.sections, b.order):
        shown = (f"{r.order} {list(r.sections)}" if r.order else "one" for r in (a, b))
        yield Difference(where, "coordinates", *shown)


def _of_frequencies(
    where: str, what: str, a: np.ndarray, b: np.ndarray
) -> Iterator[Difference]:
    """Yield how many pairs have different frequencies, and the two that differ most."""
    if len(a) != len(b):
        yield Difference(where, "pairs", str(len(a)), str(len(b)))
        return
    size = np.maximum(np.abs(a), np.abs(b))
    off = np.divide(np.abs(a - b), size, out=np.zeros(len(a)), where=size > 0)
    changed = np.flatnonzero(off > SAME)
    if not len(changed):
        return
    worst = int(off.argmax())
    first = int(changed[0])
    yield Difference(
        where,
        f"{what}: {len(changed)} of {len(a)} pairs",
        f"pair {first}: {a[first]:.6g}; pair {worst}: {a[worst]:.6g}",
        f"pair {first}: {b[first]:.6g}; pair {worst}: {b[worst]:.6g}",
    )


def _of_order(one: Reading, other: Reading, unknown: list[str]) -> Iterator[Difference]:
    """Yield what tells the two models the order of tokens, if it is not the same."""
    if not (one.order and other.order):
        unknown.append("where the order of tokens comes from, not known of one of them")
    elif (one.is_rotated, one.encodings) != (other.is_rotated, other.encodings):
        yield Difference("all", "order of tokens", one.order, other.order)


def _of_temperature(
    a: Temperature | None, b: Temperature | None
) -> Iterator[Difference]:
    if a == b:
        return
    shown = (
        "none"
        if each is None
        else f"{each.growth}, {each.alpha:g} per {each.length:g} tokens, {each.layers}"
        for each in (a, b)
    )
    yield Difference("scores", "temperature by position", *shown)
