"""Catalog of positional encodings, with the sources and implementations of each.

The record of an encoding is in the module named after its family (``rotary``, ``bias``,
…).
"""

from posedu.catalog import (
    absolute,
    bias,
    gated,
    graph,
    nope,
    path,
    recurrent,
    relative,
    rotary,
    scaling,
    stickbreaking,
)
from posedu.catalog.records import (
    ATTENTION,
    IMPLEMENTATIONS,
    TOKENS,
    EncodingRecord,
    Record,
    RoPEScaling,
    SpecialCase,
    Variant,
    variant,
)

FAMILIES = (
    *(nope, absolute, rotary, scaling, bias),
    *(relative, stickbreaking, gated, path, recurrent, graph),
)

CATALOG: dict[str, EncodingRecord] = {
    encoding.name: encoding for family in FAMILIES for encoding in family.ENCODINGS
}
"""The encodings, by name, in the order of the book."""

ROPE_SCALINGS: dict[str, RoPEScaling] = {
    method.name: method for method in rotary.ROPE_SCALINGS
}
"""The methods that change RoPE's frequencies, by name."""

__all__ = [
    "ATTENTION",
    "CATALOG",
    "FAMILIES",
    "IMPLEMENTATIONS",
    "ROPE_SCALINGS",
    "TOKENS",
    "EncodingRecord",
    "Record",
    "RoPEScaling",
    "SpecialCase",
    "Variant",
    "variant",
]
