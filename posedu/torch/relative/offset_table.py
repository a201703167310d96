"""Base class of biases that are products of a query with an offset's table row."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.nn import functional

from posedu._arguments import BeyondOffsets
from posedu.torch._tensors import require_shape
from posedu.torch.encoding import Encoding, ScoreMod, Tokens
from posedu.torch.toeplitz_bias import skew, unskew


class Span(NamedTuple):
    """Rows of an offset table that a sequence uses, and the offsets outside the table.

    ``rows`` is a slice of the table. ``before`` is the number of the sequence's offsets
    above the table's largest, ``after`` the number of those below its smallest.
    """

    rows: slice
    before: int = 0
    after: int = 0


EVERY = slice(None)


class OffsetTable(Encoding):
    """Base class of biases that multiply a query with a table's row for an offset.

    Subclasses define :meth:`products`, the products of queries with rows.

    The table's rows are the offsets ``past``, …, −``future``. A key ``beyond`` these
    offsets gets the product of the nearest row (``"clip"``) or 0 (``"zero"``). Where
    positions count up by one, the products are moved to their keys by :func:`skew`;
    elsewhere they are looked up.
    """

    past: int
    future: int
    beyond: BeyondOffsets

    def products(
        self, tokens: Tokens, rows: slice
    ) -> Float[Tensor, "batch heads queries rows"] | None:
        """Return products of queries with rows of the table, or ``None``.

        ``rows`` is the slice of rows. ``None`` if the encoding has no table for keys.
        """
        raise NotImplementedError

    def bias(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"] | None:
        """Return the bias of every (query, key) pair.

        The bias is the product of the query with the table row of the offset. ``None``
        if the encoding has no table for keys.
        """
        span = self._span(tokens)
        products = self.products(tokens, EVERY if span is None else span.rows)
        if products is None:
            return None
        if span is not None:
            return skew(self._pad(products, span), tokens.keys)
        row, inside = self._rows(tokens)
        found = products.gather(-1, row.expand(*products.shape[:3], -1))
        return found if inside is None else found.masked_fill(~inside, 0.0)

    def score_mod(self, tokens: Tokens) -> ScoreMod | None:
        """Return a FlexAttention ``score_mod`` that looks up the bias by offset.

        A ``score_mod`` is a function that changes one logit. Products of queries with
        table rows are made, no queries × keys matrix. ``None`` if the encoding has no
        table for keys.
        """
        products = self.products(tokens, EVERY)
        if products is None:
            return None
        batch, is_zero = len(tokens.q), self.beyond == "zero"
        at_query, at_key = (
            t.expand(batch, -1) for t in (tokens.query_positions, tokens.key_positions)
        )
        past, future = self.past, self.future

        def add(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            steps = (at_query[b, i] - at_key[b, j]).floor()
            row = (past - steps.clamp(-future, past)).long()
            found = products[b, h, i, row]
            if is_zero:
                inside = (steps >= -future) & (steps <= past)
                found = torch.where(inside, found, 0.0)
            return score + found

        return add

    def products_with(
        self, table: Float[Tensor, "*heads offsets d"], tokens: Tokens, rows: slice
    ) -> Float[Tensor, "batch heads queries rows"]:
        """Return scaled products of queries with rows of ``table``.

        The products are float32 or wider. ``table`` has a vector for each offset;
        ``rows`` is the slice of its rows.
        """
        wide = torch.promote_types(tokens.q.dtype, torch.float32)
        vectors = table[..., rows, :].to(wide)
        return tokens.q.to(wide) @ vectors.mT * self.scale(tokens.d)

    def mix_with(
        self,
        table: Float[Tensor, "*heads offsets d"] | None,
        weights: Float[Tensor, "batch heads queries keys"],
        v: Float[Tensor, "batch heads keys d_v"],
        tokens: Tokens,
    ) -> Float[Tensor, "batch heads queries d_v"]:
        """Return Σ a (v + the table's vector of the key's offset), with ``weights`` a.

        ``table`` has a vector for each offset; if it is ``None``, Σ a v is returned. No
        vector is made for each (query, key) pair.
        """
        out = weights @ v
        if table is None:
            return out
        if v.shape[-1] != table.shape[-1]:
            raise ValueError(
                f"value_table has {table.shape[-1]} features, values have {v.shape[-1]}"
            )
        span = self._span(tokens)
        if span is None:
            return out + self._by_row(weights, tokens) @ table.to(v.dtype)
        future = 0 if tokens.causal else tokens.q.shape[2] - 1
        sums = self._fold(unskew(weights, future), span)
        return out + sums @ table[..., span.rows, :].to(v.dtype)

    def _span(self, tokens: Tokens) -> Span | None:
        """Return the table rows that queries and keys in ``tokens`` use, or ``None``.

        ``None`` under a compiler, without queries, or if positions are not known to
        count up by one. Products are then looked up by table row: a compiler fuses the
        look-up with the operations around it, for every length.
        """
        queries, keys = tokens.q.shape[2], tokens.keys
        if not tokens.consecutive or not queries or is_compiling():
            return None
        last = 0 if tokens.causal else 1 - queries
        first = max(self.past - keys + 1, 0)
        return Span(
            slice(first, self.past + 1 - max(last, -self.future)),
            max(keys - 1 - self.past, 0),
            max(-self.future - last, 0),
        )

    def _rows(
        self, tokens: Tokens
    ) -> tuple[
        Int[Tensor, "rows 1 queries keys"], Bool[Tensor, "rows 1 queries keys"] | None
    ]:
        """Return the table row of every (query, key) pair, and a mask.

        With ``beyond="zero"`` the mask is true where the table has the offset; with
        ``beyond="clip"`` it is ``None``.
        """
        steps = tokens.offsets.floor()
        row = (self.past - steps.clamp(-self.future, self.past)).long()
        if self.beyond == "clip":
            return row, None
        return row, (steps >= -self.future) & (steps <= self.past)

    def _by_row(
        self, weights: Float[Tensor, "batch heads queries keys"], tokens: Tokens
    ) -> Float[Tensor, "batch heads queries rows"]:
        """Sum each query's weights over the keys whose offsets share a table row.

        With ``beyond="zero"``, weights of keys beyond the table are left out.
        """
        row, inside = self._rows(tokens)
        if inside is not None:
            weights = weights.masked_fill(~inside, 0.0)
        sums = weights.new_zeros(*weights.shape[:3], self.past + 1 + self.future)
        return sums.scatter_add(-1, row.expand(weights.shape), weights)

    def _pad(self, products: Tensor, span: Span) -> Tensor:
        """Add products for offsets beyond the table to the products of table rows.

        ``products`` are those of queries with table rows, ``[…, rows]``; ``span`` says
        how many offsets are missing on either side. For these the product is 0
        (``beyond="zero"``) or that of the nearest row (``beyond="clip"``).
        """
        if self.beyond == "zero":
            return functional.pad(products, (span.before, span.after))
        first = products[..., :1].expand(*products.shape[:-1], span.before)
        last = products[..., -1:].expand(*products.shape[:-1], span.after)
        return torch.cat((first, products, last), -1)

    def _fold(self, sums: Tensor, span: Span) -> Tensor:
        """Sum a query's weights at all offsets to one weight for each table row.

        ``sums`` holds the weights, ``[…, offsets]``; ``span`` says how many offsets are
        beyond the table on either side. With ``beyond="clip"`` their weights are added
        to the weights of the first and the last row, with ``beyond="zero"`` dropped.
        This is the transpose of :meth:`_pad`.
        """
        first, near, last = sums.split(
            (span.before, sums.shape[-1] - span.before - span.after, span.after), -1
        )
        if self.beyond == "zero":
            return near
        others = near.shape[-1] - 1
        return (
            near
            + functional.pad(first.sum(-1, keepdim=True), (0, others))
            + functional.pad(last.sum(-1, keepdim=True), (others, 0))
        )


def trained_table(
    name: str, table: Tensor | None, shape: tuple[int, ...]
) -> nn.Parameter:
    """Return a parameter of the given shape that starts at ``table``.

    It starts at 0 if ``table`` is ``None``. ``name`` is the table's name in error
    messages.
    """
    table = torch.zeros(shape) if table is None else table
    require_shape(name, table, shape)
    return nn.Parameter(table.detach().clone())


def optional_table(
    name: str, table: Tensor | None, shape: tuple[int, ...], is_used: bool
) -> nn.Parameter | None:
    """Return a trained table, or ``None`` if ``is_used`` is false.

    The table has the given shape. It starts at ``table``, or at 0 if that is ``None``.
    A ``table`` given though ``is_used`` is false raises a ``ValueError``, in which
    ``name`` names it.
    """
    if is_used:
        return trained_table(name, table, shape)
    if table is not None:
        raise ValueError(
            f"{name} must be None: this encoding was made without that table"
        )
    return None
