"""What a model does with positions: ``python -m posedu.practice.diagnose TARGET``."""

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from torch import nn

from posedu.practice.diagnose import Refused, as_json, diagnose, small


def load(target: str, *, weights: bool) -> nn.Module:
    """The model of ``package.module:function``, or of a configuration.

    Raises
    ------
    Refused
        Nothing there makes a model.
    """
    module, colon, name = target.partition(":")
    if colon and not Path(target).exists():
        sys.path.insert(0, "")
        try:
            model = getattr(importlib.import_module(module), name)()
        except (ImportError, AttributeError) as error:
            raise Refused(str(error)) from error
        if not isinstance(model, nn.Module):
            raise Refused(f"{target} must return a torch.nn.Module, got {type(model)}")
        return model
    try:
        from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
    except ImportError:
        raise Refused("reading a model from files needs transformers") from None
    try:
        if weights:
            return AutoModelForCausalLM.from_pretrained(target, local_files_only=True)
        config = small(AutoConfig.from_pretrained(target, local_files_only=True))
        known = type(config) in AutoModelForCausalLM._model_mapping
        return (AutoModelForCausalLM if known else AutoModel).from_config(config)
    except (OSError, ValueError, KeyError) as error:
        raise Refused(str(error)) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; 2 if there is none, 1 if it has a fault."""
    parser = argparse.ArgumentParser(
        prog="python -m posedu.practice.diagnose",
        description="Measure what a model does with positions.",
    )
    parser.add_argument(
        "target",
        help="package.module:function, which returns a model; or a folder or file with "
        "a configuration of transformers, of which a small one is made",
    )
    parser.add_argument(
        "--weights", action="store_true", help="load the folder's model as it is"
    )
    parser.add_argument("--json", action="store_true", help="for machines")
    options = parser.parse_args(arguments)
    try:
        found = diagnose(load(options.target, weights=options.weights))
    except Refused as error:
        print(f"{options.target}: {error}", file=sys.stderr)
        return 2
    print(json.dumps(as_json(found)) if options.json else found)
    return 0 if found.ok else 1


if __name__ == "__main__":
    sys.exit(main())
