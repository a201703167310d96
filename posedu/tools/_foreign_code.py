"""Calls of code under test, which may raise anything."""

from collections.abc import Callable
from typing import Any


class Interruption(BaseException):
    """Raised to stop code under test from outside; it is no fault of that code."""


INTERRUPTIONS = (KeyboardInterrupt, Interruption)
"""Exceptions that end a test too; all others are results of the code under test."""


def called(function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    """Return what ``function`` returns.

    Raises
    ------
    RuntimeError
        The function raises what is no ``Exception``, such as SystemExit, and no
        interruption.
    """
    try:
        return function(*args, **named)
    except (Exception, *INTERRUPTIONS):
        raise
    except BaseException as error:
        name = type(error).__name__
        text = f"it raises {name}: {error}" if str(error) else f"it raises {name}"
        raise RuntimeError(text) from error
