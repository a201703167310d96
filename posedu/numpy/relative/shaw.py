"""Shaw's relative position vectors, added to keys and to values."""

import numpy as np
from jaxtyping import Float, Int

from posedu._arguments import require_reach
from posedu.numpy._arrays import Positions, require_positions
from posedu.numpy.attention import Hooks, Tokens
from posedu.numpy.relative.offset_table import (
    by_key,
    by_row,
    optional_table,
    require_fitting,
)

Array = np.ndarray


def shaw_rows(offsets: Positions, *, past: int, future: int) -> Int[Array, "*shape"]:
    """Row of Shaw's table of relative position vectors, for each offset i − j.

    Row 0 serves the offset ``past`` and all larger ones, the last row, past + future,
    serves −``future`` and all smaller ones (arXiv 1803.02155 §3.2, where ``past`` and
    ``future`` are k). An offset that is no integer is rounded down. Equation
    ``def-shaw-row``.

    Raises
    ------
    TypeError, ValueError
        Offsets not finite, ``past`` or ``future`` that is no integer or negative.
    """
    require_reach(past, future)
    steps = np.floor(require_positions(offsets, "offsets"))
    return np.asarray(past - np.clip(steps, -future, past).astype(int))


def shaw(
    *,
    past: int,
    future: int,
    key_table: Float[Array, "*heads rows d"] | None = None,
    value_table: Float[Array, "*heads rows d"] | None = None,
) -> Hooks:
    """Return the attention hooks of Shaw's relative position vectors.

    A learned vector of the offset is added to each key, and a second one to each value
    (arXiv 1803.02155 eq. 3 and 4). No array has a vector for each (query, key) pair:
    each query is multiplied by each row of the table once.

    Parameters
    ----------
    past, future
        Number of rows for offsets before and after a query; farther keys share the last
        of these rows (the paper's k is both).
    key_table, value_table
        Vectors of the offsets past, …, 1, 0, −1, …, −future, for all heads or for each;
        ``None`` for none (the paper's ablation; wav2vec2-BERT has keys alone).

    Returns
    -------
    Hooks (functions that attention calls) with ``bias`` and ``mix``. Equation
    ``def-shaw``.

    Raises
    ------
    TypeError, ValueError
        No table, one that holds no floats or has other rows; ``past`` or ``future``
        that is no integer or negative.
    """
    rows = require_reach(past, future)
    keys = optional_table("key_table", key_table, rows)
    values = optional_table("value_table", value_table, rows)
    if keys is None and values is None:
        raise ValueError("give key_table, value_table or both, got none")

    def row(tokens: Tokens) -> Int[Array, "queries keys"]:
        return shaw_rows(tokens.distances, past=past, future=future)

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"] | float:
        if keys is None:
            return 0.0
        require_fitting("key_table", keys, tokens.q)
        products = tokens.q @ keys.swapaxes(-1, -2)
        return by_key(products, row(tokens)) / np.sqrt(tokens.d)

    def mix(
        weights: Float[Array, "heads queries keys"],
        v: Float[Array, "heads keys d"],
        tokens: Tokens,
    ) -> Float[Array, "heads queries d"]:
        if values is None:
            return weights @ v
        require_fitting("value_table", values, v)
        return weights @ v + by_row(weights, row(tokens), rows) @ values

    return Hooks(bias=bias, mix=mix)
