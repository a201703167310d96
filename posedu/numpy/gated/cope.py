"""CoPE: contextual positions, which count keys by gates computed from their content."""

import numpy as np
from jaxtyping import Bool, Float

from posedu._arguments import (
    CoPEGates,
    CoPEScaling,
    require_choice,
    require_not_negative,
)
from posedu.numpy._arrays import require_floats, require_mask
from posedu.numpy.attention import Hooks, Tokens, require_input

Array = np.ndarray


def contextual_positions(
    gate_logits: Float[Array, "*rows queries keys"],
    *,
    largest: int,
    mask: Bool[Array, "*rows queries keys"] | None = None,
) -> Float[Array, "*rows queries keys"]:
    """CoPE's position p_ij of each key j for query i: the sum of the gates from j to i.

    p_ij = Σ σ(gate logit of i and l) over l = j … i, at most ``largest`` (arXiv
    2405.18719). Equation ``def-cope-position``. The last query has the position of the
    last key; gates of keys after a query, or not in ``mask``, count as 0.
    ``gate_logits`` holds the gate logit of each query and key; without ``mask`` no gate
    is left out but those of later keys.

    Raises
    ------
    TypeError, ValueError
        Logits not floating or not finite, more queries than keys, a mask of another
        shape, ``largest`` negative.
    """
    logits = require_floats("gate_logits", gate_logits)
    if logits.ndim < 2 or logits.shape[-2] > logits.shape[-1]:
        raise ValueError(
            "gate_logits must be [..., queries, keys] with at least as many keys as "
            f"queries, got shape {list(logits.shape)}"
        )
    if not np.isfinite(logits).all():
        bad = logits[~np.isfinite(logits)][0]
        raise ValueError(f"gate_logits must be finite, got {bad}; hide keys with mask")
    require_not_negative("largest", largest)
    queries, keys = logits.shape[-2:]
    visible = np.broadcast_to(np.tri(queries, keys, keys - queries, bool), logits.shape)
    if mask is not None:
        visible = visible & require_mask(mask, logits.shape)
    gates = np.where(visible, np.exp(-np.logaddexp(0.0, -logits)), 0.0)
    return np.minimum(np.cumsum(gates[..., ::-1], axis=-1)[..., ::-1], largest)


def interpolated_vectors(
    positions: Float[Array, "*rows queries keys"], table: Float[Array, "*heads d npos"]
) -> Float[Array, "*rows queries keys d"]:
    """CoPE's vector e[p] at each real position p, interpolated between table columns.

    The fraction of p is the weight of the *ceiling*'s column. This is the
    straightforward form (arXiv 2405.18719), which makes a vector for every (query, key)
    pair. Equation ``def-cope-interpolation``.
    """
    table = require_floats("table", table)
    positions = _require_counted(positions, table.shape[-1:])
    own = table.shape[:-2]
    if table.ndim not in (2, 3) or (own and own != positions.shape[-3:-2]):
        raise ValueError(
            "table must be [d, npos], or [heads, d, npos] for positions [..., heads, "
            f"queries, keys], got shapes {list(table.shape)} and "
            f"{list(positions.shape)}"
        )
    floor, ceiling = np.floor(positions), np.ceil(positions)
    fraction = (positions - floor)[..., None]
    low, high = (_columns(table, p.astype(int)) for p in (floor, ceiling))
    return fraction * high + (1 - fraction) * low


def _require_counted(positions: Array, npos: tuple[int, ...]) -> Array:
    """Return ``positions`` as float64 if all are in 0 … npos − 1, else raise.

    ``npos`` is a tuple whose first number is the number of positions with a vector; an
    empty tuple allows none.
    """
    positions = require_floats("positions", positions)
    largest = npos[0] - 1 if npos else -1
    outside = ~((positions >= 0) & (positions <= largest))
    if outside.any():
        raise ValueError(
            f"positions must be 0 to {largest}, got {positions[outside][0]}"
        )
    return positions


def _columns(table: Array, index: Array) -> Array:
    """Return columns of CoPE's ``table`` of vectors, those at the indices ``index``.

    ``table`` is one for all heads, ``[d, npos]``, or one for each head: ``[heads, d,
    npos]``. ``index`` holds whole positions, ``[…, queries, keys]``; the columns are
    along a new last axis.
    """
    if table.ndim == 2:
        return table.T[index]
    heads = np.arange(len(table)).reshape(-1, 1, 1)
    return table.swapaxes(-1, -2)[heads, index]


def interpolated_scalars(
    positions: Float[Array, "*rows queries keys"],
    values: Float[Array, "*rows queries npos"],
) -> Float[Array, "*rows queries keys"]:
    """CoPE's product q · e[p] at each real position p, interpolated between ``values``.

    e[p] is the trained vector of position p; ``values`` are q · e[0 … npos − 1] for
    each query q. This is the optimized form: the interpolated product equals the
    product of q with the interpolated vector e[p], since the inner product is linear
    (``eq-cope-scalars``).
    """
    values = require_floats("values", values)
    positions = _require_counted(positions, values.shape[-1:])
    if values.shape[:-1] != positions.shape[:-1]:
        raise ValueError(
            "values must be [..., queries, npos] like positions [..., queries, keys], "
            f"got shapes {list(values.shape)} and {list(positions.shape)}"
        )
    floor, ceiling = np.floor(positions), np.ceil(positions)
    fraction = positions - floor
    low, high = (
        np.take_along_axis(values, p.astype(int), axis=-1) for p in (floor, ceiling)
    )
    return fraction * high + (1 - fraction) * low


def cope(
    *,
    table: Float[Array, "*own d npos"],
    scaling: CoPEScaling,
    gates: CoPEGates = "content",
    gate_keys_weight: Float[Array, "features d_model"] | None = None,
) -> Hooks:
    """Return the attention hooks of CoPE (arXiv 2405.18719) in its optimized form.

    The bias is q · e[p], with the query q and the vector e[p] of the key's position p
    (:func:`contextual_positions`).

    Parameters
    ----------
    table
        The vectors e[0 … npos − 1] as columns, one table for all heads or one for each.
    scaling
        Terms divided by √d. ``"code"``: content, gates and bias (the authors'
        default). ``"bias unscaled"``: content and gates (their ``cope_nodiv``, and
        x-transformers). ``"paper"``: nothing, as its formulas.
    gates
        Vector of a token by which the query is multiplied in a gate's logit:
        ``"content"``, the key (default), ``"values"``, the value, or ``"keys"``, a
        separate key for gates.
    gate_keys_weight
        Projection ``[heads · d, d_model]`` of the layer's input to the separate keys of
        ``gates="keys"``.

    Returns
    -------
    Hooks (functions that attention calls) with ``scale`` and ``bias``, for causal
    attention. Equation ``def-cope``.

    Raises
    ------
    TypeError, ValueError
        A table without columns or of another d, unknown keywords, ``gate_keys_weight``
        missing or not wanted.
    """
    table = require_floats("table", table)
    require_choice("scaling", scaling, CoPEScaling)
    require_choice("gates", gates, CoPEGates)
    if (gates == "keys") != (gate_keys_weight is not None):
        raise ValueError("gate_keys_weight is for gates='keys' and needed there")
    if gate_keys_weight is not None:
        gate_keys_weight = require_floats("gate_keys_weight", gate_keys_weight)

    def scale(d: int) -> float:
        return 1.0 if scaling == "paper" else 1 / np.sqrt(d)

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        q, d = tokens.q, tokens.d
        _require_table(table, len(q), d)
        if gate_keys_weight is None:
            keys = tokens.v if gates == "values" else tokens.k
        else:
            x = require_input("cope", tokens)
            if gate_keys_weight.shape != (len(q) * d, x.shape[1]):
                raise ValueError(
                    f"gate_keys_weight must be [{len(q) * d}, {x.shape[1]}], [heads · "
                    f"d, d_model], got shape {list(gate_keys_weight.shape)}"
                )
            projected = x @ gate_keys_weight.T
            keys = projected.reshape(len(projected), len(q), d).swapaxes(0, 1)
        if keys.shape[-1] != d:
            raise ValueError(
                f"gates of values need as many features as keys, {d}, got "
                f"{keys.shape[-1]}"
            )
        logits = scale(d) * (q @ keys.swapaxes(-1, -2))
        mask = np.broadcast_to(tokens.mask, logits.shape)
        positions = contextual_positions(logits, largest=table.shape[-1] - 1, mask=mask)
        amount = interpolated_scalars(positions, q @ table)
        return amount * scale(d) if scaling == "code" else amount

    return Hooks(scale=scale, bias=bias, needs_causal=True)


def _require_table(table: Array, heads: int, d: int) -> None:
    own = table.shape[:-2]
    if own not in ((), (heads,)) or table.shape[-2:-1] != (d,) or not table.shape[-1]:
        raise ValueError(
            f"table must be [{d}, npos] or [{heads}, {d}, npos] with npos ≥ 1, got "
            f"shape {list(table.shape)}"
        )
