"""Proof ledger: a page with a table of all claims, each with its one check.

A claim is a formula of the book with a label ``eq-…``. A check is a code cell of the
page that verifies the formula by :mod:`posedu.book.proof`.
"""

import html
import json
import re
import tomllib
from pathlib import Path

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from posedu_sphinx.markup import link, table

LOGGER = logging.getLogger(__name__)
PROOF = re.compile(r'class="posedu-proof" data-proof="([^"]*)"')
CLAIM, DEFINITION = "eq-", "def-"
UNCHECKED = {"how": "unchecked", "covers": "", "typeset": None}
UNREAD = "book/data/unread.toml"
THEOREMS = {"theorem_node", "lemma_node", "proposition_node", "corollary_node"}


class ledger_placeholder(nodes.General, nodes.Element):
    """Placeholder node for the table of claims until every page has been read."""


class Ledger(SphinxDirective):
    """Directive ``{proof-ledger}``: a table of all labeled formulas and their checks.

    A check is a code cell that verifies the formula.
    """

    def run(self):
        """Return a placeholder node, which :func:`fill` replaces by the table."""
        return [ledger_placeholder()]


def store(env):
    """Return the collected claims and checks of each page, by the page's name.

    Claims are labels of formulas. Checks are the results of cells that verify them, as
    dicts with the fields of ``posedu.book.proof.Proof``. ``env`` is Sphinx's build
    environment, which holds both.
    """
    if not hasattr(env, "posedu_claims"):
        env.posedu_claims = {}
    return env.posedu_claims


def reasons(folder):
    """Read why the checks of some claims do not read their formulas.

    The result is a dict of reasons by labels, from ``book/data/unread.toml`` below the
    folder; empty without such a file.
    """
    file = Path(folder) / UNREAD
    return tomllib.loads(file.read_text("utf-8")) if file.exists() else {}


def collect(app, doctree):
    """Store a page's labeled formulas and the results of the cells that check them.

    Warn about a displayed formula without a label, and about a theorem without one.
    """
    docname = app.env.docname
    if not docname.startswith("book/"):
        return
    claims = []
    for node in doctree.findall(nodes.math_block):
        if _is_exempt(node):
            continue
        label = node.get("label") or ""
        if label.startswith(CLAIM):
            claims.append(label)
        elif not label.startswith(DEFINITION):
            shown = node.astext().strip().splitlines()[0]
            warn(f"displayed equation without an eq- or def- label: {shown}", node)
    for node in doctree.findall(lambda n: type(n).__name__ in THEOREMS):
        labels = [m.get("label") or "" for m in node.findall(nodes.math_block)]
        if not any(label.startswith(CLAIM) for label in labels):
            warn(f"theorem without a labeled claim: {node.get('label')}", node)
    checks = [
        json.loads(html.unescape(record))
        for raw in doctree.findall(nodes.raw)
        for record in PROOF.findall(raw.astext())
    ]
    store(app.env)[docname] = {"claims": claims, "checks": checks}


def _is_exempt(node):
    """Return whether a formula needs no label.

    True for a formula that a cell prints, and for one in an exercise.
    """
    while node is not None:
        is_exercise = type(node).__name__.startswith("exercise")
        if is_exercise or node.get("nb_element") == "cell_code_output":
            return True
        node = node.parent
    return False


def warn(message, location=None):
    """Emit a warning about a labeled formula or its check; the build then fails.

    ``location`` is the node or the page to which the warning refers, None for neither.
    """
    LOGGER.warning(message, location=location, type="posedu", subtype="ledger")


def purge(app, env, docname):
    """Delete the stored claims and checks of a page that is about to be read again.

    Claims are labeled formulas, checks the results of cells that verify them.
    """
    store(env).pop(docname, None)


def merge(app, env, docnames, other):
    """Add the claims and checks of pages that a parallel reader has read.

    Claims are labeled formulas, checks the results of cells that verify them.
    ``docnames`` are the names of these pages, ``other`` is the build environment of the
    parallel reader.
    """
    store(env).update({d: store(other)[d] for d in docnames if d in store(other)})


def balance(app, env):
    """Warn about claims without exactly one check, and checks without a claim.

    Claims are labeled formulas, checks the results of cells that verify them. A check
    on another page than its claim is also warned of, a check that does not read its
    formula without a reason, and a reason without such a check.
    """
    claims, checks, unread = {}, {}, {}
    for docname, found in store(env).items():
        for label in found["claims"]:
            claims.setdefault(label, []).append(docname)
        for check in found["checks"]:
            checks.setdefault(check["label"], []).append(docname)
            if check["typeset"] is None:
                unread[check["label"]] = docname
    for label, where in sorted(claims.items()):
        made = checks.get(label, [])
        if len(made) != 1:
            warn(f"claim {label} has {len(made)} checks; it needs one", where[0])
        elif made != where:
            warn(f"claim {label} is checked in {made[0]}, stated in {where[0]}")
    for label in sorted(checks.keys() - claims.keys()):
        warn(f"check {label} belongs to no equation", checks[label][0])
    known = reasons(env.srcdir)
    for label in sorted(unread.keys() - known.keys()):
        warn(f"check {label} reads no formula; say why in {UNREAD}", unread[label])
    for label in sorted(known.keys() - unread.keys()):
        warn(f"{UNREAD} names {label}, but no check that reads no formula")


def fill(app, doctree, docname):
    """Replace the proof ledger's placeholder by the table of claims and checks.

    Claims are labeled formulas, checks the results of cells that verify them.
    """
    for placeholder in list(doctree.findall(ledger_placeholder)):
        rows, why = [], reasons(app.srcdir)
        in_order = _in_reading_order(app.env, app.config.root_doc)
        for page in (page for page in in_order if page in store(app.env)):
            found = store(app.env)[page]
            checks = {check["label"]: check for check in found["checks"]}
            for label in found["claims"]:
                check = checks.get(label, UNCHECKED)
                equation = link(app, docname, page, f"equation-{label}", label)
                title = app.env.titles[page].astext()
                chapter = link(app, docname, page, "", title)
                refused = _refused(check, why.get(label, ""))
                covers = check["covers"]
                rows.append([equation, check["how"], refused, covers, chapter])
        count = nodes.paragraph("", _count(app.env))
        head = ["Equation", "How", "As printed", "Covers", "Chapter"]
        placeholder.replace_self([count, table(head, rows)])


def _in_reading_order(env, page):
    """Yield a page's name and the names of all pages below it in the table of contents.

    ``env`` is Sphinx's build environment, which has the table of contents.
    """
    yield page
    for below in env.toctree_includes.get(page, ()):
        yield from _in_reading_order(env, below)


def _refused(check, why):
    """Describe how many mutants of the displayed formula its check refuses.

    Mutants are copies with one sign, index or exponent changed. ``check`` has the
    fields of ``posedu.book.proof.Proof``. The text is "not read" and the reason ``why``
    if the check did not read the formula from the page, "read" if the formula has no
    mutants.
    """
    if check["typeset"] is None:
        return f"not read: {why}"
    refused, total = check["typeset"]
    return f"refuses {refused} of {total} mutants" if total else "read"


def _count(env):
    """Return two sentences with the numbers of claims, checks and refused mutants.

    Claims are labeled formulas, checks the cells that verify them, and mutants changed
    copies of the formulas. ``env`` is Sphinx's build environment, which has the claims
    and checks of all pages.
    """
    found = store(env).values()
    claims = sum(len(page["claims"]) for page in found)
    typeset = [c["typeset"] for page in found for c in page["checks"] if c["typeset"]]
    refused, mutants = (sum(counts[which] for counts in typeset) for which in (0, 1))
    return (
        f"{claims} claims, each with one check. The checks of {len(typeset)} claims "
        "read the formula from the page as it is typeset; they refuse "
        f"{refused} of {mutants} mutants, which change one sign, index or exponent."
    )


def outdated(app, env):
    """Return a list with the proof ledger's page name, for Sphinx to write it again."""
    return [d for d in env.found_docs if d.endswith("reference/ledger")]


def setup(app):
    """Register the ``proof-ledger`` directive, its placeholder and build events."""
    app.add_node(ledger_placeholder)
    app.add_directive("proof-ledger", Ledger)
    app.connect("doctree-read", collect)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("env-check-consistency", balance)
    app.connect("env-updated", outdated)
    app.connect("doctree-resolved", fill)
