"""Measure reference solutions, and answers that do not suffice, and store the reports.

``python -m posedu.book.projects NAME…`` writes the report on the reference solution
beside the project's module, where learners' notebooks read it, and the reports on
answers that do not reach the goals to ``book/data``, for the teachers' page.
"""

import argparse
import importlib
from pathlib import Path

from posedu.book.projects.measuring import HERE, measure, project, projects

DATA = Path("book/data")
SEEDS = (1, 2, 3)


def main() -> None:
    """Measure the projects that the command names, by default all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    for name in parser.parse_args().names or projects():
        module = name.replace("-", "_")
        known = importlib.import_module(f"posedu.book.projects.solutions.{module}")
        task = project(name)
        seeds = SEEDS[: task.seeds]
        print(measure(task, known.ANSWERS, seeds, path=HERE / f"{module}.json"))
        for label, answers in known.INSUFFICIENT.items():
            path = DATA / f"project-{name}-{label}.json"
            print(label, measure(task, answers, seeds, path=path), sep="\n")


if __name__ == "__main__":
    main()
