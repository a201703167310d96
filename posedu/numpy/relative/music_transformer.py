"""Music Transformer: relative position vectors of keys, and the skewing procedure."""

import numpy as np
from jaxtyping import Float, Int

from posedu._arguments import BeyondOffsets, require_choice, require_count
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
    products: Float[Array, "*heads queries offsets"], keys: int | None = None
) -> Float[Array, "*heads queries keys"]:
    """Rearrange products by query and offset into products by query and key.

    Pad a column on the left, drop the first numbers, as many as queries, and reshape
    (arXiv 1809.04281 §3.4.1, for as many queries as keys). Equation ``def-skew``.

    Parameters
    ----------
    products
        Column c is the offset keys − 1 − c. If the columns end at offset 0, numbers
        above the diagonal are meaningless: a zero, then numbers of the next row. With
        the offsets down to 1 − queries all numbers are right.
    keys
        Number of keys; the last query belongs to the last key. Default: as many as
        columns.

    Raises
    ------
    TypeError, ValueError
        An array that holds no floats or has fewer columns than keys.
    """
    products = require_floats("products", products)
    if products.ndim < 2:
        raise ValueError(
            f"products must be [..., queries, offsets], got shape "
            f"{list(products.shape)}"
        )
    *heads, queries, offsets = products.shape
    keys = offsets if keys is None else require_count("keys", keys)
    if keys > offsets:
        raise ValueError(f"{keys} keys need as many offsets, got {offsets}")
    padded = np.concatenate((np.zeros((*heads, queries, 1)), products), axis=-1)
    flat = padded.reshape(*heads, queries * (offsets + 1))[..., queries:]
    return flat.reshape(*heads, queries, offsets)[..., :keys]


def unskew(
    weights: Float[Array, "*heads queries keys"], future: int
) -> Float[Array, "*heads queries offsets"]:
    """Rearrange numbers by query and key into numbers by query and offset: undo skew.

    Parameters
    ----------
    weights
        Numbers by query and key; the last query belongs to the last key.
    future
        The size of the smallest offset, so that the columns are the offsets keys − 1,
        …, −future. Numbers of smaller offsets are dropped.

    Raises
    ------
    TypeError, ValueError
        An array that holds no floats, a negative ``future``.
    """
    weights = require_floats("weights", weights)
    if weights.ndim < 2:
        raise ValueError(
            f"weights must be [..., queries, keys], got shape {list(weights.shape)}"
        )
    *heads, queries, keys = weights.shape
    offsets = keys + require_count("future", future)
    found = np.zeros((*heads, queries, offsets))
    for i in range(queries):
        start = queries - 1 - i
        row = weights[..., i, : max(offsets - start, 0)]
        found[..., i, start : start + row.shape[-1]] = row
    return found


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
