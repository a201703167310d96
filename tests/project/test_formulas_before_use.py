"""No page numbers more than ten formulas before its reader has used one of them.

A formula is used by a cell that computes or draws something with it: a worked number, a
figure or an explorable. A check alone uses none, since the page folds it.
"""

import re

import pytest

from support import ROOT
from support.texts import name_of

PAGES = sorted((ROOT / "book").glob("*/*.md"))
MOST = 10
PIECE = re.compile(
    r"^\$\$ \(((?:def|eq)-[\w-]+)\)$|^```\{code-cell\}[^\n]*\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def most_unused(text):
    """The longest list of labels of formulas without a use between them."""
    longest, unused = [], []
    for formula, cell in PIECE.findall(text):
        if formula:
            unused = [*unused, formula]
            longest = max(longest, unused, key=len)
        elif not re.search(r"\bprove(_each|_sampled)?\(", cell):
            unused = []
    return longest


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_formulas_are_used_soon(page):
    unused = most_unused(page.read_text(encoding="utf-8"))
    assert len(unused) <= MOST, f"work out a number or draw a figure among {unused}"


def test_a_cell_ends_a_list_of_unused_formulas_and_a_check_does_not():
    formula = "$$\nx\n$$ (def-x)\n"
    cell, check = (
        f"```{{code-cell}} ipython3\n{code}\n```\n"
        for code in ("print(1)", 'prove("x")')
    )
    assert len(most_unused(2 * formula + check + formula + cell + formula)) == 3
