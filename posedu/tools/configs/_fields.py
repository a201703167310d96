"""Values of a foreign configuration, each taken with its name or refused with it."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from posedu.tools.configs.rotary_config import ConfigError

LARGEST = 2**31  # of counts: more than any model has of anything
NUMBER = re.compile(
    r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE
)


def shown(value: object) -> str:
    """A value as text, short."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def number(name: str, value: object) -> float:
    """A finite number above 0; text that is one is taken, too.

    Raises
    ------
    ConfigError
        Anything else.
    """
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        if isinstance(value, str) and not NUMBER.fullmatch(value):
            raise ValueError
        found = float(value)
    except OverflowError:
        found = math.inf
    except ValueError:
        raise ConfigError(f"{name} must be a number, got {shown(value)}") from None
    if not math.isfinite(found) or found <= 0:
        raise ConfigError(f"{name} must be finite and above 0, got {shown(value)}")
    return found


def count(name: str, value: object) -> int:
    """A whole number from 1 to 2³¹.

    Raises
    ------
    ConfigError
        Anything else.
    """
    found = number(name, value)
    if found != int(found) or found > LARGEST:
        raise ConfigError(
            f"{name} must be a whole number up to 2^31, got {shown(value)}"
        )
    return int(found)


def features(head_dim: int, share: float) -> int:
    """So many features of a head; a share above 0 may be more than all."""
    return int(min(head_dim * share, LARGEST))


def numbers(name: str, value: object) -> tuple[float, ...]:
    """A list of finite numbers above 0.

    Raises
    ------
    ConfigError
        Anything else.
    """
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"{name} must be a list of numbers, got {shown(value)}")
    return tuple(number(f"{name}[{n}]", each) for n, each in enumerate(value))


def counts(name: str, value: object) -> tuple[int, ...]:
    """A list of whole numbers above 0.

    Raises
    ------
    ConfigError
        Anything else.
    """
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"{name} must be a list of whole numbers, got {shown(value)}")
    return tuple(count(f"{name}[{n}]", each) for n, each in enumerate(value))


def mapping(name: str, value: object) -> Mapping[str, Any]:
    """An object of JSON.

    Raises
    ------
    ConfigError
        Anything else.
    """
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise ConfigError(f"{name} must be an object, got {shown(value)}")
    return value


def first(config: Mapping[str, Any], *names: str) -> tuple[str, Any] | None:
    """The first of these names that has a value, and the value."""
    return next(
        ((name, config[name]) for name in names if config.get(name) is not None), None
    )
