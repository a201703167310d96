"""Tables of measured or compared numbers, shown as text or HTML, saved as JSON."""

import html
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from uuid import uuid4

from posedu._argument_types import check_types


class Table:
    """Base class of tables of results: a caption, column heads and rows of cells."""

    def caption(self) -> str:
        """Return the caption: what the table holds, and what machine measured it."""
        raise NotImplementedError

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the tuple of column heads, then a tuple of cells for each row."""
        raise NotImplementedError

    def words(self) -> frozenset[str]:
        """Return the heads of columns of text, whose cells a narrow page may wrap.

        By default no column is wrapped.
        """
        return frozenset()

    def __str__(self) -> str:
        rows = list(self.rows())
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))
            for row in rows
        )
        return "\n".join((self.caption(), *lines))

    def _repr_html_(self) -> str:
        head, *rows = self.rows()
        cells = "".join(f'<th scope="col">{html.escape(c)}</th>' for c in head)
        is_text = [name in self.words() for name in head]
        body = "".join(
            f"<tr>{''.join(_cell(*c) for c in zip(row, is_text, strict=True))}</tr>"
            for row in rows
        )
        return (
            f'<table class="posedu-table"><caption>{html.escape(self.caption())}'
            f"</caption><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
        )

    def under(self, line: str) -> "Folded":
        """Return this table folded under ``line``, which states the table's result.

        On a web page a click on the line opens the table; printed, the table follows
        the line.
        """
        return Folded(line, self)


def _cell(text: str, is_text: bool) -> str:
    """Return ``text`` as an HTML table cell; with ``is_text`` it may wrap after "_"."""
    shown = html.escape(text)
    if not is_text:
        return f"<td>{shown}</td>"
    return f'<td class="posedu-words">{shown.replace("_", "_<wbr>")}</td>'


@dataclass(frozen=True)
class Folded:
    """A line of text that a click on a web page opens to show a table."""

    line: str
    table: Table

    def __str__(self) -> str:
        return f"{self.line}\n{self.table}"

    def _repr_html_(self) -> str:
        return (
            f'<details class="posedu-fold"><summary>{html.escape(self.line)}</summary>'
            f"{self.table._repr_html_()}</details>"
        )


@check_types
def require_writable(path: str | Path) -> None:
    """Raise OSError now if :meth:`SavedTable.save` could not write ``path`` later.

    Missing folders are made.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(f"a file is needed, got the folder {path}")
    try:
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as error:  # which names the temporary file
        raise OSError(error.errno, error.strerror, str(path)) from None


@contextmanager
def reading(path: str | Path, expected: str) -> Iterator[None]:
    """Within the ``with`` block, turn errors of reading ``path`` into a ValueError.

    The message names the file and says that it is not ``expected``, such as "a saved
    table".
    """
    try:
        yield
    except (
        *(ValueError, KeyError, TypeError, AttributeError),
        RecursionError,  # of the JSON parser, for example in a million brackets
    ) as error:
        raise ValueError(
            f"{path} is not {expected} ({error}); give another file"
        ) from error


@check_types
@dataclass
class SavedTable(Table):
    """Base class of tables that are dataclasses and can be saved as a JSON file."""

    def stored(self) -> dict[str, Any]:
        """Return the table's fields as JSON data, which :meth:`save` writes."""
        return asdict(self)

    def save(self, path: str | Path) -> None:
        """Write the table as JSON, atomically: a reader never sees half a file."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{uuid4().hex}.part")
        text = json.dumps(self.stored(), indent=1, ensure_ascii=False) + "\n"
        try:
            part.write_text(text, "utf-8")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
