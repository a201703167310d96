"""Links between a chapter, its lab and its exercises, shown under each page's title.

A lab is a notebook to experiment in.
"""

from docutils import nodes

from posedu.book import exercises
from posedu_sphinx.markup import external, link
from posedu_sphinx.navigation.contents import (
    LABS,
    SHEETS,
    chapters,
    further_pages,
    has_exercises,
    is_chapter,
    is_of_a_chapter,
    lab_of,
    page_of,
    sheet_of,
)
from posedu_sphinx.navigation.downloads import colab_link
from posedu_sphinx.navigation.reading_time import duration, minutes

DOWNLOAD = "Download the notebook"
NOT_RUNNABLE = (
    "This page shows the notebook but cannot run it. In your own copy you can"
)


def related_pages(page):
    """Return the pages to link from a page, each as (label of the link, page name).

    A chapter links to its further pages, lab and exercises, and each of these links
    back. The list is empty for all other pages.
    """
    if has_exercises(page):
        minutes = sum(
            e.minutes for e in exercises.sheet(page.rpartition("/")[2]).exercises
        )
        sheet = (f"Exercises, {minutes} min", sheet_of(page))
        if not is_chapter(page):
            return [sheet]
        return [*_further_pages(page), ("Lab", lab_of(page)), sheet]
    if page.startswith(SHEETS):
        own = page_of(page.removeprefix(SHEETS))
        if not is_chapter(own):
            return [("Recipes", own)]
        return [("Chapter", own), ("Lab", lab_of(own))]
    if page.startswith(LABS):
        return [("Chapter", name) for name in chapters() if lab_of(name) == page]
    for chapter in chapters():
        if page in further_pages(chapter):
            return [("Chapter", chapter), *_further_pages(chapter, without=page)]
    return []


def _further_pages(chapter, without=""):
    found = further_pages(chapter).items()
    return [(title, page) for page, title in found if page != without]


def add_links(app, doctree, docname):
    """Insert links to related pages and the reading time under the page's title.

    Related pages are a chapter, its further pages, its lab and its exercises.
    """
    title = doctree.next_node(nodes.title)
    related = related_pages(docname)
    if title is None or not (related or is_of_a_chapter(docname)):
        return
    links = [_page_link(app, docname, *pair) for pair in related]
    links.append(_notebook_link(app, docname))
    items = [nodes.list_item("", nodes.paragraph("", "", link)) for link in links]
    listed = nodes.bullet_list("", *items, classes=["posedu-links"])
    note = nodes.paragraph("", _time_note(app.env, docname), classes=["posedu-time"])
    place = title.parent.index(title) + 1
    title.parent[place:place] = [listed, note]


def _time_note(env, docname):
    """Return the sentence under a page's title that says how long the page takes.

    ``env`` is Sphinx's build environment, ``docname`` the page's name. For a notebook
    the text also says how to run the notebook.
    """
    time = duration(minutes(env, docname))
    if docname.startswith(SHEETS):
        return f"{NOT_RUNNABLE} write answers and check them. Time: {time}."
    if docname.startswith(LABS):
        return (
            f"{NOT_RUNNABLE} write down your predictions and run the cells. "
            f"Reading time: {time}, without the runs."
        )
    if not related_pages(docname):
        return f"Reading time: {time}."
    return f"Reading time: {time}, without the checks and the exercises."


def _page_link(app, docname, label, page):
    if label == "Chapter":
        label = f"Chapter: {app.env.titles[page].astext()}"
    return link(app, docname, page, "", label)


def _notebook_link(app, docname):
    is_notebook = docname.startswith(LABS)
    if is_notebook and (colab := colab_link(app.config, docname)):
        return external(colab, "Open in Colab")
    up = "/".join([".."] * docname.count("/"))
    return external(f"{up}/_sources/{docname}.ipynb", DOWNLOAD)


def setup(app):
    """Register the event that adds the links."""
    app.connect("doctree-resolved", add_links)
