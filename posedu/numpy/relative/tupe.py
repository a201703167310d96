"""TUPE: logits of content plus a position–position term with separate projections."""

import numpy as np
from jaxtyping import Float, Int

from posedu._arguments import TUPEFirstToken, require_buckets, require_choice
from posedu.numpy._arrays import require_floats
from posedu.numpy._normalization import layer_norm
from posedu.numpy.attention import Hooks, Tokens
from posedu.numpy.bias.t5 import t5_buckets

Array = np.ndarray

EPSILON = 1e-5  # added to the variance in the layer norm


def tupe(
    *,
    table: Float[Array, "rows d_model"],
    query_weight: Float[Array, "features d_model"],
    key_weight: Float[Array, "features d_model"],
    first_token: TUPEFirstToken,
    first: Float[Array, "heads 2"] | None = None,
    query_bias: Float[Array, "features"] | None = None,
    key_bias: Float[Array, "features"] | None = None,
    norm_weight: Float[Array, "d_model"] | None = None,
    norm_bias: Float[Array, "d_model"] | None = None,
    relative: Float[Array, "heads buckets"] | None = None,
    distance: int = 128,
) -> Hooks:
    """Return the attention hooks of TUPE's attention (arXiv 2006.15595 §3).

    The logits are q_i · k_j + (U_Q p_i) · (U_K p_j), all over √(2d), where p_t is a
    trained vector of position t. With ``relative`` (TUPE-R; without, TUPE-A) a number
    for the offset's bucket is added. All terms but q_i · k_j may be replaced by one
    number where the query is at position 0, and by a second number where only the key
    is.

    Parameters
    ----------
    table
        The vectors p of positions 0, 1, …; a position that is no integer is rounded
        down.
    query_weight, key_weight
        U_Q and U_K of all heads, one below the other: ``[heads · d, d_model]``.
    first_token
        ``"numbers"``: position 0 is untied by two trained numbers (the paper).
        ``"rows"``: by the correlation of a further row, the table's first, with itself,
        and by the correlation of p_0 with itself (the authors' code). ``"tied"``:
        position 0 is treated like any other (the paper's ablation).
    first
        The two numbers θ₁ and θ₂ of each head, for ``first_token="numbers"``.
    query_bias, key_bias
        Biases of the two maps (the authors' code). Default none.
    norm_weight, norm_bias
        Parameters of a LayerNorm of the table (the authors' code). Default none.
    relative
        A number for each head and each bidirectional bucket of T5, see
        :func:`posedu.numpy.bias.t5_buckets`. With ``first_token="rows"`` a last column
        is for the key at position 0; the query at position 0 has bucket buckets/2,
        which no offset has.
    distance
        Distance where the scale of T5's buckets ends. Default 128 (TUPE, T5).

    Returns
    -------
    Hooks (functions that attention calls) with ``scale`` and ``bias``. Equation
    ``def-tupe``.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, are missing or not wanted, shapes that do not match,
        unknown ``first_token``; positions that the table lacks.
    """
    has_row = require_choice("first_token", first_token, TUPEFirstToken) == "rows"
    p = require_floats("table", table)
    if p.ndim != 2 or len(p) <= has_row:
        raise ValueError(
            f"table must be [rows, d_model] with more than {int(has_row)} rows, got "
            f"shape {list(p.shape)}"
        )
    if (first is None) == (first_token == "numbers"):
        raise ValueError(
            "first is for first_token='numbers' and needed there, got "
            f"first_token={first_token!r} and first={first}"
        )
    if relative is not None:
        relative = require_floats("relative", relative)
        if relative.ndim != 2:
            raise ValueError(
                f"relative must be [heads, buckets], got shape {list(relative.shape)}"
            )
        require_buckets(relative.shape[-1] - has_row, distance, True)
    p = layer_norm(p, norm_weight, norm_bias, EPSILON)
    of_queries = project(p, "query", query_weight, query_bias)
    of_keys = project(p, "key", key_weight, key_bias)
    if of_keys.shape != of_queries.shape:
        raise ValueError(
            "query_weight and key_weight must agree in shape, got "
            f"{list(np.shape(query_weight))} and {list(np.shape(key_weight))}"
        )

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        heads, d = len(tokens.q), tokens.d
        i, j = (
            _rows(at, len(p) - has_row)
            for at in (tokens.query_positions, tokens.key_positions)
        )
        u, w = (by_head(t, heads, d) for t in (of_queries, of_keys))
        scores = u[:, i + has_row] @ w[:, j + has_row].swapaxes(1, 2) / np.sqrt(2 * d)
        if has_row:
            row, column = np.einsum("hrd,hrd->rh", u[:, :2], w[:, :2]) / np.sqrt(2 * d)
        elif first is not None:
            row, column = require_heads_of("first", first, heads, 2).T
        if relative is not None:
            numbers = require_heads_of("relative", relative, heads)
            buckets = numbers.shape[1] - has_row
            bucket = t5_buckets(
                tokens.distances, bidirectional=True, buckets=buckets, distance=distance
            )
            scores = scores + numbers[:, bucket]
            if has_row:
                row = row + numbers[:, buckets // 2]
                column = column + numbers[:, buckets]
        if first_token == "tied":
            return scores
        scores = np.where(j == 0, column[:, None, None], scores)
        return np.where(i[:, None] == 0, row[:, None, None], scores)

    return Hooks(scale=lambda d: 1 / np.sqrt(2 * d), bias=bias)


def project(
    x: Float[Array, "rows d_model"],
    name: str,
    weight: Float[Array, "features d_model"],
    bias: Float[Array, "features"] | None,
) -> Float[Array, "rows features"]:
    """Apply a linear map to each row (vector) of ``x``: x · weightᵀ + bias.

    If ``bias`` is ``None``, nothing is added. ``name`` says in error messages which map
    the weight and the bias belong to.

    Raises
    ------
    TypeError, ValueError
        Weights that hold no floats or have another shape.
    """
    weight = require_floats(f"{name}_weight", weight)
    if weight.ndim != 2 or weight.shape[1] != x.shape[1]:
        raise ValueError(
            f"{name}_weight must be [heads · d, {x.shape[1]}] like the table's rows, "
            f"got shape {list(weight.shape)}"
        )
    if bias is None:
        return x @ weight.T
    bias = require_floats(f"{name}_bias", bias)
    if bias.shape != weight.shape[:1]:
        raise ValueError(
            f"{name}_bias must be [{len(weight)}] like the rows of {name}_weight, got "
            f"shape {list(bias.shape)}"
        )
    return x @ weight.T + bias


def by_head(
    rows: Float[Array, "rows features"], heads: int, d: int
) -> Float[Array, "heads rows d"]:
    """Split the features of each row among the heads, ``d`` features for each.

    Raises
    ------
    ValueError
        Rows whose width is not heads · d.
    """
    if rows.shape[1] != heads * d:
        raise ValueError(
            f"query_weight and key_weight must have {heads * d} rows for {heads} heads "
            f"of {d} features, got {rows.shape[1]}"
        )
    return rows.reshape(-1, heads, d).swapaxes(0, 1)


def require_heads_of(
    name: str, numbers: Float[Array, "heads n"], heads: int, n: int | None = None
) -> Float[Array, "heads n"]:
    """Return ``numbers`` as float64; raise unless they are [heads, n] (None: any n).

    ``name`` is their name in error messages.
    """
    numbers = require_floats(name, numbers)
    if numbers.ndim != 2 or len(numbers) != heads or n not in (None, numbers.shape[1]):
        wanted = f"[{heads}, {'buckets' if n is None else n}]"
        raise ValueError(
            f"{name} must be {wanted} for {heads} heads, got shape "
            f"{list(numbers.shape)}"
        )
    return numbers


def _rows(positions: Float[Array, "tokens"], most: int) -> Int[Array, "tokens"]:
    """Return positions rounded down, as table row indices; raise if not < ``most``.

    ``most`` is the number of positions in the table. Positions below 0 are refused,
    too.
    """
    if positions.ndim != 1:
        raise ValueError(
            "positions must be one number for each token, got shape "
            f"{list(positions.shape)}"
        )
    outside = ~((positions >= 0) & (positions < most))
    if outside.any():
        raise ValueError(
            f"positions must be at least 0 and below {most}, the rows of the table, "
            f"got {positions[outside][0]:g}"
        )
    return np.floor(positions).astype(int)
