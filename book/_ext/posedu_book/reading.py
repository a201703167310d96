"""How long a page takes, and the paths that lead through several."""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from posedu import check
from posedu_book.contents import documents
from posedu_book.markup import link
from posedu_book.ways import SHEETS

WORDS_A_MINUTE = 160
REFERENCE = "book/reference/"
UNREAD = (nodes.literal_block, nodes.raw, nodes.comment, nodes.math_block, nodes.image)
APART = ("exercise", "solution")  # counted by their own minutes
OPENS, CLOSES = "<details", "</details>"  # of folds, and of answers to a question


def words(doctree):
    """The words of what is in sight: no code, no exercise, nothing folded."""
    found, depth = 0, 0
    for node in doctree.findall():
        if isinstance(node, nodes.raw) and node.astext().startswith(OPENS):
            depth += 1
        elif isinstance(node, nodes.raw) and node.astext() == CLOSES:
            depth -= 1
        elif isinstance(node, nodes.Text) and not depth and not _apart(node):
            found += len(node.astext().split())
    return found


def _apart(node):
    while (node := node.parent) is not None:
        if isinstance(node, UNREAD) or type(node).__name__.startswith(APART):
            return True
    return False


def minutes(env, page):
    """How long a page takes, by its exercises or its words; 0 to look something up."""
    if page.startswith(REFERENCE):
        return 0
    if page.startswith(SHEETS):
        return sum(e.minutes for e in check.sheet(page.removeprefix(SHEETS)).exercises)
    return max(1, round(words(env.get_doctree(page)) / WORDS_A_MINUTE))


def duration(total):
    """Minutes, or hours and minutes."""
    hours, rest = divmod(total, 60)
    return " ".join([f"{hours} h"] * (hours > 0) + [f"{rest} min"] * (rest > 0))


class path_placeholder(nodes.General, nodes.Element):
    """Where the steps of a path will stand once every page is read."""


class LearningPath(SphinxDirective):
    """``{learning-path}``: steps, one a line: a page of the contents, ":", and why."""

    has_content = True

    def run(self):
        """Leave a placeholder."""
        steps = [tuple(map(str.strip, line.split(":", 1))) for line in self.content]
        for page, *why in steps:
            if page not in documents() or not why:
                raise self.error(
                    f"a step is a page of the contents, ':', and why: {page}"
                )
        return [path_placeholder(steps=steps)]


def fill(app, doctree, docname):
    """Put the steps in place of their placeholders."""
    for placeholder in list(doctree.findall(path_placeholder)):
        steps = placeholder["steps"]
        times = [minutes(app.env, page) for page, _ in steps]
        items = [
            _step(app, docname, page, why, time)
            for (page, why), time in zip(steps, times, strict=True)
        ]
        total = nodes.paragraph("", f"{len(steps)} steps, {duration(sum(times))}.")
        listed = nodes.enumerated_list("", *items, enumtype="arabic", suffix=".")
        listed["classes"].append("posedu-steps")
        placeholder.replace_self([total, listed])


def _step(app, docname, page, why, time):
    to = link(app, docname, page, "", app.env.titles[page].astext())
    text = nodes.Text(f" · {duration(time)}. {why}" if time else f" · {why}")
    return nodes.list_item("", nodes.paragraph("", "", to, text))


def outdated(app, env):
    """Have the pages with paths written whenever any page was read."""
    return [d for d in env.found_docs if d.endswith("reference/paths")]


def setup(app):
    """Register the directive and the events."""
    app.add_node(path_placeholder)
    app.add_directive("learning-path", LearningPath)
    app.connect("env-updated", outdated)
    app.connect("doctree-resolved", fill)
