"""Randomized positions: an ordered sample of a range longer than the sequence."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from posedu._arguments import (
    SampledPer,
    require_choice,
    require_dimension,
    require_room,
)
from posedu.torch._tensors import (
    Positions,
    as_tensor,
    from_list,
    may_look,
    require_positions,
)
from posedu.torch.absolute.sampled_positions import (
    SampledPositions,
    require_integers,
    require_same_device,
    require_sizes,
)
from posedu.torch.encoding import Encoding


class Randomized(SampledPositions):
    """Randomized positions: the i-th token gets the i-th smallest of a random sample.

    arXiv 2305.16843. Positions are sampled in training and in evaluation, as in the
    paper's code. Give the module as ``input`` of a
    :class:`posedu.torch.transformer.Transformer`. Equation ``def-randomized``.

    Parameters
    ----------
    limit
        M: positions are sampled from 0 … limit − 1.
    per
        One sample for each ``"sequence"`` (the baseline in PoSE's code), or for a whole
        ``"batch"`` (the paper's code).
    inner, generator
        Encoding of the sampled positions in the input, and source of randomness; as
        for :class:`posedu.torch.absolute.CAPE`.

    Raises
    ------
    TypeError, ValueError
        A limit that is no positive integer, unknown ``per``; when called, more tokens
        than the limit, positions that are not 0 to one less than there are tokens.
    """

    in_evaluation = True
    takes_indices = True

    def __init__(
        self,
        limit: int,
        *,
        per: SampledPer,
        inner: Encoding | None = None,
        generator: torch.Generator | None = None,
    ):
        super().__init__(inner, generator)
        self.limit = require_dimension("limit", limit, 1)
        self.per = require_choice("per", per, SampledPer)

    def draw(self, rows: int, tokens: int, *, device: Any = None) -> dict[str, Tensor]:
        """Draw a sorted ``sample`` of positions for each sequence, or one for all.

        The class's argument ``per`` decides between these. Returned is a
        dictionary of ``sample`` alone, integers ``[rows, tokens]`` or ``[1, tokens]``.
        A sample holds the indices of the smallest of ``limit`` random numbers. All sets
        of positions are equally probable, up to ties among float64 numbers.
        """
        require_sizes(rows, tokens)
        if not torch.compiler.is_compiling():
            require_room(tokens, "limit", self.limit)
        rows = rows if self.per == "sequence" else 1
        numbers = self.uniform(rows, self.limit, device=device)
        sample = numbers.topk(tokens, largest=False, sorted=False).indices
        return {"sample": sample.sort(-1).values}

    def place(  # type: ignore[override]
        self, positions: Positions, *, sample: Int[Tensor, "rows n"]
    ) -> Int[Tensor, "_ tokens"]:
        """Return the i-th smallest number of the sample for each position i (from 0).

        On a CPU, and not under ``torch.compile``, positions outside the sample and
        samples that hold a number twice are refused.
        """
        if not isinstance(sample, Tensor) or sample.ndim != 2:
            raise ValueError(f"sample must be a tensor [rows, n], got {sample!r}")
        require_integers("sample", sample)
        positions = from_list(positions, sample.device)
        require_positions(positions)
        if isinstance(positions, range):
            positions = as_tensor(positions, sample.device)
        if positions.is_floating_point():
            raise TypeError(f"positions must be integers, got {positions.dtype}")
        require_same_device("sample", sample, positions)
        at = positions.to(torch.int64)
        at = at[None] if at.ndim == 1 else at
        if at.ndim != 2 or 1 != len(at) != len(sample) != 1:
            raise ValueError(
                f"positions must be [tokens] or [rows, tokens] for a sample of shape "
                f"{list(sample.shape)}, got shape {list(positions.shape)}"
            )
        self._require_inside(at, sample.shape[-1])
        ordered = sample.sort(-1).values
        if may_look(sample) and (ordered.diff() == 0).any():
            raise ValueError("sample must not hold a number twice")
        rows = len(at) if len(sample) == 1 else len(sample)
        return ordered.expand(rows, -1).gather(1, at.expand(rows, -1))

    def _require_inside(self, at: Tensor, n: int) -> None:
        if not may_look(at):
            return
        outside = at[(at < 0) | (at >= n)]
        if outside.numel():
            raise ValueError(
                f"positions must be at least 0 and below {n}, the size of the sample, "
                f"got {outside[0].item()}; draw once for all tokens of a sequence"
            )

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.limit}, per={self.per!r}"
