"""What a model does with positions: ``python -m posedu.tools.diagnose TARGET``."""

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from posedu.tools.diagnose import Refused, as_json, diagnose, small

NEITHER = "neither a file or folder nor package.module:function"


def load(target: str, *, weights: bool) -> nn.Module:
    """The model of ``package.module:function``; or of a configuration, in float32.

    Code that lies in a folder is not run.

    Raises
    ------
    Refused
        Nothing there makes a model, whatever it raises.
    """
    module, colon, name = target.partition(":")
    if colon and not Path(target).exists():
        sys.path.insert(0, "")
        try:
            model = getattr(importlib.import_module(module), name)()
        except (Exception, SystemExit) as error:
            raise Refused(_said(error)) from error
        if not isinstance(model, nn.Module):
            raise Refused(f"{target} must return a torch.nn.Module, got {type(model)}")
        return model
    try:
        from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
    except ImportError:
        raise Refused(
            "reading a model from files needs transformers"
            if Path(target).exists()
            else NEITHER
        ) from None
    here: dict[str, Any] = dict(local_files_only=True, trust_remote_code=False)
    try:
        if weights:
            return AutoModelForCausalLM.from_pretrained(
                target, dtype=torch.float32, **here
            )
        config = small(AutoConfig.from_pretrained(target, **here))
        known = type(config) in AutoModelForCausalLM._model_mapping
        return (AutoModelForCausalLM if known else AutoModel).from_config(config)
    except Exception as error:  # whatever transformers says of a stranger's file
        if not Path(target).exists():
            raise Refused(f"{NEITHER}, nor a model on this machine") from error
        raise Refused(_said(error)) from error


def _said(error: BaseException) -> str:
    """The kind of an error, and its words in a line."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}"[:300]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; 1 if it has a fault, 2 if something could not be read.

    That is the target, or a configuration that the model has.
    """
    parser = argparse.ArgumentParser(
        prog="python -m posedu.tools.diagnose",
        description="Measure what a model does with positions.",
    )
    parser.add_argument(
        "target",
        help="package.module:function, which returns a model; or a folder or file with "
        "a configuration of transformers, of which a small one is made",
    )
    parser.add_argument(
        "--weights", action="store_true", help="load the folder's model, in float32"
    )
    parser.add_argument("--json", action="store_true", help="for machines")
    options = parser.parse_args(arguments)
    try:
        found = diagnose(load(options.target, weights=options.weights))
    except Refused as error:
        print(f"{options.target}: {error}", file=sys.stderr)
        return 2
    print(json.dumps(as_json(found)) if options.json else found)
    return 1 if found.faults else 0 if found.ok else 2


if __name__ == "__main__":
    sys.exit(main())
