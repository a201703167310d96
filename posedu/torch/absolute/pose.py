"""PoSE: positions in two chunks with a random skip between them, in training."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from posedu._arguments import require_dimension, require_room
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


class PoSE(SampledPositions):
    """Positions with a skip in training, unchanged in evaluation (arXiv 2309.10400).

    There are two chunks, as in the released code. That code takes the tokens of the
    second chunk from anywhere after the first, whatever the skip; here the caller gives
    the tokens. Give the module as ``input`` of a
    :class:`posedu.torch.transformer.Transformer`. Equation ``def-pose``.

    Parameters
    ----------
    window
        W: positions stay below W.
    inner, generator
        Encoding of the changed positions in the input, and source of randomness; as
        for :class:`posedu.torch.absolute.CAPE`.

    Raises
    ------
    TypeError, ValueError
        A window that is no positive integer; when called, more tokens than
        ``window``.
    """

    def __init__(
        self,
        window: int,
        *,
        inner: Encoding | None = None,
        generator: torch.Generator | None = None,
    ):
        super().__init__(inner, generator)
        self.window = require_dimension("window", window, 1)

    def draw(self, rows: int, tokens: int, *, device: Any = None) -> dict[str, Tensor]:
        """Draw, for each sequence of n tokens, ``cut`` and ``skip``.

        ``cut``, the first position of the second chunk, is 1 to ⌈n/2⌉; ``skip`` is 0 to
        W − n, for the window W. Returned is a dictionary of ``cut`` and ``skip``,
        integers ``[rows, 1]``.
        """
        require_sizes(rows, tokens)
        if not torch.compiler.is_compiling():
            require_room(tokens, "window", self.window)
        half = torch.sym_max(1, (tokens + 1) // 2)
        return {
            "cut": 1 + self._below(half, rows, device),
            "skip": self._below(self.window - tokens + 1, rows, device),
        }

    def _below(self, count: int, rows: int, device: Any) -> Int[Tensor, "rows 1"]:
        return (count * self.uniform(rows, 1, device=device)).floor().long()

    def place(  # type: ignore[override]
        self,
        positions: Positions,
        *,
        cut: Int[Tensor, "rows 1"],
        skip: Int[Tensor, "rows 1"],
    ) -> Shaped[Tensor, "_ tokens"]:
        """Add ``skip`` to the positions from ``cut`` on; integers stay integers.

        Positions are ``[tokens]`` or ``[rows, tokens]``; ``cut``, the first position of
        the second chunk, and ``skip`` are one integer for each sequence.
        """
        device = getattr(cut, "device", None)
        positions = from_list(positions, device)
        require_positions(positions)
        if isinstance(positions, range):
            positions = as_tensor(positions, device)
        is_real = positions.is_floating_point()
        at = positions.to(torch.float64 if is_real else torch.int64)
        draws = {"cut": cut, "skip": skip}
        require_draws(at, draws, {})
        for name, draw in draws.items():
            require_integers(name, draw)
        if may_look(skip) and (skip < 0).any():
            raise ValueError(f"skip must not be negative, got {skip.min().item()}")
        return at + skip * (at >= cut)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.window}"
