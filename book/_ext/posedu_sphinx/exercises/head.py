"""Head of a notebook with exercises: links, what to know first, conventions."""

import os
import re

from posedu.book.exercises import sheet
from posedu.book.exercises.records import without_roles
from posedu_sphinx import ROOT
from posedu_sphinx.navigation.contents import LABS, SHEETS, is_chapter, lab_of, page_of

FIRST = re.compile(r"^You need .*", re.M)  # a chapter's line on what to know first
PROOF = re.compile(r" \(\{prf:ref\}`[^`]*`\)")
PAGE = re.compile(r"\{doc\}`([^`]*)`")
LINK = re.compile(r"\[([^\]]*)\]\((\.\.?/[^)#]*)\.(?:md|ipynb)(#[^)]*)?\)")

ANSWER = (
    "Replace `raise NotImplementedError` in each function by your code, run the cell, "
    "then run the check below it."
)
REPAIR = (
    "Change the function in each cell until the symptom below it is 0 up to rounding, "
    "then run the check."
)
CHECKS = (
    "If your answer is wrong, the check names the mistake and shows the smallest input "
    "on which your answer fails; it never shows the solution."
)
CONVENTIONS = (
    "Arrays are NumPy arrays of float64, not lists, unless an exercise says otherwise. "
    "A function that works with SymPy is called with numbers and with symbols; its "
    "results are exact, without a decimal point."
)


def head(chapter):
    """Return the Markdown at the top of the notebook with a chapter's exercises.

    ``chapter`` is the last part of the name of the page that the exercises belong to.
    """
    page, found = page_of(chapter), sheet(chapter)
    own = f"[{title(page)}]({_path(page, chapter)})"
    about = (
        f"The page {own} has the solutions, folded under each exercise, with "
        "explanations."
    )
    if is_chapter(page):
        lab = lab_of(page).removeprefix(LABS)
        about += f" [The lab](../{lab}.ipynb) lets you experiment."
    is_repair = all(exercise.repair for exercise in found.exercises)
    titles = "; ".join(exercise.title for exercise in found.exercises)
    parts = (
        f"# Exercises: {found.title}",
        f"{len(found.exercises)} exercises: {titles}.",
        about,
        *prerequisites(page, chapter),
        f"{REPAIR if is_repair else ANSWER}\n{CHECKS}",
        found.conventions.strip()
        if is_repair
        else f"{CONVENTIONS}\n{found.conventions.strip()}",
    )
    return "\n\n".join(parts)


def prerequisites(page, chapter):
    """Yield what a page says that a reader has to know first, with links to pages.

    ``page`` is its name, ``chapter`` the name's last part.
    """
    text = (ROOT / f"{page}.md").read_text("utf-8")
    for line in FIRST.findall(text):
        linked = PAGE.sub(lambda m: _link(page, m[1], chapter), PROOF.sub("", line))
        yield without_roles(linked)


def _link(page, target, chapter):
    name = os.path.normpath(f"{os.path.dirname(page)}/{target}")
    return f"[{title(name)}]({_path(name, chapter)})"


def _path(page, chapter):
    """Return the path of a page's file from the notebook with a chapter's exercises."""
    return os.path.relpath(f"{page}.md", os.path.dirname(f"{SHEETS}{chapter}"))


def title(page):
    """Return the title of a page of the given name."""
    text = (ROOT / f"{page}.md").read_text("utf-8")
    return re.search(r"^# (.*)", text, re.M)[1]


def placed(markdown, name, site):
    """Return Markdown of a notebook whose relative links lead to the site's pages.

    ``name`` is the notebook's page name, ``site`` the site's address. Without an
    address a link becomes its text, in italics.
    """

    def link(found):
        if not site:
            return f"*{found[1]}*"
        page = os.path.normpath(f"{os.path.dirname(name)}/{found[2]}")
        return f"[{found[1]}]({site}{page}.html{found[3] or ''})"

    return LINK.sub(link, markdown)
