"""Mutants of encodings that act inside attention, by hooks."""

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from posedu.numpy.attention import Hooks
from posedu.tools.kernels.mutants.biases import (
    hooks_of,
    masked_by_positions,
    of_biases,
    of_slopes,
    shifted_distance,
    with_scale,
)
from posedu.tools.kernels.mutants.decoding import of_decoding
from posedu.tools.kernels.mutants.distances import of_distances
from posedu.tools.kernels.mutants.reference import Mutant, Reference, moved
from posedu.tools.kernels.oracle import Case


def of_hooks(case: Case, axes: int | None, uses_positions: bool) -> Iterator[Mutant]:
    """Yield mutants (known faults) of an encoding that acts inside attention.

    ``case`` is one of its test cases; ``axes`` is the number of coordinates of a
    position, ``None`` for plain numbers; ``uses_positions`` is the result of
    :func:`depends_on_positions`.
    """
    hooks = hooks_of(case)
    has_bias = hooks.logits is None and hooks.bias is not Hooks.bias
    if has_bias:
        yield from of_biases(case.options)
    for step, text in ((1, "too large"), (-1, "too small")):
        if has_bias and uses_positions:
            change = shifted_distance(step)
            yield Mutant("off by one", f"each distance is one {text}", change)
    d = case.inputs["q"].shape[-1]
    right = hooks.scale(d)
    for text, power in (("multiplied by 1/√d", -0.5), ("not scaled", 0.0)):
        if not math.isclose(d**power, right):
            yield Mutant("scale", f"inner products are {text}", with_scale(power))
    if axes is None and case.causal:
        yield Mutant(
            "mask",
            "the causal mask goes by positions, not by the order in the row",
            lambda r: r.with_hooks(masked_by_positions),
        )
    if axes is None and uses_positions:
        yield Mutant(
            "tiles",
            "positions begin anew after every 32 tokens of a row",
            moved(lambda at: at - np.arange(at.shape[1]) // 32 * 32),
            alone=True,
        )
        yield from of_distances(case)
    yield from of_decoding(case, uses_positions)
    if case.name == "alibi":
        yield from of_slopes(case.options)
    if case.name == "t5":
        for distance in (16, 32, 64, 128, 256, 512, 1024):
            if distance != case.options["distance"]:
                text = f"distance is {distance}, not {case.options['distance']}"
                change = partial(Reference.with_options, distance=distance)
                yield Mutant("distance", text, change, alone=True)
