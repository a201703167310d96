"""Tables of the book's notation and of other sources' terms, from book/notation.yml."""

from pathlib import Path

import yaml
from sphinx.util.docutils import SphinxDirective

from posedu_sphinx.markup import parse

FILE = "book/notation.yml"


class Notation(SphinxDirective):
    """Directive ``{notation-table}``: a table of every symbol of the book."""

    def run(self):
        """Return the nodes of the table of the book's symbols."""
        head = ["Symbol", "Name in code", "Meaning", "Type and shape", "Elsewhere"]
        keys = ("symbol", "code", "meaning", "type", "elsewhere")
        rows = [[entry[key] for key in keys] for entry in self.read("symbols")]
        return parse(self, markdown_table(head, rows))

    def read(self, part):
        """Return the list under a key of book/notation.yml, such as ``symbols``."""
        self.env.note_dependency(FILE)
        source = (Path(self.env.srcdir) / FILE).read_text(encoding="utf-8")
        return yaml.safe_load(source)[part]


class Translation(Notation):
    """Directive ``{translation-table}``: other sources' terms for the book's terms."""

    def run(self):
        """Return a table with a row for each source and a column for each term.

        A source is a paper or library, a term one of the book's terms; a cell has the
        source's word for the term.
        """
        entries = self.read("translation")
        keys = ["source", *(key for key in entries[0] if key != "source")]
        rows = [[entry[key] for key in keys] for entry in entries]
        return parse(self, markdown_table(["Source", *keys[1:]], rows))


def markdown_table(head, rows):
    """Return a MyST table in a box that scrolls sideways on a narrow screen.

    ``head`` are the column titles, ``rows`` lists of cells. A ValueError is raised for
    a cell with ``|``, which would end it.
    """
    for cell in (cell for row in rows for cell in row):
        if "|" in str(cell):
            raise ValueError(rf"a cell must not have |, write \lvert x\rvert: {cell!r}")
    lines = [head, ["---"] * len(head), *rows]
    table = "\n".join("| " + " | ".join(map(str, cells)) + " |" for cells in lines)
    return f"::::{{div}} posedu-wide\n\n{table}\n\n::::\n"


def setup(app):
    """Register the ``notation-table`` and ``translation-table`` directives."""
    app.add_directive("notation-table", Notation)
    app.add_directive("translation-table", Translation)
