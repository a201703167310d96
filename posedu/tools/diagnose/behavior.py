"""What a model does with positions as a whole: moved, padded, cached, packed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from posedu.tools.diagnose.capture import evaluating
from posedu.tools.diagnose.inputs import (
    Inputs,
    Refused,
    accepts,
    output,
    some_tokens,
)
from posedu.tools.positions import packed_positions, padded_positions

LENGTH, SPLIT, ROWS = 12, 7, 4
ROUNDOFFS = 4096
"""What rounding may change of an output, in units of the roundoff and of its size."""


@dataclass(frozen=True)
class Trial:
    """One of them: by how much outputs differ that should not, relative to their size.

    ``why`` says why it could not be tried, where it could not.
    """

    name: str
    differs: float | None
    bound: float
    why: str = ""

    @property
    def ok(self) -> bool | None:
        """``None`` if it could not be tried."""
        return None if self.differs is None else self.differs <= self.bound


def trials(model: nn.Module, inputs: Inputs, far: int, eps: float) -> Iterator[Trial]:
    """All of them, on tokens at positions up to ``far`` and a few.

    ``eps`` is that of the dtype in which attention is given its features.
    """
    with evaluating(model):
        yield from _trials(model, inputs, far, eps)


def _trials(model: nn.Module, inputs: Inputs, far: int, eps: float) -> Iterator[Trial]:
    tokens = some_tokens(model, ROWS, LENGTH, seed=1)
    tried: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
        "elsewhere": lambda: _elsewhere(model, inputs, tokens, far),
        "padded": lambda: _padded(model, inputs, tokens, counted=False),
        "padded and counted": lambda: _padded(model, inputs, tokens, counted=True),
        "cached": lambda: _cached(model, inputs, tokens),
        "packed": lambda: _packed(model, inputs, tokens),
    }
    for name, trial in tried.items():
        try:
            here, there = trial()
            if here.shape != there.shape:
                shapes = [list(x.shape) for x in (here, there)]
                raise Refused(f"outputs of shapes {shapes} cannot be compared")
            bound = ROUNDOFFS * max(eps, torch.finfo(here.dtype).eps)
            if bound > 1:
                raise Refused(
                    "16 bits are too coarse to tell: give the model in float32, as "
                    "model.float()"
                )
        except Exception as error:  # whatever a stranger's model says of the inputs
            said = str(error).strip().splitlines() or [type(error).__name__]
            yield Trial(name, None, 0.0, said[0])
            continue
        difference = (here.double() - there.double()).abs().max()
        size = here.double().abs().max()
        yield Trial(name, float(difference / size.clamp(min=1e-30)), bound)


def _counted(tokens: Tensor, start: int = 0) -> Tensor:
    rows, length = tokens.shape
    return (start + torch.arange(length, device=tokens.device)).expand(rows, length)


def _run(
    model: nn.Module,
    inputs: Inputs,
    tokens: Tensor,
    positions: Tensor | None,
    **more: Any,
) -> Tensor:
    if positions is not None and not accepts(model, "position_ids"):
        positions = None
    return output(model(**inputs(tokens, positions), **more))


def _needs(model: nn.Module, *names: str) -> None:
    for name in names:
        if not accepts(model, name):
            raise Refused(f"its forward has no {name}")


def _elsewhere(
    model: nn.Module, inputs: Inputs, tokens: Tensor, far: int
) -> tuple[Tensor, Tensor]:
    """The same tokens, all positions larger by the same number."""
    _needs(model, "position_ids")
    return (
        _run(model, inputs, tokens, _counted(tokens)),
        _run(model, inputs, tokens, _counted(tokens, far)),
    )


def _padded(
    model: nn.Module, inputs: Inputs, tokens: Tensor, *, counted: bool
) -> tuple[Tensor, Tensor]:
    """Padding on the left, masked; ``counted``: positions begin after it."""
    _needs(model, "attention_mask", *(["position_ids"] if counted else []))
    padding = tokens[:, :3]
    mask = torch.ones(len(tokens), 3 + LENGTH, dtype=torch.long, device=tokens.device)
    mask[:, :3] = 0
    counts = torch.as_tensor(padded_positions(mask.bool().cpu().numpy()))
    positions = counts.to(tokens.device) if counted else None
    together = torch.cat([padding, tokens], 1)
    out = _run(model, inputs, together, positions, attention_mask=mask)
    whole = torch.ones_like(tokens)
    return _run(model, inputs, tokens, None, attention_mask=whole), out[:, 3:]


def _cached(model: nn.Module, inputs: Inputs, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """A beginning, then token by token with its cache."""
    _needs(model, "past_key_values", "use_cache")
    whole = _run(model, inputs, tokens, None, use_cache=False)
    cache, outs = None, []
    for a, b in [(0, SPLIT), *((i, i + 1) for i in range(SPLIT, LENGTH))]:
        result = model(
            **inputs(tokens[:, a:b], None), past_key_values=cache, use_cache=True
        )
        cache = result.past_key_values
        outs.append(output(result))
    if cache is None:
        raise Refused("it returns no cache")
    return whole, torch.cat(outs, 1)


def _packed(model: nn.Module, inputs: Inputs, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Two texts in one row, told apart by positions alone."""
    _needs(model, "position_ids")
    row = tokens[:1]
    counts, _ = packed_positions([0, SPLIT, LENGTH])
    positions = torch.as_tensor(counts, device=tokens.device)[None]
    together = _run(model, inputs, row, positions, **_uncached(model))
    alone = [
        _run(model, inputs, part, None, **_uncached(model))
        for part in (row[:, :SPLIT], row[:, SPLIT:])
    ]
    return torch.cat(alone, 1), together


def _uncached(model: nn.Module) -> dict[str, bool]:
    return {"use_cache": False} if accepts(model, "use_cache") else {}
