"""Bring a learner's answers from an older notebook of exercises into a newer one.

``python -m posedu.book.exercises.update OLD.ipynb NEW.ipynb`` writes the answers and
predictions of the learner's notebook OLD into NEW, a fresh download of the same
exercises. OLD stays as it is.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posedu._argument_types import check_types
from posedu._result_table import reading

CALLS = {"check", "predict", "hand_in"}  # their first argument names an exercise

Notebook = dict[str, Any]
Cell = dict[str, Any]
Place = tuple[str, str]


@check_types
def update(old: str | Path, new: str | Path) -> list[str]:
    """Write the answers of one notebook file into another; return the exercises' names.

    An answer is a cell with a function that a cell below checks or hands in. Exercises
    that only one of the notebooks has are left as they are, and so are functions that
    still only raise ``NotImplementedError``.

    Raises
    ------
    ValueError
        If one of the files is no notebook.
    """
    target = load(new)
    names = carry_over(load(old), target)
    Path(new).write_text(
        json.dumps(target, indent=1, ensure_ascii=False) + "\n", "utf-8"
    )
    return names


def load(path: str | Path) -> Notebook:
    """Return a notebook file's content; raise ValueError if it is no notebook."""
    with reading(path, "a notebook"):
        notebook: Notebook = json.loads(Path(path).read_text("utf-8"))
        for cell in notebook["cells"]:
            _source(cell)
    return notebook


def carry_over(old: Notebook, new: Notebook) -> list[str]:
    """Copy answers and predictions between notebooks; return the exercises' names."""
    answers = {place: source for place, source, _ in _learners(old)}
    carried = []
    for place, source, cell in list(_learners(new)):
        answer = answers.get(place, source)
        if answer != source and not _is_open(answer):
            cell["source"] = answer
            carried.append(place[0])
    return list(dict.fromkeys(carried))


def _learners(notebook: Notebook) -> Iterator[tuple[Place, str, Cell]]:
    """Yield the cells that a learner fills in: their place, their source, the cell.

    They are the cells with predictions, and the cells that define the functions that a
    cell below hands to ``check`` or ``hand_in``. The place is the name of the exercise,
    and of the function.
    """
    code = [cell for cell in notebook["cells"] if cell.get("cell_type") == "code"]
    for number, cell in enumerate(code):
        for call, exercise, functions in _calls(_source(cell)):
            if call == "predict":
                yield (exercise, call), _source(cell), cell
            for function in functions:
                above = (c for c in reversed(code[:number]) if _defines(c, function))
                if found := next(above, None):
                    yield (exercise, function), _source(found), found


def _calls(source: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the calls of a cell that name an exercise, and the functions in them."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # an unfinished cell, or one with a command of Jupyter
        return
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Name(call), [ast.Constant(str(name)), *others]):
                functions = [one.id for one in others if isinstance(one, ast.Name)]
                if call in CALLS:
                    yield call, name, functions


def _source(cell: Cell) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def _defines(cell: Cell, name: str) -> bool:
    return re.search(rf"^def {re.escape(name)}\(", _source(cell), re.M) is not None


def _is_open(source: str) -> bool:
    """Return whether code's last function only raises NotImplementedError."""
    try:
        last = ast.parse(source).body[-1]
    except (SyntaxError, IndexError):
        return False
    if not isinstance(last, ast.FunctionDef) or len(last.body) > 2:
        return False
    return ast.unparse(last.body[-1]) == "raise NotImplementedError"


def main() -> None:
    """Update the notebook that the command names, and print what was brought over."""
    if len(sys.argv) != 3:
        sys.exit("usage: python -m posedu.book.exercises.update OLD.ipynb NEW.ipynb")
    try:
        names = update(*sys.argv[1:])
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    print(f"{len(names)} answers brought over: {', '.join(names)}")


if __name__ == "__main__":
    main()
