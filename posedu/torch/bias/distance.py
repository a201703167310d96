"""Base class of additive biases that depend on the offset i − j alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from posedu.torch.encoding import Encoding, ScoreMod, Tokens
from posedu.torch.toeplitz_bias import toeplitz

OfOffsets = Callable[[Tensor], Tensor]


class ByDistance(Encoding):
    """Base class of additive biases by offset, defined in :meth:`of_offsets`.

    The offset is query position minus key position; each head has a bias of its own.
    Where no positions are given, so that they count up by one, the bias is computed
    once for each offset. The matrix of the bias is then a view of this row of numbers
    (Toeplitz), and a ``score_mod``, the function by which FlexAttention changes a
    logit, looks the bias up in the row.
    """

    def of_offsets(
        self, offsets: Shaped[Tensor, "*shape"]
    ) -> Float[Tensor, "heads *shape"]:
        """Return the bias of each offset, for each head.

        An offset is query position minus key position.
        """
        raise NotImplementedError

    def by_distance(self, tokens: Tokens) -> Float[Tensor, "heads offsets"] | None:
        """Return the bias of every offset, the largest offset first.

        An offset is query position minus key position. ``None`` unless positions are
        known to count up by one.
        """
        return _row(self._scaled(tokens), tokens)

    def bias(self, tokens: Tokens) -> Float[Tensor, "rows heads queries keys"] | None:
        """Return the bias of every (query, key) pair, given by :meth:`of_offsets`."""
        return matrix_by_distance(self._scaled(tokens), tokens)

    def _scaled(self, tokens: Tokens) -> OfOffsets:
        """Return the function from offsets to their bias: :meth:`of_offsets`.

        A subclass may return one that multiplies the bias by 1/√d.
        """
        return self.of_offsets

    def score_mod(self, tokens: Tokens) -> ScoreMod | None:
        """Return a FlexAttention ``score_mod`` that looks up the bias by offset.

        A ``score_mod`` is a function that changes one logit. ``None`` unless positions
        are known to count up by one.
        """
        row = self.by_distance(tokens)
        if row is None:
            return None
        newest = tokens.q.shape[2] - 1
        return lambda score, b, h, i, j: score + row[h, newest - i + j]


def matrix_by_distance(
    of_offsets: OfOffsets, tokens: Tokens
) -> Float[Tensor, "rows heads queries keys"]:
    """Return the bias of every (query, key) pair, by the function ``of_offsets``.

    ``of_offsets`` maps offsets (query position minus key position) to their bias for
    each head. Where positions are known to count up by one, the bias is computed once
    for each offset, and the matrix returned is a view of these numbers.
    """
    row = _row(of_offsets, tokens)
    if row is None:
        return _wide(of_offsets, tokens.offsets.squeeze(1), tokens).movedim(0, 1)
    return toeplitz(row, tokens.keys)[None]


def _row(of_offsets: OfOffsets, tokens: Tokens) -> Tensor | None:
    queries, keys = tokens.q.shape[2], tokens.keys
    if not tokens.consecutive or not queries:
        return None
    offsets = torch.arange(keys - 1, -queries, -1, device=tokens.q.device)
    return _wide(of_offsets, offsets, tokens)


def _wide(of_offsets: OfOffsets, offsets: Tensor, tokens: Tokens) -> Tensor:
    dtype = torch.promote_types(tokens.q.dtype, torch.float32)
    return of_offsets(offsets).to(dtype)
