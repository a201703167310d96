"""Course plans: weeks with their pages, exercises, projects and minutes."""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from posedu.book import exercises
from posedu.book.projects import project, projects
from posedu_sphinx.markup import external, link, table
from posedu_sphinx.navigation.contents import has_exercises
from posedu_sphinx.navigation.reading_time import duration, minutes
from posedu_sphinx.teaching.lessons import course, lessons
from posedu_sphinx.teaching.slides import FOLDER

SESSION = 90  # minutes of a session in class
NOTEBOOKS = "notebooks/projects/"
PAGES = ("book/teaching/courses", "book/teaching/slides")


class lesson_placeholder(nodes.General, nodes.Element):
    """Placeholder node for the list of a lesson's slides."""


class course_placeholder(nodes.General, nodes.Element):
    """Placeholder node for the plan of a course."""


class LessonPlan(SphinxDirective):
    """Directive ``{lesson-plan} name``: a lesson's slides, each with its minutes."""

    required_arguments = 1

    def run(self):
        """Return a placeholder node, which :func:`fill` replaces."""
        if self.arguments[0] not in lessons():
            raise self.error(f"lesson must be one of {', '.join(lessons())}")
        return [lesson_placeholder(name=self.arguments[0])]


class CoursePlan(SphinxDirective):
    """Directive ``{course-plan} name``: what is done in each week of a course."""

    required_arguments = 1

    def run(self):
        """Return a placeholder node, which :func:`fill` replaces."""
        try:
            course(self.arguments[0])
        except ValueError as error:
            raise self.error(str(error)) from None
        return [course_placeholder(name=self.arguments[0])]


def fill(app, doctree, docname):
    """Replace the placeholders of lessons and courses by links, tables and minutes."""
    for placeholder in list(doctree.findall(lesson_placeholder)):
        lesson = lessons()[placeholder["name"]]
        placeholder.replace_self(_lesson(app, docname, lesson))
    for placeholder in list(doctree.findall(course_placeholder)):
        placeholder.replace_self(_course(app, docname, course(placeholder["name"])))


def _lesson(app, docname, lesson):
    """Return a link to a lesson's deck, and a table of its slides."""
    deck = nodes.paragraph("", "", _deck(docname, lesson, "Open the slides"))
    deck += nodes.Text(f": {len(lesson.slides)} slides, {duration(lesson.minutes)}.")
    rows = []
    for slide in lesson.slides:
        to = link(app, docname, slide.page, _anchor(app.env, slide), slide.title)
        rows.append((f"{slide.minutes} min", to))
    return [deck, table(("time", "slide"), rows)]


def _deck(docname, lesson, text):
    up = "../" * docname.count("/")
    return external(f"{up}{FOLDER}/{lesson.name}.html", text)


def _anchor(env, slide):
    """Return the id of a slide's element on its page."""
    is_equation = slide.id in env.get_domain("math").equations
    return f"equation-{slide.id}" if is_equation else slide.id


def _course(app, docname, weeks):
    """Return a course's table of minutes, and a list of what is done in each week.

    For a course of one week there is only the list of that week.
    """
    plans = [Plan(app.env, week) for week in weeks]
    if len(plans) == 1:
        return [nodes.bullet_list("", *plans[0].items(app, docname))]
    columns = [plan.minutes() for plan in plans]
    rows = [
        (f"week {number}", *(duration(n) for n in row), duration(sum(row)))
        for number, row in enumerate(columns, 1)
    ]
    sums = [sum(column) for column in zip(*columns, strict=True)]
    rows.append(("all weeks", *(duration(n) for n in sums), duration(sum(sums))))
    head = ("", "in class", "reading", "required exercises", "sum")
    listed = nodes.bullet_list("")
    for number, plan in enumerate(plans, 1):
        title = nodes.paragraph("", "", nodes.strong("", f"Week {number}"))
        items = nodes.bullet_list("", *plan.items(app, docname))
        listed += nodes.list_item("", title, items)
    return [table(head, rows, stub=True), listed]


class Plan:
    """Work of one week of a course, with the minutes that it takes.

    ``env`` is Sphinx's build environment, ``week`` the week as the course lists it.
    """

    def __init__(self, env, week):
        self.env, self.week = env, week

    def minutes(self):
        """Return the minutes in class, of reading and of the required exercises."""
        in_class = sum(lessons()[name].minutes for name in self.week.lessons)
        return (
            in_class + SESSION * bool(self.week.labs),
            sum(minutes(self.env, page) for page in self.week.pages),
            sum(exercise.minutes for exercise, _ in self.exercises("required")),
        )

    def exercises(self, level):
        """Return the exercises of one level on the week's pages, each with its page."""
        return [
            (exercise, page)
            for page in self.week.pages
            if has_exercises(page)
            for exercise in exercises.sheet(page.rpartition("/")[2]).exercises
            if exercise.level == level
        ]

    def project(self):
        """Return the week's project if its notebook is in the book, else None."""
        name = self.week.project
        is_there = NOTEBOOKS + name in self.env.found_docs and name in projects()
        return project(name) if is_there else None

    def items(self, app, docname):
        """Return list items: lessons and labs, pages, exercises and the project."""
        in_class = [
            [_deck(docname, one, one.title), nodes.Text(f", {duration(one.minutes)}")]
            for one in map(lessons().get, self.week.lessons)
        ]
        in_class += [self._link(app, docname, lab) for lab in self.week.labs]
        items = [("In class", in_class)]
        items.append(("Read", self._links(app, docname, self.week.pages)))
        for level in ("required", "hard"):
            tasks = self.exercises(level)
            time = duration(sum(task.minutes for task, _ in tasks))
            to = [
                link(app, docname, page, task.name, task.name) for task, page in tasks
            ]
            items.append((f"Exercises, {level}, {time}", to))
        if task := self.project():
            to = link(app, docname, NOTEBOOKS + task.name, "", task.title)
            items.append(("Project", [[to, nodes.Text(f", {duration(task.minutes)}")]]))
        items.append(("To read on", self._links(app, docname, self.week.further)))
        return [_item(name, parts) for name, parts in items if parts]

    def _link(self, app, docname, page):
        return link(app, docname, page, "", self.env.titles[page].astext())

    def _links(self, app, docname, pages):
        """Return a link to each page, with its reading time."""
        times = (duration(minutes(self.env, page)) for page in pages)
        return [
            [self._link(app, docname, page), nodes.Text(f", {time}" if time else "")]
            for page, time in zip(pages, times, strict=True)
        ]


def _item(name, parts):
    """Return a list item: a name, and its parts, each a node or a list of nodes."""
    text = nodes.paragraph("", f"{name}: ")
    for number, part in enumerate(parts):
        if number:
            text += nodes.Text("; ")
        text += part
    return nodes.list_item("", text)


def outdated(app, env):
    """Return the pages of course plans, for Sphinx to write them again."""
    return [page for page in PAGES if page in env.found_docs]


def setup(app):
    """Register the directives of lessons and courses, and their build events."""
    for node in (lesson_placeholder, course_placeholder):
        app.add_node(node)
    app.add_directive("lesson-plan", LessonPlan)
    app.add_directive("course-plan", CoursePlan)
    app.connect("env-updated", outdated)
    app.connect("doctree-resolved", fill)
