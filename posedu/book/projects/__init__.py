"""Projects: larger tasks in which exercises' functions are the parts.

A learner works in a notebook of ``notebooks/projects`` and hands in with
:func:`hand_in`, which measures the answer with seeds that the learner does not choose.
The reference solutions are in ``posedu.book.projects.solutions``.
"""

from posedu.book.projects.measuring import expected, hand_in, measure, project, projects
from posedu.book.projects.records import Goal, Project, Report, Rubric

__all__ = [
    "Goal",
    "Project",
    "Report",
    "Rubric",
    "expected",
    "hand_in",
    "measure",
    "project",
    "projects",
]
