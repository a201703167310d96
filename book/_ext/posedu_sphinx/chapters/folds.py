"""Folds (boxes that a click opens) around checks, long code, long proofs and sections.

A first reading may skip what is folded. A check is a code cell that verifies a formula;
its badge is the line with the result. A folded check shows its badge, folded code its
output, and a folded section the titles of its subsections. The folded sections are
"Cross-check", "Cost" and "What goes wrong". A click opens a fold, and so does a link
into it. In the further pages of a chapter, which are below it in the contents, no
section is folded, because a reader has already chosen to open those pages.
"""

import re

from docutils import nodes

from posedu_sphinx.ledger.proof_ledger import PROOF
from posedu_sphinx.navigation.contents import is_chapter, is_of_a_chapter

LINES = 8  # longest cell that is shown unfolded
LINES_OF_PRACTICE = 40  # the same on pages whose subject is a call
WORDS = 100  # longest proof that is shown unfolded
PRACTICE = "book/practice/"  # pages about calls, whose output is sentences
SECTIONS = {
    "Cross-check": "The implementations against each other, in every dtype",
    "Cost": "Operations, bytes and parameters",
    "What goes wrong": "Mistakes in published code, each of them run",
}
LEDGER = "../reference/ledger.html#how-to-read-a-check"
REFUSED = re.compile(r"refuses (\d+) of (\d+) mutants")
BADGE = re.compile(r'<p (class="posedu-proof".*?)</p>', re.DOTALL)
PICTURES = ("posedu-figure", "posedu-explorable")


def fold_chapter(app, doctree):
    """Fold a chapter's checks, long code, long proofs and three sections.

    A check is a code cell that verifies a formula. The sections are "Cross-check",
    "Cost" and "What goes wrong". ``proof_ledger.collect`` must run before, because it
    reads the checks' results where they stand, and this function moves them.
    """
    if not is_of_a_chapter(app.env.docname):
        return
    is_of_practice = app.env.docname.startswith(PRACTICE)
    for cell in list(doctree.findall(_is_cell)):
        if is_of_practice and (output := _part(cell, "cell_code_output")) is not None:
            output["classes"].append("posedu-wraps")
        _fold_cell(cell, LINES_OF_PRACTICE if is_of_practice else LINES)
    for proof in list(doctree.findall(_is_long_proof)):
        place = proof.parent.index(proof)
        proof.parent[place : place + 1] = [*_opening("proof", "Proof"), proof, _close()]
    for title in list(doctree.findall(nodes.title)):
        if is_chapter(app.env.docname) and title.astext() in SECTIONS:
            section = title.parent
            summary = _titles(section) or [nodes.Text(SECTIONS[title.astext()])]
            section[1:] = [*_opening("part", *summary), *section[1:], _close()]


def _is_cell(node):
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"


def _is_long_proof(node):
    if type(node).__name__ != "proof_node":
        return False
    is_proof = "proof" in node.next_node(nodes.admonition)["classes"][1:]
    return is_proof and len(node.astext().split()) > WORDS


def _fold_cell(cell, max_lines):
    """Fold the code of a check under its badge, and other code under its output.

    ``cell`` is the node of a code cell. A check is a code cell that verifies a formula,
    its badge the line with the result. A figure's code is always folded; other code of
    up to ``max_lines`` lines stays open unless the page hides it.
    """
    source = _part(cell, "cell_code_source")
    output = _part(cell, "cell_code_output")
    if source is None:
        return
    is_hidden = "input" in cell.attributes.pop("hide_mode", "")
    cell.remove(source)
    shown = "".join(raw.astext() for raw in cell.findall(nodes.raw))
    lines = source.astext().strip().count("\n") + 1
    if badges := BADGE.findall(shown):
        for bundle in [b for b in output.children if PROOF.search(_html(b))]:
            output.remove(bundle)
        summary = _raw("".join(f"<span {badge}</span>" for badge in badges))
        kept = [output] if output.children else []
        explanation = _raw(_explanation_link(badges))
        cell[:] = [*_opening("check", summary), explanation, source, _close(), *kept]
    elif any(f'class="{kind}' in shown for kind in PICTURES):
        cell[:] = [output, *_opening("code", "Code of this figure"), source, _close()]
    elif is_hidden or lines > max_lines:
        kept = [output] if output is not None else []
        cell[:] = [*_opening("code", f"Code, {lines} lines"), source, _close(), *kept]
    else:
        cell.insert(0, source)


def _explanation_link(badges):
    """Return a link, as HTML, to the page that explains the badges of a check.

    A check is a code cell that verifies a formula, and ``badges`` are the HTML of its
    result lines. If a badge counts mutants (changed copies of the formula) that the
    check does not refuse, the link's text says so.
    """
    counts = REFUSED.findall("".join(badges))
    some_accepted = any(refused != mutants for refused, mutants in counts)
    words = "How to read this line"
    if some_accepted:
        words += ", and why the check does not refuse all mutants"
    return f'<p class="posedu-how"><a href="{LEDGER}">{words}</a></p>'


def _part(cell, element):
    found = (part for part in cell.children if part.get("nb_element") == element)
    return next(found, None)


def _html(node):
    return "".join(raw.astext() for raw in node.findall(nodes.raw))


def _titles(section):
    """Return nodes with the titles of a section's subsections, separated by dots.

    The list is empty if the section has no subsections.
    """
    inner = [node for node in section.children if isinstance(node, nodes.section)]
    titles = [copy for one in inner for copy in (*one[0].deepcopy(), nodes.Text(" · "))]
    return titles[:-1]


def _opening(kind, *summary):
    """Return the nodes that open a fold, with the summary line that stays visible.

    ``kind`` is the end of the fold's CSS class, such as ``"check"``; ``summary`` is the
    line, as texts and nodes.
    """
    line = [nodes.Text(part) if isinstance(part, str) else part for part in summary]
    return [
        _raw(f'<details class="posedu-fold posedu-{kind}"><summary>'),
        nodes.inline("", "", *line),
        _raw("</summary>"),
    ]


def _close():
    return _raw("</details>")


def _raw(html):
    return nodes.raw("", html, format="html")


def setup(app):
    """Register :func:`fold_chapter`, to run after claims and checks are collected."""
    app.connect("doctree-read", fold_chapter, priority=900)
