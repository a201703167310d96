"""Pages of the book in reading order, as its table of contents lists them."""

import functools

import yaml
from sphinx_external_toc.parsing import parse_toc_data

from posedu.book.exercises import sheets
from posedu.catalog import CATALOG
from posedu_sphinx import ROOT

LABS, SHEETS = "notebooks/", "notebooks/exercises/"
PROJECTS = "notebooks/projects/"

# Folders whose pages belong to no chapter.
OUTSIDE_CHAPTERS = (["reference"], ["developers"], ["teaching"])


def contents(root=ROOT):
    """Return the book's table of contents, read from ``_toc.yml``.

    ``root`` is the repository's folder. The result maps each page's name, in reading
    order, to its entry: title, and the pages below it.
    """
    return _parsed((root / "_toc.yml").read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=1)
def _parsed(text):
    return parse_toc_data(yaml.safe_load(text))


def documents(root=ROOT):
    """Return the names of all pages of the book in reading order.

    ``root`` is the repository's folder, which has the table of contents.
    """
    return list(contents(root))


def parts(root=ROOT):
    """Return the page names of each part of the book, by the part's caption.

    ``root`` is the repository's folder, which has the table of contents.
    """
    site = contents(root)
    return {part.caption: [*_below(site, part)] for part in site.root.subtrees}


def _below(site, part):
    for page in part.items:
        yield page
        for inner in site[page].subtrees:
            yield from _below(site, inner)


def is_of_a_chapter(name):
    """Return whether a page is a chapter, or below a chapter in the contents.

    ``name`` is the page's name. Pages of the reference, for teachers and for developers
    are neither.
    """
    folder = name.split("/")[:-1]
    return folder[:1] == ["book"] and folder[1:] not in ([], *OUTSIDE_CHAPTERS)


def has_exercises(name):
    """Return whether a page of the book has exercises of its own."""
    return is_of_a_chapter(name) and name.rpartition("/")[2] in sheets()


def is_chapter(name):
    """Return whether a page is a chapter: it has exercises, and is not of practice."""
    return has_exercises(name) and name.split("/")[1] != "practice"


def chapters(root=ROOT):
    """Return the page names of all chapters, in reading order.

    ``root`` is the repository's folder, which has the table of contents.
    """
    return [name for name in documents(root) if is_chapter(name)]


def further_pages(chapter, root=ROOT):
    """Return the pages below a chapter in the contents, mapped to short titles.

    ``chapter`` is the chapter's page name. The dict is empty if the contents have no
    such page or it has none below it.
    """
    pages = contents(root)
    below = pages[chapter].child_files() if chapter in pages else []
    return {name: pages[name].title for name in below if is_of_a_chapter(name)}


def lab_of(chapter):
    """Return the page name of a chapter's lab, a notebook to experiment in.

    ``chapter`` is the chapter's page name. The lab is the one that the catalog record
    of an encoding in the chapter names, else the one of the chapter's own name, else
    the last lab before the next chapter in the contents, else "".
    """
    for record in CATALOG.values():
        if record.page == chapter and record.lab:
            return f"{LABS}{record.lab}"
    pages = documents()
    own = LABS + chapter.rpartition("/")[2]
    if own in pages:
        return own
    passed, nearest = False, ""
    for page in pages:
        if passed and is_chapter(page):
            break
        passed |= page == chapter
        if page.startswith(LABS) and not page.startswith((SHEETS, PROJECTS)):
            nearest = page
    return nearest


def sheet_of(chapter):
    """Return the page name of the notebook with a chapter's exercises.

    ``chapter`` is the chapter's page name.
    """
    return SHEETS + chapter.rpartition("/")[2]


def page_of(sheet):
    """Return the name of the page whose exercises the sheet of the given name has."""
    (own,) = (
        name
        for name in documents()
        if name.endswith(f"/{sheet}") and has_exercises(name)
    )
    return own
