"""Check the annotations of posedu at each call, or leave them unchecked."""

import functools
import inspect
import types
from typing import Literal, Union, get_args, get_origin

import jaxtyping
from beartype import BeartypeConf, beartype

# PEP 484: where a float is asked for, an int will do.
typechecker = beartype(conf=BeartypeConf(is_pep484_tower=True))
every_function = jaxtyping.jaxtyped
INSIDES = (
    "posedu.book.exercises.values",
    "posedu.book.exercises.common_mistakes",
)  # of every answer's check


def annotated_functions(made=None, **options):
    """As ``jaxtyped``, which the import hook puts on every function, save those with
    nothing to check, those inside others, which it would compile at each call, and
    private ones and those of private modules, which public ones call with what was
    checked: most calls of all. A ``Literal`` is checked as a ``str``."""
    if made is None:
        return functools.partial(annotated_functions, **options)
    if inspect.isfunction(made):
        inner = "<locals>" in made.__qualname__
        names = (*made.__module__.split("."), made.__name__)
        private = any(n.startswith("_") and not n.endswith("__") for n in names)
        private = private or made.__module__ in INSIDES
        if inner or private or not made.__annotations__:
            return made
        for name, annotation in made.__annotations__.items():
            made.__annotations__[name] = _without_choices(annotation)
    return every_function(made, **options)


def _without_choices(annotation):
    """The annotation with ``str`` for each ``Literal`` of strings.

    posedu refuses an unknown choice itself, in words that tests expect.
    """
    arguments = get_args(annotation)
    if get_origin(annotation) is Literal:
        is_choice = all(isinstance(value, str) for value in arguments)
        return str if is_choice else annotation
    if get_origin(annotation) in (types.UnionType, Union):
        return Union[tuple(map(_without_choices, arguments))]  # noqa: UP007
    return annotation


def leave_unchecked(monkeypatch):
    """Until ``monkeypatch`` undoes it."""
    from posedu.torch import KVCache, Tokens

    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    for made in (Tokens, KVCache):
        for name, member in vars(made).copy().items():
            if inspect.isfunction(member):
                monkeypatch.setattr(made, name, inspect.unwrap(member))
            elif isinstance(member, property):
                monkeypatch.setattr(made, name, property(inspect.unwrap(member.fget)))
