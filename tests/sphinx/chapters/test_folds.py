"""The code that chapters fold, and the output that wraps."""

from types import SimpleNamespace

import pytest
from docutils import nodes
from docutils.utils import new_document

from posedu_sphinx.chapters.folds import fold_chapter

PRACTICE, CHAPTER = "book/practice/check-a-kernel", "book/rotary/rope"


def cell(lines, hidden=None, html=None):
    """A cell in the form that myst_nb makes."""
    found = nodes.container(nb_element="cell_code")
    if hidden:
        found["hide_mode"] = hidden
    source = nodes.container(nb_element="cell_code_source")
    code = "\n".join(f"x = {n}" for n in range(lines))
    source += nodes.literal_block(code, code)
    output = nodes.container(nb_element="cell_code_output", classes=["cell_output"])
    output += nodes.raw("", html, format="html") if html else nodes.literal_block()
    found.extend([source, output])
    return found


def folded(page, cell):
    """The summary of the fold around the code, if any, and the output's classes."""
    document = new_document("page")
    document += cell
    env = SimpleNamespace(docname=page)
    fold_chapter(SimpleNamespace(env=env), document)
    (cell,) = document.children
    (output,) = (c for c in cell.children if c.get("nb_element") == "cell_code_output")
    opens = [c for c in cell.children if "<details" in c.astext()]
    assert sum("</details" in c.astext() for c in cell.children) == len(opens)
    summaries = [c.astext() for c in cell.children if isinstance(c, nodes.inline)]
    return (summaries or [None])[0], output["classes"]


@pytest.mark.parametrize(
    "page, lines, hidden, summary",
    [
        (CHAPTER, 8, None, None),
        (CHAPTER, 9, None, "Code, 9 lines"),
        (CHAPTER, 9, "input", "Code, 9 lines"),
        (CHAPTER, 3, "input", "Code, 3 lines"),
        (PRACTICE, 9, None, None),
        (PRACTICE, 40, None, None),
        (PRACTICE, 41, None, "Code, 41 lines"),
        (PRACTICE, 20, "input", "Code, 20 lines"),
        ("book/reference/glossary", 50, None, None),
    ],
)
def test_pages_of_practice_show_their_calls(page, lines, hidden, summary):
    assert folded(page, cell(lines, hidden))[0] == summary


def test_code_of_a_figure_stays_below_it():
    figure = '<figure class="posedu-figure"></figure>'
    for page in PRACTICE, CHAPTER:
        assert folded(page, cell(2, html=figure))[0] == "Code of this figure"


@pytest.mark.parametrize("page, wraps", [(PRACTICE, True), (CHAPTER, False)])
@pytest.mark.parametrize("lines", [2, 50])
def test_what_pages_of_practice_say_breaks_its_lines(page, wraps, lines):
    """Pages of practice print sentences; chapters print columns of numbers."""
    assert ("posedu-wraps" in folded(page, cell(lines))[1]) == wraps
