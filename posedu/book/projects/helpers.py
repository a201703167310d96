"""Functions that a learner's answers call."""

import inspect
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any


def helpers_of(answers: Sequence[Any]) -> dict[str, FunctionType]:
    """Return the functions that answers call and that are written beside them, by name.

    These are functions of the answer's notebook or module, and those of a function in
    which the answer is defined; also what they call in turn. Functions of libraries,
    and the answers themselves, are not among them.
    """
    unwrapped = map(inspect.unwrap, answers)
    waiting = [f for f in unwrapped if isinstance(f, FunctionType)]
    known = set(waiting)
    found: dict[str, FunctionType] = {}
    while waiting:
        function = waiting.pop()
        for name, helper in _functions_named_in(function):
            if helper not in known and helper.__module__ == function.__module__:
                known.add(helper)
                found[name] = helper
                waiting.append(helper)
    return dict(sorted(found.items()))


def _functions_named_in(function: FunctionType) -> Iterator[tuple[str, FunctionType]]:
    """Yield the functions that a function's code names, without their decorators."""
    values = function.__globals__ | inspect.getclosurevars(function).nonlocals
    for name in _names_in(function.__code__):
        value = inspect.unwrap(values[name]) if callable(values.get(name)) else None
        if isinstance(value, FunctionType):
            yield name, value


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names that are read in the code, and in functions within it."""
    yield from (*code.co_names, *code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
