"""Readings of sparse configurations, held against what the classes make of them."""

import gzip
import json
import math

import numpy as np

from posedu.tools import ConfigError, read_rope
from support import ROOT

STORED = ROOT / "tests/oracles/rope-families.json.gz"
EPS = np.finfo(np.float32).eps
VERDICTS = ("equal", "warned", "refused", "no class", "silent")


def stored():
    """Return the stored measurements, with lists of frequencies in place."""
    data = json.loads(gzip.decompress(STORED.read_bytes()))
    first = {}
    for case in data["sparse"]:
        if "completed" in case:
            first[case["family"]] = case["completed"]
        elif "changed" in case:
            case["completed"] = first[case["family"]] | case["changed"]
        for held in case.get("modules", {}).values():
            if not isinstance(held, str):
                held[0] = {k: data["lists"][n] for k, n in held[0].items()}
    return data


def verdict(case, rows):
    """Hold the reading of a sparse file against its class: a verdict, and what differs.

    ``case`` is a stored case, ``rows`` are the measured layers of the family. The
    verdicts are those of ``VERDICTS``; ``"no class"`` means that the class refuses the
    file.
    """
    if "refused" in case:
        return "no class", case["refused"]
    modules = case["modules"].values()
    if modules and all(isinstance(held, str) for held in modules):
        return "no class", "; ".join(modules)
    try:
        reading = read_rope(case["file"])
    except ConfigError as error:
        return "refused", str(error)
    different = "; ".join(differences(case, rows, reading))
    if not different:
        return "equal", ""
    return ("warned" if reading.warnings else "silent"), different


def differences(case, rows, reading):
    """Yield what differs between a reading and what the class computes."""
    part = next((name for name in case["file"] if name.endswith("_config")), "")
    ours = of_part(reading, part)
    is_still = bool(rows) and not any(row["rotated"] for row in rows)
    if is_still or not any(ours.values()):
        if any(ours.values()):
            yield "the attention has no rotation"
        elif not is_still and any(row["rotated"] for row in rows):
            yield "the attention has a rotation"
        return
    yield from layers_differ(ours, reading, rows, part)
    try:
        completed = read_rope(case["completed"])
    except ConfigError as error:
        yield f"its completed configuration is refused: {error}"
        return
    theirs = of_part(completed, part)
    for title, held in case["modules"].items():
        if not isinstance(held, str):
            yield from tables_differ(title, *held, used(ours, reading, part))
    for name, rope in theirs.items():
        own = ours.get(name, next(iter(ours.values())) if len(theirs) == 1 else None)
        if own is None or rope is None:
            if own is not rope and (name in ours or rope is not None):
                yield f"{name}: rotated or not"
            continue
        for what in "sections", "order", "layout", "head_dim", "softmax":
            one, other = getattr(own, what), getattr(rope, what)
            if one != other:
                yield f"{name}: {what} {other!r}, read {one!r}"
        if not same(own.frequencies(), rope.frequencies(), rope.base):
            yield f"{name}: {described(rope)}, read {described(own)}"
        if not math.isclose(own.attention_factor, rope.attention_factor, rel_tol=1e-9):
            yield f"{name}: attention factor {rope.attention_factor}"
    if reading.temperature != completed.temperature:
        yield f"temperature {completed.temperature}, read {reading.temperature}"
    lists = [kinds_by_layer(of, part) for of in (reading, completed)]
    if lists[0] and not lists[1]:  # Some layers have no attention.
        inside = case["completed"].get(part, case["completed"])
        lists[1] = tuple(k for k in inside.get("layer_types") or () if k in theirs)
    if lists[0] != lists[1] and len({*map(str, theirs.values())}) > 1:
        yield f"layers {shortened(lists[1])}, read {shortened(lists[0])}"


def of_part(reading, part):
    """The kinds of layer of a part of a configuration, without the part's name."""
    return {
        title.removeprefix(f"{part}: ") if part != title else "all": rope
        for title, rope in reading.kinds.items()
        if title.partition(": ")[0] == part
        or (not part and "_config" not in title and title not in ("encoder", "decoder"))
    }


def used(ours, reading, part):
    """The kinds of layer that some layer has, all of them if layers are not listed."""
    layers = kinds_by_layer(reading, part)
    return {k: rope for k, rope in ours.items() if not layers or k in layers}


def kinds_by_layer(reading, part):
    """The kind of each layer of a part of a configuration, empty if not listed."""
    if not all(kind.partition(": ")[0] == part or not part for kind in reading.layers):
        return ()
    return tuple(
        "all" if kind == part else kind.removeprefix(f"{part}: ")
        for kind in reading.layers
    )


def shortened(layers):
    """The first letters of the kinds of layers."""
    return "".join(kind[:1] for kind in layers) or "none"


def described(rope):
    """A short description of a rotation."""
    return f"{rope.method} of {rope.width} from {rope.base:g}"


def same(one, other, base):
    """Return whether frequencies agree to float32, in any order.

    The exponent 2p/d is rounded, times ln b it moves a frequency by less than 2·ln b
    roundings, and division, ramp and power add some.
    """
    one, other = np.sort(one), np.sort(other)
    bound = (8 + 2 * math.log(base)) * EPS
    return one.shape == other.shape and bool((abs(one - other) <= bound * other).all())


def tables_differ(title, frequencies, factors, axes, ours):
    """Yield tables of a rotary module that no kind of layer has, and the reverse."""
    read = {}
    for name, rope in ours.items():
        if rope is not None:
            own = rope.frequencies()
            first = rope.sections[0] if rope.order == "separate" else len(own)
            read[name] = own[:first], rope
    for name, (_, rope) in read.items():
        wanted = tuple(axes.get("sections", ())), axes.get("order", "")
        if axes and (rope.sections, rope.order) != wanted:
            yield f"{name}: {wanted}, read {(rope.sections, rope.order)}"
    met = set()
    for kind, numbers in frequencies.items():
        found = [
            name
            for name, (own, rope) in read.items()
            if same(own, np.array(numbers), rope.base)
            and math.isclose(rope.attention_factor, factors[kind] or 1.0, rel_tol=1e-6)
        ]
        met |= {*found}
        if not found and (not kind or kind in ours):
            yield f"{title}: a table of {len(numbers)} frequencies for {kind or 'all'}"
    for name in {*read} - met:
        yield f"{title}: no table as read for {name}"


def layers_differ(ours, reading, rows, part):
    """Yield layers that are rotated and read as not, or the reverse; and layouts."""
    layers = kinds_by_layer(reading, part)
    for row in rows:
        parts = [int(word) for word in row["layer"].split(".") if word.isdigit()]
        if not parts or parts[0] >= len(layers):
            continue
        rope = ours.get(layers[parts[0]])
        if (rope is not None) != (row["rotated"] > 0):
            yield f"layer {parts[0]}: rotated or not"
    layouts = {row["layout"] for row in rows if row["rotated"]} - {""}
    read = {rope.layout for rope in ours.values() if rope is not None} - {""}
    if layouts and read and layouts != read:
        yield f"layout {'/'.join(sorted(layouts))}, read {'/'.join(sorted(read))}"


def table():
    """The verdict of each family: of the worst of its files, and each spelling's."""
    data = stored()
    found = {}
    for case in data["sparse"]:
        rows = data["layers"].get(case["family"], [])
        rows = [] if isinstance(rows, str) else rows
        of, why = verdict(case, rows)
        found.setdefault(case["family"], {})[case["spelling"]] = (
            {"verdict": of, "differs": why} if why else {"verdict": of}
        )
    rows = [
        {
            "family": family,
            "verdict": max((of["verdict"] for of in files.values()), key=order),
            "files": files,
        }
        for family, files in sorted(found.items())
    ]
    return {"made": data["made"], "families": rows}


def order(name):
    """Verdicts from the best to the worst; a class that refuses a file says nothing."""
    return ("no class", "equal", "refused", "warned", "silent").index(name)
