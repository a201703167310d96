"""Docstrings start with a head, and private words of earlier editions stay away."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from support import ROOT
from support.texts import name_of, text_of

LISTED = tomllib.loads(
    Path(__file__).with_name("retired_words.toml").read_text("utf-8")
)
WORDS = LISTED["word"]
ALLOWED = LISTED["allowed"]
MODULES = [
    *sorted((ROOT / "posedu").rglob("*.py")),
    *sorted((ROOT / "book" / "_ext").rglob("*.py")),
    *sorted((ROOT / "tests").rglob("*.py")),
]
TEXTS = [
    *sorted((ROOT / "posedu").rglob("*.py")),
    *sorted((ROOT / "posedu" / "book" / "explorables").glob("*.[jc]s*")),
    *sorted((ROOT / "book" / "_ext").rglob("*.py")),
    *sorted((ROOT / "book" / "_static").glob("*.[jc]s*")),
    *sorted((ROOT / "book").rglob("*.md")),
    *sorted((ROOT / "notebooks").glob("*.ipynb")),
    *sorted((ROOT / "notebooks/projects").glob("*.ipynb")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
]
HEADLESS = re.compile(r"(What|Of|Those|That|Whose|Where|As|How|Which|Who|Whether)\b")
LABEL = re.compile(r"\b(def|eq|thm|lem|cor|dfn|prp|err|rem|fig)-[\w-]+")
NAME_PARTS = re.compile(r"_|(?<=[a-z])(?=[A-Z])")
AROUND = 30  # characters shown at each side of a word


def headless_docstrings(source):
    """The first lines of docstrings that open with a clause or a preposition."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        text = ast.get_docstring(node) if isinstance(node, documented) else None
        if text and HEADLESS.match(text):
            yield text.splitlines()[0]


def retired(text):
    """Yield each retired word in a text, its replacement, and the text around it.

    Labels of equations, theorems and errata are permanent, so they are left out.
    """
    text = " ".join(NAME_PARTS.sub(" ", LABEL.sub("", text)).split())
    for word in WORDS:
        pattern = rf"\b(?:{word['pattern']})\b"
        for found in re.finditer(pattern, text, re.IGNORECASE):
            around = text[max(found.start() - AROUND, 0) : found.end() + AROUND]
            yield word["pattern"], f"{found[0]} → {word['instead']}: … {around} …"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_docstrings_open_with_a_noun_phrase_or_an_imperative(path):
    assert list(headless_docstrings(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_no_retired_word_returns(path):
    text = text_of(path)
    for allowed in ALLOWED:
        if allowed["file"] == name_of(path):
            text = text.replace(allowed["text"], "")
    assert [message for _, message in retired(text)] == []


@pytest.mark.parametrize(
    "line",
    [
        "What later queries want to know.",
        "Of each query and key.",
        "Those that can serve the encoding.",
        "That of a layer.",
        "Whose keys are cached.",
        "Where a bucket starts.",
        "As RoPE, but in place.",
        "How far the scores change.",
        "Which axis a pair takes.",
        "Who takes part.",
        "Whether all numbers are finite.",
    ],
)
@pytest.mark.parametrize("place", ["", "def f():\n    ", "class C:\n    "])
def test_a_headless_docstring_is_found(line, place):
    assert list(headless_docstrings(f'{place}"""{line}\n\n    More.\n    """')) == [
        line
    ]


@pytest.mark.parametrize(
    "line", ["Return whether x is finite.", "True if x is finite."]
)
def test_a_predicate_has_a_head(line):
    assert list(headless_docstrings(f'def f():\n    """{line}"""')) == []


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word["pattern"][:20])
def test_a_planted_word_is_found(word):
    assert word["pattern"] in [pattern for pattern, _ in retired(word["example"])]
    broken = word["example"].replace(" ", "\n    ")
    assert word["pattern"] in [pattern for pattern, _ in retired(broken)]


def test_plain_words_and_labels_are_not_found():
    plain = "Hugging Face's typefaces, {eq}`def-tape-attention`, harms, a returned key"
    assert list(retired(plain)) == []


def test_every_entry_has_a_reason_and_every_exception_is_needed():
    for entry in LISTED["word"] + ALLOWED:
        assert entry["reason"].endswith("."), entry
    for allowed in ALLOWED:
        assert list(retired(allowed["text"])), allowed
        assert allowed["text"] in text_of(ROOT / allowed["file"]), allowed
