"""Measure reference solutions, and answers that do not suffice, and store the reports.

``python -m posedu.book.projects NAME…`` writes the report on the reference solution
beside the project's module, where learners' notebooks read it, with hashes in place of
the code. The reports on answers that do not reach the goals go to ``book/data``, for
the teachers' page.
"""

import argparse
import hashlib
import importlib
from pathlib import Path

from posedu.book.exercises.learner import source_of
from posedu.book.projects.measuring import HERE, measure, project, projects
from posedu.book.projects.records import Answer

DATA = Path("book/data")
SEEDS = (1, 2, 3)


def digest(answer: Answer) -> str:
    """Return a hash of a function's code, which stands in for the code."""
    return hashlib.sha256(str(source_of(answer)).encode()).hexdigest()


def main() -> None:
    """Measure the projects that the command names, by default all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    for name in parser.parse_args().names or projects():
        module = name.replace("-", "_")
        known = importlib.import_module(f"posedu.book.projects.solutions.{module}")
        task = project(name)
        seeds = SEEDS[: task.seeds]
        report = measure(task, known.ANSWERS, seeds)
        report.sources = list(map(digest, known.ANSWERS))
        report.save(HERE / f"{module}.json")
        print(report)
        for label, answers in known.INSUFFICIENT.items():
            path = DATA / f"project-{name}-{label}.json"
            print(label, measure(task, answers, seeds, path=path), sep="\n")


if __name__ == "__main__":
    main()
