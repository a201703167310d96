"""Reader of rotary embeddings from configurations in any known format."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from posedu.tools.configs import _other_formats, _timm, _transformers, _yaml
from posedu.tools.configs._content import Content, of_json
from posedu.tools.configs._fields import short_repr
from posedu.tools.configs._watched import Watched, about_positions
from posedu.tools.configs.rotary_config import (
    NOTE,
    WARNING,
    ConfigError,
    Reading,
    Remark,
)

LARGEST_FILE = 2**24  # bytes; configurations have thousands
MOST_OBJECTS = 2**16  # objects and lists in a configuration
DEEPEST = 100  # objects within each other
GGUF = b"GGUF"  # first bytes of a .gguf file

Config = Mapping[str, Any]
Reader = Callable[[Watched], Reading]


def _is_gguf(config: Config) -> bool:
    """Return whether a mapping is the metadata of a GGUF file."""
    return "general.architecture" in config


def _is_dump(config: Config) -> bool:
    """Return whether a mapping is the output of ``gguf-dump --json``."""
    metadata = config.get("metadata")
    return isinstance(metadata, Mapping) and _is_gguf(metadata)


def _gguf() -> Any:
    """Return the module that reads GGUF, imported on use for its tables."""
    from posedu.tools.configs import _gguf

    return _gguf


READERS: tuple[tuple[Callable[[Config], bool], Reader], ...] = (
    (_is_gguf, lambda config: _gguf().read_gguf(config)),
    (_timm.is_timm, _timm.read_timm),
    (_other_formats.is_diffusers, _other_formats.read_diffusers),
    (_other_formats.is_chatglm, _other_formats.read_chatglm),
    (_other_formats.is_meta, _other_formats.read_meta),
    (_other_formats.is_neox, _other_formats.read_neox),
    (_other_formats.is_megatron, _other_formats.read_megatron),
    (_transformers.is_config, _transformers.read),
)
"""A test for each config format, and its reader; the first that recognizes it reads."""

SUPPORTED = (
    "Hugging Face, timm, diffusers, GGUF, Megatron-LM, GPT-NeoX, Meta's params.json, "
    "ChatGLM"
)
SHOWN_KEYS = 6


def read_rope(config: str | Path | Config | object) -> Reading:
    """Read the rotary embeddings of a model from its configuration.

    No weights and no code are loaded. Of a ``.gguf`` file, the metadata and the
    tensors of rotary factors are read, with the package gguf; YAML files, with the
    package PyYAML.

    Parameters
    ----------
    config
        The path of a JSON file, of a ``.gguf`` file, of a YAML file with one document,
        or of a folder with a
        ``config.json`` or ``params.json``; the content of such a JSON file as a
        mapping; or an object with a method ``to_dict``, such as the configurations of
        transformers. Files of GGUF's metadata may be the output of ``gguf-dump
        --json``. A configuration of a training, such as NeMo's, may hold that of the
        model under any name.

    Returns
    -------
    Reading
        Each kind of layer with its frequencies, and warnings of parameters that are
        ignored, contradictory or known to be misread.

    Raises
    ------
    ConfigError
        Nothing says whether the model rotates, or its rotary embedding cannot be
        computed. The message says what was found where, and what is needed.
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
            "`config` must be a path, a mapping or an object with to_dict(), got "
            f"{short_repr(config)}"
        )
    if wrong := [name for name in config if not isinstance(name, str)]:
        raise ConfigError(f"the keys must be text, got {short_repr(wrong[0])}")
    _require_small(config)
    reading = _read(_gguf().from_dump(config) if _is_dump(config) else config)
    warnings = (
        Remark(
            WARNING, f"{short_repr(key)} is given twice; the last is used", "two-values"
        )
        for key in (config.repeated if isinstance(config, Content) else ())
    )
    return replace(reading, remarks=(*reading.remarks, *warnings))


def _require_small(config: Config) -> None:
    """Raise ConfigError if objects are nested too deeply, or too many.

    In YAML, an object may be within itself, or within ten others that are each within
    ten others.
    """
    left: list[tuple[Any, int]] = [(config, 1)]
    count = 0
    while left:
        of, depth = left.pop()
        count += 1
        if depth > DEEPEST or count > MOST_OBJECTS:
            raise ConfigError(
                f"a configuration must have at most {MOST_OBJECTS} objects, at most "
                f"{DEEPEST} within each other"
            )
        values = of.values() if isinstance(of, Mapping) else of
        inner = (v for v in values if isinstance(v, Mapping | list | tuple))
        left += [(value, depth + 1) for value in inner]


def _read(config: Config) -> Reading:
    """Read a configuration by the first reader that recognizes it."""
    for recognizes, read in READERS:
        if recognizes(config):
            return _with_unread(read, config)
    if not config:
        raise ConfigError("the configuration is empty; give a whole config.json")
    if inside := _inside(config):
        return inside
    keys = [short_repr(name) for name in list(config)[:SHOWN_KEYS]]
    keys += ["…"] * (len(config) > SHOWN_KEYS)
    raise ConfigError(
        f"config format not recognized (top-level keys: {', '.join(keys)}); "
        f"supported: {SUPPORTED}"
    )


def _inside(config: Config) -> Reading | None:
    """Read the only object inside a configuration that some reader recognizes.

    The result is ``None`` if there is none.

    Raises
    ------
    ConfigError
        There are several, or the object cannot be read.
    """
    found: dict[str, Reader] = {}
    for name, of in _yaml.objects(config):
        reader = next((read for recognizes, read in READERS if recognizes(of)), None)
        is_within = any(name.startswith(f"{outer}.") for outer in found)
        if reader is not None and not is_within:
            found[name] = reader
    if not found:
        return None
    if len(found) > 1:
        raise ConfigError(
            f"several objects are configurations of models ({', '.join(found)}): give "
            "one of them in a file of its own"
        )
    ((name, reader),) = found.items()

    def read(watched: Watched) -> Reading:
        of: Any = watched
        for part in name.split("."):
            of = of[part]
        return reader(of)

    reading = _with_unread(read, config)
    note = Remark(NOTE, f"the model's configuration is the object {name}")
    return replace(reading, remarks=(*reading.remarks, note))


def _with_unread(read: Reader, config: Config) -> Reading:
    """Read a configuration; warn of names about positions that ``read`` did not read.

    ``read`` is the reader of the configuration's format.
    """
    watched = Watched(config)
    reading = read(watched)
    unread = []
    for name in watched.unread():
        meant = watched.similar(name)
        if about_positions(name) or about_positions(meant):
            text = "is not read: if it changes a rotation, this reading is wrong"
            guess = f"; is it {meant}, misspelled?" if meant else ""
            unread.append(Remark(WARNING, f"{name} {text}{guess}", "unread-name"))
    return replace(reading, remarks=(*reading.remarks, *unread))


def _load(path: Path) -> Config:
    """Return the content of a file."""
    if path.is_dir():
        named = [path / name for name in ("config.json", "params.json")]
        path = next((file for file in named if file.exists()), named[0])
    if path.suffix in _yaml.SUFFIXES:
        found = _yaml.documents(path)
        if len(found) != 1:
            raise ConfigError(f"the file must have one document, got {len(found)}")
        return found[0]
    with path.open("rb") as file:
        data = file.read(len(GGUF))
        if data == GGUF:
            return _gguf().from_file(path)
        data += file.read(LARGEST_FILE + 1 - len(GGUF))
    if len(data) > LARGEST_FILE:
        raise ConfigError(
            f"the file must have at most {LARGEST_FILE} bytes to be a configuration, "
            f"got {path.stat().st_size}"
        )
    return of_json(data)
