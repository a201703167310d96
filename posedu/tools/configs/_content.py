"""Contents of configuration files, with the keys that an object in them has twice."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from posedu._argument_types import short_repr
from posedu.tools.configs.rotary_config import ConfigError


class Content(dict[str, Any]):
    """Object in a file; ``repeated`` has the keys that are given twice at any depth."""

    repeated: tuple[str, ...] = ()


def twice(names: Iterable[str]) -> list[str]:
    """Return the names that are among ``names`` more than once."""
    return [name for name, n in Counter(names).items() if n > 1]


def of_json(data: bytes | str, what: str = "the file") -> Content:
    """Return the content of a text in JSON; ``what`` the text is, for errors.

    Raises
    ------
    ConfigError
        The text is not JSON, or no object.
    """
    repeated: list[str] = []

    def hook(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated.extend(twice(name for name, _ in pairs))
        return dict(pairs)

    try:
        found = json.loads(data, object_pairs_hook=hook)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{what} is not JSON: it is not text") from error
    except json.JSONDecodeError as error:
        rest = error.doc.rstrip()
        reason = str(error)
        if error.pos >= len(rest) or "Unterminated" in error.msg:
            reason = f"it ends within an object or list, at line {error.lineno}"
        raise ConfigError(
            f"{what} is not JSON: {reason if rest else 'it is empty'}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{what} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{what} must be a JSON object, got {short_repr(found)}")
    content = Content(found)
    content.repeated = tuple(repeated)
    return content
