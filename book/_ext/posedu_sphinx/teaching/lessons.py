"""Lessons and courses for teachers, as the files in ``book/teaching`` list them."""

from dataclasses import dataclass
from functools import cache

import yaml

from posedu_sphinx import ROOT

# Kinds of parts that a slide may take from a section, as CSS selectors.
PARTS = {
    "experiment": "div.cell",
    "explorable": "figure.posedu-explorable",
    "figure": "figure.posedu-figure",
    "list": "ul, ol",
    "question": "div.posedu-question",
    "table": "table",
}


@dataclass(frozen=True)
class Slide:
    """One slide: an element of a page of the book, under a title of its own.

    ``id`` is the element's id on the page ``page``, or the label of a displayed
    equation. With a ``part`` it is the id of a section, and the slide shows the part of
    that kind in the section, the one that ``number`` counts if there are several.
    ``minutes`` is the time for the slide in class. ``note`` is for the teacher, and is
    shown in the speaker's view alone.
    """

    title: str
    page: str
    id: str
    minutes: int
    part: str = ""
    number: int = 1
    note: str = ""

    def __post_init__(self):
        if self.part and self.part not in PARTS:
            raise ValueError(
                f"slide {self.title!r}: `part` must be one of {', '.join(PARTS)}, "
                f"got {self.part!r}"
            )
        if self.minutes < 1 or self.number < 1:
            raise ValueError(
                f"slide {self.title!r}: `minutes` and `number` must be at least 1"
            )


@dataclass(frozen=True)
class Lesson:
    """A lesson on one part of the book, with its slides.

    ``name`` is the name of its slides' file, ``part`` the caption of the book's part in
    the table of contents. ``pages`` are those that the slides are taken from.
    """

    name: str
    part: str
    title: str
    slides: tuple[Slide, ...]

    @property
    def minutes(self):
        """The sum of the slides' minutes."""
        return sum(slide.minutes for slide in self.slides)

    @property
    def pages(self):
        """The names of the pages that the slides are taken from, in order of use."""
        return list(dict.fromkeys(slide.page for slide in self.slides))


@dataclass(frozen=True)
class Week:
    """One week of a course.

    ``lessons`` are the names of the lessons in class, ``labs`` the notebooks for a
    session without a lesson. ``pages`` are to be read, and their required exercises to
    be done; ``further`` are pages for those who want more. ``project`` is the name of a
    project.
    """

    pages: tuple[str, ...]
    lessons: tuple[str, ...] = ()
    labs: tuple[str, ...] = ()
    further: tuple[str, ...] = ()
    project: str = ""


@cache
def lessons(root=ROOT):
    """Return the lessons by name, in order; a book without their file has none.

    ``root`` is the book's folder.
    """
    found = {}
    for name, given in _load(root, "lessons.yml").items():
        slides = tuple(Slide(**slide) for slide in given.pop("slides"))
        found[name] = Lesson(name, slides=slides, **given)
    return found


@cache
def course(name, root=ROOT):
    """Return the weeks of the course ``name``; ``root`` is the repository's folder."""
    courses = _load(root, "courses.yml")
    if name not in courses:
        raise ValueError(f"course must be one of {', '.join(courses)}, got {name!r}")
    return [
        Week(**{key: _tuple(value) for key, value in week.items()})
        for week in courses[name]
    ]


def _tuple(value):
    return tuple(value) if isinstance(value, list) else value


def _load(root, name):
    path = root / "book" / "teaching" / name
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
