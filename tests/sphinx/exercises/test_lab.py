"""Learners' copies of notebooks are made once; updates keep the answers."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from posedu_sphinx.exercises.lab import NOTEBOOKS, copy_notebooks

ANSWER = "def half(x):\n    return x / 2"
STUB = 'def half(x):\n    """Halve."""\n    raise NotImplementedError'


def notebook(*sources):
    cells = [new_code_cell(source) for source in sources]
    for number, cell in enumerate(cells):
        cell.id = f"c-{number}"
    return new_notebook(cells=cells)


@pytest.fixture
def book(tmp_path):
    folder = tmp_path / "book"
    folder.mkdir()
    nbformat.write(notebook(STUB, 'check("toy-1", half)'), folder / "toy.ipynb")
    return folder


def sources(path):
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def test_every_notebook_is_copied_once(tmp_path):
    names = {path.name for folder in NOTEBOOKS for path in folder.glob("*.ipynb")}
    assert {path.name for path in copy_notebooks(answers=tmp_path)} == names
    assert copy_notebooks(answers=tmp_path) == []


def test_an_answer_stays_and_survives_an_update(book, tmp_path):
    answers = tmp_path / "answers"
    (copy,) = copy_notebooks([book], answers)
    own = nbformat.read(copy, as_version=4)
    own.cells[0].source = ANSWER
    nbformat.write(own, copy)
    assert copy_notebooks([book], answers) == []
    assert sources(copy)[0] == ANSWER
    longer = notebook("import math", STUB, 'check("toy-1", half)', "math.pi")
    nbformat.write(longer, book / "toy.ipynb")
    assert copy_notebooks([book], answers) == [copy]
    assert sources(copy) == ["import math", ANSWER, 'check("toy-1", half)', "math.pi"]
    assert sources(answers / "toy-earlier-1.ipynb") == [ANSWER, 'check("toy-1", half)']
