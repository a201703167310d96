"""Filters for tables on the site: a text search and menus, run by a script.

A printed table gets the text search if its code cell has the tag ``searched``.
"""

from docutils import nodes

from posedu_sphinx.markup import asset

TAG = "tag_searched"  # class of a cell with that tag


def filtered(tables, answers, questions):
    """Return a form of filters to put before tables, and a script to put after them.

    ``tables`` are table nodes, whose rows get classes for the script. ``answers`` has,
    for each row of all tables in order, a list of pairs: a filter's name and the row's
    value. ``questions`` maps each filter's name to its label.
    """
    rows = [row for table in tables for row in table.next_node(nodes.tbody)]
    for row, pairs in zip(rows, answers, strict=True):
        row["classes"] = [f"{question}-{answer}" for question, answer in pairs]
    for table in tables:
        table["classes"].append("posedu-filtered")
    return _controls_and_script(answers, questions)


def search_cell(app, doctree):
    """Add a text search to the printed table of each code cell tagged ``searched``."""
    for cell in list(doctree.findall(nodes.container)):
        if TAG in cell["classes"]:
            controls, script = _controls_and_script([], {})
            cell["classes"].append("posedu-filtered")
            place = cell.parent.index(cell)
            cell.parent[place : place + 1] = [controls, cell, script]


def _controls_and_script(answers, questions):
    controls = asset("reference/filters.css") + _form(answers, questions)
    script = asset("reference/filters.js")
    return [nodes.raw("", html, format="html") for html in (controls, script)]


def _form(answers, questions):
    menus = "".join(
        _menu(question, label, [pair for pairs in answers for pair in pairs])
        for question, label in questions.items()
    )
    return (
        '<form class="posedu-filters" hidden><label>Contains <input type="search" '
        f'autocomplete="off"></label>{menus}<button type="reset">Show all</button>'
        f'<output role="status">{len(answers)} of {len(answers)}</output></form>'
    )


def _menu(question, label, pairs):
    answers = dict.fromkeys(answer for asked, answer in pairs if asked == question)
    options = "".join(f"<option>{answer}</option>" for answer in answers)
    return (
        f'<label>{label} <select name="{question}" autocomplete="off">'
        f'<option value="">any</option>{options}</select></label>'
    )


def setup(app):
    """Register the event that adds text searches to tables, before cells are folded."""
    app.connect("doctree-read", search_cell, priority=800)
