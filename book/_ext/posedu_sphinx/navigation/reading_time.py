"""Reading times of pages, and learning paths through several pages."""

import math
import re

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from posedu.book import exercises
from posedu_sphinx.markup import link
from posedu_sphinx.navigation.contents import SHEETS, documents

WORDS_A_MINUTE = 160
REFERENCE = ("book/reference/", "book/teaching/", "book/developers/")
LINES_A_MINUTE = 20  # of code
PAUSE = 0.5  # minutes for a displayed formula, a figure or a table
UNREAD = (nodes.literal_block, nodes.raw, nodes.comment, nodes.math_block, nodes.image)
PICTURE = re.compile(r'class="posedu-(?:figure|explorable|table)')
EXERCISES = ("exercise", "solution")  # which state their own minutes
OPENS, CLOSES = "<details", "</details>"  # of folds, and of answers to a question
CODE = ("posedu-check", "posedu-code")  # folds that a reader may pass over


def reading(doctree):
    """Estimate the minutes for a page's words, code, formulas, figures and tables.

    ``doctree`` is the page. Text in folds (boxes that a click opens) counts. Exercises,
    folded code that verifies a formula or draws a figure, and all tabs of a set but the
    first do not count.
    """
    words, lines, pauses = 0, 0, 0
    folds = []
    for node in doctree.findall():
        text = node.astext() if isinstance(node, nodes.raw) else ""
        if text.startswith(OPENS):
            folds.append(any(kind in text for kind in CODE))
        elif text == CLOSES:
            folds.pop()
        if any(folds) or _is_excluded(node):
            continue
        if isinstance(node, nodes.Text) and not isinstance(node.parent, UNREAD):
            words += len(node.split())
        elif isinstance(node, nodes.literal_block):
            lines += node.astext().strip().count("\n") + 1
        pauses += isinstance(node, nodes.math_block | nodes.table)
        pauses += len(PICTURE.findall(text))
    return words / WORDS_A_MINUTE + lines / LINES_A_MINUTE + pauses * PAUSE


def _is_excluded(node):
    """Return whether a node belongs to an exercise or to a tab after the first.

    Reading times leave out the text of such nodes.
    """
    while (parent := node.parent) is not None:
        if type(parent).__name__.startswith(EXERCISES):
            return True
        is_tab = "sd-tab-item" in node.get("classes", ()) if node.children else False
        if is_tab and parent.index(node) > 0:
            return True
        node = parent
    return False


def minutes(env, page):
    """Return the minutes that a page takes; 0 for reference pages.

    ``env`` is Sphinx's build environment, ``page`` the page's name. The minutes for a
    page of exercises are the sum of the minutes stated there. For other pages they are
    estimated, and rounded up to a multiple of five, since the estimate is not more
    exact.
    """
    if page.startswith(REFERENCE):
        return 0
    if page.startswith(SHEETS):
        return sum(
            e.minutes for e in exercises.sheet(page.removeprefix(SHEETS)).exercises
        )
    return _rounded(reading(env.get_doctree(page)))


def _rounded(time):
    return 5 * math.ceil(time / 5)


def duration(total):
    """Format a number of minutes as text in hours and minutes; 0 gives ""."""
    hours, rest = divmod(total, 60)
    return " ".join([f"{hours} h"] * (hours > 0) + [f"{rest} min"] * (rest > 0))


class path_placeholder(nodes.General, nodes.Element):
    """Placeholder node for a learning path's steps until every page has been read."""


class LearningPath(SphinxDirective):
    """Directive ``{learning-path}``: pages in order, with the reason to read each.

    Each line of the directive is the name of a page, ":" and the reason. Titles of
    sections may follow the page's name, "§" before each: only these are to be read.
    """

    has_content = True

    def run(self):
        """Return a placeholder node with the steps: page, titles and a reason each.

        :func:`fill` replaces the node by a list.
        """
        steps = []
        for line in self.content:
            place, colon, why = line.partition(":")
            page, *titles = map(str.strip, place.split("§"))
            if page not in documents() or not colon:
                raise self.error(
                    "a step must be a page of the contents, ':' and a reason, "
                    f"got {page!r}"
                )
            steps.append((page, titles, why.strip()))
        return [path_placeholder(steps=steps)]


def fill(app, doctree, docname):
    """Replace the placeholder of each learning path by its steps and reading times."""
    for placeholder in list(doctree.findall(path_placeholder)):
        steps = placeholder["steps"]
        parts = [_sections(app.env, page, titles) for page, titles, _ in steps]
        times = [
            _rounded(sum(map(reading, read))) if read else minutes(app.env, page)
            for (page, *_), read in zip(steps, parts, strict=True)
        ]
        items = [
            _step(app, docname, page, read, why, time)
            for (page, _, why), read, time in zip(steps, parts, times, strict=True)
        ]
        total = nodes.paragraph("", f"{len(steps)} steps, {duration(sum(times))}.")
        listed = nodes.enumerated_list("", *items, enumtype="arabic", suffix=".")
        listed["classes"].append("posedu-steps")
        placeholder.replace_self([total, listed])


def _sections(env, page, titles):
    """Return the sections of a page that have these titles; others are an error."""
    known = {  # proofs and theorems are sections, too, without a title
        title.astext(): section
        for section in env.get_doctree(page).findall(nodes.section)
        if isinstance(title := section[0], nodes.title)
    }
    for title in {*titles} - {*known}:
        raise ExtensionError(f"a learning path names {title!r}: {page} has {[*known]}")
    return [known[title] for title in titles]


def _step(app, docname, page, read, why, time):
    step = nodes.paragraph("", "", link(app, docname, page, "", _title(app, page)))
    for before, section in zip([": ", *[", "] * len(read)], read, strict=False):
        title = section.next_node(nodes.title).astext()
        step += nodes.Text(before)
        step += link(app, docname, page, section["ids"][0], title)
    step += nodes.Text(f" · {duration(time)}. {why}" if time else f" · {why}")
    return nodes.list_item("", step)


def _title(app, page):
    return app.env.titles[page].astext()


def outdated(app, env):
    """Return a list with the learning paths' page name, for Sphinx to rewrite it."""
    return [d for d in env.found_docs if d.endswith("reference/paths")]


def setup(app):
    """Register the ``learning-path`` directive, its placeholder and build events."""
    app.add_node(path_placeholder)
    app.add_directive("learning-path", LearningPath)
    app.connect("env-updated", outdated)
    app.connect("doctree-resolved", fill)
