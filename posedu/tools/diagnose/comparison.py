"""Differences in effect between a configuration and what a model does."""

from collections.abc import Iterator

import numpy as np

from posedu._argument_types import check_types
from posedu.tools.configs.differences import (
    ROTATIONS,
    UNROTATED,
    Difference,
    Differences,
)
from posedu.tools.configs.rotary_config import RotaryConfig
from posedu.tools.diagnose.measurement import MeasuredRotation
from posedu.tools.diagnose.report import (
    FAULT,
    Diagnosis,
    Layer,
    agrees,
    of_layer,
)

OF_SCORES = ("bias", "no bias", "scale")
"""Names of faults of the scores of attention."""


@check_types
def measured_differences(diagnosis: Diagnosis, names: tuple[str, str]) -> Differences:
    """Return in what a model differs from the configuration it was compared with.

    Parameters
    ----------
    diagnosis
        What was measured of the model, and the reading of the configuration.
    names
        Names of the configuration and of the model, for the table.
    """
    found: dict[tuple[str, str, str], list[str]] = {}
    for layer in diagnosis.layers:
        for what, wanted, seen in _of_layer(layer):
            found.setdefault((what, wanted, seen), []).append(layer.name)
    rows = [
        Difference(_where(where, len(diagnosis.layers)), *of)
        for of, where in found.items()
    ]
    rows += [
        Difference("scores", fault.name, "as the configuration says", fault.text)
        for fault in diagnosis.faults
        if fault.name in OF_SCORES
    ]
    uncompared = (diagnosis.uncompared,) if diagnosis.uncompared else ()
    is_rotated = any(layer.query.width for layer in diagnosis.layers)
    return Differences(
        names,
        tuple(rows),
        (*uncompared, *diagnosis.left_out),
        ROTATIONS if is_rotated else f"{UNROTATED}.",
    )


def _where(layers: list[str], count: int) -> str:
    if len(layers) == count > 1:
        return "all layers"
    return layers[0] if len(layers) == 1 else f"{layers[0]} … {layers[-1]}"


def _of_layer(layer: Layer) -> Iterator[tuple[str, str, str]]:
    """Yield what differs in a layer: what, the configuration's value, the model's."""
    faults = [each for each in of_layer(layer) if each.level == FAULT]
    if not layer.expected or not faults:
        return
    rows = [*_values(layer, {fault.name for fault in faults})]
    yield from rows or (
        (fault.name, "as the configuration says", fault.text) for fault in faults
    )


def _values(layer: Layer, faults: set[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the values that differ in a layer whose faults have these names."""
    seen = layer.query
    ropes = [rope for rope in layer.expected if rope is not None]
    if not seen.finite:
        yield "features", "finite", "not finite"
    elif not ropes or not seen.width:
        yield "rotated", *("yes" if x else "no" for x in (ropes, seen.width))
    else:
        fitting = [rope for rope in ropes if agrees(seen, rope)]
        rope = (fitting or ropes)[0]
        if not fitting:
            yield from _of_frequencies(rope, seen)
        if "layout" in faults:
            yield "layout", rope.layout, seen.layout
        if "attention_factor" in faults:
            factors = rope.attention_factor, layer.key.attention_factor
            yield "attention factor", *(f"{factor:.6g}" for factor in factors)


def _of_frequencies(
    rope: RotaryConfig, seen: MeasuredRotation
) -> Iterator[tuple[str, str, str]]:
    """Yield how many pairs have other frequencies, and the two that differ most."""
    wanted, found = rope.frequencies(), np.abs(seen.frequencies)
    wanted = wanted[wanted != 0]
    if rope.sections:  # Any coordinate may rotate any pair.
        wanted, found = np.sort(wanted)[::-1], np.sort(found)[::-1]
    if len(wanted) != len(found):
        yield "rotated pairs", str(len(wanted)), str(len(found))
        return
    off = np.abs(found - wanted) - seen.uncertainty
    changed = np.flatnonzero(off > 1e-5 * wanted)
    if not len(changed):
        return
    worst = int(changed[(off[changed] / wanted[changed]).argmax()])
    texts = (
        f"pair {changed[0]}: {w[changed[0]]:.6g}; pair {worst}: {w[worst]:.6g}"
        for w in (wanted, found)
    )
    yield f"frequencies: {len(changed)} of {len(wanted)} pairs", *texts
