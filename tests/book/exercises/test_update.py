"""A learner's answers are brought from an older notebook into a newer one."""

import json
import subprocess
import sys

import pytest

from posedu.book.exercises.update import update

STUB = 'def half(x):\n    """Halve x."""\n    raise NotImplementedError'
ANSWER = "def half(x):\n    return x / 2"
CHECK = 'check("toy-1", half)'


def write(path, *sources):
    cells = [{"cell_type": "code", "metadata": {}, "source": s} for s in sources]
    path.write_text(json.dumps({"cells": cells, "nbformat": 4}))
    return path


def sources(path):
    return [cell["source"] for cell in json.loads(path.read_text())["cells"]]


@pytest.fixture
def new(tmp_path):
    predict = 'predict("toy-1", ...)'
    return write(tmp_path / "new.ipynb", "import new", predict, STUB, CHECK)


def test_answers_and_predictions_are_brought_over(tmp_path, new):
    mine = 'predict("toy-1", 3)'
    old = write(tmp_path / "old.ipynb", "x = 1", ANSWER, "half(3)", CHECK, mine)
    before = old.read_text()
    assert update(old, new) == ["toy-1"]
    assert sources(new) == ["import new", mine, ANSWER, CHECK]
    assert old.read_text() == before


def test_sources_that_are_lists_of_lines_are_read(tmp_path, new):
    old = write(tmp_path / "old.ipynb", ANSWER.splitlines(keepends=True), CHECK)
    assert update(old, new) == ["toy-1"]
    assert ANSWER in sources(new)


def test_an_old_stub_does_not_replace_a_new_one(tmp_path, new):
    old = write(tmp_path / "old.ipynb", STUB.replace("Halve x.", "Half."), CHECK)
    assert update(old, new) == []
    assert STUB in sources(new)


def test_half_an_answer_is_kept(tmp_path, new):
    begun = STUB.replace("    raise", "    y = x\n    raise")
    old = write(tmp_path / "old.ipynb", begun, CHECK)
    assert update(old, new) == ["toy-1"]
    broken = write(tmp_path / "broken.ipynb", "def half(x):\n    return (", CHECK)
    assert update(broken, new) == ["toy-1"]


def test_the_last_definition_above_the_check_counts(tmp_path, new):
    better = ANSWER.replace("x / 2", "0.5 * x")
    old = write(tmp_path / "old.ipynb", ANSWER, better, CHECK)
    update(old, new)
    assert better in sources(new)


def test_the_functions_of_a_project_are_brought_over(tmp_path):
    hand_in = 'report = hand_in("toy", half, double, path="toy.json")'
    double = "def double(x):\n    return 2 * x"
    old = write(tmp_path / "old.ipynb", ANSWER, "%pip list", double, hand_in)
    open_too = STUB.replace("half", "double")
    new = write(tmp_path / "new.ipynb", STUB, open_too, "1 +", hand_in)
    assert update(old, new) == ["toy"]
    assert sources(new) == [ANSWER, double, "1 +", hand_in]


def test_exercises_of_one_notebook_alone_stay(tmp_path, new):
    other = "def two():\n    return 2\n", 'check("other-1", two)'
    old = write(tmp_path / "old.ipynb", *other)
    before = sources(new)
    assert update(old, new) == []
    assert sources(new) == before


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": [{}]}'])
def test_what_is_no_notebook_is_refused(tmp_path, new, text):
    old = tmp_path / "old.ipynb"
    old.write_text(text)
    with pytest.raises(ValueError, match="is not a notebook"):
        update(old, new)


def test_the_command_says_what_it_has_done(tmp_path, new):
    old = write(tmp_path / "old.ipynb", ANSWER, CHECK)
    command = [sys.executable, "-m", "posedu.book.exercises.update"]
    said = subprocess.run([*command, old, new], capture_output=True, text=True)
    assert said.stdout == "1 answers brought over: toy-1\n"
    wrong = subprocess.run([*command, old], capture_output=True, text=True)
    assert wrong.returncode and wrong.stderr.startswith("usage:")
