"""Reader of YAML files, and of the objects inside a configuration."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from posedu.tools.configs.rotary_config import ConfigError

SUFFIXES = (".yaml", ".yml")
LARGEST_FILE = 2**20  # bytes; training configurations have thousands


def documents(path: Path) -> list[Any]:
    """Return the content of each document in a YAML file, without empty ones.

    Raises
    ------
    ConfigError
        The package PyYAML is not installed, or the file is not YAML or too long.
    OSError
        The file cannot be read.
    """
    try:
        import yaml
    except ImportError as error:
        raise ConfigError(
            "a YAML file is read with the package PyYAML, which is not installed: "
            "pip install posedu[yaml]"
        ) from error
    with path.open("rb") as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise ConfigError(f"a YAML file must have at most {LARGEST_FILE} bytes")
    try:
        found = [*yaml.safe_load_all(data)]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"the file is not YAML: {reason}") from error
    return [content for content in found if content is not None]


def objects(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects inside a configuration, at any depth, by their dotted names."""
    for name, value in config.items():
        if isinstance(name, str) and isinstance(value, Mapping):
            yield name, value
            for inner, of in objects(value):
                yield f"{name}.{inner}", of
