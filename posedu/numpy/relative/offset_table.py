"""Tables of relative position vectors: their use in attention, and shape checks.

A query's products with the rows of a table are picked for each key; attention weights
are summed for each row.
"""

import numpy as np
from jaxtyping import Float, Int

from posedu.numpy._arrays import require_floats

Array = np.ndarray


def by_key(
    products: Float[Array, "heads queries rows"], row: Int[Array, "queries keys"]
) -> Float[Array, "heads queries keys"]:
    """Pick each query's product with the table row of each key's offset.

    ``products`` has the product of each query with each row of the table; ``row`` is
    the index of the row for each (query, key) pair.
    """
    row = np.broadcast_to(row, (len(products), *row.shape))
    return np.take_along_axis(products, row, axis=-1)


def by_row(
    weights: Float[Array, "heads queries keys"],
    row: Int[Array, "queries keys"],
    rows: int,
) -> Float[Array, "heads queries rows"]:
    """Sum each query's attention weights over all keys whose offsets share a table row.

    ``row`` is the index of the row for each (query, key) pair, ``rows`` the number of
    rows in the table. The sums are ``[heads, queries, rows]``; a row that no key's
    offset has gets 0.
    """
    sums = [np.where(row == r, weights, 0.0).sum(axis=-1) for r in range(rows)]
    return np.stack(sums, axis=-1)


def require_table(
    name: str, table: Float[Array, "*heads rows d"], rows: int | None = None
) -> Array:
    """Return ``table`` as float64 if it has ``rows`` rows (None: any), else raise.

    A table is ``[rows, d]`` or ``[heads, rows, d]``; ``name`` is its name in error
    messages.
    """
    table = require_floats(name, table)
    wanted = "rows" if rows is None else f"{rows}"
    given = table.shape[-2] if table.ndim in (2, 3) else 0
    if not given or rows not in (None, given):
        raise ValueError(
            f"{name} must be [{wanted}, d] or [heads, {wanted}, d], got shape "
            f"{list(table.shape)}"
        )
    return table


def optional_table(
    name: str, table: Float[Array, "*heads rows d"] | None, rows: int
) -> Array | None:
    """Return ``table`` as float64 if it is given; raise unless it has ``rows`` rows.

    For ``None``, that is, no table, ``None`` is returned. ``name`` is the table's name
    in error messages.
    """
    return None if table is None else require_table(name, table, rows)


def require_fitting(name: str, table: Array, like: Float[Array, "heads n d"]) -> None:
    """Raise unless ``table`` has the features, and heads if any, of array ``like``.

    ``like`` are queries or values, with n tokens. ``name`` is the table's name in error
    messages.
    """
    heads, _, d = like.shape
    if table.shape[:-2] not in ((), (heads,)) or table.shape[-1] != d:
        raise ValueError(
            f"{name} must be [rows, {d}] or [{heads}, rows, {d}] for {heads} heads of "
            f"{d} features, got shape {list(table.shape)}"
        )
