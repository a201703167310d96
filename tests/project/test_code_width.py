"""Code cells are at most 60 columns wide: a phone and Colab wrap longer lines."""

import json
import re

import pytest

from support import ROOT

COLUMNS = 60
CELL = re.compile(r"^(`{3,}|:{3,})\{code-cell\}[^\n]*\n(.*?)^\1$", re.M | re.S)
OPTION = re.compile(r":[\w-]+:")
PAGES = sorted((ROOT / "book").rglob("*.md"))
LABS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def wide_lines(cells):
    """The lines of cells that are too wide, without options of the cells."""
    lines = (line for cell in cells for line in cell.splitlines())
    return [n for n in lines if len(n) > COLUMNS and not OPTION.match(n)]


def cells_of_page(text):
    """The contents of a page's code cells."""
    return [cell[2] for cell in CELL.finditer(text)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_code_of_a_page_is_narrow(path):
    assert wide_lines(cells_of_page(path.read_text("utf-8"))) == []


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_code_of_a_lab_is_narrow(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = ("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    assert wide_lines(code) == []


def test_a_wide_line_is_found():
    wide, narrow = "x" * (COLUMNS + 1), "y" * COLUMNS
    text = (
        f"{wide}\n\n```{{code-cell}} ipython3\n:tags: [{wide}]\n{narrow}\n{wide}\n```\n"
    )
    assert wide_lines(cells_of_page(text)) == [wide]
    assert len(cells_of_page((ROOT / "book/rotary/rope.md").read_text("utf-8"))) > 3
