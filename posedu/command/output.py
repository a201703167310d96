"""Output and exit statuses that all parts of the command share."""

import gc
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from posedu._result_table import Table
from posedu.command.layout import printable, table_lines, wrapped

FINE, WRONG, CANNOT = 0, 1, 2
"""Exit statuses: nothing is wrong, something is, there is no answer."""


def show(*parts: str | Table) -> None:
    """Print texts and tables, without characters that a terminal takes for orders.

    Tables are as wide as the terminal. Texts are wrapped to its width; where the output
    is no terminal, a sentence stays in one line, and tables take the width that the
    variable COLUMNS gives, else 80 characters.
    """
    width = shutil.get_terminal_size().columns
    lines: list[str] = []
    for part in parts:
        if isinstance(part, Table):
            lines += table_lines(part, width)
        elif sys.stdout.isatty():
            lines += wrapped(printable(part), width)
        else:
            lines.append(printable(part))
    _write("\n".join(lines))


def show_json(schema: str, target: str, content: Mapping[str, Any]) -> None:
    """Print one line of JSON: the name of its schema, the target and the content."""
    line = json.dumps({"schema": schema, "target": target, **content})
    _write(line.replace("\x7f", "\\u007f"))  # the one control that dumps leaves


def _write(text: str) -> None:
    """Print text as it is.

    If the reader of the output has closed the pipe, the text and all after it is lost
    without a word. If it cannot be written for another reason, the command ends with
    status 2 and the reason.
    """
    try:
        print(text, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            refuse("the output", error)


def complain(target: str, reason: object) -> int:
    """Print why there is no answer on a target, and return the exit status for it.

    ``reason`` is a text, or the error that was raised.
    """
    if isinstance(reason, OSError):
        target = reason.filename or target
        is_missing = isinstance(reason, FileNotFoundError)
        reason = "there is no such file" if is_missing else reason.strerror or reason
    print(printable(f"{target}: {reason}"), file=sys.stderr)
    return CANNOT


def refuse(target: str, reason: object) -> NoReturn:
    """End the command with status 2 and a sentence: the target, and the reason."""
    raise typer.Exit(complain(target, reason))


@contextmanager
def uncollected() -> Iterator[None]:
    """Import large modules without collections of garbage, of which they have none.

    The collections would take a quarter of the time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
