"""Pages and exercises name chapters by links, never by their places in the contents.

A chapter's number, its neighbors and the number of chapters change with the contents; a
link's text is made by the build.
"""

import re

import pytest

from support import ROOT
from support.texts import name_of, text_of

TEXTS = [
    *sorted((ROOT / "book").rglob("*.md")),
    *sorted((ROOT / "notebooks").rglob("*.ipynb")),
    *sorted((ROOT / "posedu" / "book" / "exercises").rglob("*.py")),
    *sorted((ROOT / "posedu" / "book" / "explorables").rglob("*.[jp][sy]")),
    *sorted((ROOT / "posedu" / "book" / "projects").rglob("*.py")),
    ROOT / "README.md",
]
COUNT = r"(?:\d+|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
NEIGHBOR = r"(?:next|previous|preceding|following)"
ORDINAL = (
    r"(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh"
    r"|twelfth|\d+(?:st|nd|rd|th)|last|earlier|later)"
)
BETWEEN = rf"\s+(?:(?:{COUNT}|few)\s+)?"
# "First section" is one of M-RoPE's, and "the next part" one of a prompt's.
TYPED = re.compile(
    rf"\b(?:{NEIGHBOR}{BETWEEN}(?:chapters?|labs?|pages?|sections?)"
    rf"|{ORDINAL}{BETWEEN}(?:chapters?|labs?)"
    rf"|{COUNT}\s+(?:chapters|labs)"
    rf"|(?:{COUNT}\s+)?(?:chapters?|sections)\s+(?:above|below)"
    r"|(?:chapters?|labs?)\s+\d+)\b",
    re.IGNORECASE,
)


def typed_references(text):
    """The typed references to chapters, each with the text around it."""
    text = " ".join(text.split())
    return [
        f"… {text[max(found.start() - 30, 0) : found.end() + 30]} …"
        for found in TYPED.finditer(text)
    ]


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_no_chapter_is_named_by_its_place(path):
    assert typed_references(text_of(path)) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "the rotations that the third chapter explains",
        "The next two chapters open `embed`.",
        "rotations; the [next chapter](tables.md)",
        "the next section says how loud it must be",
        "Begin with chapter 1.",
        "sections of five chapters",
        "Two encodings of later chapters rotate, too.",
        "see the previous lab",
        "the two sections above prove it",
    ],
)
def test_a_typed_reference_is_found(sentence):
    assert typed_references(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "{doc}`../rotary/rope` rotates queries and keys.",
        "The first section turns by time.",
        "the next part begins 1 beyond",
        "the chapters on encodings",
        "{ref}`A section below <err-decay-power>` tries it.",
    ],
)
def test_what_is_no_typed_reference_passes(sentence):
    assert typed_references(sentence) == []
