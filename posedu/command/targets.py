"""Targets of a command: files, folders, names on the Hub and the standard input."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from posedu.tools.configs import _yaml
from posedu.tools.configs.rotary_config import ConfigError

Source = str | Path | Mapping[str, Any]
FUNCTION = re.compile(r"([\w.]+|.*\.py):[A-Za-z_]\w*")
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


def sources(target: str) -> Iterator[tuple[str, Source]]:
    """Yield the configurations that ``target`` names, each with its own name.

    They are what :func:`posedu.tools.read_rope` reads: the path of a file or folder, or
    the content of the standard input (``-``), of a line of a ``.jsonl`` file or of a
    document of a YAML file. A name
    such as ``mistralai/Mistral-7B-v0.1``, if there is no such path, is a model of the
    Hugging Face Hub, whose ``config.json`` is fetched or taken from the local cache.

    Raises
    ------
    ConfigError
        The text is not JSON or YAML, or the Hub's file is not to be had.
    """
    if target == "-":
        yield "-", _parsed(sys.stdin.read(), "the standard input")
    elif Path(target).suffix == ".jsonl":
        lines = Path(target).read_text(encoding="utf-8").splitlines()
        for n, line in enumerate(lines, 1):
            if line.strip():
                yield f"{target}:{n}", _parsed(line, f"line {n}")
    elif Path(target).suffix in _yaml.SUFFIXES:
        contents = _yaml.documents(Path(target))
        for n, content in enumerate(contents, 1):
            if not isinstance(content, Mapping):
                raise ConfigError(f"document {n} must be an object with names")
            yield target if len(contents) == 1 else f"{target}:{n}", content
    elif not Path(target).exists() and HUB_ID.fullmatch(target):
        yield target, _from_hub(target)
    else:
        yield target, Path(target)


def is_function(target: str) -> bool:
    """Return whether ``target`` is module:function or FILE.py:function."""
    return not Path(target).exists() and FUNCTION.fullmatch(target) is not None


def _parsed(text: str, where: str) -> Mapping[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{where} is not JSON: {error}") from error
    if not isinstance(content, Mapping):
        raise ConfigError(f"{where} must be a JSON object")
    return content


def _from_hub(name: str) -> Path:
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise ConfigError(
            "there is no such file or folder; to read it from the Hugging Face Hub, "
            "pip install huggingface_hub"
        ) from None
    try:
        return Path(hf_hub_download(name, "config.json"))
    except Exception as error:  # The library raises many, some of other libraries.
        raise ConfigError(
            "there is no such file or folder, and the Hugging Face Hub does not give "
            f"its config.json ({type(error).__name__})"
        ) from error
