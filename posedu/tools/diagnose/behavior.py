"""Trials of a model with shifted, padded, cached and packed texts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from posedu._argument_types import check_types
from posedu.tools.diagnose.capture import evaluating
from posedu.tools.diagnose.inputs import (
    Inputs,
    Refused,
    accepts,
    draw_tokens,
    output,
)
from posedu.tools.positions import packed_positions, padded_positions

LENGTH, SPLIT, ROWS = 12, 7, 4
ROUNDOFFS = 4096
"""Bound on the change of an output by rounding, in units of eps and of its size."""


@check_types
@dataclass(frozen=True)
class Trial:
    """Comparison of two outputs of a model that should be equal.

    ``name`` says what the trial does to a text, such as "cached". ``differs`` is the
    relative difference of the outputs, or ``None`` if the trial could not be run; then
    ``why`` is the reason. ``bound`` is the largest difference of outputs that agree.
    """

    name: str
    differs: float | None
    bound: float
    why: str = ""

    @property
    def ok(self) -> bool | None:
        """True if the two outputs agree, false if they differ.

        ``None`` if they could not be compared.
        """
        return None if self.differs is None else self.differs <= self.bound


def trials(model: nn.Module, inputs: Inputs, far: int, eps: float) -> Iterator[Trial]:
    """Yield comparisons of outputs for shifted, padded, cached and packed texts.

    ``inputs`` maps tokens and positions to keywords of the model's ``forward``. The
    positions of the shifted text begin at ``far``. ``eps`` is the spacing of numbers at
    1 in the dtype of queries and keys.
    """
    with evaluating(model):
        yield from _trials(model, inputs, far, eps)


def _trials(model: nn.Module, inputs: Inputs, far: int, eps: float) -> Iterator[Trial]:
    tokens = draw_tokens(model, ROWS, LENGTH, seed=1)
    tried: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
        "elsewhere": lambda: _shifted(model, inputs, tokens, far),
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
                    "16 bits are too coarse to compare outputs: give the model in "
                    "float32, as model.float()"
                )
        except Exception as error:  # A model may raise anything for these inputs.
            lines = str(error).strip().splitlines() or [type(error).__name__]
            yield Trial(name, None, 0.0, lines[0])
            continue
        difference = (here.double() - there.double()).abs().max()
        size = here.double().abs().max()
        yield Trial(name, float(difference / size.clamp(min=1e-30)), bound)


def _positions(tokens: Tensor, start: int = 0) -> Tensor:
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


def _shifted(
    model: nn.Module, inputs: Inputs, tokens: Tensor, far: int
) -> tuple[Tensor, Tensor]:
    """Return outputs for equal tokens, at positions from 0 on and from ``far`` on.

    ``inputs`` maps tokens and positions to the keywords of the model's ``forward``;
    ``tokens`` are ``[rows, tokens]``.
    """
    _needs(model, "position_ids")
    return (
        _run(model, inputs, tokens, _positions(tokens)),
        _run(model, inputs, tokens, _positions(tokens, far)),
    )


def _padded(
    model: nn.Module, inputs: Inputs, tokens: Tensor, *, counted: bool
) -> tuple[Tensor, Tensor]:
    """Return outputs without padding, and with masked padding on the left.

    ``inputs`` maps tokens and positions to the keywords of the model's ``forward``. If
    ``counted``, the padded text is given positions that begin after the padding;
    otherwise the model gets no positions.
    """
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
    """Return outputs for a whole text, and for the text read in steps with a cache.

    After a first piece, the text is read token by token. ``inputs`` maps tokens and
    positions to the keywords of the model's ``forward``.
    """
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
    """Return outputs for two texts run alone, and for both texts in one row.

    In the row, positions begin again at 0 where the second text begins. ``inputs`` maps
    tokens and positions to the keywords of the model's ``forward``.
    """
    _needs(model, "position_ids")
    row = tokens[:1]
    counts, _ = packed_positions([0, SPLIT, LENGTH])
    positions = torch.as_tensor(counts, device=tokens.device)[None]
    together = _run(model, inputs, row, positions, **_without_cache(model))
    alone = [
        _run(model, inputs, part, None, **_without_cache(model))
        for part in (row[:, :SPLIT], row[:, SPLIT:])
    ]
    return torch.cat(alone, 1), together


def _without_cache(model: nn.Module) -> dict[str, bool]:
    return {"use_cache": False} if accepts(model, "use_cache") else {}
