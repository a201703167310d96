"""Tables that a click on a column's head sorts, for cells tagged ``sortable``."""

from docutils import nodes

from posedu_sphinx.markup import asset

TAG = "tag_sortable"  # class of a cell with that tag


def sort_cells(app, doctree):
    """Mark the cells tagged ``sortable``, and add the script after the last of them."""
    cells = [c for c in doctree.findall(nodes.container) if TAG in c["classes"]]
    for cell in cells:
        cell["classes"].append("posedu-sortable")
    if cells:
        files = asset("reference/sorting.css") + asset("reference/sorting.js")
        parent = cells[-1].parent
        place = parent.index(cells[-1]) + 1
        parent.insert(place, nodes.raw("", files, format="html"))


def setup(app):
    """Register the event that makes tables sortable, before cells are folded."""
    app.connect("doctree-read", sort_cells, priority=790)
