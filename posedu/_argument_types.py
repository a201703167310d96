"""Check of argument types at run time, by the annotations of a function or class.

The tools and the book's modules take many objects whose wrong type would fail far from
the call, with an error that does not name the argument. :func:`check_types` is the
decorator of what they export. The arrays and tensors of the implementations are checked
in :mod:`posedu.numpy` and :mod:`posedu.torch` themselves.
"""

import functools
import inspect
import reprlib
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from numbers import Complex, Integral, Real
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np

Checked = TypeVar("Checked", bound=Callable[..., Any])

# The types that an annotation accepts where they differ from the annotation, and the
# words for them in an error.
ACCEPTED: Mapping[Any, tuple[Any, str]] = {
    int: (Integral, "an integer"),
    float: (Real, "a number"),
    complex: (Complex, "a number"),
    bool: (bool | np.bool_, "True or False"),
    str: (str, "text"),
    Path: (Path, "a path"),
    type(None): (type(None), "None"),
    Callable: (Callable, "a function"),
    Mapping: (Mapping, "a mapping"),
    dict: (dict, "a dict"),
    Sequence: (Sequence | np.ndarray, "a sequence"),
    Collection: (Collection, "a collection"),
    Iterable: (Iterable, "an iterable"),
}
ITERABLES = (Sequence, Collection, Iterable, list, tuple, set, frozenset)


def short_repr(value: object) -> str:
    """Return ``repr(value)`` in one line, cut to 60 characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # of an object of the caller
        text = reprlib.repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def check_types(checked: Checked) -> Checked:
    """Make a function or a dataclass raise TypeError for arguments of a wrong type.

    The message names the argument, what it must be and what was given. Types are those
    of the annotations. An array is only asked to be an array, of any shape and dtype. A
    class is checked when it is made and in its public methods.
    """
    if not isinstance(checked, type):
        return _checked_function(checked)
    for name, member in vars(checked).copy().items():
        if name != "__init__" and name.startswith("_"):
            continue
        if isinstance(member, classmethod):
            setattr(checked, name, classmethod(_checked_function(member.__func__)))
        elif inspect.isfunction(member):
            setattr(checked, name, _checked_function(member))
    return checked


def _checked_function(function: Any) -> Any:
    signature = inspect.signature(function)

    @functools.cache  # read at the first call, when all names of the module exist
    def annotations() -> Mapping[str, Any]:
        return typing.get_type_hints(function)

    @functools.wraps(function)
    def checked(*arguments: Any, **keywords: Any) -> Any:
        for name, value in _by_parameter(signature, arguments, keywords):
            annotation = annotations().get(name.partition("[")[0], Any)
            if complaint := _complaint(name, value, annotation):
                raise TypeError(complaint)
        return function(*arguments, **keywords)

    return checked


def _by_parameter(
    signature: inspect.Signature, arguments: Any, keywords: Any
) -> Iterable[tuple[str, Any]]:
    """Yield the name and the value of each argument of a call.

    Where the signature does not fit the call nothing is yielded: the call itself raises
    an error that says so.
    """
    try:
        bound = signature.bind(*arguments, **keywords).arguments
    except TypeError:
        return
    for name, value in bound.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            yield from ((f"{name}[{n}]", each) for n, each in enumerate(value))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            yield from ((f"{name}[{key!r}]", each) for key, each in value.items())
        else:
            yield name, value


def _complaint(name: str, value: Any, annotation: Any) -> str:
    """Return why a value does not fit an annotation, or an empty string.

    ``name`` is the argument's name, or the name of an entry: ``name[0]``.
    """
    origin, inside = get_origin(annotation) or annotation, get_args(annotation)
    if annotation is Any or isinstance(annotation, TypeVar):
        return ""
    if origin in (Union, types.UnionType):
        found = [_complaint(name, value, each) for each in inside]
        of_entries = [text for text in found if not text.startswith(f"{name} must")]
        if of_entries:  # or fits
            return "" if "" in found else of_entries[0]
    elif _is_accepted(value, annotation):
        return next(filter(None, _entry_complaints(name, value, origin, inside)), "")
    return f"{name} must be {_words(annotation)}, got {short_repr(value)}"


def _is_accepted(value: Any, annotation: Any) -> bool:
    origin = get_origin(annotation) or annotation
    if origin is Literal:  # which one is asked by require_choice, with a ValueError
        return type(value) in map(type, get_args(annotation))
    if isinstance(value, bool) and origin in (int, float, complex):
        return False
    if isinstance(value, str | bytes) and origin in ITERABLES:
        return False
    accepted, _ = ACCEPTED.get(origin, (origin, ""))
    accepted = getattr(accepted, "array_type", accepted)  # of jaxtyping
    if origin in ITERABLES and getattr(value, "ndim", 1) == 0:
        return False
    return accepted is Any or isinstance(value, accepted)


def _entry_complaints(
    name: str, value: Any, origin: Any, inside: tuple[Any, ...]
) -> Iterable[str]:
    """Yield a complaint, or an empty string, on each entry of a container."""
    if origin is tuple and inside[1:] != (...,):
        if len(value) != len(inside):
            yield f"{name} must have {len(inside)} entries, got {short_repr(value)}"
        pairs = enumerate(zip(value, inside, strict=False))
        yield from (_complaint(f"{name}[{n}]", *pair) for n, pair in pairs)
    elif isinstance(value, Mapping) and len(inside) == 2:
        for key, each in value.items():
            yield _complaint(f"a key of {name}", key, inside[0])
            yield _complaint(f"{name}[{short_repr(key)}]", each, inside[1])
    elif isinstance(value, Collection) and origin in ITERABLES and inside:
        for n, each in enumerate(value):
            yield _complaint(f"{name}[{n}]", each, inside[0])


def _words(annotation: Any) -> str:
    origin = get_origin(annotation) or annotation
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_words, get_args(annotation))))
    if origin is Literal:
        return " or ".join(map(repr, get_args(annotation)))
    if origin in ACCEPTED:
        return ACCEPTED[origin][1]
    kind = getattr(origin, "array_type", origin)
    module = kind.__module__.partition(".")[0]
    own = kind.__qualname__ if module in ("builtins", "posedu") else ""
    name = own or f"{module}.{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
