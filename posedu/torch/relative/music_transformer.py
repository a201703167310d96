"""The Music Transformer's relative position vectors of keys."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from posedu._arguments import (
    BeyondOffsets,
    require_bool,
    require_choice,
    require_dimension,
)
from posedu.torch.encoding import Tokens
from posedu.torch.relative.offset_table import (
    OffsetTable,
    optional_table,
    trained_table,
)


class MusicTransformer(OffsetTable):
    """Music Transformer: relative attention of a decoder (arXiv 1809.04281 eq. 3).

    A trained vector for the offset of each (query, key) pair is added to the key.
    Attention takes O(L²) memory. Equation ``def-music``.

    Parameters
    ----------
    d
        Head dimension.
    table_length
        Number of offsets with a vector, table_length − 1, …, 1, 0: tensor2tensor's
        ``max_relative_position``.
    beyond
        The vector of an offset outside the table: ``"zero"``, none (the authors' code),
        or ``"clip"``, the vector of the nearest offset in the table.
    heads
        Number of heads with tables of their own. ``None``: all heads of the layer share
        one (both are in the authors' code).
    values
        Whether there is a table for values too (optional in the authors' code).
        Default false.
    key_table, value_table
        Initial tables, the farthest offset first: ``[table_length, d]`` or
        ``[heads, table_length, d]``. Default: zeros. (The authors draw them normal, of
        deviation d^(−1/2).)

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, unknown ``beyond``, a table of another
        shape, or a ``value_table`` without ``values``.
    """

    d: int
    future = 0
    needs_causal = True
    head_rows = ("key_table", "value_table")

    def __init__(
        self,
        d: int,
        *,
        table_length: int,
        beyond: BeyondOffsets,
        heads: int | None = None,
        values: bool = False,
        key_table: Float[Tensor, "*heads table_length d"] | None = None,
        value_table: Float[Tensor, "*heads table_length d"] | None = None,
    ):
        super().__init__()
        self.d = require_dimension("d", d, 1)
        self.past = require_dimension("table_length", table_length, 1) - 1
        self.beyond = require_choice("beyond", beyond, BeyondOffsets)
        self.heads = None if heads is None else require_dimension("heads", heads, 1)
        shape = (table_length, d) if heads is None else (heads, table_length, d)
        require_bool("values", values)
        self.key_table = trained_table("key_table", key_table, shape)
        self.value_table = optional_table("value_table", value_table, shape, values)
        if not values:
            self.hooks -= {"mix"}

    def products(
        self, tokens: Tokens, rows: slice
    ) -> Float[Tensor, "batch heads queries rows"]:
        """Return scaled inner products of queries with rows of the key table.

        ``rows`` is a slice of the table's rows, whose first row is the largest offset.
        """
        return self.products_with(self.key_table, tokens, rows)

    def mix(
        self,
        weights: Float[Tensor, "batch heads queries keys"],
        v: Float[Tensor, "batch heads keys d_v"],
        tokens: Tokens,
    ) -> Float[Tensor, "batch heads queries d_v"]:
        """Return Σ a (v + value-table vector of the key's offset), a the weights.

        Without a table for values: Σ a v.
        """
        return self.mix_with(self.value_table, weights, v, tokens)

    def extra_repr(self) -> str:
        """Return constructor arguments as text, which ``print(module)`` shows."""
        return f"{self.d}, table_length={self.past + 1}, beyond={self.beyond!r}"
