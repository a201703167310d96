"""Check the annotations of posedu at each call, or leave them unchecked."""

import functools
import inspect
import types
from dataclasses import is_dataclass
from typing import Any, Literal, Union, get_args, get_origin

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeCallHintReturnViolation, BeartypeCallHintViolation

typechecker = beartype(conf=BeartypeConf(is_pep484_tower=True))  # float allows int
jaxtyped = jaxtyping.jaxtyped

# Modules whose functions the check of every answer calls: they count as private.
INTERNAL = ("posedu.book.exercises.values", "posedu.book.exercises.common_mistakes")


def jaxtyped_if_public(made=None, **options):
    """Check calls of public functions with annotations, and of data classes.

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
        if not inspect.isgeneratorfunction(made):
            return checked(made)
    elif is_dataclass(made) and "__init__" in vars(made):
        made.__init__ = checked(made.__init__)
        return made
    return jaxtyped(made, **options)


def checked(function):
    """Check a function's annotations at each call, as ``jaxtyped`` does in more time.

    ``jaxtyped`` also binds the arguments, checks them once more with the result, and
    prepares at import the checks of functions that no test calls.
    """

    @functools.cache
    def with_checks():
        function.__annotations__ = {
            name: _without_choices(_resolved(annotation, function))
            for name, annotation in function.__annotations__.items()
        }
        return typechecker(function)

    @functools.wraps(function)
    def checked_function(*arguments, **keywords):
        if jaxtyping.config.jaxtyping_disable:
            return function(*arguments, **keywords)
        with jaxtyped("context"):  # in which axes of one name have one size
            try:
                return with_checks()(*arguments, **keywords)
            except BeartypeCallHintViolation as violation:
                is_result = isinstance(violation, BeartypeCallHintReturnViolation)
                message = f"{'return value' if is_result else 'argument'}: {violation}"
        raise jaxtyping.TypeCheckError(message)

    return checked_function


def _resolved(annotation, function):
    """Return an annotation that may be a string; Any for what only mypy imports."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, inspect.unwrap(function).__globals__)
    except NameError:
        return Any


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
