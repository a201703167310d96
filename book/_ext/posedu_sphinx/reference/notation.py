"""The notation table and its translation to other sources, from book/notation.yml."""

from pathlib import Path

import yaml
from sphinx.util.docutils import SphinxDirective

from posedu_sphinx.markup import parse

FILE = "book/notation.yml"


class Notation(SphinxDirective):
    """``{notation-table}``: every symbol of the book."""

    def run(self):
        """Make the table."""
        head = ["Symbol", "Name in code", "Meaning", "Type and shape", "Elsewhere"]
        keys = ("symbol", "code", "meaning", "type", "elsewhere")
        rows = [[entry.get(key, "") for key in keys] for entry in self.read("symbols")]
        return parse(self, markdown_table(head, rows))

    def read(self, part):
        """A part of the notation file."""
        self.env.note_dependency(FILE)
        source = (Path(self.env.srcdir) / FILE).read_text(encoding="utf-8")
        return yaml.safe_load(source)[part]


class Translation(Notation):
    """``{translation-table}``: the terms of other sources for the same things."""

    def run(self):
        """Make the table."""
        entries = self.read("translation")
        head = ["Source", *next(iter(entries)).keys()]
        head.remove("source")
        rows = [list(entry.values()) for entry in entries]
        return parse(self, markdown_table(head, rows))


def markdown_table(head, rows):
    """A MyST table in a box that scrolls sideways on a narrow screen."""
    lines = [head, ["---"] * len(head), *rows]
    table = "\n".join("| " + " | ".join(map(str, cells)) + " |" for cells in lines)
    return f"::::{{div}} posedu-wide\n\n{table}\n\n::::\n"


def setup(app):
    """Register the directives."""
    app.add_directive("notation-table", Notation)
    app.add_directive("translation-table", Translation)
