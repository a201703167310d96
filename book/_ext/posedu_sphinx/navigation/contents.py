"""The book's pages in reading order, as its contents list them."""

import functools

import yaml
from sphinx_external_toc.parsing import parse_toc_data

from posedu.book.exercises import sheets
from posedu_sphinx import ROOT

APART = (["reference"], ["developers"])  # folders of pages that belong to no chapter


def contents(root=ROOT):
    """The pages and what is below each of them."""
    return _parsed((root / "_toc.yml").read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=1)
def _parsed(text):
    return parse_toc_data(yaml.safe_load(text))


def documents(root=ROOT):
    """The name of every page, a page's own before the next one's."""
    return list(contents(root))


def is_of_a_chapter(name):
    """Whether a page is a chapter or one of its further pages."""
    folder = name.split("/")[:-1]
    return folder[:1] == ["book"] and folder[1:] not in ([], *APART)


def is_chapter(name):
    """Whether a page is a chapter, which has exercises."""
    return is_of_a_chapter(name) and name.rpartition("/")[2] in sheets()


def chapters(root=ROOT):
    """The names of the chapters."""
    return [name for name in documents(root) if is_chapter(name)]


def further(chapter, root=ROOT):
    """The further pages of a chapter and their short titles."""
    pages = contents(root)
    below = pages[chapter].child_files() if chapter in pages else []
    return {name: pages[name].title for name in below if is_of_a_chapter(name)}
