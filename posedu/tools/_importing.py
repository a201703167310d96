"""Import of modules that a command line names."""

import importlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def imported(module: str) -> ModuleType:
    """Import a module by its name, or by the path of its file, which ends in ``.py``.

    Raises
    ------
    ImportError
        There is no such module; code in it may raise any error.
    """
    if not module.endswith(".py"):
        return importlib.import_module(module)
    spec = spec_from_file_location(Path(module).stem, module)
    if spec is None or spec.loader is None:
        raise ImportError(f"{module} cannot be imported")
    found = module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found
