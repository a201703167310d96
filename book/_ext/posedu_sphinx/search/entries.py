"""Entries of the search, read from a built page: sections, terms, statements, names.

An entry is what the search can lead to. Sections are those under a heading of the first
three levels; a page's first section stands for the page.
"""

import re
from dataclasses import dataclass, field

from posedu_sphinx.search.plain_text import lines, remove_hidden

SECTION_NUMBER = re.compile(r"^[\d.]+\s+")
STATEMENT = re.compile(r"^(\w+ [\d.]+)\s*(?:\((.*)\))?$", re.DOTALL)
CAPTION = "p[@class='admonition-title']"
EXERCISE = re.compile(r"^Exercise \((\S+) · (.*)\)$", re.DOTALL)
API_SKIPPED = {"attribute", "property"}  # fields of a class, listed with it


@dataclass
class Entry:
    """A place that the search can lead to.

    ``kind`` is "section", "term", "statement", "exercise" or "api". ``anchor`` is the
    id of an element on the page, "" for the page itself. ``lines`` are the sentences of
    its text, ``aliases`` its other names. The section Sources has no lines, but
    ``sources``: what it says, and the papers that it cites.
    """

    kind: str
    anchor: str
    title: str
    lines: list[str]
    aliases: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)


def entries(article):
    """Return the entries of a page, and the section that each id of the page is in.

    ``article`` is the page's article, an element of lxml; what is not prose is removed
    from it. The first entry is the page's own. The second result maps ids to entries.
    """
    headed = {_section(h): h for h in article.iter("h1", "h2", "h3")}
    ids = {section: section.xpath(".//@id") for section in headed}
    papers = {section: _papers(section) for section in headed}
    remove_hidden(article)
    listed = article.cssselect(".exercise, dl.glossary, dl.py")
    found = {}
    for section, heading in headed.items():
        inner = [s for s in section.iterdescendants() if s in headed]
        text = lines(section, [heading, *inner, *listed])
        anchor = section.get("id", "") if found else ""
        found[section] = Entry("section", anchor, _heading(heading), text)
        if papers[section]:
            found[section].lines, found[section].sources = [], text + papers[section]
    of_page = [*found.values(), *_statements(article), *_exercises(article)]
    of_page += [*_terms(article), *_api(article)]
    # Inner sections come after those that contain them, and so have the last word.
    return of_page, {name: found[section] for section in ids for name in ids[section]}


def _section(heading):
    """Return the innermost element around a heading that a link can lead to."""
    return next(e for e in heading.iterancestors() if e.get("id"))


def _papers(section):
    """Return authors and titles of the papers that a section named Sources cites.

    Other sections have none, so that a paper is found where it is listed.
    """
    if not section.get("id", "").startswith("sources"):
        return []
    return [
        link.get("title")
        for link in section.cssselect("a[href*='bibliography.html#'][title]")
    ]


def _heading(heading):
    return SECTION_NUMBER.sub("", " ".join(lines(heading)))


def _statements(article):
    """Yield the entry of every theorem, definition and other numbered statement."""
    for box in article.cssselect(".proof[id]"):
        if (caption := box.find(CAPTION)) is not None:  # proofs have none
            number, name = STATEMENT.match(" ".join(lines(caption))).groups()
            title = f"{number}: {name}" if name else number
            yield Entry("statement", box.get("id"), title, lines(box, [caption])[:1])


def _exercises(article):
    """Yield the entry of every exercise; its task is its text."""
    for box in article.cssselect(".exercise[id]"):
        caption = box.find(CAPTION)
        if found := EXERCISE.match(" ".join(lines(caption))):
            title = f"Exercise {found[1]}: {found[2]}"
            text = lines(box, [caption, *box.iter("details")])
            yield Entry("exercise", box.get("id"), title, text[1:])


def _terms(article):
    """Yield the entry of every term of a glossary; terms of one text share it."""
    for term in article.cssselect("dl.glossary > dt[id]"):
        text = lines(next(d for d in term.itersiblings() if d.tag == "dd"))
        yield Entry("term", term.get("id"), " ".join(lines(term)), text)


def _api(article):
    """Yield the entry of every class and function; its summary is its text."""
    for box in article.cssselect("dl.py"):
        if API_SKIPPED & {*box.get("class").split()}:
            continue
        summary = box.find("dd/p")
        text = [] if summary is None else [" ".join(lines(summary))]
        for name in box.xpath("dt[@id]"):
            if name.get("id").endswith(".extra_repr"):  # which nobody asks for
                continue
            yield Entry("api", name.get("id"), name.get("id"), text)
