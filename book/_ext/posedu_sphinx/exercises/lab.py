"""Open the notebooks in JupyterLab: ``make lab``.

Learners write their answers in copies of the exercise notebooks. The copies are in
``notebooks/answers``, which git ignores, so a later version never overwrites an answer.
"""

import shutil
import subprocess
import sys

from posedu_sphinx import ROOT

EXERCISES = ROOT / "notebooks" / "exercises"
ANSWERS = ROOT / "notebooks" / "answers"


def copy_exercises(exercises=EXERCISES, answers=ANSWERS):
    """Copy each exercise notebook that has no copy yet; return the new copies' paths.

    ``exercises`` is the notebooks' folder, ``answers`` the folder of the copies.
    """
    answers.mkdir(exist_ok=True)
    new = []
    for notebook in sorted(exercises.glob("*.ipynb")):
        copy = answers / notebook.name
        if not copy.exists():
            shutil.copyfile(notebook, copy)
            new.append(copy)
    return new


def main():
    """Copy new exercise notebooks and start JupyterLab in the project's folder."""
    new = copy_exercises()
    print(f"Write your answers in {ANSWERS.relative_to(ROOT)} ({len(new)} new copies).")
    return subprocess.call([sys.executable, "-m", "jupyterlab"], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
