"""Layout of tables and sentences in lines that a terminal shows whole."""

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence

from posedu._result_table import Table

NARROWEST = 40
"""Least width of a layout, however narrow the terminal is."""
GAP = 2
COMFORT = 24
"""Characters of a cell that stay in one line where a table is divided into parts."""
BREAK = re.compile(r"(\s+|(?<=/))")
"""Places at which a line may end: between words, and after each part of a path."""

Row = tuple[str, ...]


class _Wrapper(textwrap.TextWrapper):
    """A wrapper of text that breaks lines between words and in paths."""

    wordsep_simple_re = BREAK

    def __init__(self, width: int, indent: str = "", continued: str = ""):
        super().__init__(
            width,
            initial_indent=indent,
            subsequent_indent=continued,
            break_on_hyphens=False,
        )


def table_lines(table: Table, width: int) -> list[str]:
    """Return the rows of a table in lines of at most ``width`` characters.

    Cells of a table that is too wide are wrapped between words. If it is still too
    wide, its rows become columns; or its columns are divided into parts, one below the
    other, which all begin with the first column: whatever takes fewer lines. The text
    of no cell is left out.
    """
    width = max(width, NARROWEST)
    rows = [tuple(map(printable, row)) for row in table.rows()]
    across = list(zip(*rows, strict=True))
    for cells in (rows, across):
        least = _least(cells, width)
        if _total(least) > width:
            continue
        lines = [*_lines(cells, _grown(least, _sizes(cells, len), width))]
        if cells is rows or len(lines) <= len(_in_parts(rows, width)):
            return lines
    return _in_parts(rows, width)


def wrapped(text: str, width: int) -> list[str]:
    """Return the lines of ``text``, wrapped between words at ``width`` characters.

    What continues a line is indented by two characters more than the line.
    """
    width = max(width, NARROWEST)
    lines: list[str] = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip(" "))][: width // 2]
        wrapper = _Wrapper(width, indent, f"{indent}  ")
        lines += wrapper.wrap(line.lstrip(" ")) or [""]
    return lines


def _in_parts(rows: Sequence[Row], width: int) -> list[str]:
    """Return the lines of a table whose columns are divided into parts."""
    sizes = [
        max(least, min(longest, COMFORT, (width - GAP) // 2))
        for least, longest in zip(_least(rows, width), _sizes(rows, len), strict=True)
    ]
    lines: list[str] = []
    for columns in _parts(sizes, width):
        part = [tuple(row[c] for c in columns) for row in rows]
        if lines:
            part = [part[0], *(row for row in part[1:] if any(row[1:]))]
            lines.append("")
        own = [sizes[c] for c in columns]
        lines += _lines(part, _grown(own, _sizes(part, len), width))
    return lines


def _parts(sizes: Sequence[int], width: int) -> Iterator[list[int]]:
    """Yield the columns of each part: the first, and as many of the others as fit."""
    columns = [0]
    for column in range(1, len(sizes)):
        if len(columns) > 1 and _total([sizes[c] for c in (*columns, column)]) > width:
            yield columns
            columns = [0]
        columns.append(column)
    yield columns


def _sizes(rows: Sequence[Row], size: Callable[[str], int]) -> list[int]:
    """Return the largest ``size`` of a cell in each column.

    A row's last cell that reaches over empty ones has no part in it.
    """
    fixed = [row[: last if last < len(row) - 1 else None] for row, last in _ended(rows)]
    return [
        max((size(row[column]) for row in fixed if column < len(row)), default=0)
        for column in range(len(rows[0]))
    ]


def _ended(rows: Sequence[Row]) -> Iterator[tuple[Row, int]]:
    """Yield each row with the column in which its last cell begins.

    A cell before two or more empty ones is the last, and reaches over them.
    """
    for row in rows:
        filled = max((c for c, cell in enumerate(row) if cell), default=0)
        yield row, filled if 0 < filled < len(row) - 2 else len(row) - 1


def _grown(least: Sequence[int], most: Sequence[int], width: int) -> list[int]:
    """Return the sizes of columns, from ``least`` to ``most``, that ``width`` allows.

    Columns are equally wide where one of them is narrower than its text.
    """
    for limit in range(width, 0, -1):
        found = [max(a, min(b, limit)) for a, b in zip(least, most, strict=True)]
        if _total(found) <= width:
            return found
    return list(least)


def _total(sizes: Sequence[int]) -> int:
    return sum(sizes) + GAP * (len(sizes) - 1)


def _least(rows: Sequence[Row], width: int) -> list[int]:
    """Return the sizes of columns of which no word is broken, so that two fit."""

    def longest_word(cell: str) -> int:
        return min(max(map(len, BREAK.split(cell))), (width - GAP) // 2)

    return _sizes(rows, longest_word)


def _lines(rows: Sequence[Row], sizes: Sequence[int]) -> Iterator[str]:
    """Yield the lines of ``rows``, whose cells are wrapped to the columns' sizes."""
    for row, last in _ended(rows):
        own = [*sizes[:last], _total(sizes[last:])]
        cells = [
            _Wrapper(max(size, 1)).wrap(cell)
            for cell, size in zip(row, own, strict=False)
        ]
        for n in range(max(map(len, cells))):
            texts = (cell[n] if n < len(cell) else "" for cell in cells)
            padded = (text.ljust(size) for text, size in zip(texts, own, strict=True))
            yield (" " * GAP).join(padded).rstrip(" ")


def printable(text: str) -> str:
    """Escape the characters of ``text`` that control or break a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
