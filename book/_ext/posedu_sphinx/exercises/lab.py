"""Open the notebooks in JupyterLab: ``make lab``.

Learners write their answers in copies of the exercises' and projects' notebooks. The
copies are in ``notebooks/answers``, which git ignores. Where the book has a newer
version of a notebook, its copy is replaced by the new version with the learner's
answers; the earlier copy is kept beside it.
"""

import hashlib
import subprocess
import sys

import nbformat

from posedu.book.exercises.update import carry_over
from posedu_sphinx import ROOT

NOTEBOOKS = (ROOT / "notebooks/exercises", ROOT / "notebooks/projects")
ANSWERS = ROOT / "notebooks" / "answers"
VERSION = "posedu_version"  # of the book's notebook, in the metadata of a copy


def copy_notebooks(folders=NOTEBOOKS, answers=ANSWERS):
    """Copy notebooks that have no copy, update old copies; return the changed paths.

    ``folders`` has the notebooks' folders, ``answers`` is the folder of the copies.
    """
    answers.mkdir(exist_ok=True)
    changed = []
    for path in (path for folder in folders for path in sorted(folder.glob("*.ipynb"))):
        copy = answers / path.name
        book = nbformat.read(path, as_version=4)
        version = hashlib.sha256(path.read_bytes()).hexdigest()
        book.metadata[VERSION] = version
        if copy.exists():
            own = nbformat.read(copy, as_version=4)
            if own.metadata.get(VERSION) == version:
                continue
            carry_over(own, book)
            copy.rename(_unused(copy))
        nbformat.write(book, copy)
        changed.append(copy)
    return changed


def _unused(copy):
    """Return a path beside ``copy`` that no file has yet, for the earlier version."""
    names = (f"{copy.stem}-earlier-{number}.ipynb" for number in range(1, 1000))
    return next(p for p in map(copy.with_name, names) if not p.exists())


def main():
    """Copy the notebooks and start JupyterLab in the project's folder."""
    changed = copy_notebooks()
    folder = ANSWERS.relative_to(ROOT)
    print(f"Write your answers in {folder} ({len(changed)} new or updated copies).")
    return subprocess.call([sys.executable, "-m", "jupyterlab"], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
