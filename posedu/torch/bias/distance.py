"""A bias of the offset alone: one number for each distance and head."""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.compiler import is_compiling

from posedu.torch.encoding import Encoding, ScoreMod, Tokens
from posedu.torch.toeplitz import toeplitz


class ByDistance(Encoding):
    """A bias b_h(i − j); subclasses say it in :meth:`of_offsets`.

    Where positions count up by one, it is computed once for each distance: a matrix is
    then a view of that row (Toeplitz), and a ``score_mod`` looks it up.
    """

    def of_offsets(
        self, offsets: Shaped[Tensor, "*shape"]
    ) -> Float[Tensor, "heads *shape"]:
        """The bias of each offset, query position minus key position."""
        raise NotImplementedError

    def by_distance(self, tokens: Tokens) -> Float[Tensor, "heads offsets"] | None:
        """The bias of every offset from the largest down, if positions count up."""
        queries, keys = tokens.q.shape[2], tokens.k.shape[2]
        if not tokens.consecutive or not queries:
            return None
        offsets = torch.arange(keys - 1, -queries, -1, device=tokens.q.device)
        return self._wide(offsets, tokens)

    def _wide(self, offsets: Tensor, tokens: Tokens) -> Tensor:
        dtype = torch.promote_types(tokens.q.dtype, torch.float32)
        return self.of_offsets(offsets).to(dtype)

    def bias(self, tokens: Tokens) -> Float[Tensor, "rows heads queries keys"] | None:
        """Of each query and key; a compiler fuses what is written out of offsets."""
        row = None if is_compiling() else self.by_distance(tokens)
        if row is None:
            return self._wide(tokens.offsets.squeeze(1), tokens).movedim(0, 1)
        return toeplitz(row, tokens.k.shape[2])[None]

    def score_mod(self, tokens: Tokens) -> ScoreMod | None:
        """The row, looked up at the distance."""
        row = self.by_distance(tokens)
        if row is None:
            return None
        newest = tokens.q.shape[2] - 1
        return lambda score, b, h, i, j: score + row[h, newest - i + j]
