"""Shaw's relative position vectors, added to keys and to values by offset."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from posedu._arguments import require_bool, require_dimension, require_reach
from posedu.torch.encoding import Tokens
from posedu.torch.relative.offset_table import OffsetTable, optional_table


class Shaw(OffsetTable):
    """Relative position vectors of keys and values (arXiv 1803.02155 eq. 3 and 4).

    Attention takes O(L²) memory. Equation ``def-shaw``.

    Parameters
    ----------
    d
        Head dimension.
    past, future
        Number of rows for offsets before and after a query; farther keys share the last
        of these rows. The paper's k is both: 16, in its big model 8. wav2vec2-BERT has
        64 and 8.
    heads
        Number of heads with tables of their own (the paper's base model). ``None``: all
        heads of the layer share them (its big one; tensor2tensor).
    keys, values
        Whether keys, or values, have a table. Default: both; wav2vec2-BERT has keys
        alone.
    key_table, value_table
        Initial tables, vectors of the offsets past, …, −future: ``[rows, d]`` or
        ``[heads, rows, d]``. Default: zeros.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, a negative ``past`` or ``future``, no
        table, a table of another shape, or a table for keys or values that have none.
    """

    d: int
    beyond = "clip"
    head_rows = ("key_table", "value_table")

    def __init__(
        self,
        d: int,
        *,
        past: int,
        future: int,
        heads: int | None = None,
        keys: bool = True,
        values: bool = True,
        key_table: Float[Tensor, "*heads rows d"] | None = None,
        value_table: Float[Tensor, "*heads rows d"] | None = None,
    ):
        super().__init__()
        self.d = require_dimension("d", d, 1)
        rows = require_reach(past, future)
        self.past, self.future = past, future
        self.heads = None if heads is None else require_dimension("heads", heads, 1)
        shape = (rows, d) if heads is None else (heads, rows, d)
        if not (require_bool("keys", keys) | require_bool("values", values)):
            raise ValueError("keys or values must be True, got neither")
        self.key_table = optional_table("key_table", key_table, shape, keys)
        self.value_table = optional_table("value_table", value_table, shape, values)
        if not keys:
            self.hooks -= {"bias"}
        if not values:
            self.hooks -= {"mix"}

    def products(
        self, tokens: Tokens, rows: slice
    ) -> Float[Tensor, "batch heads queries rows"] | None:
        """Return scaled inner products of queries with rows of the key table.

        ``rows`` is a slice of the table's rows. ``None`` if keys have no table.
        """
        if self.key_table is None:
            return None
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
        return f"{self.d}, past={self.past}, future={self.future}"
