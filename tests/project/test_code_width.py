"""Code cells are at most 60 columns wide: a phone and Colab wrap longer lines.

So is the code in the boxes of exercises to find an input or to repair a function.
"""

import json
import re

import pytest

from posedu.book import exercises
from posedu_sphinx.exercises.exercise_list import Source
from support import ROOT
from support.texts import cells_of_page

COLUMNS = 60
OPTION = re.compile(r":[\w-]+:")
PAGES = sorted((ROOT / "book").rglob("*.md"))
LABS = sorted(
    path
    for folder in ("notebooks", "notebooks/projects")
    for path in (ROOT / folder).glob("*.ipynb")
)


def wide_lines(cells):
    """The lines of cells that are too wide, without options of the cells."""
    lines = (line for cell in cells for line in cell.splitlines())
    return [n for n in lines if len(n) > COLUMNS and not OPTION.match(n)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_code_of_a_page_is_narrow(path):
    assert wide_lines(cells_of_page(path.read_text("utf-8"))) == []


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_code_of_a_lab_is_narrow(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = ("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    assert wide_lines(code) == []


def code_of_exercise(source, exercise, given):
    """The sources that a hunt or a repair shows; none for other exercises."""
    if not exercise.hunt and not exercise.repair:
        return []
    return [*given, source.start(exercise)] if exercise.repair else given


@pytest.mark.parametrize("chapter", exercises.sheets())
def test_code_of_hunts_and_repairs_is_narrow(chapter):
    source = Source(chapter)
    for exercise, given, _ in source.exercises():
        wide = wide_lines(code_of_exercise(source, exercise, given))
        assert wide == [], exercise.name


def test_a_hunt_and_a_repair_show_their_code():
    shown = {}
    for chapter in "fope", "repair":
        source = Source(chapter)
        for exercise, given, _ in source.exercises():
            code = "\n".join(code_of_exercise(source, exercise, given))
            shown[exercise.name] = set(re.findall(r"^def (\w+)", code, re.M))
    assert shown["fope-1"] == set()
    assert shown["fope-7"] == {"colleagues_count"}
    assert shown["repair-2"] == {"symptom_of_packing", "packed_mask"}


def test_a_wide_line_is_found():
    wide, narrow = "x" * (COLUMNS + 1), "y" * COLUMNS
    text = (
        f"{wide}\n\n```{{code-cell}} ipython3\n:tags: [{wide}]\n{narrow}\n{wide}\n```\n"
    )
    assert wide_lines(cells_of_page(text)) == [wide]
    assert len(cells_of_page((ROOT / "book/rotary/rope.md").read_text("utf-8"))) > 3
