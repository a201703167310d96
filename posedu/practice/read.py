"""Configurations of any spelling, read to one form."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from posedu.practice import _foreign, _timm, _transformers
from posedu.practice._values import shown
from posedu.practice.rope import ConfigError, Reading

LARGEST_FILE = 2**24  # bytes; configurations have thousands

Config = Mapping[str, Any]
SPELLINGS: tuple[tuple[Callable[[Config], bool], Callable[[Config], Reading]], ...] = (
    (_foreign.is_gguf, _foreign.read_gguf),
    (_timm.is_timm, _timm.read_timm),
    (_foreign.is_diffusers, _foreign.read_diffusers),
    (_foreign.is_chatglm, _foreign.read_chatglm),
    (_foreign.is_meta, _foreign.read_meta),
    (_foreign.is_neox, _foreign.read_neox),
    (_foreign.is_megatron, _foreign.read_megatron),
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
        config = _load(Path(config))
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
    found = ", ".join(shown(name) for name in list(config)[:6]) or "nothing"
    raise ConfigError(f"no spelling of rotations is known that begins with {found}")


def _load(path: Path) -> Any:
    if path.is_dir():
        named = [path / name for name in ("config.json", "params.json")]
        path = next((file for file in named if file.exists()), named[0])
    if (size := path.stat().st_size) > LARGEST_FILE:
        raise ConfigError(
            f"{path.name} has {size} bytes; a configuration has less than "
            f"{LARGEST_FILE}"
        )
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path.name} is no JSON: {error}") from error
