"""Mutants of options: other choices and other numbers than a kernel should have."""

from collections.abc import Iterator, Mapping
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from posedu._arguments import LAYOUTS
from posedu.catalog import EncodingRecord
from posedu.tools.kernels.mutants.reference import Mutant, Reference

_BASES = tuple(np.geomspace(1.5, 1e9, 60))


SCALES = tuple(np.geomspace(1 / 512, 2, 80))


def of_options(
    encoding: EncodingRecord, options: Mapping[str, Any]
) -> Iterator[Mutant]:
    """Yield mutants (known faults) in each of which one option has a wrong value.

    The wrong values are those in the encoding's other catalog configurations (sets of
    options), and for ``layout`` the other layout.
    """
    for name, value in options.items():
        if not isinstance(value, str | bool | int) or name in ("heads", "d"):
            continue
        others = {v.options.get(name, value): None for v in encoding.variants}
        if name == "layout":
            others = dict.fromkeys(LAYOUTS)
        for other in others:
            if other != value:
                text = f"{name} is {other!r}, not {value!r}"
                change = partial(Reference.with_options, **{name: other})
                yield Mutant(name, text, change)


def of_numbers(
    encoding: EncodingRecord, options: Mapping[str, Any]
) -> Iterator[Mutant]:
    """Yield mutants (known faults) with an unknown number, to be fitted to a kernel.

    The number is RoPE's base or the attention factor, as far as ``encoding`` with
    ``options`` has them.
    """
    asked = signature(encoding.implementation("numpy")).parameters
    if "base" in asked and options.get("frequencies") is None:
        right = options.get("base", asked["base"].default)
        text = f"the base is {{:,.6g}}, not {right:,.6g}"
        yield Mutant("base", text, lambda r, b: r.with_options(base=b), _BASES)
    if (
        isinstance(options.get("attention_factor", 1.0), float)
        and "attention_factor" in asked
    ):
        right = options.get("attention_factor", 1.0)
        yield Mutant(
            "attention_factor",
            f"rotated features are multiplied by {{:.6g}}, not {right:.6g}",
            lambda r, c: r.with_options(attention_factor=c),
            (1.0,),
        )
