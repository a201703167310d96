"""The Music Transformer's relative vectors of keys, and the skew that places them."""

import numpy as np
from jaxtyping import Float, Int

from posedu._arguments import BEYONDS, require_choice
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
    """Bring products by query and offset to their keys, as printed.

    Pad a column on the left, reshape, drop the first row (arXiv 1809.04281 §3.4.1).
    Column c is the offset tokens − 1 − c. Above the diagonal stands junk: a zero, then
    numbers of the next row. Equation ``def-skew``.

    Raises
    ------
    TypeError, ValueError
        What holds no floats or is not square.
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
    key_table: Float[Array, "*heads extent d"],
    beyond: str,
    value_table: Float[Array, "*heads extent d"] | None = None,
) -> Hooks:
    """Relative attention as hooks (arXiv 1809.04281 eq. 3).

    Parameters
    ----------
    key_table
        Vectors of the offsets extent − 1, …, 1, 0, for all heads or for each.
    beyond
        What a key at another offset gets: ``"zero"``, nothing (the authors' code), or
        ``"clip"``, the vector of the nearest of these.
    value_table
        The same for values (optional in the authors' code). Default none.

    Returns
    -------
    For causal attention. Equation ``def-music``.

    Raises
    ------
    TypeError, ValueError
        Tables that hold no floats or differ in rows, unknown ``beyond``.
    """
    keys = require_table("key_table", key_table)
    extent = keys.shape[-2]
    values = optional_table("value_table", value_table, extent)
    require_choice("beyond", beyond, BEYONDS)

    def near(tokens: Tokens, numbers: Array) -> Array:
        """The numbers, 0 in place of those of keys that have no vector."""
        steps = np.floor(tokens.distances)
        has_one = (beyond == "clip") | ((steps >= 0) & (steps < extent))
        return np.where(has_one, numbers, 0.0)

    def row(tokens: Tokens) -> Int[Array, "queries keys"]:
        steps = np.floor(tokens.distances)
        return extent - 1 - np.clip(steps, 0, extent - 1).astype(int)

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
        sums = by_row(near(tokens, weights), row(tokens), extent)
        return weights @ v + sums @ values

    return Hooks(bias=bias, mix=mix, needs_causal=True)
