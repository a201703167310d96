"""The chunks of a text, and the ranks that have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

Order = Literal["contiguous", "zigzag"]
ORDERS: tuple[Order, ...] = get_args(Order)


@dataclass(frozen=True)
class Chunks:
    """The equal chunks of a text, in the order of the text, and who has which.

    With the order ``"contiguous"`` rank r of n has the r-th of n chunks. With
    ``"zigzag"`` it has the r-th first and the r-th last of 2n chunks, in this order, so
    that all ranks have the same number of (query, key) pairs under causal attention.
    ``"backward"`` is the order of the second of these two steps: rank r has the r-th
    last of n chunks.
    """

    order: Order | Literal["backward"]
    ranks: int
    rank: int

    @property
    def count(self) -> int:
        """Number of chunks of the text."""
        return self.ranks * len(self.held)

    @property
    def held(self) -> tuple[int, ...]:
        """Numbers of this rank's chunks."""
        return self.of_rank(self.rank)

    def of_rank(self, rank: int) -> tuple[int, ...]:
        """Return the numbers of a rank's chunks."""
        if self.order == "zigzag":
            return rank, 2 * self.ranks - 1 - rank
        return (rank,) if self.order == "contiguous" else (self.ranks - 1 - rank,)

    def owner(self, number: int) -> int | None:
        """Return the rank that has a chunk, ``None`` for a number of no chunk."""
        ranks = range(self.ranks)
        return next((rank for rank in ranks if number in self.of_rank(rank)), None)

    def joined(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Return all tokens in the order of the text, of the tokens of each rank."""
        by_number = {
            number: chunk
            for rank, part in enumerate(parts)
            for number, chunk in zip(
                self.of_rank(rank), part.tensor_split(len(self.held), axis), strict=True
            )
        }
        return torch.cat([by_number[number] for number in sorted(by_number)], axis)

    def separated(self, t: Tensor, axis: int) -> list[Tensor]:
        """Return the tokens of each rank, of all tokens in the order of the text."""
        chunks = t.tensor_split(self.count, axis)
        return [
            torch.cat([chunks[number] for number in self.of_rank(rank)], axis)
            for rank in range(self.ranks)
        ]
