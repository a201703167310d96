"""Abacus: each digit's position is its index inside its number, plus a random shift."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from posedu._arguments import SampledPer, require_choice, require_count
from posedu.torch._tensors import (
    Positions,
    as_tensor,
    from_list,
    may_look,
    require_positions,
)
from posedu.torch.absolute.sampled_positions import (
    SampledPositions,
    require_draws,
    require_integers,
    require_sizes,
)
from posedu.torch.encoding import Encoding


def digit_indices(
    is_digit: Bool[Tensor, "*rows tokens"],
) -> Int[Tensor, "*rows tokens"]:
    """Return the index of each digit in its run of digits, from 1; 0 for other tokens.

    Equation ``def-abacus-index``. These are the positions to give to a model with
    :class:`Abacus`. A digit's index does not depend on later tokens, so that a model
    may generate digits with a cache.

    Raises
    ------
    TypeError, ValueError
        ``is_digit`` not a boolean tensor, or without an axis of tokens.
    """
    if not isinstance(is_digit, Tensor) or is_digit.dtype != torch.bool:
        raise TypeError(
            "is_digit must be a boolean tensor, got "
            f"{getattr(is_digit, 'dtype', type(is_digit).__name__)}"
        )
    if is_digit.ndim == 0:
        raise ValueError("is_digit must be [..., tokens], got shape []")
    at = torch.arange(is_digit.shape[-1], device=is_digit.device)
    last_other = torch.where(is_digit, -1, at)
    if is_digit.shape[-1]:
        last_other = last_other.cummax(-1).values
    return torch.where(is_digit, at - last_other, 0)


class Abacus(SampledPositions):
    """Digits counted inside their number, with a random shift in training.

    arXiv 2405.17399. Give the module as ``input`` of a
    :class:`posedu.torch.transformer.Transformer`, with a
    :class:`posedu.torch.absolute.Learned` of at least max_shift + n + 1 rows as
    ``inner``, for numbers of up to n digits. Positions are those of
    :func:`digit_indices`, for numbers written least digit first. In evaluation the
    shift is 0. Equation ``def-abacus``.

    Parameters
    ----------
    max_shift
        The shift is uniform in 0 … max_shift, both ends included. The released code has
        99.
    per
        Whether one shift is drawn for each ``"sequence"`` or for the whole ``"batch"``,
        as in the released code.
    inner, generator
        Encoding of the shifted positions in the input, and source of randomness; as
        for :class:`posedu.torch.absolute.CAPE`.

    Raises
    ------
    TypeError, ValueError
        A ``max_shift`` that is no count, unknown ``per``.
    """

    def __init__(
        self,
        max_shift: int,
        *,
        per: SampledPer,
        inner: Encoding | None = None,
        generator: torch.Generator | None = None,
    ):
        super().__init__(inner, generator)
        self.max_shift = require_count("max_shift", max_shift)
        self.per = require_choice("per", per, SampledPer)

    def draw(self, rows: int, tokens: int, *, device: Any = None) -> dict[str, Tensor]:
        """Draw a ``shift`` for each sequence, or one for all.

        The class's argument ``per`` decides between these; ``tokens`` changes nothing.
        Returned is a dictionary of ``shift``, integers ``[rows, 1]`` or ``[1, 1]``.
        """
        require_sizes(rows, tokens)
        rows = rows if self.per == "sequence" else 1
        share = self.uniform(rows, 1, device=device)
        return {"shift": ((self.max_shift + 1) * share).floor().long()}

    def place(  # type: ignore[override]
        self, positions: Positions, *, shift: Int[Tensor, "rows 1"]
    ) -> Shaped[Tensor, "_ tokens"]:
        """Add ``shift`` to positions above 0, the digits'; all others become 0.

        Positions are ``[tokens]`` or ``[rows, tokens]``; integers stay integers.
        """
        at = exact_positions(positions, {"shift": shift}, least=0)
        return torch.where(at > 0, at + shift, 0)

    def evaluation_positions(
        self, positions: Shaped[Tensor, "*rows tokens"]
    ) -> Shaped[Tensor, "*rows tokens"]:
        """Return the positions used in evaluation: those of digits, and 0 elsewhere."""
        return positions.clamp(min=0)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.max_shift}, per={self.per!r}"


def exact_positions(
    positions: Positions, draws: dict[str, Tensor], *, least: int
) -> Shaped[Tensor, "*rows tokens"]:
    """Return positions as int64 or float64 if they and the random integers are valid.

    ``draws`` holds integers of at least ``least`` by argument name, ``[rows, 1]``.
    """
    device = next((getattr(t, "device", None) for t in draws.values()), None)
    positions = from_list(positions, device)
    require_positions(positions)
    if isinstance(positions, range):
        positions = as_tensor(positions, device)
    is_real = positions.is_floating_point()
    at = positions.to(torch.float64 if is_real else torch.int64)
    require_draws(at, draws, {})
    for name, draw in draws.items():
        require_integers(name, draw)
        if may_look(draw) and (draw < least).any():
            raise ValueError(
                f"{name} must be at least {least}, got {draw.min().item()}"
            )
    return at
