"""DeBERTa: disentangled attention, whose bias has content and position terms."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import (
    DeBERTaIndex,
    DeBERTaRows,
    require_bool,
    require_choice,
    require_dimension,
    require_span,
)
from posedu.torch._tensors import require_position_dtype
from posedu.torch.attention import Attention
from posedu.torch.encoding import Encoding, ScoreMod, Tokens
from posedu.torch.toeplitz_bias import skew

EPSILON = 1e-7  # of the layer norm


def deberta_rows(
    offsets: Shaped[Tensor, "*shape"],
    *,
    span: int,
    rows: DeBERTaRows,
    distance: int = 512,
) -> Int[Tensor, "*shape"]:
    """Return the index of DeBERTa's table row for each offset i − j.

    Equation ``def-deberta-row``. See :func:`posedu.numpy.relative.deberta_rows`, which
    explains the arguments.
    """
    single = require_span(span, rows, distance)
    require_position_dtype("offsets", offsets)
    steps = offsets.floor() if offsets.is_floating_point() else offsets.long()
    if rows == "microsoft":
        steps = steps.clamp(1 - distance, distance - 1)
    if rows != "paper":
        ends = _ends(single, int(distance), offsets.device)
        size = steps.abs().to(torch.float64).contiguous()
        far = single + torch.bucketize(size, ends)
        steps = torch.where(size <= single, steps, steps.sign() * far)
    return (steps + span).clamp(0, 2 * span - 1).to(torch.int64)


def _ends(single: int, distance: int, device: torch.device) -> Float[Tensor, "rows"]:
    """Return the largest distance of each row on one side's scale, made on the device.

    The t-th of m = ``single`` rows ends at the last n ≤ m r^(t/(m−1)), where m r is
    ``distance`` − 1. Near an integer n rounding may have moved the root across it;
    there n^(m−1) ≤ m^(m−1−t) (distance−1)^t decides.
    """
    steps, last = single - 1, distance - 1
    all_t = torch.arange(single, dtype=torch.float64, device=device)
    ends = (single * (last / single) ** (all_t / steps)).floor()
    for t in range(single):
        root = single * (last / single) ** (t / steps)
        n = round(root)
        if abs(root - n) < 1e-3:  # roots up to 2³¹ are off by less
            ends[t] = n - (n**steps > single ** (steps - t) * last**t)
    return ends


class DeBERTa(Encoding):
    """DeBERTa's disentangled attention (arXiv 2006.03654 §3.1). Eq. ``def-deberta``.

    Where positions count up by one, every query and every key is multiplied with the
    vectors of all distances. The vectors are O(L d) numbers for a head, the products
    O(L²), which are read along diagonals. A single query is multiplied with all rows of
    the table, and each key with the one row of its offset. For other positions, queries
    and keys are multiplied with every row of the table, and the product for each
    (query, key) pair is looked up. Attention takes O(L²) memory.

    Parameters
    ----------
    d, heads, d_model
        Head dimension and query heads of the layer, and width of the table.
    span
        Half of the table's rows: 512 in v1, 256 in v2 and v3.
    rows, distance
        Rule for the table row of an offset, and the distance where its logarithmic
        scale ends; see :func:`posedu.numpy.relative.deberta_rows`.
    index
        Order of i and j in the offset whose row is multiplied with a key: ``"paper"``
        (j − i) or ``"code"`` (i − j); see :func:`posedu.numpy.relative.deberta`.
    query_bias
        Whether the projection of the table for queries has a bias: true in v1, v2 and
        v3, false in the paper. A bias of the projection for keys would change nothing;
        see :func:`posedu.numpy.relative.deberta`.
    norm
        Whether the table passes a LayerNorm (v2 and v3).
    shared
        The module of another layer, whose table and norm this module shares, as in
        DeBERTa. Default: a table and a norm of this layer alone.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, unknown ``rows`` or ``index``, a
        ``shared`` module of other sizes.
    """

    d: int
    heads: int
    head_rows = ("query.weight", "query.bias", "key.weight")

    def __init__(
        self,
        d: int,
        heads: int,
        d_model: int,
        *,
        span: int,
        rows: DeBERTaRows,
        index: DeBERTaIndex,
        distance: int = 512,
        query_bias: bool = True,
        norm: bool = False,
        shared: "DeBERTa | None" = None,
    ):
        super().__init__()
        self.d = require_dimension("d", d, 1)
        self.heads = require_dimension("heads", heads, 1)
        require_dimension("d_model", d_model, 1)
        require_span(span, rows, distance)
        require_bool("norm", norm)
        self.span, self.rows, self.distance = span, rows, distance
        self.index = require_choice("index", index, DeBERTaIndex)
        if shared is None:
            self.table = nn.Parameter(0.02 * torch.randn(2 * span, d_model))
            self.norm = nn.LayerNorm(d_model, EPSILON) if norm else None
        elif not isinstance(shared, DeBERTa) or (
            (*shared.table.shape, shared.norm is not None) != (2 * span, d_model, norm)
        ):
            raise ValueError(
                f"shared must be a DeBERTa of span {span} and width {d_model}, "
                f"{'with' if norm else 'without'} a norm, got {shared}"
            )
        else:
            self.table, self.norm = shared.table, shared.norm
        require_bool("query_bias", query_bias)
        self.query = nn.Linear(d_model, heads * d, bias=query_bias)
        self.key = nn.Linear(d_model, heads * d, bias=False)
        for each in (self.query, self.key):
            nn.init.normal_(each.weight, std=0.02)
        if query_bias:
            nn.init.zeros_(self.query.bias)

    def tie(self, layer: Attention) -> None:
        """From now on, project the table by the query and key weights of ``layer``.

        DeBERTa's versions v2 and v3 do so; in v1 the table has projections of its own.

        Raises
        ------
        TypeError, ValueError
            ``layer`` is no attention layer, or one of other sizes.
        """
        if not isinstance(layer, Attention):
            raise TypeError(f"layer must be an Attention, got {type(layer).__name__}")
        needed = self.query.weight.shape
        for each in (layer.q, layer.k):
            if each.weight.shape != needed:
                raise ValueError(
                    f"the layer's projections must be {list(needed)}, [heads · d, "
                    f"d_model], got {list(each.weight.shape)}"
                )
        self.query, self.key = layer.q, layer.k

    def scale(self, d: int) -> float:
        """Return the factor 1/√(3d): the logits are sums of three inner products."""
        return (3 * d) ** -0.5

    def bias(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"]:
        """Return the bias of every (query, key) pair, float32 or wider.

        It is the sum of the content–position and the position–content term.
        """
        queries, keys = tokens.q.shape[2], tokens.keys
        if tokens.consecutive and queries == 1:
            return self._of_one(tokens)
        if tokens.consecutive and queries:
            of_queries, of_keys = self._by_distance(tokens)
            return skew(of_queries, keys) + skew(of_keys, queries).mT
        of_queries, of_keys = self._products(tokens)
        shape = (*tokens.q.shape[:3], tokens.keys)
        to = self._index(tokens.offsets).expand(shape)
        back = self._index(self._key_offsets(tokens.offsets)).expand(shape)
        return of_queries.gather(-1, to) + of_keys.mT.gather(-2, back)

    def score_mod(self, tokens: Tokens) -> ScoreMod | None:
        """Return a FlexAttention ``score_mod`` that looks up the bias by offset.

        A ``score_mod`` is a function that changes one logit. Products of queries and
        keys with table rows are made, no queries × keys matrix. ``None`` unless
        positions are known to count up by one.
        """
        queries, keys = tokens.q.shape[2], tokens.keys
        if not tokens.consecutive or not queries:
            return None
        of_queries, of_keys = self._products(tokens)
        offsets = torch.arange(keys - 1, -queries, -1, device=tokens.q.device)
        to, back = self._index(offsets), self._index(self._key_offsets(offsets))
        newest = queries - 1
        return lambda score, b, h, i, j: (
            score
            + of_queries[b, h, i, to[newest - i + j]]
            + of_keys[b, h, j, back[newest - i + j]]
        )

    def _index(self, offsets: Shaped[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        return deberta_rows(
            offsets, span=self.span, rows=self.rows, distance=self.distance
        )

    def _key_offsets(self, offsets: Tensor) -> Tensor:
        """Return the offsets whose rows are multiplied with keys, by ``index``.

        With the query position i and the key position j, they are j − i for ``"paper"``
        and i − j for ``"code"``.
        """
        return -offsets if self.index == "paper" else offsets

    def _products(
        self,
        tokens: Tokens,
        to: Int[Tensor, "columns"] | None = None,
        back: Int[Tensor, "columns"] | None = None,
    ) -> tuple[
        Float[Tensor, "batch heads queries columns"],
        Float[Tensor, "batch heads keys columns"],
    ]:
        """Return scaled products of queries and of keys with rows of the table.

        Queries are multiplied with the rows ``to``, projected as keys are; keys are
        multiplied with the rows ``back``, projected as queries are. ``None`` stands for
        all rows of the table.
        """
        as_keys, as_queries = self._projected(tokens)
        of_queries = tokens.q.to(as_keys.dtype) @ self._by_head(as_keys, to)
        of_keys = tokens.k.to(as_keys.dtype) @ self._by_head(as_queries, back)
        return of_queries, of_keys

    def _projected(
        self, tokens: Tokens
    ) -> tuple[Float[Tensor, "rows features"], Float[Tensor, "rows features"]]:
        """Return the table projected as keys and as queries, both times 1/√(3d).

        Both are float32 or wider.
        """
        wide = torch.promote_types(tokens.q.dtype, torch.float32)
        p, scale = self.table.to(wide), self.scale(tokens.d)
        if self.norm is not None:
            weight, bias = (t.to(wide) for t in (self.norm.weight, self.norm.bias))
            p = functional.layer_norm(p, weight.shape, weight, bias, self.norm.eps)
        as_keys = p @ self.key.weight.to(wide).mT
        as_queries = p @ self.query.weight.to(wide).mT
        if self.query.bias is not None:
            as_queries = as_queries + self.query.bias.to(wide)
        return as_keys * scale, as_queries * scale

    def _by_head(
        self, rows: Float[Tensor, "rows features"], index: Int[Tensor, "columns"] | None
    ) -> Float[Tensor, "heads d columns"]:
        if index is not None:
            rows = rows[index]
        return rows.unflatten(-1, (self.heads, self.d)).permute(1, 2, 0)

    def _of_one(self, tokens: Tokens) -> Float[Tensor, "batch heads 1 keys"]:
        """Return the bias of a single query for each key, in O(keys · d) operations.

        Each key is multiplied with one row of the table alone.
        """
        offsets = torch.arange(tokens.keys - 1, -1, -1, device=tokens.q.device)
        back = self._index(self._key_offsets(offsets))
        as_keys, as_queries = self._projected(tokens)
        of_query = tokens.q.to(as_keys.dtype) @ self._by_head(as_keys, None)
        rows = self._by_head(as_queries, back)
        of_keys = torch.einsum("bhjd,hdj->bhj", tokens.k.to(rows.dtype), rows)
        return of_query[..., self._index(offsets)] + of_keys[:, :, None]

    def _by_distance(
        self, tokens: Tokens
    ) -> tuple[
        Float[Tensor, "batch heads queries offsets"],
        Float[Tensor, "batch heads keys offsets"],
    ]:
        """Return products of queries, and of keys, with the table row of each offset.

        An offset is query position minus key position. The offsets of a query's
        products fall along the last axis, those of a key's products rise. The last
        column belongs to one offset more than queries and keys have, which :func:`skew`
        needs.
        """
        queries, keys = tokens.q.shape[2], tokens.keys
        down = torch.arange(keys - 1, -queries - 1, -1, device=tokens.q.device)
        up = torch.arange(1 - queries, keys + 1, device=tokens.q.device)
        to, back = self._index(down), self._index(self._key_offsets(up))
        if torch.compiler.is_compiling():  # compiled CPU code of the rest: NaN in bf16
            to = _materialized(to, True)
            back = _materialized(back, self.index == "paper")
            of_queries, of_keys = self._products(tokens)
            return of_queries[..., to], of_keys[..., back]
        return self._products(tokens, to, back)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return (
            f"{self.d}, {self.heads}, span={self.span}, rows={self.rows!r}, "
            f"index={self.index!r}"
        )


def _materialized(
    rows: Int[Tensor, "columns"], falling: bool
) -> Int[Tensor, "columns"]:
    """Return table row indices, which are sorted already, as the output of a sort.

    PyTorch's compiler would fuse the computation of a row index, search and all,
    into the work for each (query, key) pair; it does not fuse through a sort.
    ``falling`` is true if the indices fall.
    """
    return rows.sort(descending=falling).values
