"""Measuring of learners' answers to projects, with seeds that are drawn anew."""

import importlib
import pkgutil
import secrets
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import torch
from tqdm import tqdm

from posedu._argument_types import check_types
from posedu._arguments import require_choice
from posedu.book.exercises.learner import source_of
from posedu.book.projects.helpers import helpers_of
from posedu.book.projects.records import Answer, Project, Report
from posedu.book.provenance import provenance

HERE = Path(__file__).parent
SHARED = {
    *("measuring", "records", "solutions", "__main__"),
    *("exchange", "helpers", "plots", "recording", "rounding"),
}


@cache
def projects() -> tuple[str, ...]:
    """Return the names of all projects, in alphabetical order."""
    modules = (module.name for module in pkgutil.iter_modules([str(HERE)]))
    return tuple(name.replace("_", "-") for name in modules if name not in SHARED)


@check_types
def project(name: str) -> Project:
    """Return the project of the given name, such as ``"extension"``.

    Raises
    ------
    ValueError
        If there is no such project; the message has the names of all.
    """
    require_choice("name", name, projects())
    module = name.replace("-", "_")
    return importlib.import_module(f"posedu.book.projects.{module}").PROJECT


@check_types
def expected(name: str) -> Report:
    """Return the report on the reference solution of the project ``name``."""
    return Report.load(HERE / f"{project(name).name.replace('-', '_')}.json")


@check_types
def hand_in(name: str, *answers: Answer, path: str | Path | None = None) -> Report:
    """Measure a learner's answer to a project with new seeds; return the report.

    An interrupt (Ctrl-C, or the stop button of a notebook) ends the measurement; the
    report then has the seeds that were measured before.

    Parameters
    ----------
    name
        Name of the project.
    answers
        The learner's functions, in the order that the project's notebook says.
    path
        File to write the report to after every seed, to hand in; by default none.

    Raises
    ------
    ValueError
        If there is no such project.
    TypeError
        If there are more or fewer answers than the project has, or one of them is no
        function.
    """
    task = project(name)
    seeds = [secrets.randbelow(2**31) for _ in range(task.seeds)]
    return measure(task, answers, seeds, path=path)


@check_types
def measure(
    task: Project,
    answers: Sequence[Answer],
    seeds: Sequence[int],
    *,
    path: str | Path | None = None,
) -> Report:
    """Measure an answer to a project with the given seeds; return the report.

    The arguments and errors are those of :func:`hand_in`. If an answer is not written
    yet, and raises ``NotImplementedError``, the report has no seeds.
    """
    if len(answers) != len(task.answers):
        raise TypeError(
            f"{task.name} needs {len(task.answers)} functions, "
            f"{', '.join(task.answers)}; got {len(answers)}"
        )
    report = Report(task.name, list(map(str, task.goals)))
    report.sources = [source_of(answer) for answer in answers]
    helpers = helpers_of(answers)
    report.helpers = {name: source_of(helper) for name, helper in helpers.items()}
    report.made = provenance(torch.device("cpu"), 0)
    try:
        for seed in tqdm(seeds, desc=task.name, unit="seed"):
            started = time.process_time()
            _add(report, task, seed, task.measure(*answers, seed=seed), started)
            if path is not None:
                report.save(path)
    except KeyboardInterrupt:
        print(f"interrupted after {len(report.seeds)} of {len(seeds)} seeds")
    except NotImplementedError as error:
        if error.args:
            raise
        print(f"○ {task.name}: open, not answered yet")
    return report


def _add(
    report: Report,
    task: Project,
    seed: int,
    measured: Mapping[str, float],
    started: float,
) -> None:
    gaps = {goal.quantity: float(goal.missed_by(measured)) for goal in task.goals}
    report.seeds.append(seed)
    report.measured.append({key: float(value) for key, value in measured.items()})
    report.missed.append({key: gap for key, gap in gaps.items() if gap})
    report.reached.append(not any(gaps.values()))
    report.seconds.append(time.process_time() - started)
