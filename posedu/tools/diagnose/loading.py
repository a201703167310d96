"""Loading of the model that a command names: a function, a file or a folder."""

import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from posedu.tools._foreign_code import INTERRUPTIONS
from posedu.tools._importing import imported
from posedu.tools.diagnose.inputs import Refused
from posedu.tools.diagnose.small_model import small

NEITHER = "neither a file or folder nor package.module:function"
"""Start of the error message for an unknown target."""


def load(target: str, *, weights: bool) -> nn.Module:
    """Load the model that ``package.module:function`` or a configuration makes.

    ``target`` is the function's name, in which a path that ends in ``.py`` may stand
    for the module, or the path of a configuration. A model of a configuration is in
    float32, and small and random unless its own ``weights`` are to be loaded. Code in
    the configuration's folder is not run.

    Raises
    ------
    Refused
        The target makes no model, or raises any error.
    """
    module, colon, name = target.partition(":")
    if colon and not Path(target).exists():
        sys.path.insert(0, "")
        try:
            model = getattr(imported(module), name)()
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            raise Refused(_one_line(error)) from error
        if not isinstance(model, nn.Module):
            raise Refused(f"{target} must return a torch.nn.Module, got {type(model)}")
        return model
    try:
        from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
    except ImportError as error:
        if not Path(target).exists():
            raise Refused(NEITHER) from None
        if error.name == "transformers":
            raise Refused("a model from files needs transformers; install it") from None
        raise Refused(f"transformers could not be imported: {error}") from error
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
