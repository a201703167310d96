"""Check the annotations of posedu at each call, or leave them unchecked."""

import functools
import inspect
import types
from typing import Literal, Union, get_args, get_origin

import jaxtyping
from beartype import BeartypeConf, beartype

typechecker = beartype(conf=BeartypeConf(is_pep484_tower=True))  # float allows int
jaxtyped = jaxtyping.jaxtyped

# Modules whose functions the check of every answer calls: they count as private.
INTERNAL = ("posedu.book.exercises.values", "posedu.book.exercises.common_mistakes")


def jaxtyped_if_public(made=None, **options):
    """Apply ``jaxtyped`` to classes and to public functions with annotations.

    Other functions stay unchanged. Functions inside others would be compiled at each
    call. Private functions, and those of private modules, get arguments that a public
    function has checked, and they receive most of the calls. A ``Literal`` is checked
    as a ``str``.
    """
    if made is None:
        return functools.partial(jaxtyped_if_public, **options)
    if inspect.isfunction(made):
        is_inner = "<locals>" in made.__qualname__
        names = (*made.__module__.split("."), made.__name__)
        is_private = any(n.startswith("_") and not n.endswith("__") for n in names)
        is_private = is_private or made.__module__ in INTERNAL
        if is_inner or is_private or not made.__annotations__:
            return made
        for name, annotation in made.__annotations__.items():
            made.__annotations__[name] = _without_choices(annotation)
    return jaxtyped(made, **options)


def _without_choices(annotation):
    """Return the annotation with ``str`` for each ``Literal`` of strings.

    posedu itself refuses an unknown choice, with a message that tests expect.
    """
    arguments = get_args(annotation)
    if get_origin(annotation) is Literal:
        is_choice = all(isinstance(value, str) for value in arguments)
        return str if is_choice else annotation
    if get_origin(annotation) in (types.UnionType, Union):
        return Union[tuple(map(_without_choices, arguments))]  # noqa: UP007
    return annotation


def leave_unchecked(monkeypatch):
    """Switch the checks off until ``monkeypatch`` undoes it."""
    from posedu.torch import KVCache, Tokens
    from posedu.torch.shared import Shared
    from posedu.torch.tiled_attention import Limits

    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    for made in (Tokens, KVCache, Limits, Shared):
        for name, member in vars(made).copy().items():
            if inspect.isfunction(member):
                monkeypatch.setattr(made, name, inspect.unwrap(member))
            elif isinstance(member, property):
                monkeypatch.setattr(made, name, property(inspect.unwrap(member.fget)))
