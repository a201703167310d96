"""Arguments of a wrong type are refused by what the tools and the book export.

What is called is read from the reference of the package and from the packages'
``__all__``, so that a new function is called as soon as it is documented. The
implementations of encodings have tests of their own (tests/encodings/test_fuzz.py).
"""

import importlib
import inspect
import re
import traceback
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from posedu._argument_types import _complaint, short_repr
from support import ROOT

REFERENCE = ROOT / "book/reference/api.md"
MODULE = re.compile(r"automodule:: (posedu\.\S+)\n   :members:(.*)\n")
PACKAGES = ("posedu.tools", "posedu.crosscheck", "posedu.catalog", "posedu.book")
FEWEST = 1600


class Odd:
    """A type that no annotation of posedu names."""

    def __repr__(self):
        return "Odd()"


def public(module):
    """Names in a module's ``__all__``, or of its own functions and classes."""
    own = (n for n, v in vars(module).items() if _module_of(v) == module.__name__)
    return getattr(module, "__all__", [n for n in own if n[0] != "_"])


def _module_of(member):
    return getattr(member, "__module__", "")


def exported():
    """Functions, classes and methods that the reference documents."""
    found = {}
    for name, members in MODULE.findall(REFERENCE.read_text(encoding="utf-8")):
        if name.startswith(PACKAGES):
            module = importlib.import_module(name)
            chosen = members.replace(" ", "").split(",") if members.strip() else None
            for member in chosen or public(module):
                found |= callables(f"{name}.{member}", getattr(module, member))
    return found


def callables(name, member):
    """A function, or a class and its public methods, by name."""
    if inspect.isfunction(member):
        return {name: member}
    if not isinstance(member, type) or issubclass(member, Exception):
        return {}
    found = {} if issubclass(member, typing.Generic) else {name: member}
    for method, value in vars(member).items():
        if method[0] != "_" and inspect.isfunction(value):
            found[f"{name}.{method}"] = value.__get__(object.__new__(member))
        elif isinstance(value, classmethod):
            found[f"{name}.{method}"] = getattr(member, method)
    return found


MADE = {
    **{str: "", int: 1, float: 1.0, bool: True, type(None): None, Path: Path()},
    **{Sequence: [], Iterable: [], Collection: [], list: [], Mapping: {}, dict: {}},
    **{Callable: print, torch.dtype: torch.float32, np.ndarray: np.zeros(0)},
    **{torch.device: torch.device("cpu"), torch.Tensor: torch.zeros(0)},
}


def good(annotation):
    """A value of the type, as cheap as there is."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType, typing.Literal):
        return good(inside[0]) if origin is not typing.Literal else inside[0]
    if origin is tuple and inside[1:] != (...,):
        return tuple(map(good, inside))
    kind = getattr(origin or annotation, "array_type", origin or annotation)
    if kind is tuple:
        return ()
    if kind in MADE or kind is typing.Any or not isinstance(kind, type):
        return MADE.get(kind)
    return kind.__new__(kind)


ODD = (
    *(Odd(), 1j, b"x", [Odd()], {"a": Odd()}, {Odd(): 1}, (Odd(), Odd())),
    np.array(2),  # cannot be iterated
)


def calls(function):
    """Each parameter with each odd value that its annotation excludes, and a call."""
    of = function.__init__ if isinstance(function, type) else function
    annotations = typing.get_type_hints(inspect.unwrap(of))
    parameters = inspect.signature(function).parameters.values()
    given = {
        p.name: good(annotations.get(p.name, typing.Any))
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }
    for parameter in parameters:
        name, annotation = parameter.name, annotations.get(parameter.name, typing.Any)
        for odd in ODD:
            if not _complaint(name, odd, annotation):
                continue
            if parameter.kind is parameter.VAR_POSITIONAL:
                yield name, odd, partial(function, odd)
            elif parameter.kind is parameter.VAR_KEYWORD:
                yield name, odd, partial(function, **given, other=odd)
            else:
                yield name, odd, partial(function, **given | {name: odd})


def test_an_argument_of_a_wrong_type_is_named(unchecked):
    count, obscure = 0, []
    for name, function in exported().items():
        for parameter, odd, call in calls(function):
            count += 1
            answer, where = "accepted", ""
            try:
                call()
            except (TypeError, ValueError, KeyError) as error:
                answer = str(error)
                where = traceback.extract_tb(error.__traceback__)[-1]
                is_own = "/posedu/" in where.filename and where.line.startswith("raise")
                if is_own and parameter in answer:
                    continue
            except Exception as error:
                answer = repr(error)
            obscure.append(f"{name}({parameter}={short_repr(odd)}): {answer} {where}")
    assert not obscure, "\n".join(obscure[:20])
    assert count >= FEWEST
