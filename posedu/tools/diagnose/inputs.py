"""Inputs for a model that is diagnosed, and the tensor to compare in its output."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

Inputs = Callable[[Tensor, Tensor | None], Mapping[str, Any]]
"""Function from tokens and positions ``[rows, tokens]`` to the keywords of a model."""


TOKENS = 256
"""Size of the vocabulary if inputs are given and the model has no embedding."""


class Refused(Exception):
    """Raised if a model cannot be measured or two outputs not be compared; says why."""


def accepts(model: nn.Module, name: str) -> bool:
    """Return whether the model's ``forward`` has a parameter named ``name``."""
    return name in inspect.signature(model.forward).parameters


def takes(model: nn.Module, name: str) -> bool:
    """Return whether ``forward`` has a parameter of that name or takes any keyword."""
    parameters = inspect.signature(model.forward).parameters
    return name in parameters or any(
        p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()
    )


def vocabulary(model: nn.Module) -> int | None:
    """Return the size of the vocabulary: the rows of the model's first embedding.

    ``None`` if the model has no embedding.
    """
    found = getattr(model, "get_input_embeddings", None)
    try:
        tables = [found()] if found is not None else []
    except (NotImplementedError, AttributeError):
        tables = []
    tables += list(model.modules())
    for table in tables:
        if isinstance(table, nn.Embedding):
            return table.num_embeddings
    return None


def default_inputs(model: nn.Module) -> Inputs:
    """Return a function from tokens and positions to keywords of a model's ``forward``.

    The keywords are ``input_ids``, or the name of the first parameter, and
    ``position_ids`` if positions are given; and ``decoder_input_ids`` if ``forward``
    has it. Raises Refused if the model has no embedding or its ``forward`` no
    parameters.
    """
    if vocabulary(model) is None:
        raise Refused(
            "the model has no nn.Embedding, so its inputs are not known: give inputs=, "
            "a function from tokens and positions to the keywords of its forward"
        )
    parameters = inspect.signature(model.forward).parameters
    first = next(iter(parameters), None)
    name = "input_ids" if "input_ids" in parameters else first
    if name is None:
        raise Refused("the model's forward has no parameters")

    def inputs(tokens: Tensor, positions: Tensor | None) -> dict[str, Any]:
        given = {name: tokens}
        if "decoder_input_ids" in parameters:
            given["decoder_input_ids"] = tokens
        if positions is not None:
            given["position_ids"] = positions
        return given

    return inputs


def output(result: Any) -> Tensor:
    """Return the logits of a model's result, or its first tensor of floats."""
    for name in ("logits", "last_hidden_state"):
        found = getattr(result, name, None)
        if isinstance(found, Tensor):
            return found
    for value in result.values() if isinstance(result, Mapping) else [result]:
        while isinstance(value, tuple | list) and value:
            value = value[0]
        if isinstance(value, Tensor) and value.is_floating_point():
            return value
    raise Refused("the model returns no tensor")


def draw_tokens(model: nn.Module, rows: int, length: int, seed: int = 0) -> Tensor:
    """Draw tokens ``[rows, length]`` with a fixed seed, on the model's device.

    The first few numbers of the vocabulary are left out: they are often special tokens
    (padding, beginning and end).
    """
    size = vocabulary(model) or TOKENS
    generator = torch.Generator().manual_seed(seed)
    low = min(8, size // 2)
    tokens = torch.randint(low, size, (rows, length), generator=generator)
    return tokens.to(next((p.device for p in model.parameters()), "cpu"))
