"""TUPE: untied attention, whose positions have projections of their own."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import (
    TUPEFirstToken,
    require_bool,
    require_buckets,
    require_choice,
    require_dimension,
)
from posedu.torch._tensors import may_look
from posedu.torch.bias.t5 import t5_buckets
from posedu.torch.encoding import Encoding, Tokens
from posedu.torch.toeplitz_bias import toeplitz


class TUPE(Encoding):
    """TUPE's attention (arXiv 2006.15595 §3): content and positions are untied.

    Positions have projections of their own. Equation ``def-tupe``. One module serves
    every layer of a model. Its bias is independent of the content: a matrix for each
    head, 4 heads L² bytes in float32, serves all sequences of a batch. Attention takes
    O(L²) memory.

    Parameters
    ----------
    d, heads, d_model
        Head dimension and query heads of the layers, and width of the position vectors.
    tokens
        Number of positions with a vector, from 0 on; other positions are refused.
    first_token
        Bias of the token at position 0: ``"numbers"``, ``"rows"`` or ``"tied"``; see
        :func:`posedu.numpy.relative.tupe`.
    norm
        Whether the vectors pass a LayerNorm, and projections with biases, as in the
        authors' code; the paper has neither.
    relative
        Whether a number for each bucket of offsets is added, as in T5: TUPE-R if true,
        TUPE-A if false.
    buckets, distance
        Number of buckets, and the distance where their scale ends; see
        :func:`posedu.torch.bias.t5_buckets`. Default 32 and 128 (TUPE, T5).

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, unknown ``first_token``, buckets that
        T5 refuses.
    """

    d: int
    heads: int
    head_rows = (
        "query.weight",
        "query.bias",
        "key.weight",
        "key.bias",
        "first",
        "relative",
    )

    def __init__(
        self,
        d: int,
        heads: int,
        d_model: int,
        tokens: int,
        *,
        first_token: TUPEFirstToken,
        norm: bool,
        relative: bool,
        buckets: int = 32,
        distance: int = 128,
    ):
        super().__init__()
        self.d = require_dimension("d", d, 1)
        self.heads = require_dimension("heads", heads, 1)
        require_dimension("d_model", d_model, 1)
        require_dimension("tokens", tokens, 1)
        self.first_token = require_choice("first_token", first_token, TUPEFirstToken)
        require_bool("norm", norm)
        require_bool("relative", relative)
        require_buckets(buckets, distance, bidirectional=True)
        self.tokens, self.buckets, self.distance = tokens, buckets, distance
        self._extra = int(first_token == "rows")
        self.table = nn.Parameter(0.02 * torch.randn(tokens + self._extra, d_model))
        self.norm = nn.LayerNorm(d_model) if norm else None
        self.query, self.key = (
            nn.Linear(d_model, heads * d, bias=norm) for _ in range(2)
        )
        for each in (self.query, self.key):
            nn.init.normal_(each.weight, std=0.02)
            if norm:
                nn.init.zeros_(each.bias)
        self.first = self.relative = None
        if first_token == "numbers":
            self.first = nn.Parameter(torch.zeros(heads, 2))
        if relative:
            self.relative = nn.Parameter(torch.zeros(heads, buckets + self._extra))

    def scale(self, d: int) -> float:
        """Return the factor 1/√(2d): the logits are sums of two inner products."""
        return (2 * d) ** -0.5

    def bias(self, tokens: Tokens) -> Float[Tensor, "rows heads queries keys"]:
        """Return the bias of every (query, key) pair, in float32 or better.

        It is the position–position term plus, in TUPE-R, the relative bias; pairs with
        position 0 may have a number of their own instead (``first_token``).
        """
        wide = torch.promote_types(tokens.q.dtype, torch.float32)
        i, j = map(self._rows, (tokens.query_positions, tokens.key_positions))
        queries, keys = (
            self._projected(self.query, i, wide),
            self._projected(self.key, j, wide),
        )
        scores = queries @ keys.mT * self.scale(tokens.d)
        if self.relative is not None:
            scores = scores + self._of_offsets(tokens, self.relative.to(wide))
        if self.first_token == "tied":
            return scores
        row, column = (t[:, None, None] for t in self._of_the_first(tokens, wide))
        scores = torch.where(j[:, None, None] == self._extra, column, scores)
        return torch.where(i[:, None, :, None] == self._extra, row, scores)

    def _rows(
        self, positions: Shaped[Tensor, "rows tokens"]
    ) -> Int[Tensor, "rows tokens"]:
        """Return positions rounded down, as indices of rows of the table of vectors.

        On a CPU, positions without a row are refused.
        """
        if may_look(positions):
            outside = (positions < 0) | (positions >= self.tokens)
            if outside.any():
                raise ValueError(
                    f"positions must be at least 0 and below {self.tokens}, the rows "
                    f"of the table, got {positions[outside][0].item():g}"
                )
        return positions.floor().to(torch.int64) + self._extra

    def _projected(
        self, to: nn.Linear, rows: Int[Tensor, "*rows n"], dtype: torch.dtype
    ) -> Float[Tensor, "*rows heads n d"]:
        """Project position vectors, the table rows ``rows``, by the linear map ``to``.

        The rows are normalized first if ``norm`` is true. Projections are in ``dtype``;
        their features are split among the heads.
        """
        p = functional.embedding(rows, self.table).to(dtype)
        if self.norm is not None:
            weight, bias = (t.to(dtype) for t in (self.norm.weight, self.norm.bias))
            p = functional.layer_norm(p, weight.shape, weight, bias, self.norm.eps)
        bias = None if to.bias is None else to.bias.to(dtype)
        projected = functional.linear(p, to.weight.to(dtype), bias)
        return projected.unflatten(-1, (self.heads, self.d)).transpose(-3, -2)

    def _of_offsets(
        self, tokens: Tokens, relative: Float[Tensor, "heads buckets"]
    ) -> Float[Tensor, "#rows heads queries keys"]:
        """Return the relative bias: the trained number of each offset's bucket.

        ``relative`` are the trained numbers of each head and bucket.
        """
        queries, keys = tokens.q.shape[2], tokens.keys
        by_distance = tokens.consecutive and queries > 0
        if by_distance:
            offsets = torch.arange(keys - 1, -queries, -1, device=tokens.q.device)
        else:
            offsets = tokens.offsets.squeeze(1)
        bucket = t5_buckets(
            offsets, bidirectional=True, buckets=self.buckets, distance=self.distance
        )
        numbers = relative[:, bucket]
        return toeplitz(numbers, keys)[None] if by_distance else numbers.movedim(0, 1)

    def _of_the_first(
        self, tokens: Tokens, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "heads"], Float[Tensor, "heads"]]:
        """Return the two logits of each head that replace those at position 0.

        Both are in ``dtype``. The first is for the query at position 0 with any key,
        the second for the key at position 0 with any other query.
        """
        if self.first is not None:
            row, column = self.first.to(dtype).unbind(-1)
            return row, column
        two = torch.arange(2, device=self.table.device)
        queries, keys = (self._projected(m, two, dtype) for m in (self.query, self.key))
        row, column = (queries * keys).sum(-1).mul(self.scale(tokens.d)).unbind(-1)
        if self.relative is not None:
            numbers = self.relative.to(dtype)
            row = row + numbers[:, self.buckets // 2]
            column = column + numbers[:, self.buckets]
        return row, column

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d}, {self.heads}, {self.tokens} tokens, "
            f"first_token={self.first_token!r}, norm={self.norm is not None}, "
            f"relative={self.relative is not None}"
        )
