"""The ways between a chapter, its lab and its exercises, under each of their titles."""

from docutils import nodes

from posedu.book import exercises
from posedu.catalog import CATALOG
from posedu_sphinx.markup import external, link
from posedu_sphinx.navigation.contents import (
    chapters,
    documents,
    further,
    is_chapter,
    is_of_a_chapter,
)
from posedu_sphinx.navigation.downloads import colab_link
from posedu_sphinx.navigation.reading_time import LABS, SHEETS, duration, minutes

COPY = "Download the notebook"
PRINT = "This is a print: it cannot run. In a copy of the notebook you can"


def lab_of(chapter):
    """The lab of a chapter: what its records say, else the last one up to it."""
    for record in CATALOG.values():
        if record.page == chapter and record.lab:
            return f"{LABS}{record.lab}"
    pages = documents()
    passed, nearest = False, ""
    for page in pages:
        if passed and is_chapter(page):
            break
        passed |= page == chapter
        if page.startswith(LABS) and not page.startswith(SHEETS):
            nearest = page
    return nearest


def sheet_of(chapter):
    """The exercises of a chapter."""
    return SHEETS + chapter.rpartition("/")[2]


def ways(page):
    """What a page belongs to: words and pages."""
    if is_chapter(page):
        minutes = sum(
            e.minutes for e in exercises.sheet(page.rpartition("/")[2]).exercises
        )
        rooms = [("Lab", lab_of(page)), (f"Exercises, {minutes} min", sheet_of(page))]
        return [*_further(page), *rooms]
    if page.startswith(SHEETS):
        (own,) = (name for name in chapters() if sheet_of(name) == page)
        return [("Chapter", own), ("Lab", lab_of(own))]
    if page.startswith(LABS):
        return [("Chapter", name) for name in chapters() if lab_of(name) == page]
    for chapter in chapters():
        if page in further(chapter):
            return [("Chapter", chapter), *_further(chapter, but=page)]
    return []


def _further(chapter, but=""):
    return [(title, page) for page, title in further(chapter).items() if page != but]


def show(app, doctree, docname):
    """Put the ways under the page's title."""
    title = doctree.next_node(nodes.title)
    found = ways(docname)
    if title is None or not (found or is_of_a_chapter(docname)):
        return
    items = [
        nodes.list_item("", nodes.paragraph("", "", *_item(app, docname, *way)))
        for way in found
    ]
    items.append(nodes.list_item("", nodes.paragraph("", "", *_copy(app, docname))))
    listed = nodes.bullet_list("", *items, classes=["posedu-ways"])
    place = title.parent.index(title) + 1
    said = nodes.paragraph("", _said(app.env, docname), classes=["posedu-said"])
    title.parent[place:place] = [listed, said]


def _said(env, docname):
    """What can be done with a page, and how long it takes."""
    time = duration(minutes(env, docname))
    if docname.startswith(SHEETS):
        return f"{PRINT} write your answers and have them checked. {time} in all."
    if docname.startswith(LABS):
        return f"{PRINT} predict first and run it. {time} to read, without the runs."
    if not ways(docname):
        return f"{time} to read."
    return f"{time} to read; its checks and its exercises come on top."


def _item(app, docname, word, page):
    name = app.env.titles[page].astext() if word == "Chapter" else word
    text = f"{word}: {name}" if word == "Chapter" else word
    return [link(app, docname, page, "", text)]


def _copy(app, docname):
    is_notebook = docname.startswith(LABS)
    if is_notebook and (colab := colab_link(app.config, docname)):
        return [external(colab, "Open in Colab")]
    up = "/".join([".."] * docname.count("/"))
    return [external(f"{up}/_sources/{docname}.ipynb", COPY)]


def setup(app):
    """Register the event."""
    app.connect("doctree-resolved", show)
