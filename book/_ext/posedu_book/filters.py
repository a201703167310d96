"""What narrows tables down, where scripts run: a search, and choices."""

from docutils import nodes

from posedu_book.markup import asset


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
    controls = asset("filters.css") + _form(kinds, questions)
    script = asset("filters.js")
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
