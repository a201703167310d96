"""Rubrics and reference solutions of the projects, for teachers."""

import importlib

from sphinx.util.docutils import SphinxDirective

from posedu.book.projects import Report, expected, project, projects
from posedu_sphinx import ROOT

SOLUTIONS = ROOT / "posedu/book/projects/solutions"
REPORTS = ROOT / "book/data"


class ProjectSolutions(SphinxDirective):
    """Directive ``{project-solutions}``: goals, rubric and solution of each project."""

    def run(self):
        """Return a section for each project, in alphabetical order."""
        return [
            node
            for name in projects()
            for node in self.parse_text_to_nodes(
                markdown(name), allow_section_headings=True
            )
        ]


def markdown(name):
    """Return what a teacher needs to mark a project of the given name, as MyST."""
    task = project(name)
    module = name.replace("-", "_")
    path = SOLUTIONS / f"{module}.py"
    rubric = importlib.import_module(f"posedu.book.projects.solutions.{module}").RUBRIC
    goals = "\n".join(f"- {goal}" for goal in task.goals)
    code = path.read_text("utf-8").partition("\nRUBRIC = ")[0].strip()
    return f"""
## {task.title}

Notebook: {{doc}}`{task.title} </notebooks/projects/{name}>`, {task.minutes} minutes.
To be reached with every seed:

{goals}

{table(task, reports(task))}

Full understanding
: {rubric.full.strip()}

Partial understanding
: {rubric.partial.strip()}

No understanding
: {rubric.none.strip()}

````{{dropdown}} Reference solution, and answers that do not suffice
```python
{code}
```
````
"""


def reports(task):
    """Return the reports on the known answers to a project, by what they are."""
    found = {"reference solution": expected(task.name)}
    for path in sorted(REPORTS.glob(f"project-{task.name}-*.json")):
        label = path.stem.removeprefix(f"project-{task.name}-").replace("-", " ")
        found[f"not enough: {label}"] = Report.load(path)
    return found


def table(task, found):
    """Return a Markdown table of what was measured of the answers, for all seeds."""
    names = list(dict.fromkeys(goal.quantity for goal in task.goals))
    rows = [["answer", *names, "CPU seconds"], ["---"] * (len(names) + 2)]
    for label, report in found.items():
        seen = (in_words(row[name] for row in report.measured) for name in names)
        rows.append([label, *seen, f"{sum(report.seconds):.0f}"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def in_words(values):
    """Return the smallest and the largest of some numbers as text."""
    values = list(values)
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"


def setup(app):
    """Register the ``project-solutions`` directive."""
    app.add_directive("project-solutions", ProjectSolutions)
