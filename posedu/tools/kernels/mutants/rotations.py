"""Mutants of rotations: layouts, signs, tables and frequencies."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from posedu._arguments import LAYOUTS
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import pairs
from posedu.tools.kernels.mutants.heads import head_numbers
from posedu.tools.kernels.mutants.precision import (
    computed_in_bfloat16,
    of_precision,
    rounded_rotation,
)
from posedu.tools.kernels.mutants.reference import Array, Change, Mutant, Reference
from posedu.tools.kernels.mutants.sums import trailing


def _rotated_width(x: Array, options: Mapping[str, Any]) -> int:
    """Return the number of features of ``x``, from the first on, that are rotated.

    It is twice the sum of the option ``sections``, or the option ``rotary_dim``, or
    else the number of all features.
    """
    sections = 2 * sum(options.get("sections", ()))
    return sections or options.get("rotary_dim") or x.shape[-1]


def _other_layout(layout: str) -> str:
    return LAYOUTS[1 - LAYOUTS.index(layout)]


def _from_tables(
    combine: Callable[..., Array],
    implementation: Change,
    x: Array,
    at: Array,
    **options: Any,
) -> Array:
    """Rotate ``x`` with right cosines and sines, but combine them by ``combine``.

    ``implementation`` is the right rotation; it gives the cosines and sines at the
    positions ``at`` with its ``options``. ``combine`` is a function of the rotated
    features, the cosines and sines, the indices of each pair's first and second
    features, and the two arrays of indices in the other layout.
    """
    width, layout = _rotated_width(x, options), options["layout"]
    a, b = pairs(width, layout=layout)
    first = np.zeros_like(x)
    first[..., a] = 1.0
    rotated = implementation(first, at, **options)
    cos, sin = rotated[..., a], rotated[..., b]
    others = pairs(width, layout=_other_layout(layout))
    y = implementation(x, at, **options)
    y[..., :width] = combine(x[..., :width], cos, sin, a, b, others)
    return y


def _mixed_tables(x, cos, sin, a, b, others):
    tables = np.empty((2, *x.shape))
    for features in others:
        tables[0][..., features], tables[1][..., features] = cos, sin
    cos, sin = tables
    y = np.empty_like(x)
    y[..., a] = x[..., a] * cos[..., a] - x[..., b] * sin[..., a]
    y[..., b] = x[..., a] * sin[..., b] + x[..., b] * cos[..., b]
    return y


def _reflected(x, cos, sin, a, b, others):
    y = np.empty_like(x)
    y[..., a] = x[..., a] * cos + x[..., b] * sin
    y[..., b] = x[..., a] * sin - x[..., b] * cos
    return y


def _reordered(x, cos, sin, a, b, others):
    y = np.empty_like(x)
    y[..., others[0]] = x[..., a] * cos - x[..., b] * sin
    y[..., others[1]] = x[..., a] * sin + x[..., b] * cos
    return y


def of_rotations(options: Mapping[str, Any]) -> Iterator[Mutant]:
    """Yield mutants (known faults) of encodings that rotate pairs of features.

    ``options`` are the encoding's options, such as the layout of the pairs.
    """
    yield Mutant(
        "axis of tokens",
        "heads are counted in place of tokens: axis 1 is taken for axis 2",
        lambda r: replace(r, positions=head_numbers),
    )
    if "layout" not in options:
        yield Mutant(
            "attention_factor",
            "the output is multiplied by {:.6g}",
            lambda r, c: r.with_output(lambda y, x: c * y),
            (1.0,),
        )
        return
    layout = options["layout"]
    other = _other_layout(layout)
    yield from of_precision(rounded_rotation)
    for name, text, combine in (
        (
            "tables",
            f"features are paired in the layout {layout!r}, cosines and sines in the "
            f"layout {other!r}",
            _mixed_tables,
        ),
        ("reflection", "the second feature of a pair has the wrong sign", _reflected),
        (
            "order of output",
            f"pairs are read in the layout {layout!r} and written in the layout "
            f"{other!r}, which changes no score if queries and keys are written alike",
            _reordered,
        ),
    ):
        change = partial(partial, _from_tables, combine)
        yield Mutant(name, text, lambda r, change=change: r.with_implementation(change))


def of_frequencies(d: int, options: Mapping[str, Any]) -> Iterator[Mutant]:
    """Yield known faults (mutants) of RoPE's frequencies and its number of features.

    ``d`` is the head dimension, ``options`` are RoPE's options.
    """
    r, base = options.get("rotary_dim") or d, options.get("base", 10000.0)
    changed = Reference.with_options
    if options.get("frequencies") is not None:
        right = np.asarray(options["frequencies"], dtype=float)
        if 0 < (kept := np.count_nonzero(right)) < len(right):
            text = (
                f"only the first {2 * kept} features are rotated, paired by themselves"
            )
            leading = {"frequencies": right[:kept], "rotary_dim": None}
            yield Mutant("rotary_dim", text, partial(changed, **leading))
        plain = {"frequencies": None, "rotary_dim": 2 * len(right)}
        yield Mutant(
            "frequencies",
            f"frequencies are those of base {base:,.6g}, not the given ones",
            partial(changed, **plain),
        )
        right = right[::-1]
        yield Mutant(
            "frequencies",
            "frequencies are in reverse order",
            partial(changed, frequencies=right),
        )
        return
    for width in dict.fromkeys((d, d // 2, d // 4)):
        if width != r and width and width % 2 == 0:
            text = f"{width} of {d} features are rotated, not {r}"
            yield Mutant("rotary_dim", text, partial(changed, rotary_dim=width))
    p = np.arange(r // 2)
    own = {
        "frequencies are in reverse order": frequencies(r, base=base)[::-1],
        "pairs are counted from 1: base^(−2(p + 1)/d)": base ** (-2 * (p + 1) / r),
        "pairs are counted from −1: base^(−2(p − 1)/d)": base ** (-2 * (p - 1) / r),
        "frequencies are spaced up to 1/base itself": frequencies(
            r, base=base, spacing="tensor2tensor"
        ),
    }
    for text, omega in own.items():
        yield Mutant("frequencies", text, partial(changed, frequencies=omega))
    for omega in computed_in_bfloat16(r, base):
        text = "frequencies (inv_freq) are computed in bfloat16"
        change = partial(changed, frequencies=omega)
        yield Mutant("precision of frequencies", text, change)
    for width in dict.fromkeys((r, d // 2, d // 4)):
        if width < d and width and width % 2 == 0:
            omega = frequencies(d, base=base)
            omega[width // 2 :] = 0
            yield Mutant(
                "rotary_dim",
                f"{width // 2} of the {d // 2} pairs of all {d} features are rotated "
                "(rope_type proportional)",
                partial(changed, frequencies=omega, rotary_dim=None),
            )
    if r < d:
        omega = frequencies(d, base=base)[: r // 2]
        yield Mutant(
            "rotary_dim",
            f"exponents run over all {d} features, not the {r} that are rotated",
            partial(changed, frequencies=omega, rotary_dim=None),
        )
        yield Mutant(
            "rotary_dim",
            f"the last {r} features are rotated, not the first",
            lambda ref: ref.with_implementation(partial(partial, trailing, r)),
        )
