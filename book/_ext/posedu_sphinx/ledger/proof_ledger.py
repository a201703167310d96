"""The proof ledger: every labeled claim has one check, every check a claim."""

import html
import json
import re

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from posedu_sphinx.markup import link, table

LOGGER = logging.getLogger(__name__)
PROOF = re.compile(r'class="posedu-proof" data-proof="([^"]*)"')
CLAIM, DEFINITION = "eq-", "def-"
UNCHECKED = {"how": "unchecked", "covers": "", "typeset": None}
THEOREMS = {"theorem_node", "lemma_node", "proposition_node", "corollary_node"}


class ledger_placeholder(nodes.General, nodes.Element):
    """Where the ledger will stand once every page is read."""


class Ledger(SphinxDirective):
    """``{proof-ledger}``: one row a labeled claim."""

    def run(self):
        """Leave a placeholder."""
        return [ledger_placeholder()]


def store(env):
    """Per page, its claims (labels) and its checks (records of posedu.book.proof)."""
    if not hasattr(env, "posedu_claims"):
        env.posedu_claims = {}
    return env.posedu_claims


def collect(app, doctree):
    """Note a chapter's labeled equations and the proof lines its cells printed."""
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
    """Whether a formula was printed by a cell or belongs to an exercise."""
    while node is not None:
        is_exercise = type(node).__name__.startswith("exercise")
        if is_exercise or node.get("nb_element") == "cell_code_output":
            return True
        node = node.parent
    return False


def warn(message, location=None):
    """A warning, which the build treats as an error."""
    LOGGER.warning(message, location=location, type="posedu", subtype="ledger")


def purge(app, env, docname):
    """Forget a page that is read anew."""
    store(env).pop(docname, None)


def merge(app, env, docnames, other):
    """Take over what a parallel reader found."""
    store(env).update({d: store(other)[d] for d in docnames if d in store(other)})


def balance(app, env):
    """Complain of claims without exactly one check, and of checks without a claim."""
    claims, checks = {}, {}
    for docname, found in store(env).items():
        for label in found["claims"]:
            claims.setdefault(label, []).append(docname)
        for check in found["checks"]:
            checks.setdefault(check["label"], []).append(docname)
    for label, where in sorted(claims.items()):
        made = checks.get(label, [])
        if len(made) != 1:
            warn(f"claim {label} has {len(made)} checks; it needs one", where[0])
        elif made != where:
            warn(f"claim {label} is checked in {made[0]}, stated in {where[0]}")
    for label in sorted(checks.keys() - claims.keys()):
        warn(f"check {label} belongs to no equation", checks[label][0])


def fill(app, doctree, docname):
    """Put the ledger in place of its placeholder."""
    for placeholder in list(doctree.findall(ledger_placeholder)):
        rows = []
        in_order = _from(app.env, app.config.root_doc)
        for page in (page for page in in_order if page in store(app.env)):
            found = store(app.env)[page]
            checks = {check["label"]: check for check in found["checks"]}
            for label in found["claims"]:
                check = checks.get(label, UNCHECKED)
                equation = link(app, docname, page, f"equation-{label}", label)
                title = app.env.titles[page].astext()
                chapter = link(app, docname, page, "", title)
                tied = _typeset(check)
                rows.append([equation, check["how"], tied, check["covers"], chapter])
        count = nodes.paragraph("", _count(app.env))
        head = ["Equation", "How", "As typeset", "Covers", "Chapter"]
        placeholder.replace_self([count, table(head, rows)])


def _from(env, page):
    """A page and those that the contents list below it."""
    yield page
    for below in env.toctree_includes.get(page, ()):
        yield from _from(env, below)


def _typeset(check):
    """How many changes of the display its check refuses, if it reads the display."""
    if check["typeset"] is None:
        return "not read"
    refused, changes = check["typeset"]
    return f"refuses {refused} of {changes} changes" if changes else "read"


def _count(env):
    """The ledger in one sentence."""
    found = store(env).values()
    claims = sum(len(page["claims"]) for page in found)
    tied = [c["typeset"] for page in found for c in page["checks"] if c["typeset"]]
    refused, changes = (sum(counts[which] for counts in tied) for which in (0, 1))
    return (
        f"{claims} claims, each with its one check. {len(tied)} of them are read from "
        f"the page as they are typeset; their checks refuse {refused} of {changes} "
        "changes of one sign, index or exponent."
    )


def outdated(app, env):
    """Have the ledger's page written whenever any page was read."""
    return [d for d in env.found_docs if d.endswith("reference/ledger")]


def setup(app):
    """Register the directive and the events."""
    app.add_node(ledger_placeholder)
    app.add_directive("proof-ledger", Ledger)
    app.connect("doctree-read", collect)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("env-check-consistency", balance)
    app.connect("env-updated", outdated)
    app.connect("doctree-resolved", fill)
