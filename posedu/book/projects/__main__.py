"""Measure reference solutions, and answers that do not suffice, and store the reports.

``python -m posedu.book.projects NAME…`` writes the report on the reference solution
beside the project's module, where learners' notebooks read it. The reports on answers
that do not reach the goals go to ``book/data``, for the teachers' page. All have hashes
in place of the code, since those answers have parts of the solution, too.
"""

import argparse
import hashlib
import importlib
from collections.abc import Sequence
from pathlib import Path

from posedu.book.exercises.learner import source_of
from posedu.book.projects.measuring import HERE, measure, project, projects
from posedu.book.projects.records import Answer, Project, Report

DATA = Path("book/data")
SEEDS = (1, 2, 3)


def digest(answer: Answer) -> str:
    """Return a hash of a function's code, which stands in for the code."""
    return hashlib.sha256(str(source_of(answer)).encode()).hexdigest()


def report_without_code(task: Project, answers: Sequence[Answer]) -> Report:
    """Return the report on known answers to a project, with hashes for the code."""
    report = measure(task, answers, SEEDS[: task.seeds])
    report.sources = list(map(digest, answers))
    report.helpers = {}
    return report


def main() -> None:
    """Measure the projects that the command names, by default all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    for name in parser.parse_args().names or projects():
        module = name.replace("-", "_")
        known = importlib.import_module(f"posedu.book.projects.solutions.{module}")
        task = project(name)
        report = report_without_code(task, known.ANSWERS)
        report.save(HERE / f"{module}.json")
        print(report)
        for label, answers in known.INSUFFICIENT.items():
            report = report_without_code(task, answers)
            report.save(DATA / f"project-{name}-{label}.json")
            print(label, report, sep="\n")


if __name__ == "__main__":
    main()
