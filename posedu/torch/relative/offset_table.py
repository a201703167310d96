"""A bias that queries read off a table by offset: one product with each of its rows."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.nn import functional

from posedu.torch._tensors import require_shape
from posedu.torch.encoding import Encoding, ScoreMod, Tokens
from posedu.torch.toeplitz_bias import skew, unskew


class Span(NamedTuple):
    """The rows that are read, and how many offsets are before and after them."""

    rows: slice
    before: int = 0
    after: int = 0


EVERY = slice(None)


class OffsetTable(Encoding):
    """A bias of query and offset; subclasses say it in :meth:`products`.

    The table's rows are the offsets ``past``, …, −``future``; ``beyond`` them a key
    gets the number of the last row (``"clip"``) or 0 (``"zero"``). Where positions
    count up by one the numbers are skewed to their keys, elsewhere looked up.
    """

    past: int
    future: int
    beyond: str

    def products(
        self, tokens: Tokens, rows: slice
    ) -> Float[Tensor, "batch heads queries rows"] | None:
        """What each query says to these rows of the table, if there is one."""
        raise NotImplementedError

    def bias(self, tokens: Tokens) -> Float[Tensor, "batch heads queries keys"] | None:
        """Of each query and key."""
        span = self._span(tokens)
        products = self.products(tokens, EVERY if span is None else span.rows)
        if products is None:
            return None
        if span is not None:
            return skew(self._pad(products, span), tokens.k.shape[2])
        row, inside = self._rows(tokens)
        found = products.gather(-1, row.expand(*products.shape[:3], -1))
        return found if inside is None else found.masked_fill(~inside, 0.0)

    def score_mod(self, tokens: Tokens) -> ScoreMod | None:
        """The products, looked up: queries × rows numbers, and no matrix."""
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
        """Scaled inner products of queries and vectors, in float32 or better."""
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
        """Σ a (v + the vector of the key's row), without one for each query and key."""
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
        """None, where positions do not count up by one, and under a compiler.

        It fuses what is looked up with all around it, for every length.
        """
        queries, keys = tokens.q.shape[2], tokens.k.shape[2]
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
        """The row of each query and key, and which are not beyond, if that matters."""
        steps = tokens.offsets.floor()
        row = (self.past - steps.clamp(-self.future, self.past)).long()
        if self.beyond == "clip":
            return row, None
        return row, (steps >= -self.future) & (steps <= self.past)

    def _by_row(
        self, weights: Float[Tensor, "batch heads queries keys"], tokens: Tokens
    ) -> Float[Tensor, "batch heads queries rows"]:
        """The sums of the weights whose keys have the same row."""
        row, inside = self._rows(tokens)
        if inside is not None:
            weights = weights.masked_fill(~inside, 0.0)
        sums = weights.new_zeros(*weights.shape[:3], self.past + 1 + self.future)
        return sums.scatter_add(-1, row.expand(weights.shape), weights)

    def _pad(self, products: Tensor, span: Span) -> Tensor:
        """Also what is beyond, on both sides."""
        if self.beyond == "zero":
            return functional.pad(products, (span.before, span.after))
        first = products[..., :1].expand(*products.shape[:-1], span.before)
        last = products[..., -1:].expand(*products.shape[:-1], span.after)
        return torch.cat((first, products, last), -1)

    def _fold(self, sums: Tensor, span: Span) -> Tensor:
        """The transpose of :meth:`_pad`."""
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
    """A parameter of this shape that starts at ``table``, or at 0."""
    table = torch.zeros(shape) if table is None else table
    require_shape(name, table, shape)
    return nn.Parameter(table.detach().clone())


def optional_table(
    name: str, table: Tensor | None, shape: tuple[int, ...], wanted: bool
) -> nn.Parameter | None:
    """:func:`trained_table` where one is wanted."""
    if wanted:
        return trained_table(name, table, shape)
    if table is not None:
        raise ValueError(f"{name} was given where none is wanted")
    return None
