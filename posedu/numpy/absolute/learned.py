"""Learned absolute embeddings: a table with a vector for each position."""

import numpy as np
from jaxtyping import Float, Int

from posedu._arguments import (
    BeyondTable,
    require_choice,
    require_dimension,
    require_not_negative,
    require_seed,
)
from posedu.numpy._arrays import (
    Positions,
    align_positions,
    as_array,
    require_floats,
    require_positions,
)
from posedu.numpy._normalization import layer_norm

Array = np.ndarray


def one_hot(
    positions: Positions, rows: int, *, beyond: BeyondTable
) -> Float[Array, "*tokens rows"]:
    """One-hot rows: a 1 in the column of each position, rounded down.

    Parameters
    ----------
    positions
        Finite, any shape. Those that are no integers are rounded down.
    rows
        Number of positions in the table: 0 … rows − 1.
    beyond
        Treatment of positions outside the table. ``"raise"``: an error (transformers).
        ``"zero"``: no column has the 1 (tensor2tensor). ``"clip"``: the nearest
        position's column has the 1 (Transformer-XL's ``attn_type=3``, for its memory).

    Returns
    -------
    float64 array with one more axis of size ``rows``. Equation ``def-learned-one-hot``.

    Raises
    ------
    TypeError, ValueError
        Positions not finite or in half precision, ``rows`` not a positive integer,
        unknown ``beyond``; with ``"raise"``, a position outside the table.
    """
    rows = require_dimension("rows", rows, 1)
    require_choice("beyond", beyond, BeyondTable)
    at = np.floor(require_positions(positions))
    outside = (at < 0) | (at >= rows)
    if beyond == "raise" and outside.any():
        raise ValueError(
            f"positions must be at least 0 and below {rows}, the rows of the table, "
            f"got {at[outside][0]:g}"
        )
    if beyond == "clip":
        at = np.clip(at, 0, rows - 1)
    return np.asarray(at[..., None] == np.arange(rows), dtype=np.float64)


def embed_learned(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    table: Float[Array, "rows width"],
    beyond: BeyondTable,
) -> Float[Array, "*batch tokens d"]:
    """Add to each input vector the row of ``table`` for its position.

    For the hook ``embed``, a function that a model calls before its layers.

    Parameters
    ----------
    x
        The input vectors.
    positions
        ``[tokens]``, or ``[batch, tokens]`` where each sequence has its own positions.
    table
        A vector for each position 0 … rows − 1 (arXiv 1705.03122 §3.1).
    beyond
        See :func:`one_hot`.

    Returns
    -------
    x + one-hot · table, float64. Equation ``def-learned``.

    Raises
    ------
    TypeError, ValueError
        As :func:`one_hot`; a table that is not finite, holds no floats or has another
        width than x.
    """
    x = require_floats("x", x)
    at = align_positions(positions, x)
    table = _require_table("table", table, x.shape[-1])
    return x + one_hot(at, len(table), beyond=beyond) @ table


def enter_learned(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    table: Float[Array, "rows width"],
    beyond: BeyondTable,
) -> Float[Array, "*batch tokens d"]:
    """Add to each of a layer's input vectors the row of ``table`` for its position.

    For the hook ``enter``, a function that a model calls in each layer; each layer has
    a table of its own.

    arXiv 1808.04444, "Positional Embeddings". Arguments and errors as
    :func:`embed_learned`. Equation ``def-learned-per-layer``.
    """
    return embed_learned(x, positions, table=table, beyond=beyond)


def embed_random(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    table: Float[Array, "rows width"],
) -> Float[Array, "*batch tokens d"]:
    """Add to each input vector a fixed random vector of its position.

    ``table``, of :func:`random_table`, has a row for each position; other arguments and
    errors as :func:`embed_learned`. A position outside the table is refused. Equation
    ``def-random``.
    """
    return embed_learned(x, positions, table=table, beyond="raise")


def random_table(rows: int, d: int, *, std: float, seed: int) -> Float[Array, "rows d"]:
    """Table of independent normal numbers with mean 0 and standard deviation ``std``.

    Equation ``def-random``. There are ``rows`` positions, with ``d`` numbers each.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers, ``std`` negative or not finite, ``seed``
        no integer or negative.
    """
    shape = require_dimension("rows", rows, 1), require_dimension("d", d, 1)
    std = require_not_negative("std", std)
    return std * np.random.default_rng(require_seed(seed)).normal(size=shape)


def embed_bert(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    table: Float[Array, "rows width"],
    beyond: BeyondTable,
    segments: Int[Array, "*batch tokens"] | None = None,
    segment_table: Float[Array, "kinds width"] | None = None,
    norm_weight: Float[Array, "d"] | None = None,
    norm_bias: Float[Array, "d"] | None = None,
    epsilon: float = 1e-12,
) -> Float[Array, "*batch tokens d"]:
    """BERT's input: token vectors plus position and segment vectors, then layer norm.

    Parameters
    ----------
    x, positions, table, beyond
        As :func:`embed_learned`.
    segments, segment_table
        Number of each token's segment (sentence A or B in BERT), and a vector for each
        segment; ``None`` for no segments.
    norm_weight, norm_bias
        Weight and bias of the layer norm over features; ``None`` for no norm.
    epsilon
        Added to the variance in the norm. Default 1e-12, as transformers' BERT.

    Returns
    -------
    float64 array like x. Equation ``def-learned-bert``.

    Raises
    ------
    TypeError, ValueError
        As :func:`embed_learned`; segments without their table or a table without
        segments, segments of another shape, not integers or without a row;
        ``norm_weight`` or ``norm_bias`` of another width, or one of the two without the
        other.
    """
    x = embed_learned(x, positions, table=table, beyond=beyond)
    if (segments is None) != (segment_table is None):
        raise ValueError("segments and segment_table go together; give both or neither")
    if segments is not None and segment_table is not None:
        vectors = _require_table("segment_table", segment_table, x.shape[-1])
        x = x + vectors[_require_segments(segments, x.shape[:-1], len(vectors))]
    flat = x.reshape(-1, x.shape[-1])
    return layer_norm(flat, norm_weight, norm_bias, epsilon).reshape(x.shape)


def cosine_bound(epsilon: float, *, rows: int, d: int) -> float:
    """Bound on the probability that two rows of a random table have a cosine ≥ ε.

    The table has a random vector of d features for each position, as of
    :func:`random_table`. The bound is rows (rows − 1) exp(−d ε²/2); where it exceeds 1,
    it says nothing. Equation ``eq-learned-union``.

    Raises
    ------
    TypeError, ValueError
        ``epsilon`` negative or not finite, sizes that are not positive integers.
    """
    epsilon = require_not_negative("epsilon", epsilon)
    rows, d = require_dimension("rows", rows, 1), require_dimension("d", d, 1)
    return float(rows * (rows - 1) * np.exp(-d * epsilon**2 / 2))


def _require_table(name: str, table: Array, d: int) -> Array:
    table = require_floats(name, table)
    if table.ndim != 2 or not len(table) or table.shape[1] != d:
        raise ValueError(
            f"{name} must be [rows, {d}] for vectors of {d} features, got shape "
            f"{list(table.shape)}"
        )
    if not np.isfinite(table).all():
        raise ValueError(f"{name} must be finite")
    return table


def _require_segments(segments: Array, shape: tuple[int, ...], kinds: int) -> Array:
    segments = as_array("segments", segments)
    if segments.dtype.kind not in "iu":
        raise TypeError(f"segments must be integers, got dtype {segments.dtype}")
    if segments.shape != shape:
        raise ValueError(
            f"segments must be {list(shape)}, one for each token, got shape "
            f"{list(segments.shape)}"
        )
    if ((segments < 0) | (segments >= kinds)).any():
        raise ValueError(
            f"segments must be at least 0 and below {kinds}, the rows of their table"
        )
    return segments
