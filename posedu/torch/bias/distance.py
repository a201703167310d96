"""Base class of biases that depend on the offset alone."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from posedu.torch.encoding import Encoding, ScoreMod, Tokens
from posedu.torch.toeplitz_bias import toeplitz

OfOffsets = Callable[[Tensor], Tensor]


class ByDistance(Encoding):
    """A bias b_h(i − j); subclasses define it in :meth:`of_offsets`.

    Where positions count up by one, the bias is computed once for each offset. Its
    matrix is then a view of that row (Toeplitz), and a ``score_mod`` looks it up.
    """

    def of_offsets(
        self, offsets: Shaped[Tensor, "*shape"]
    ) -> Float[Tensor, "heads *shape"]:
        """The bias of each offset, query position minus key position."""
        raise NotImplementedError

    def by_distance(self, tokens: Tokens) -> Float[Tensor, "heads offsets"] | None:
        """The bias of every offset, the largest first, if positions count up by one."""
        return _row(self._scaled(tokens), tokens)

    def bias(self, tokens: Tokens) -> Float[Tensor, "rows heads queries keys"] | None:
        """The bias of every (query, key) pair."""
        return matrix_by_distance(self._scaled(tokens), tokens)

    def _scaled(self, tokens: Tokens) -> OfOffsets:
        """Return :meth:`of_offsets`, scaled for the logits of these tokens."""
        return self.of_offsets

    def score_mod(self, tokens: Tokens) -> ScoreMod | None:
        """The bias by look-up of the offset in a row."""
        row = self.by_distance(tokens)
        if row is None:
            return None
        newest = tokens.q.shape[2] - 1
        return lambda score, b, h, i, j: score + row[h, newest - i + j]


def matrix_by_distance(
    of_offsets: OfOffsets, tokens: Tokens
) -> Float[Tensor, "rows heads queries keys"]:
    """Apply ``of_offsets`` to all (query, key) pairs, where possible as a view."""
    row = _row(of_offsets, tokens)
    if row is None:
        return _wide(of_offsets, tokens.offsets.squeeze(1), tokens).movedim(0, 1)
    return toeplitz(row, tokens.k.shape[2])[None]


def _row(of_offsets: OfOffsets, tokens: Tokens) -> Tensor | None:
    queries, keys = tokens.q.shape[2], tokens.k.shape[2]
    if not tokens.consecutive or not queries:
        return None
    offsets = torch.arange(keys - 1, -queries, -1, device=tokens.q.device)
    return _wide(of_offsets, offsets, tokens)


def _wide(of_offsets: OfOffsets, offsets: Tensor, tokens: Tokens) -> Tensor:
    dtype = torch.promote_types(tokens.q.dtype, torch.float32)
    return of_offsets(offsets).to(dtype)
