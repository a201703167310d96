"""Music Transformer: relative position vectors of keys, and the skewing procedure."""

import numpy as np
from jaxtyping import Float, Int

from posedu._arguments import BeyondOffsets, require_choice
from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import Hooks, Tokens
from posedu.numpy.relative.offset_table import (
    by_key,
    by_row,
    optional_table,
    require_fitting,
    require_table,
)

Array = np.ndarray


def skew(
    products: Float[Array, "*heads tokens tokens"],
) -> Float[Array, "*heads tokens tokens"]:
    """Rearrange products by query and offset into products by query and key.

    Pad a column on the left, reshape, drop the first row (arXiv 1809.04281 §3.4.1).
    Column c is the offset tokens − 1 − c. Numbers above the diagonal are meaningless: a
    zero, then numbers of the next row. Equation ``def-skew``.

    Raises
    ------
    TypeError, ValueError
        An array that holds no floats or is not square.
    """
    products = require_floats("products", products)
    if products.ndim < 2 or products.shape[-1] != products.shape[-2]:
        raise ValueError(
            f"products must be [..., tokens, tokens], got shape {list(products.shape)}"
        )
    *heads, n, _ = products.shape
    padded = np.concatenate((np.zeros((*heads, n, 1)), products), axis=-1)
    return padded.reshape(*heads, n + 1, n)[..., 1:, :]


def music_transformer(
    *,
    key_table: Float[Array, "*heads table_length d"],
    beyond: BeyondOffsets,
    value_table: Float[Array, "*heads table_length d"] | None = None,
) -> Hooks:
    """Return the attention hooks of Music Transformer's relative attention.

    A learned vector of the offset is added to each key (arXiv 1809.04281 eq. 3), and a
    second one to each value if ``value_table`` is given.

    Parameters
    ----------
    key_table
        Vectors of the offsets table_length − 1, …, 1, 0, for all heads or for each.
    beyond
        The vector of a key at an offset outside the table: ``"zero"``, none (the
        authors' code), or ``"clip"``, the vector of the nearest offset in the table.
    value_table
        Vectors of the same offsets for values (optional in the authors' code). Default
        none.

    Returns
    -------
    Hooks (functions that attention calls) with ``bias`` and ``mix``, for causal
    attention. Equation ``def-music``.

    Raises
    ------
    TypeError, ValueError
        Tables that hold no floats or differ in rows, unknown ``beyond``.
    """
    keys = require_table("key_table", key_table)
    table_length = keys.shape[-2]
    values = optional_table("value_table", value_table, table_length)
    require_choice("beyond", beyond, BeyondOffsets)

    def near(tokens: Tokens, numbers: Array) -> Array:
        """Replace ``numbers`` by 0 at keys whose offset has no vector in the table.

        ``numbers`` are ``[heads, queries, keys]``. With ``beyond="clip"`` every offset
        has a vector, and nothing is replaced.
        """
        steps = np.floor(tokens.distances)
        has_one = (beyond == "clip") | ((steps >= 0) & (steps < table_length))
        return np.where(has_one, numbers, 0.0)

    def row(tokens: Tokens) -> Int[Array, "queries keys"]:
        steps = np.floor(tokens.distances)
        return table_length - 1 - np.clip(steps, 0, table_length - 1).astype(int)

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        require_fitting("key_table", keys, tokens.q)
        products = tokens.q @ keys.swapaxes(-1, -2)
        return near(tokens, by_key(products, row(tokens))) / np.sqrt(tokens.d)

    def mix(
        weights: Float[Array, "heads queries keys"],
        v: Float[Array, "heads keys d"],
        tokens: Tokens,
    ) -> Float[Array, "heads queries d"]:
        if values is None:
            return weights @ v
        require_fitting("value_table", values, v)
        sums = by_row(near(tokens, weights), row(tokens), table_length)
        return weights @ v + sums @ values

    return Hooks(bias=bias, mix=mix, needs_causal=True)
