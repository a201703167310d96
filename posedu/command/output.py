"""Output and exit statuses that all parts of the command share."""

import gc
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

FINE, WRONG, CANNOT = 0, 1, 2
"""Exit statuses: nothing is wrong, something is, there is no answer."""


def show(text: str) -> None:
    """Print text, without characters that a terminal takes for orders.

    If the reader of the output has closed the pipe, the text and all after it is lost
    without a word. If it cannot be written for another reason, the command ends with
    status 2 and the reason.
    """
    try:
        print(printable(text), flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            refuse("the output", error)


def show_json(schema: str, target: str, content: Mapping[str, Any]) -> None:
    """Print one line of JSON: the name of its schema, the target and the content."""
    show(json.dumps({"schema": schema, "target": target, **content}))


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


def printable(text: str) -> str:
    """Escape the characters of ``text`` that control or break a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


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
