"""Mutants of encodings that are added to the features."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from posedu._arguments import LAYOUTS
from posedu.numpy.rotary import pairs
from posedu.tools.kernels.mutants.precision import of_precision, rounded_sinusoids
from posedu.tools.kernels.mutants.reference import Array, Change, Mutant, Reference


def trailing(
    width: int, implementation: Change, x: Array, at: Array, **options: Any
) -> Array:
    """Rotate the last ``width`` features by a reference that rotates the first.

    The reference is ``implementation``, a NumPy function of features ``x`` and
    positions ``at``.
    """
    rolled = implementation(np.roll(x, width, -1), at, **options)
    return np.roll(rolled, -width, -1)


def _summed(combine: Change) -> Callable[..., Reference]:
    """Return a change of the reference: input and encoding are joined by ``combine``.

    The right reference adds them. ``combine`` takes both arrays, and the number to fit
    if the mutant has one.
    """

    def change(reference: Reference, *value: float) -> Reference:
        def made(implementation: Change) -> Change:
            def summed(x: Array, at: Array, **options: Any) -> Array:
                return combine(x, implementation(0 * x, at, **options), *value)

            return summed

        return reference.with_implementation(made)

    return change


def of_sums(d: int, options: Mapping[str, Any]) -> Iterator[Mutant]:
    """Yield mutants (known faults) of an encoding that is added to a model's input.

    ``d`` is the model's width, ``options`` are the encoding's options.
    """
    scaled, root = _summed(lambda x, e, c: x + c * e), math.sqrt(d)
    yield Mutant("factor", "the encoding is multiplied by {:.6g}", scaled, (1.0,))
    for text, combine in (
        ("the input is multiplied by √d", lambda x, e: root * x + e),
        ("the encoding replaces the input, where it should be added", lambda x, e: e),
    ):
        yield Mutant("input", text, _summed(combine))
    if options.get("layout") in LAYOUTS and d % 2 == 0:
        a, b = pairs(d, layout=options["layout"])

        def exchanged(x: Array, added: Array) -> Array:
            y = x.copy()
            y[..., a] += added[..., b]
            y[..., b] += added[..., a]
            return y

        yield Mutant("members", "sines and cosines are exchanged", _summed(exchanged))
    if options.get("layout") in LAYOUTS and "spacing" in options:
        yield from of_precision(rounded_sinusoids)
