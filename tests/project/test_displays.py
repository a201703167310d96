"""Figures are the last expression of their cells: a page shows nothing else."""

import ast
import json

import pytest

from support import ROOT
from support.texts import cells_of_page

PAGES = sorted((ROOT / "book").rglob("*.md"))
LABS = sorted((ROOT / "notebooks").rglob("*.ipynb"))
DRAWING = {"finish", "curves"}


def hidden(cell):
    """Figures of a cell that it neither keeps nor shows, by line."""
    code = "\n".join(n for n in cell.splitlines() if not n.startswith((":", "%", "!")))
    *earlier, _ = ast.parse(code).body or [None]
    return [
        statement.lineno
        for statement in earlier
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and is_drawing(statement.value.func)
    ]


def is_drawing(function):
    name = getattr(function, "id", getattr(function, "attr", ""))
    return name in DRAWING or name.endswith("_explorable")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_figures_of_a_page_are_shown(path):
    for cell in cells_of_page(path.read_text("utf-8")):
        assert hidden(cell) == [], cell


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_figures_of_a_lab_are_shown(path):
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert hidden("".join(cell["source"])) == []


def test_a_hidden_figure_is_found():
    assert hidden("x = 1\nfinish(x)\nassert x") == [2]
    assert hidden("rope_explorable()\nx = 1") == [1]
    assert hidden("figure = finish(x)\nfinish(x)") == []
    assert hidden("") == []
