"""What a model is given to be diagnosed, and what comes back of it."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

Inputs = Callable[[Tensor, Tensor | None], Mapping[str, Any]]
"""Of tokens and positions ``[rows, tokens]``, what the model is called with."""


TOKENS = 256
"""How many are taken to be known where inputs are given and nothing says it."""


class Refused(Exception):
    """A model that cannot be diagnosed, or a trial that it cannot be put to: why."""


def accepts(model: nn.Module, name: str) -> bool:
    """Whether its ``forward`` has a parameter of that name."""
    return name in inspect.signature(model.forward).parameters


def vocabulary(model: nn.Module) -> int | None:
    """How many tokens it knows: the rows of its first embedding, if it has one."""
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


def usual(model: nn.Module) -> Inputs:
    """Those of a language model: ``input_ids`` and ``position_ids``."""
    if vocabulary(model) is None:
        raise Refused(
            "the model has no nn.Embedding, so what it takes is not known: give "
            "inputs=, a function from tokens and positions to the keywords of its "
            "forward"
        )
    parameters = inspect.signature(model.forward).parameters
    first = next(iter(parameters), None)
    name = "input_ids" if "input_ids" in parameters else first
    if name is None:
        raise Refused("the model's forward takes nothing")

    def inputs(tokens: Tensor, positions: Tensor | None) -> dict[str, Any]:
        given = {name: tokens}
        if "decoder_input_ids" in parameters:
            given["decoder_input_ids"] = tokens
        if positions is not None:
            given["position_ids"] = positions
        return given

    return inputs


def output(result: Any) -> Tensor:
    """The logits, or else the first tensor with floating point numbers."""
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


def some_tokens(model: nn.Module, rows: int, length: int, seed: int = 0) -> Tensor:
    """Tokens of a fixed seed, the first few of the vocabulary left out.

    These are often marks that a model treats otherwise: padding, beginning and end.
    """
    size = vocabulary(model) or TOKENS
    generator = torch.Generator().manual_seed(seed)
    low = min(8, size // 2)
    tokens = torch.randint(low, size, (rows, length), generator=generator)
    return tokens.to(next((p.device for p in model.parameters()), "cpu"))
