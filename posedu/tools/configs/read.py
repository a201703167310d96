"""Configurations of any spelling, read to one form."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from posedu.tools.configs import _other_formats, _timm, _transformers
from posedu.tools.configs._fields import shown
from posedu.tools.configs.rotary_config import WARNING, ConfigError, Reading, Remark

LARGEST_FILE = 2**24  # bytes; configurations have thousands
GGUF = b"GGUF"  # what such a file begins with

Config = Mapping[str, Any]
SPELLINGS: tuple[tuple[Callable[[Config], bool], Callable[[Config], Reading]], ...] = (
    (_other_formats.is_gguf, _other_formats.read_gguf),
    (_timm.is_timm, _timm.read_timm),
    (_other_formats.is_diffusers, _other_formats.read_diffusers),
    (_other_formats.is_chatglm, _other_formats.read_chatglm),
    (_other_formats.is_meta, _other_formats.read_meta),
    (_other_formats.is_neox, _other_formats.read_neox),
    (_other_formats.is_megatron, _other_formats.read_megatron),
    (_transformers.is_config, _transformers.read),
)
"""Whether a configuration is spelled so, and its reader; the first that knows it."""


def read_rope(config: str | Path | Config | object) -> Reading:
    """What a model's configuration says of its rotations.

    Nothing is loaded but JSON: no weights, no code.

    Parameters
    ----------
    config
        The path of a JSON file or of a folder with a ``config.json`` or ``params.json``
        in it; what such a file has in it, as a mapping; or an object that has a method
        ``to_dict``, as the configurations of transformers.

    Returns
    -------
    Reading
        Each kind of layer with its frequencies, and what of the configuration is
        ignored, contradictory or known to be misread.

    Raises
    ------
    ConfigError
        It is no configuration of rotations, or one that cannot be computed; says what
        was found where, and what is needed.
    OSError
        The file cannot be read.
    """
    if isinstance(config, str | Path):
        config, twice = _load(Path(config))
        if isinstance(config, Mapping):
            reading = read_rope(config)
            said = (f"{shown(n)} stands twice: the last one holds" for n in twice)
            told = (*reading.remarks, *(Remark(WARNING, text) for text in said))
            return replace(reading, remarks=told)
    elif not isinstance(config, Mapping) and callable(
        as_mapping := getattr(config, "to_dict", None)
    ):
        config = as_mapping()
    if not isinstance(config, Mapping):
        raise ConfigError(
            "a configuration is a path, a mapping or an object with to_dict(), got "
            f"{shown(config)}"
        )
    for knows, read in SPELLINGS:
        if knows(config):
            return read(config)
    if not config:
        raise ConfigError("an empty object: a whole config.json is needed")
    found = ", ".join(shown(name) for name in list(config)[:6])
    raise ConfigError(f"no spelling of rotations is known that begins with {found}")


def _load(path: Path) -> tuple[Any, list[str]]:
    """What is in a file, and the names that an object of it has twice."""
    if path.is_dir():
        named = [path / name for name in ("config.json", "params.json")]
        path = next((file for file in named if file.exists()), named[0])
    with path.open("rb") as file:
        data = file.read(LARGEST_FILE + 1)
    if data.startswith(GGUF):
        raise ConfigError(
            "a .gguf file itself is not read: write its metadata as JSON, by the names "
            "that the gguf package has"
        )
    if len(data) > LARGEST_FILE:
        raise ConfigError(
            f"the file has {path.stat().st_size} bytes; a configuration has less than "
            f"{LARGEST_FILE}"
        )
    twice: list[str] = []

    def hook(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            counted = Counter(name for name, _ in pairs)
            twice.extend(name for name, n in counted.items() if n > 1)
        return found

    try:
        return json.loads(data, object_pairs_hook=hook), twice
    except UnicodeDecodeError as error:
        raise ConfigError("the file is no JSON: it is not text") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the file is no JSON: {error}") from error
