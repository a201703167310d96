"""Name the successor of a module, class or function that was renamed.

``renamed.toml`` lists the public names of posedu 0.2 that were changed in 0.3. An
import of an old name raises an ``ImportError`` that says the new name.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn


@cache
def table() -> dict[str, dict[str, str]]:
    """Load ``renamed.toml``: for each kind of name, a mapping from old to new names."""
    import tomllib
    from importlib.resources import files

    text = files("posedu").joinpath("renamed.toml").read_text("utf-8")
    return tomllib.loads(text)


def successor(name: str) -> str | None:
    """Return the new name of a renamed module, class or function.

    If ``name`` is not the old name of one, the result is ``None``.
    """
    known = table()
    parent, _, last = name.rpartition(".")
    if parent in known["modules"] and name not in known["names"]:
        return f"{known['modules'][parent]}.{last}"
    return known["modules"].get(name) or known["names"].get(name)


def _refuse(name: str, new: str) -> NoReturn:
    raise ImportError(f"{name} is named {new} since posedu 0.3", name=name)


class RenamedFinder:
    """Import finder, last in ``sys.meta_path``, that raises ImportError for old names.

    Python asks this finder for a module that no other finder has, and for a name that a
    package lacks in ``from package import name``.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Raise ImportError if ``name`` is the old name of something in posedu.

        The message says the new name. For all other names the result is ``None``, so
        that the import fails as usual. ``path`` and ``target`` are part of Python's
        interface and are not used.
        """
        if name.startswith("posedu.") and (new := successor(name)):
            _refuse(name, new)


def renamed_names(module: str) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a module that raises ImportError for old names.

    It is for modules that are no packages; :class:`RenamedFinder` serves packages.
    """

    def __getattr__(name: str) -> Any:
        full = f"{module}.{name}"
        # Each ``from module import …`` asks for ``__path__``: the table is not needed.
        if not name.startswith("__") and (new := table()["names"].get(full)):
            _refuse(full, new)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__
