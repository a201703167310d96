"""Heads of exercise notebooks: links to pages that exist, prerequisites."""

import re

import pytest

from posedu.book.exercises import sheet, sheets
from posedu_sphinx.exercises.head import head, placed, prerequisites
from posedu_sphinx.exercises.notebooks import EXERCISES
from posedu_sphinx.navigation.contents import PROJECTS, is_chapter, lab_of, page_of

SITE = "https://example.github.io/posedu/"


@pytest.mark.parametrize("chapter", sheets())
def test_links_lead_to_files_and_no_role_is_left(chapter):
    text = head(chapter)
    links = re.findall(r"\]\((.*?)\)", text)
    assert links
    for link in links:
        assert (EXERCISES / link).resolve().is_file(), link
    assert not re.search(r"\{[a-z:]+\}`", text)


@pytest.mark.parametrize("chapter", sheets())
def test_the_first_paragraph_tells_a_sheet_from_all_others(chapter):
    """The search engines' description of the page is this paragraph."""
    _, first, *_ = head(chapter).split("\n\n")
    exercises = sheet(chapter).exercises
    assert first.startswith(f"{len(exercises)} exercises: {exercises[0].title}")
    assert all(exercise.title in first for exercise in exercises)


@pytest.mark.parametrize("chapter", [c for c in sheets() if is_chapter(page_of(c))])
def test_a_chapter_says_what_to_know_first(chapter):
    (line,) = prerequisites(page_of(chapter), chapter)
    assert line.startswith("You need ") and line.endswith(".")


@pytest.mark.parametrize("chapter", [c for c in sheets() if is_chapter(page_of(c))])
def test_a_project_is_no_chapter_s_lab(chapter):
    assert not lab_of(page_of(chapter)).startswith(PROJECTS)


def test_links_of_a_download_lead_to_the_site_or_become_text():
    text = "[The lab](../rope.ipynb#sec-a), [RoPE](../../book/rotary/rope.md)."
    page = "notebooks/exercises/rope"
    assert placed(text, page, SITE) == (
        f"[The lab]({SITE}notebooks/rope.html#sec-a), "
        f"[RoPE]({SITE}book/rotary/rope.html)."
    )
    assert placed(text, page, "") == "*The lab*, *RoPE*."
    assert placed("[other](https://example.org/a.md)", page, "").count("example.org")
