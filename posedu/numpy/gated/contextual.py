"""CoPE: positions that are counted by gates."""

import numpy as np
from jaxtyping import Bool, Float

from posedu._arguments import SCALINGS, require_choice
from posedu.numpy._arrays import require_floats, require_mask
from posedu.numpy.attention import softmax

Array = np.ndarray


def contextual_positions(
    gate_logits: Float[Array, "*rows queries keys"],
    *,
    largest: int,
    mask: Bool[Array, "*rows queries keys"] | None = None,
) -> Float[Array, "*rows queries keys"]:
    """p_ij = Σ σ(gate logit of i and l) over l = j … i, both included, at most largest.

    arXiv 2405.18719. Equation ``def-cope-position``. The last query stands at the
    last key; keys after a query, or not in ``mask``, count nothing.

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
    if largest < 0:
        raise ValueError(f"largest must be at least 0, got {largest}")
    queries, keys = logits.shape[-2:]
    seen = np.broadcast_to(np.tri(queries, keys, keys - queries, bool), logits.shape)
    if mask is not None:
        seen = seen & require_mask(mask, logits.shape)
    gates = np.where(seen, np.exp(-np.logaddexp(0.0, -logits)), 0.0)
    return np.minimum(np.cumsum(gates[..., ::-1], axis=-1)[..., ::-1], largest)


def interpolated_vectors(
    positions: Float[Array, "*rows queries keys"], table: Float[Array, "*heads d npos"]
) -> Float[Array, "*rows queries keys d"]:
    """e[p] between its neighbours: the fraction of p weighs the *ceiling*.

    The straightforward form (arXiv 2405.18719): a vector for every query and key.
    Equation ``def-cope-interpolation``.
    """
    floor, ceiling = np.floor(positions), np.ceil(positions)
    fraction = (positions - floor)[..., None]
    low, high = (_columns(table, p.astype(int)) for p in (floor, ceiling))
    return fraction * high + (1 - fraction) * low


def _columns(table, index):
    """Column ``index`` of the table, of each head where it has them."""
    if table.ndim == 2:
        return table.T[index]
    heads = np.arange(len(table)).reshape(-1, 1, 1)
    return table.swapaxes(-1, -2)[heads, index]


def interpolated_scalars(
    positions: Float[Array, "*rows queries keys"],
    values: Float[Array, "*rows queries npos"],
) -> Float[Array, "*rows queries keys"]:
    """u[p] between its neighbours, for a row of numbers u = q · e[0 … npos − 1].

    The optimised form: the same as q · e[p], since the inner product is linear
    (``eq-cope-scalars``).
    """
    floor, ceiling = np.floor(positions), np.ceil(positions)
    fraction = positions - floor
    low, high = (
        np.take_along_axis(values, p.astype(int), axis=-1) for p in (floor, ceiling)
    )
    return fraction * high + (1 - fraction) * low


def cope(
    q: Float[Array, "*heads queries d"],
    k: Float[Array, "*heads keys d"],
    v: Float[Array, "*heads keys d_v"],
    *,
    table: Float[Array, "*own d npos"],
    scaling: str,
    gate_keys: Float[Array, "*heads keys d"] | None = None,
) -> Float[Array, "*heads queries d_v"]:
    """Causal attention with CoPE (arXiv 2405.18719), the optimised form.

    Parameters
    ----------
    q, k, v
        Of each head, any float dtype; computed in float64.
    table
        The vectors e[0 … npos − 1] as columns, shared by the heads or one a head.
    scaling
        What is divided by √d. ``"code"``: content, gates and bias (the authors'
        default). ``"bias unscaled"``: content and gates (their ``cope_nodiv``, and
        x-transformers). ``"paper"``: nothing, as its formulas.
    gate_keys
        Keys that the gates compare the query with. Default: ``k``.

    Returns
    -------
    float64 array. Equation ``def-cope``.

    Raises
    ------
    TypeError, ValueError
        Shapes that do not match, unknown ``scaling``, a table without columns.
    """
    q, k, v = (require_floats(n, t) for n, t in (("q", q), ("k", k), ("v", v)))
    keys = k if gate_keys is None else require_floats("gate_keys", gate_keys)
    table = require_floats("table", table)
    require_choice("scaling", scaling, SCALINGS)
    if q.ndim < 2 or q.shape[:-2] != k.shape[:-2] or v.shape[:-1] != k.shape[:-1]:
        raise ValueError(
            "q, k and v must agree in heads and keys, got shapes "
            f"{list(q.shape)}, {list(k.shape)} and {list(v.shape)}"
        )
    if keys.shape != k.shape or q.shape[-1] != k.shape[-1]:
        raise ValueError(
            "q, k and gate_keys must agree in d, got shapes "
            f"{list(q.shape)}, {list(k.shape)} and {list(keys.shape)}"
        )
    d = q.shape[-1]
    if table.ndim < 2 or table.shape[-2] != d or table.shape[-1] < 1:
        raise ValueError(
            f"table must be [{d}, npos] or [heads, {d}, npos] with npos ≥ 1, got shape "
            f"{list(table.shape)}"
        )
    root = 1.0 if scaling == "paper" else np.sqrt(d)
    positions = contextual_positions(
        q @ keys.swapaxes(-1, -2) / root, largest=table.shape[-1] - 1
    )
    bias = interpolated_scalars(positions, q @ table)
    logits = q @ k.swapaxes(-1, -2) / root
    logits = logits + (bias / root if scaling == "code" else bias)
    queries, keys = logits.shape[-2:]
    seen = np.broadcast_to(np.tri(queries, keys, keys - queries, bool), logits.shape)
    return softmax(logits, seen) @ v
