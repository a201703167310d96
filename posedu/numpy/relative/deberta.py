"""DeBERTa: logits of content–content, content–position and position–content terms."""

from bisect import bisect_right

import numpy as np
from jaxtyping import Float, Int

from posedu._arguments import DeBERTaIndex, DeBERTaRows, require_choice, require_span
from posedu.numpy._arrays import Positions, require_floats, require_positions
from posedu.numpy._normalization import layer_norm
from posedu.numpy.attention import Hooks, Tokens
from posedu.numpy.relative.tupe import by_head, project

Array = np.ndarray

EPSILON = 1e-7  # added to the variance in the layer norm


def deberta_rows(
    offsets: Positions, *, span: int, rows: DeBERTaRows, distance: int = 512
) -> Int[Array, "*shape"]:
    """Row δ of DeBERTa's table of relative position vectors, for each offset i − j.

    Rows are 0 … 2 span − 1. An offset that is no integer is rounded down.

    Parameters
    ----------
    offsets
        Query position minus key position, finite.
    span
        k: half of the table's rows.
    rows
        ``"paper"``: i − j + k, clipped to 0 … 2k − 1 (arXiv 2006.03654 eq. 3; v1).
        ``"microsoft"``: as the authors' code for v2 and v3 since 2023. Offsets up to
        k/2 on both sides have a row each. Offsets up to ``distance`` − 1 share the
        other rows on a logarithmic scale, rounded up. Farther offsets have the row of
        ``distance`` − 1. ``"transformers"`` (and the authors' code of 2021): as
        ``"microsoft"``, but the scale goes on; so offsets from −``distance`` down have
        row 0, which ``"microsoft"`` never reads.
    distance
        End of the logarithmic scale. Default 512 (v2 and v3, where k is 256).

    Returns
    -------
    Integer array. Equation ``def-deberta-row``.

    Raises
    ------
    TypeError, ValueError
        Offsets not finite, unknown ``rows``, sizes that are not positive integers, an
        odd ``span`` or a ``distance`` within the single rows of a logarithmic scale.
    """
    steps = np.floor(require_positions(offsets, "offsets"))
    single = require_span(span, rows, distance)
    if rows != "paper":
        if rows == "microsoft":
            steps = np.clip(steps, 1 - distance, distance - 1)
        far = single + np.searchsorted(_ends(single, distance), np.abs(steps))
        steps = np.where(np.abs(steps) <= single, steps, np.sign(steps) * far)
    return np.asarray(np.clip(steps + span, 0, 2 * span - 1), int)


def _ends(single: int, distance: int) -> list[int]:
    """The largest distance of each of DeBERTa's table rows on one side of a query.

    A side is the keys before a query, or those after it. These are the rows beyond the
    m = ``single`` rows of one distance each; they end on a logarithmic scale up to
    ``distance`` − 1. With m r = distance − 1, the t-th of them, t = 0 … m − 1, ends at
    the last n ≤ m r^(t/(m−1)): the last with n^(m−1) m^t ≤ (distance−1)^t m^(m−1).
    """
    m, last = single, int(distance) - 1  # NumPy's integers have no room for its powers

    def end(t: int) -> int:
        most = m ** (m - 1) * last**t
        after = range(m, last + 1)
        return m - 1 + bisect_right(after, most, key=lambda n: n ** (m - 1) * m**t)

    return [end(t) for t in range(m)]


def deberta(
    *,
    table: Float[Array, "rows d_model"],
    query_weight: Float[Array, "features d_model"],
    key_weight: Float[Array, "features d_model"],
    rows: DeBERTaRows,
    index: DeBERTaIndex,
    query_bias: Float[Array, "features"] | None = None,
    norm_weight: Float[Array, "d_model"] | None = None,
    norm_bias: Float[Array, "d_model"] | None = None,
    distance: int = 512,
) -> Hooks:
    """Return the attention hooks of DeBERTa's disentangled attention.

    arXiv 2006.03654 §3.1, eq. 4.

    The logits are q_i · k_j + q_i · K_δ(i,j) + k_j · Q_δ, all over √(3d), where Q and K
    are projections of the table P, which has a vector for each row δ of offsets.

    Parameters
    ----------
    table
        P, ``[2 span, d_model]``: shared by all layers in DeBERTa.
    query_weight, key_weight
        The projections of all heads, ``[heads · d, d_model]``: the layer's own for P
        (v1), or the layer's projections of queries and keys (v2 and v3).
    rows, distance
        See :func:`deberta_rows`.
    index
        The row of Q in the product with the key. ``"paper"``: δ(j, i). ``"code"``:
        δ(i, j), as the authors' code and transformers compute.
    query_bias
        Bias of the projection that makes Q (v1, v2 and v3). Default none (the paper). A
        bias of the projection that makes K, as in v2 and v3, would add the same to all
        logits of a query, which softmax ignores.
    norm_weight, norm_bias
        Parameters of a LayerNorm of P (v2 and v3). Default none.

    Returns
    -------
    Hooks (functions that attention calls) with ``scale`` and ``bias``. Equation
    ``def-deberta``.

    Raises
    ------
    TypeError, ValueError
        As :func:`deberta_rows`; arrays that hold no floats, shapes that do not match,
        unknown ``index``.
    """
    sign = -1 if require_choice("index", index, DeBERTaIndex) == "paper" else 1
    p = require_floats("table", table)
    if p.ndim != 2 or len(p) % 2 or not len(p):
        raise ValueError(
            "table must be [2 span, d_model], two rows at least, got shape "
            f"{list(p.shape)}"
        )
    span = len(p) // 2
    require_span(span, rows, distance)
    p = layer_norm(p, norm_weight, norm_bias, EPSILON)
    of_queries = project(p, "query", query_weight, query_bias)
    of_keys = project(p, "key", key_weight, None)

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        heads, queries, d = tokens.q.shape
        to, back = (
            deberta_rows(offsets, span=span, rows=rows, distance=distance)
            for offsets in (tokens.distances, sign * tokens.distances)
        )
        i, j = np.arange(queries)[:, None], np.arange(tokens.k.shape[1])
        to_position = tokens.q @ by_head(of_keys, heads, d).swapaxes(1, 2)
        to_content = tokens.k @ by_head(of_queries, heads, d).swapaxes(1, 2)
        return (to_position[:, i, to] + to_content[:, j, back]) / np.sqrt(3 * d)

    return Hooks(scale=lambda d: 1 / np.sqrt(3 * d), bias=bias)
