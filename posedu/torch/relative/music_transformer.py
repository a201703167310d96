"""The Music Transformer's relative vectors of keys, skewed to where they belong."""

from jaxtyping import Float
from torch import Tensor

from posedu._arguments import (
    BEYONDS,
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
    """Relative attention of a decoder (arXiv 1809.04281 eq. 3).

    Equation ``def-music``.

    Parameters
    ----------
    d
        Head dimension.
    extent
        How many offsets have a vector: extent − 1, …, 1, 0.
    beyond
        What a key at another offset gets: ``"zero"``, nothing (the authors' code), or
        ``"clip"``, the vector of the nearest of these.
    heads
        How many heads have tables of their own. ``None``: all heads of the layer share
        them (both are in the authors' code).
    values
        Whether there is a table for values too (optional in the authors' code).
        Default false.
    key_table, value_table
        Where they start, the farthest offset first: ``[extent, d]`` or
        ``[heads, extent, d]``. Default: zeros. (The authors draw them normal, of
        deviation d^(−1/2).)

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, unknown ``beyond``, a table of another
        shape or one that is not wanted.
    """

    d: int
    future = 0
    needs_causal = True

    def __init__(
        self,
        d: int,
        *,
        extent: int,
        beyond: str,
        heads: int | None = None,
        values: bool = False,
        key_table: Float[Tensor, "*heads extent d"] | None = None,
        value_table: Float[Tensor, "*heads extent d"] | None = None,
    ):
        super().__init__()
        self.d = require_dimension("d", d, 1)
        self.past = require_dimension("extent", extent, 1) - 1
        self.beyond = require_choice("beyond", beyond, BEYONDS)
        self.heads = None if heads is None else require_dimension("heads", heads, 1)
        shape = (extent, d) if heads is None else (heads, extent, d)
        require_bool("values", values)
        self.key_table = trained_table("key_table", key_table, shape)
        self.value_table = optional_table("value_table", value_table, shape, values)

    def opens(self, hook: str) -> bool:
        """``mix`` only with a table for values."""
        return super().opens(hook) and (hook != "mix" or self.value_table is not None)

    def products(
        self, tokens: Tokens, rows: slice
    ) -> Float[Tensor, "batch heads queries rows"]:
        """Of queries and the key table."""
        return self.products_with(self.key_table, tokens, rows)

    def mix(
        self,
        weights: Float[Tensor, "batch heads queries keys"],
        v: Float[Tensor, "batch heads keys d_v"],
        tokens: Tokens,
    ) -> Float[Tensor, "batch heads queries d_v"]:
        """Σ a (v + vector)."""
        return self.mix_with(self.value_table, weights, v, tokens)

    def extra_repr(self) -> str:
        """Say the conventions when the module is printed."""
        return f"{self.d}, extent={self.past + 1}, beyond={self.beyond!r}"
