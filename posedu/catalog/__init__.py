"""Every encoding of the book, once: what it is, where its faces are, how it relates.

A record stands in the module named after its family.
"""

from posedu.catalog import (
    absolute,
    bias,
    gated,
    nope,
    relative,
    rotary,
    scaling,
    stickbreaking,
)
from posedu.catalog.records import (
    ATTENTION,
    FACES,
    TOKENS,
    Encoding,
    FrequencyMap,
    Record,
    SpecialCase,
    Variant,
    variant,
)

FAMILIES = (nope, absolute, rotary, scaling, bias, relative, stickbreaking, gated)

CATALOG: dict[str, Encoding] = {
    encoding.name: encoding for family in FAMILIES for encoding in family.ENCODINGS
}
"""The encodings, by name, in the order of the book."""

FREQUENCY_MAPS: dict[str, FrequencyMap] = {
    method.name: method for method in rotary.FREQUENCY_MAPS
}
"""The methods that change RoPE's frequencies, by name."""

__all__ = [
    "ATTENTION",
    "CATALOG",
    "FACES",
    "FAMILIES",
    "FREQUENCY_MAPS",
    "TOKENS",
    "Encoding",
    "FrequencyMap",
    "Record",
    "SpecialCase",
    "Variant",
    "variant",
]
