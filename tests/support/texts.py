"""Names and texts of the project's files, for tests of what they say."""

import json
import re

from support import ROOT

CELL = re.compile(r"^(`{3,}|:{3,})\{code-cell\}[^\n]*\n(.*?)^\1$", re.M | re.S)


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def text_of(path):
    """The text of a file, or of all cells of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def cells_of_page(text):
    """The contents of a page's code cells, with their options."""
    return [cell[2] for cell in CELL.finditer(text)]
