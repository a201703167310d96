"""Page of examined statements about encodings, from book/data/statements.toml.

A statement is a sentence that readers meet elsewhere; its verdict is right, imprecise
or wrong.
"""

import re
import tomllib
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from posedu.catalog import CATALOG
from posedu_sphinx.markup import asset, parse
from posedu_sphinx.reference.filters import filtered

FILE = "book/data/statements.toml"
VERDICTS = {
    "right": "it holds",
    "imprecise": "it holds in part, or under a condition that it leaves out",
    "wrong": "it does not hold",
}
QUESTIONS = {"verdict": "Verdict", "family": "Family"}
AT_LARGE = "Attention, and positions in general"
HEAD = ["Statement", "Verdict", "What holds, and where it is shown"]
WIDTHS = [46, 16, 38]
REFERENCE = {  # the MyST of a link, by the form of the label
    r"err-": "{{ref}}`the erratum <{}>`",
    r"(thm|lem|cor|dfn)-|.*-box$": "{{prf:ref}}`{}`",
    r"(eq|def)-": "{{eq}}`{}`",
}


def statements(folder):
    """Read all statements of ``book/data/statements.toml`` below a folder.

    Each statement is a dict with the fields that the file gives it, such as ``says``
    and ``verdict``.
    """
    return tomllib.loads((Path(folder) / FILE).read_text("utf-8"))["statement"]


def by_record(found):
    """Group statements by the name of the encoding that they are about.

    ``found`` are the statements, as dicts. The groups are in the catalog's order, after
    statements about attention in general (under the name ""); an encoding without
    statements has no group.
    """
    groups = {name: [] for name in ("", *CATALOG)}
    for statement in found:
        groups[statement.get("record", "")].append(statement)
    return {name: group for name, group in groups.items() if group}


def reference(label):
    """Return the MyST text of a link to a label of the book.

    The label is of a formula (``eq-``, ``def-``), theorem or erratum (``err-``);
    another one raises ValueError.
    """
    for form, text in REFERENCE.items():
        if re.match(form, label):
            return text.format(label)
    raise ValueError(f"a label must begin with eq-, def-, thm- or err-, got {label!r}")


class Statements(SphinxDirective):
    """Directive ``{statements-examined}``: a section for each encoding, and filters.

    A section has a table of statements with their verdicts.
    """

    def run(self):
        """Return nodes: numbers of verdicts, filters, a section for each encoding."""
        self.env.note_dependency(FILE)
        groups = by_record(statements(self.env.srcdir))
        sections = [self.section(name, group) for name, group in groups.items()]
        tables = [section.children[-1] for section in sections]
        answers = [
            _filter_answers(name, s) for name, group in groups.items() for s in group
        ]
        controls, script = filtered(tables, answers, QUESTIONS)
        style = nodes.raw("", asset("ledger/statements.css"), format="html")
        count = parse(self, _count([s for group in groups.values() for s in group]))
        return [*count, style, controls, *sections, script]

    def section(self, name, group):
        """Return a section with an encoding's title, chapter link and statements.

        ``name`` is the encoding's name, "" for attention in general; ``group`` has the
        statements about it.
        """
        title = CATALOG[name].title if name else AT_LARGE
        page = CATALOG[name].page if name else "book/attention/permutation-equivariance"
        section = nodes.section("", ids=[f"statements-{name or 'attention'}"])
        section += nodes.title("", title)
        if page:
            section += parse(self, f"Chapter: {{doc}}`/{page}`.")
        section += self.table(group)
        return section

    def table(self, group):
        """Return a table of statements with text, verdict and correction in a row.

        ``group`` has the statements, as dicts.
        """
        rows = [(s["says"], s["verdict"], _answer(s)) for s in group]
        body = nodes.tbody("", *[self.row(cells) for cells in rows])
        tgroup = nodes.tgroup("", cols=len(HEAD))
        tgroup += [nodes.colspec(colwidth=width) for width in WIDTHS]
        tgroup += [nodes.thead("", self.row(HEAD)), body]
        shown = nodes.table("", tgroup, classes=["colwidths-given"])
        return nodes.container("", shown, classes=["posedu-statements"])

    def row(self, cells):
        """Return a table row node; ``cells`` are the texts of its cells in MyST."""
        return nodes.row("", *[nodes.entry("", *parse(self, cell)) for cell in cells])


def _filter_answers(name, statement):
    family = CATALOG[name].family if name else "attention"
    return [("verdict", statement["verdict"]), ("family", family)]


def _answer(statement):
    where = reference(statement["label"])
    if statement["verdict"] == "right":
        return f"See {where}."
    return f"{statement['instead']} See {where}."


def _count(found):
    verdicts = [s["verdict"] for s in found]
    each = ", ".join(
        f"{verdicts.count(verdict)} *{verdict}* ({meaning})"
        for verdict, meaning in VERDICTS.items()
    )
    return f"{len(found)} statements: {each}."


def setup(app):
    """Register the ``statements-examined`` directive."""
    app.add_directive("statements-examined", Statements)
