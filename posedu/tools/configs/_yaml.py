"""Reader of YAML files, and of the objects inside a configuration."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from posedu.tools.configs._content import Content, twice
from posedu.tools.configs.rotary_config import ConfigError

SUFFIXES = (".yaml", ".yml")
LARGEST_FILE = 2**20  # bytes; training configurations have thousands


def documents(path: Path) -> list[Content]:
    """Return the content of each document in a YAML file, without empty ones.

    Raises
    ------
    ConfigError
        The package PyYAML is not installed; the file is not YAML, too long or empty; or
        a document is no object.
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
    repeated: list[str] = []

    class Loader(yaml.SafeLoader):
        """Safe loader that notes the keys that an object has twice."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            repeated.extend(twice(str(key.value) for key, _ in node.value))
            return super().construct_mapping(node, deep=deep)

    found = []
    try:
        for n, content in enumerate(yaml.load_all(data, Loader=Loader), 1):
            if content is None:
                continue
            if not isinstance(content, dict):
                raise ConfigError(f"document {n} must be an object with names")
            found.append(Content(content))
            found[-1].repeated = tuple(repeated)
            repeated.clear()
    except ConfigError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"the file is not YAML: {reason}") from error
    if not found:
        raise ConfigError("the file has no configuration")
    return found


def objects(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects inside a configuration, at any depth, by their dotted names."""
    for name, value in config.items():
        if isinstance(name, str) and isinstance(value, Mapping):
            yield name, value
            for inner, of in objects(value):
                yield f"{name}.{inner}", of
