"""A tree: the marked nodes, the way between them, and the rotation on it."""

import numpy as np
import pytest

from posedu.book.explorables import trees_and_graphs
from posedu.numpy.graph import path_rotations, tree_positions
from support.explorables import FRAGMENTS, close, numbers, set_slider, summary_of

READ = """(figure) => {
  const all = (selector) => [...figure.querySelectorAll(selector)];
  return {
    cells: all(".cells text").map((t) => +t.textContent.replace("−", "-")),
    sizes: all(".cells rect").map((r) => +r.getAttribute("fill-opacity")),
    marks: all(".mark").map((c) => c.getAttribute("fill")),
    wide: all(".edges path").map((p) => p.style.strokeWidth === "4"),
  };
}"""


def generators(branches):
    """Counter-clockwise generators about the axes z and x, or twice about z."""
    z = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 0]])
    x = np.array([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]])
    both = [z, x] if branches == "free" else [z, 2 * z]
    return np.arccos(3 / 5) * np.stack(both)[:, None]


def check(page, branches, order, query, key, prefix=()):
    shown = page.locator("figure").evaluate(READ)
    paths = [trees_and_graphs.word(n) for n in (query, key)]
    words = [[*prefix, *path] for path in paths]
    if order == "node":
        words = [word[::-1] for word in words]
    at = tree_positions(words, branches=2, depth=5)
    x, y = path_rotations(at, generators(branches))[:, 0]
    relative = (x.T @ y).ravel()
    close(shown["cells"], relative, 2, 1e-9)
    close(shown["sizes"], 0.6 * np.abs(relative), 3, 1e-9)
    marked = {n for n, fill in enumerate(shown["marks"]) if fill != "none"}
    assert marked == {query, key}
    common = 0
    for a, b in zip(*paths, strict=False):
        if a != b:
            break
        common += 1
    up, down = (len(path) - common for path in paths)
    assert sum(shown["wide"]) == up + down
    told = numbers(summary_of(page).split(": ", 1)[1])
    assert told[:2] == [up, down]
    assert prefix or told[2:] == [common]
    return relative


def test_the_rotation_is_that_of_the_reference(open_page):
    page = open_page(FRAGMENTS["trees_and_graphs"])
    check(page, "free", "root", trees_and_graphs.QUERY, trees_and_graphs.KEY)
    for branches in trees_and_graphs.AXES:
        page.locator('select[name="branches"]').select_option(branches)
        for order in ("root", "node"):
            page.locator('select[name="order"]').select_option(order)
            for query, key in ((0, 14), (12, 9), (8, 8)):
                set_slider(page, "query", query)
                set_slider(page, "key", key)
                check(page, branches, order, query, key)


@pytest.mark.parametrize(
    ("branches", "order", "cancels"),
    [("free", "root", True), ("free", "node", False), ("planes", "node", True)],
)
def test_a_new_root_changes_only_products_from_the_node_up(
    open_page, branches, order, cancels
):
    page = open_page(FRAGMENTS["trees_and_graphs"])
    page.locator('select[name="branches"]').select_option(branches)
    page.locator('select[name="order"]').select_option(order)
    before = check(page, branches, order, 9, 3)
    page.locator('button[name="moved"]').press("Enter")
    after = check(page, branches, order, 9, 3, prefix=(1,))
    assert np.allclose(before, after) == cancels
    (change,) = numbers(summary_of(page).split(". ")[1])
    close(change, np.abs(after - before).max(), 2, 1e-9)


def test_a_click_makes_the_key_the_query(open_page):
    page = open_page(FRAGMENTS["trees_and_graphs"])
    page.locator(".nodes g").nth(13).click()
    check(page, "free", "root", trees_and_graphs.KEY, 13)


def test_the_picture_stands_without_scripts(open_page):
    page = open_page(FRAGMENTS["trees_and_graphs"], java_script_enabled=False)
    check(page, "free", "root", trees_and_graphs.QUERY, trees_and_graphs.KEY)
    assert page.locator(".static").is_visible()
