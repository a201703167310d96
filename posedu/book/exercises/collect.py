"""Table of what a class has handed in: who has solved which exercise.

Each learner's file is written by ``progress(chapter).save(path)``. This command reads
all of them in a folder, and the folders below it::

    python -m posedu.book.exercises.collect FOLDER
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from posedu._argument_types import check_types
from posedu._result_table import Table
from posedu.book.exercises.learner import Progress


@check_types
class HandedIn(Table):
    """Table of learners' progress, with a row for each of their files.

    ``files`` maps the files' names to the progress in them.
    """

    def __init__(self, files: Mapping[str, Progress]):
        self.files = files

    def caption(self) -> str:
        """Return the number of files."""
        return f"{len(self.files)} files"

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the table's head, then a row for each file."""
        yield "file", "chapter", "solved", "minutes", "not solved"
        for name, one in self.files.items():
            solved = one.solved()
            left = [exercise for exercise in one.exercises if exercise not in solved]
            minutes = sum(one.minutes[exercise] for exercise in solved)
            share = f"{len(solved)} of {len(one.exercises)}"
            yield name, one.chapter, share, str(minutes), ", ".join(left)


@check_types
def collect(folder: str | Path) -> HandedIn:
    """Return a table of all files (``*.json``) in a folder and below it.

    Raises
    ------
    ValueError
        If one of them holds no learner's progress.
    NotADirectoryError
        If there is no such folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder {folder}")
    files = sorted(folder.rglob("*.json"))
    names = (str(path.relative_to(folder)) for path in files)
    return HandedIn(dict(zip(names, map(Progress.load, files), strict=True)))


def main() -> None:
    """Print the table of the folder that the command names."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m posedu.book.exercises.collect FOLDER")
    try:
        print(collect(sys.argv[1]))
    except (OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
