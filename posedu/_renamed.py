"""Name the successor of a module, class or function that was renamed.

``renamed.toml`` lists every public name that another version had. An import of an old
module or name raises an ``ImportError`` that says the new one.
"""

import tomllib
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any, NoReturn


@cache
def table() -> dict[str, dict[str, str]]:
    """The lists of ``renamed.toml``: kind of name, old name, new name."""
    text = files("posedu").joinpath("renamed.toml").read_text("utf-8")
    return tomllib.loads(text)


def successor(name: str) -> str | None:
    """The new name of a module, class or function, or ``None`` if it has no other."""
    known = table()
    parent, _, last = name.rpartition(".")
    if parent in known["modules"] and name not in known["names"]:
        return f"{known['modules'][parent]}.{last}"
    return known["modules"].get(name) or known["names"].get(name)


def _refuse(name: str, new: str) -> NoReturn:
    raise ImportError(f"{name} is named {new} since posedu 0.3", name=name)


class RenamedFinder:
    """The last finder of ``sys.meta_path``: it refuses old names and finds nothing.

    Python asks it for a module that no other finder has, and for a name that a
    package lacks in ``from package import name``.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Raise ImportError if ``name`` is an old one of posedu's."""
        if name.startswith("posedu.") and (new := successor(name)):
            _refuse(name, new)


def renamed_names(module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module, no package, that had other names."""

    def __getattr__(name: str) -> Any:
        full = f"{module}.{name}"
        if new := table()["names"].get(full):
            _refuse(full, new)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__
