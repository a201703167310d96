"""Checks of values in configuration files; errors name the key."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from posedu._argument_types import short_repr
from posedu.tools.configs.rotary_config import ConfigError

LARGEST = 2**31  # largest count, more than any model has of anything
MOST_LAYERS = 4096
MOST_HEADS = 2**16
NUMBER = re.compile(
    r"\s*[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE
)


def number(name: str, value: object) -> float:
    """Return ``value``, a number or a text of one, as a float if finite and above 0.

    Raises
    ------
    ConfigError
        The value is anything else; the message names the key, ``name``.
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
        raise ConfigError(f"{name} must be a number, got {short_repr(value)}") from None
    if not math.isfinite(found) or found <= 0:
        raise ConfigError(f"{name} must be finite and above 0, got {short_repr(value)}")
    return found


def count(name: str, value: object) -> int:
    """Return ``value``, a whole number from 1 to 2³¹ or a text of one, as an integer.

    Raises
    ------
    ConfigError
        The value is anything else; the message names the key, ``name``.
    """
    found = number(name, value)
    if found != int(found) or found > LARGEST:
        raise ConfigError(
            f"{name} must be a whole number up to 2^31, got {short_repr(value)}"
        )
    return int(found)


def heads(name: str, value: object) -> int:
    """Return ``value``, a number of heads up to 2¹⁶ or a text of one, as an integer.

    Raises
    ------
    ConfigError
        The value is anything else; the message names the key, ``name``.
    """
    found = count(name, value)
    if found > MOST_HEADS:
        raise ConfigError(
            f"{name} must be at most {MOST_HEADS} heads, got {short_repr(value)}"
        )
    return found


def require_layers(name: str, values: Sequence[Any]) -> None:
    """Raise ConfigError if a list by layer, the value of ``name``, is too long."""
    if len(values) > MOST_LAYERS:
        raise ConfigError(
            f"{name} must have at most {MOST_LAYERS} layers, got {len(values):,}"
        )


def features(head_dim: int, share: float) -> int:
    """Return the number of features in a ``share`` of a head, rounded down.

    ``head_dim`` is the head dimension. A share may exceed 1; the number is cut to 2³¹.
    """
    return int(min(head_dim * share, LARGEST))


def numbers(name: str, value: object) -> tuple[float, ...]:
    """Return ``value``, a list of finite numbers above 0, as a tuple.

    Raises
    ------
    ConfigError
        The value is anything else; the message names the key, ``name``.
    """
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"{name} must be a list of numbers, got {short_repr(value)}")
    return tuple(number(f"{name}[{n}]", each) for n, each in enumerate(value))


def counts(name: str, value: object) -> tuple[int, ...]:
    """Return ``value``, a list of whole numbers from 1 to 2³¹, as a tuple.

    Raises
    ------
    ConfigError
        The value is anything else; the message names the key, ``name``.
    """
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(
            f"{name} must be a list of whole numbers, got {short_repr(value)}"
        )
    return tuple(count(f"{name}[{n}]", each) for n, each in enumerate(value))


def mapping(name: str, value: object) -> Mapping[str, Any]:
    """Return ``value`` if it is a JSON object.

    Raises
    ------
    ConfigError
        The value is anything else; the message names the key, ``name``.
    """
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise ConfigError(f"{name} must be a JSON object, got {short_repr(value)}")
    return value


def first(config: Mapping[str, Any], *names: str) -> tuple[str, Any] | None:
    """Return the first of ``names`` that ``config`` has a value for, and the value.

    ``config`` is a configuration and ``names`` are keys of it. The result is ``None``
    if none of the keys has a value other than ``None``.
    """
    return next(
        ((name, config[name]) for name in names if config.get(name) is not None), None
    )
