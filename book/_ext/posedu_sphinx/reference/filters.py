"""What narrows tables down, where scripts run: a search, and choices.

The tables that a cell shows have the search if the cell has the tag ``searched``.
"""

from docutils import nodes

from posedu_sphinx.markup import asset

TAG = "tag_searched"  # as a cell of that tag is classed


def filtered(tables, kinds, questions):
    """Controls to stand before ``tables``, and the script to stand behind them.

    ``kinds`` has for each row of all tables, in order, what it can be looked for by:
    pairs of a question and an answer. ``questions`` has the label of each question.
    """
    rows = [row for table in tables for row in table.next_node(nodes.tbody)]
    for row, found in zip(rows, kinds, strict=True):
        row["classes"] = [f"{question}-{answer}" for question, answer in found]
    for table in tables:
        table["classes"].append("posedu-filtered")
    return _around(kinds, questions)


def search_cell(app, doctree):
    """Have the tables of a cell searched, if one says so; the script counts rows."""
    for cell in list(doctree.findall(nodes.container)):
        if TAG in cell["classes"]:
            controls, script = _around([], {})
            cell["classes"].append("posedu-filtered")
            place = cell.parent.index(cell)
            cell.parent[place : place + 1] = [controls, cell, script]


def _around(kinds, questions):
    controls = asset("reference/filters.css") + _form(kinds, questions)
    script = asset("reference/filters.js")
    return [nodes.raw("", html, format="html") for html in (controls, script)]


def _form(kinds, questions):
    choices = "".join(
        _choice(question, label, [pair for found in kinds for pair in found])
        for question, label in questions.items()
    )
    return (
        '<form class="posedu-filters" hidden><label>Contains <input type="search" '
        f'autocomplete="off"></label>{choices}<button type="reset">Show all</button>'
        f'<output role="status">{len(kinds)} of {len(kinds)}</output></form>'
    )


def _choice(question, label, pairs):
    answers = dict.fromkeys(answer for asked, answer in pairs if asked == question)
    options = "".join(f"<option>{answer}</option>" for answer in answers)
    return (
        f'<label>{label} <select name="{question}" autocomplete="off">'
        f'<option value="">any</option>{options}</select></label>'
    )


def setup(app):
    """Register the event, before cells are folded."""
    app.connect("doctree-read", search_cell, priority=800)
