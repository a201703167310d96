"""Targets of a command: files, folders, names on the Hub and the standard input."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from posedu.tools.configs import _yaml
from posedu.tools.configs._content import of_json
from posedu.tools.configs.rotary_config import ConfigError

Source = str | Path | Mapping[str, Any]
FUNCTION = re.compile(r"([\w.]+|.*\.py):[A-Za-z_]\w*")
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


def sources(target: str) -> Iterator[tuple[str, Callable[[], Source]]]:
    """Yield the name of each configuration that ``target`` names, and its loader.

    Loaded is what :func:`posedu.tools.read_rope` reads: the path of a file or folder,
    or the content of the standard input (``-``), of a line of a ``.jsonl`` file or of a
    document of a YAML file. A name such as ``mistralai/Mistral-7B-v0.1``, if there is
    no such path, is a model of the Hugging Face Hub, whose ``config.json`` is fetched
    or taken from the local cache.

    Raises
    ------
    ConfigError
        The file is not YAML, or there is no configuration in it. Loaders raise it if a
        text is not JSON, or the Hub's file is not to be had.
    """
    path = Path(target)
    if target == "-":
        text = getattr(sys.stdin, "buffer", sys.stdin).read()
        yield "-", partial(of_json, text, "the standard input")
    elif path.suffix == ".jsonl":
        lines = path.read_bytes().split(b"\n")
        given = [(n, line) for n, line in enumerate(lines, 1) if line.strip()]
        if not given:
            raise ConfigError("the file has no configuration")
        for n, line in given:
            yield f"{target}:{n}", partial(of_json, line, "the line")
    elif path.suffix in _yaml.SUFFIXES:
        contents = _yaml.documents(path)
        for n, content in enumerate(contents, 1):
            name = target if len(contents) == 1 else f"{target}:{n}"
            yield name, lambda content=content: content
    elif not path.exists() and HUB_ID.fullmatch(target):
        yield target, partial(_from_hub, target)
    else:
        yield target, lambda: path


def is_function(target: str) -> bool:
    """Return whether ``target`` is module:function or FILE.py:function."""
    return not Path(target).exists() and FUNCTION.fullmatch(target) is not None


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
