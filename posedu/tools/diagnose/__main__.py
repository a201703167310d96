"""Command that diagnoses a model: ``python -m posedu.tools.diagnose TARGET``."""

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
"""Start of the error message for an unknown target."""


def load(target: str, *, weights: bool) -> nn.Module:
    """Load the model that ``package.module:function`` or a configuration makes.

    ``target`` is the function's name, or the path of a configuration. A model of a
    configuration is in float32, and small and random unless its own ``weights`` are to
    be loaded. Code in the configuration's folder is not run.

    Raises
    ------
    Refused
        The target makes no model, or raises any error.
    """
    module, colon, name = target.partition(":")
    if colon and not Path(target).exists():
        sys.path.insert(0, "")
        try:
            model = getattr(importlib.import_module(module), name)()
        except (Exception, SystemExit) as error:
            raise Refused(_one_line(error)) from error
        if not isinstance(model, nn.Module):
            raise Refused(f"{target} must return a torch.nn.Module, got {type(model)}")
        return model
    try:
        from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
    except ImportError:
        raise Refused(
            "a model from files needs transformers; install it"
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
        has_logits = type(config) in AutoModelForCausalLM._model_mapping
        return (AutoModelForCausalLM if has_logits else AutoModel).from_config(config)
    except Exception as error:  # A file may make transformers raise anything.
        if not Path(target).exists():
            raise Refused(f"{NEITHER}, nor a model on this machine") from error
        raise Refused(_one_line(error)) from error


def _one_line(error: BaseException) -> str:
    """Return the type and the message of an error in one line."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}"[:300]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the diagnosis of a model; return 1 if it has a fault, 2 on an error.

    ``arguments`` are the command's, by default those of the command line. An error is a
    target that gives no model, or an unreadable configuration of a model. Without a
    fault or error the result is 0.
    """
    parser = argparse.ArgumentParser(
        prog="python -m posedu.tools.diagnose",
        description="Measure the rotary embeddings of a model, test how it handles "
        "shifted, padded, cached and packed texts, and compare it with its "
        "configuration.",
        epilog="Exit status: 0 if there is no fault, 1 if there is one, 2 if the "
        "target is no model or its configuration cannot be read.",
    )
    parser.add_argument(
        "target",
        help="package.module:function that returns a model; or a file or folder with a "
        "configuration of transformers, from which a small random model is made",
    )
    parser.add_argument(
        "--weights",
        action="store_true",
        help="load the model and its weights from the folder, in float32",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        diagnosis = diagnose(load(options.target, weights=options.weights))
    except Refused as error:
        print(f"{options.target}: {error}", file=sys.stderr)
        return 2
    print(json.dumps(as_json(diagnosis)) if options.json else diagnosis)
    return 1 if diagnosis.faults else 0 if diagnosis.ok else 2


if __name__ == "__main__":
    sys.exit(main())
