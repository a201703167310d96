"""Position coupling: digits of equal significance share a position."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from posedu._arguments import require_dimension, require_room
from posedu.torch._tensors import Positions, may_look
from posedu.torch.absolute.abacus import digit_indices, exact_positions
from posedu.torch.absolute.sampled_positions import (
    SampledPositions,
    require_integers,
    require_sizes,
)
from posedu.torch.encoding import Encoding


def coupled_indices(roles: Int[Tensor, "*rows tokens"]) -> Int[Tensor, "*rows tokens"]:
    """Return the coupled index of each token of an addition, from its role in the text.

    A digit of significance j has n − j, where n is the length of the longest summand;
    an operator has n + 1, a token outside the equation −1. The number after the last
    operator is the sum. Equation ``def-coupling-index``. These are the positions to
    give to a model with :class:`PositionCoupling`; where the sum is written least digit
    first, they do not depend on digits to come.

    Parameters
    ----------
    roles
        1 for a digit of a number that is written most digit first; 2 for a digit of a
        number written least digit first; 0 for an operator, + or =; −1 for a token
        outside the equation.

    Raises
    ------
    TypeError, ValueError
        Roles that are no integers or, on a CPU, not −1, 0, 1 or 2; no axis of tokens;
        on a CPU, a sum of more than n + 1 digits.
    """
    if not isinstance(roles, Tensor):
        raise TypeError(f"roles must be a torch.Tensor, got {type(roles).__name__}")
    require_integers("roles", roles)
    if roles.ndim == 0:
        raise ValueError("roles must be [..., tokens], got shape []")
    if may_look(roles) and (unknown := roles[(roles < -1) | (roles > 2)]).numel():
        raise ValueError(f"roles must be -1, 0, 1 or 2, got {unknown[0].item()}")
    forward = digit_indices(roles == 2)
    backward = digit_indices(roles.flip(-1) == 1).flip(-1)
    if not roles.shape[-1]:
        return forward
    place = forward + backward  # significance plus 1, and 0 for what is no digit
    at = torch.arange(roles.shape[-1], device=roles.device)
    last = torch.where(roles == 0, at, -1).amax(-1, keepdim=True)
    n = torch.where(at < last, place, 0).amax(-1, keepdim=True)
    over = place > n + 1
    if may_look(roles) and over.any():
        raise ValueError(
            "a sum has at most one digit more than its longest summand, got digit "
            f"{place[over][0].item()} at a longest summand of "
            f"{n.expand_as(over)[over][0].item()} digits"
        )
    others = torch.where(roles == 0, n + 1, -1)
    return torch.where(roles > 0, n + 1 - place, others)


class PositionCoupling(SampledPositions):
    """Positions by significance, with a random start in training.

    arXiv 2405.20671. Give the module as ``input`` of a
    :class:`posedu.torch.transformer.Transformer`, with a
    :class:`posedu.torch.absolute.Learned` of max_position + 1 rows as ``inner``.
    Positions are those of :func:`coupled_indices`. In evaluation the start is 1.
    Equation ``def-coupling``.

    Parameters
    ----------
    max_position
        M: the start of a text is uniform among those with which no position is above M.
    inner, generator
        Encoding of the positions in the input, and source of randomness; as for
        :class:`posedu.torch.absolute.CAPE`.

    Raises
    ------
    TypeError, ValueError
        A ``max_position`` that is no positive integer; when called in training, on a
        CPU, a coupled index that is not below it.
    """

    def __init__(
        self,
        max_position: int,
        *,
        inner: Encoding | None = None,
        generator: torch.Generator | None = None,
    ):
        super().__init__(inner, generator)
        self.max_position = require_dimension("max_position", max_position, 1)

    def draw(
        self,
        rows: int,
        tokens: int,
        *,
        device: Any = None,
        largest: Shaped[Tensor, "_ 1"] | None = None,
    ) -> dict[str, Tensor]:
        """Draw a ``start`` for each sequence, uniform in 1 … max_position − largest.

        ``largest`` is the largest coupled index of each sequence, ``[rows, 1]`` or
        ``[1, 1]``; by default it is ``tokens`` − 1, which no sum of two or more numbers
        exceeds. Returned is a dictionary of ``start``, integers ``[rows, 1]``.
        """
        require_sizes(rows, tokens)
        share = self.uniform(rows, 1, device=device)
        if largest is None:
            if not torch.compiler.is_compiling():
                require_room(tokens, "max_position", self.max_position)
            count: int | Float[Tensor, "_ 1"] = self.max_position - tokens + 1
        else:
            largest = largest.to(torch.float64).ceil().clamp(min=0)
            if may_look(largest) and (largest >= self.max_position).any():
                raise ValueError(
                    "positions must be below max_position = "
                    f"{self.max_position}, got {largest.max().item():g}"
                )
            count = self.max_position - largest
        return {"start": 1 + (count * share).floor().long()}

    def place(  # type: ignore[override]
        self, positions: Positions, *, start: Int[Tensor, "rows 1"]
    ) -> Shaped[Tensor, "_ tokens"]:
        """Add ``start`` to positions from 0 on; those below are 0 then.

        Positions are ``[tokens]`` or ``[rows, tokens]``; integers stay integers.
        """
        at = exact_positions(positions, {"start": start}, least=1)
        return torch.where(at >= 0, at + start, 0)

    def locate(
        self,
        positions: Shaped[Tensor, "rows tokens"],
        x: Float[Tensor, "batch tokens d_model"],
    ) -> Shaped[Tensor, "_ tokens"]:
        """Return ``positions`` plus a start drawn for each sequence of ``x``.

        The start leaves room for the largest position of the sequence. In evaluation it
        is 1.
        """
        if not self.training or not positions.shape[-1]:
            return self.evaluation_positions(positions)
        largest = positions.amax(-1, keepdim=True)
        size = len(x), positions.shape[-1]
        draws = self.draw(*size, device=positions.device, largest=largest)
        return self.place(positions, **draws)

    def evaluation_positions(
        self, positions: Shaped[Tensor, "*rows tokens"]
    ) -> Shaped[Tensor, "*rows tokens"]:
        """Return the positions used in evaluation, with the start 1."""
        return torch.where(positions >= 0, positions + 1, 0)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.max_position}"
