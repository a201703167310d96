"""A bias that queries read off a table by offset: one product with each of its rows."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.nn import functional

from posedu.torch._tensors import require_shape
from posedu.torch.encoding import Encoding, ScoreMod, Tokens
from posedu.torch.toeplitz import skew, unskew


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
        near, before, after = self._reach(tokens)
        if near is not None:
            products = self.products(tokens, near)
            if products is None:
                return None
            return skew(self._pad(products, before, after), tokens.k.shape[2])
        products = self.products(tokens, slice(None))
        if products is None:
            return None
        row, inside = self._rows(tokens)
        found = products.gather(-1, row.expand(*products.shape[:3], -1))
        return found if inside is None else found.masked_fill(~inside, 0.0)

    def score_mod(self, tokens: Tokens) -> ScoreMod | None:
        """The products, looked up: queries × rows numbers, and no matrix."""
        products = self.products(tokens, slice(None))
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

    def by_row(
        self, weights: Float[Tensor, "batch heads queries keys"], tokens: Tokens
    ) -> tuple[Float[Tensor, "batch heads queries rows"], slice]:
        """The sums of the weights whose keys have the same row, and of which rows."""
        near, before, after = self._reach(tokens)
        if near is not None:
            future = 0 if tokens.causal else tokens.q.shape[2] - 1
            return self._fold(unskew(weights, future), before, after), near
        row, inside = self._rows(tokens)
        if inside is not None:
            weights = weights.masked_fill(~inside, 0.0)
        sums = weights.new_zeros(*weights.shape[:3], self.past + 1 + self.future)
        return sums.scatter_add(-1, row.expand(weights.shape), weights), slice(None)

    def _reach(self, tokens: Tokens) -> tuple[slice | None, int, int]:
        """The rows that are read, and how many offsets are before and after them.

        None, where positions do not count up by one, and under a compiler, which fuses
        what is looked up with all around it, for every length.
        """
        queries, keys = tokens.q.shape[2], tokens.k.shape[2]
        if not tokens.consecutive or not queries or is_compiling():
            return None, 0, 0
        last = 0 if tokens.causal else 1 - queries
        near = slice(
            max(self.past - keys + 1, 0), self.past + 1 - max(last, -self.future)
        )
        return near, max(keys - 1 - self.past, 0), max(-self.future - last, 0)

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

    def _pad(self, products: Tensor, before: int, after: int) -> Tensor:
        """The rows beyond, on both sides."""
        if self.beyond == "zero":
            return functional.pad(products, (before, after))
        sides = products[..., :1], products[..., -1:]
        shape = products.shape[:-1]
        first, last = (
            t.expand(*shape, n) for t, n in zip(sides, (before, after), strict=True)
        )
        return torch.cat((first, products, last), -1)

    def _fold(self, sums: Tensor, before: int, after: int) -> Tensor:
        """The transpose of :meth:`_pad`."""
        stop = sums.shape[-1] - after
        near = sums[..., before:stop]
        if self.beyond == "zero":
            return near
        first, last = sums[..., :before], sums[..., stop:]
        ends = first.sum(-1, keepdim=True), last.sum(-1, keepdim=True)
        width = near.shape[-1] - 1
        return near + (
            functional.pad(ends[0], (0, width)) + functional.pad(ends[1], (width, 0))
        )


def mix_with(
    encoding: OffsetTable,
    table: Float[Tensor, "*heads rows d"] | None,
    weights: Float[Tensor, "batch heads queries keys"],
    v: Float[Tensor, "batch heads keys d_v"],
    tokens: Tokens,
) -> Float[Tensor, "batch heads queries d_v"]:
    """Σ a (v + vector of the key's row), without a vector for each query and key."""
    out = weights @ v
    if table is None:
        return out
    if v.shape[-1] != table.shape[-1]:
        raise ValueError(
            f"value_table has {table.shape[-1]} features, values have {v.shape[-1]}"
        )
    sums, rows = encoding.by_row(weights, tokens)
    return out + sums @ table[..., rows, :].to(v.dtype)


def trained_table(
    name: str, table: Tensor | None, shape: tuple[int, ...], wanted: bool
) -> nn.Parameter | None:
    """A parameter of this shape that starts at ``table``, or at 0, if it is wanted."""
    if not wanted:
        if table is not None:
            raise ValueError(f"{name} was given where none is wanted")
        return None
    table = torch.zeros(shape) if table is None else table
    require_shape(name, table, shape)
    return nn.Parameter(table.detach().clone())
