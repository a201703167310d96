"""Inkling's relative logits: a bias that mixes a few learned curves of the distance."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    InklingDivisor,
    require_choice,
    require_limit,
    require_temperature,
)
from posedu.numpy._arrays import Positions, require_floats, require_positions
from posedu.numpy.attention import Hooks, Tokens, require_input
from posedu.numpy.relative.offset_table import by_key

Array = np.ndarray

EPSILON = 1e-6  # added to a norm that is divided by


def log_temperature(
    positions: Positions, *, floor: float | None, alpha: float
) -> Float[Array, "*shape"]:
    """Inkling's temperature of a query at each position i, which multiplies its logits.

    The temperature is 1 + α ln max(1, (i + 1) / floor), and 1 if ``floor`` is ``None``.
    Equation ``def-inkling-tau``. ``alpha`` is α.

    Raises
    ------
    TypeError, ValueError
        Positions not finite, a ``floor`` that is not positive.
    """
    positions = require_positions(positions)
    require_temperature(floor, alpha)
    if floor is None:
        return np.ones_like(positions)
    growth = np.log(np.maximum(1, (positions + 1) / float(floor)))
    return np.asarray(1 + float(alpha) * growth)


def inkling(
    *,
    r_proj_weight: Float[Array, "features d_model"],
    distance_basis: Float[Array, "d_rel table_length"],
    divisor: InklingDivisor,
    r_proj_bias: Float[Array, "features"] | None = None,
    r_scale: Float[Array, "heads d_rel"] | None = None,
    limit: float | None = None,
    floor: float | None = None,
    alpha: float = 0.1,
) -> Hooks:
    """Return the attention hooks of Inkling's relative logits.

    The bias of a query and key is a mixture of learned curves of their distance, with
    coefficients from the query's token. There is no paper on Thinking Machines'
    Inkling; the hooks follow ``models/inkling/modeling_inkling.py`` of transformers
    5.23.0.

    Parameters
    ----------
    r_proj_weight
        The map from a token's input to d_rel numbers for each head,
        ``[heads · d_rel, d_model]``.
    distance_basis
        The d_rel learned curves, ``[d_rel, table_length]``, each a number for the
        distances 0, 1, …, table_length − 1; keys farther away, and keys after the
        query, get bias 0. The number of columns alone says how far the curves reach
        (Inkling: 1024 distances): fewer columns are a shorter table, and no error.
    divisor
        The divisor of q · k: ``"width"``, d (Inkling, whose queries and keys are
        normalized), or ``"root"``, √d (Inkling-2, x-transformers). The bias is not
        divided.
    r_proj_bias
        Added to the d_rel numbers of each head (x-transformers). Default none.
    r_scale, limit
        Factors of the d_rel numbers, and the largest norm of the vector of products:
        longer vectors are shortened (Inkling-2: 8). Default none.
    floor, alpha
        Parameters of the temperature that multiplies all logits of a query; see
        :func:`log_temperature`. Default none (Inkling; Inkling-2 has floor 128000).

    Returns
    -------
    Hooks (functions that attention calls) with ``rotate``, ``scale`` and ``bias``.
    Equation ``def-inkling``.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, shapes that do not fit, an unknown ``divisor``, a
        ``floor`` or ``limit`` that is not positive, a ``limit`` without ``r_scale``.
    """
    weight = require_floats("r_proj_weight", r_proj_weight)
    distance_basis = require_floats("distance_basis", distance_basis)
    require_choice("divisor", divisor, InklingDivisor)
    require_temperature(floor, alpha)
    require_limit(limit, r_scale is not None)
    if distance_basis.ndim != 2 or not distance_basis.size:
        raise ValueError(
            "distance_basis must be [d_rel, table_length], got shape "
            f"{list(distance_basis.shape)}"
        )
    d_rel, table_length = distance_basis.shape
    if weight.ndim != 2 or len(weight) % d_rel:
        raise ValueError(
            f"r_proj_weight must be [heads · {d_rel}, d_model], got shape "
            f"{list(weight.shape)}"
        )
    shift = 0.0 if r_proj_bias is None else require_floats("r_proj_bias", r_proj_bias)
    if r_proj_bias is not None and np.shape(shift) != weight.shape[:1]:
        raise ValueError(
            f"r_proj_bias must be [{len(weight)}], got shape {list(np.shape(shift))}"
        )

    scale = None if r_scale is None else require_floats("r_scale", r_scale)
    if scale is not None and scale.shape != (len(weight) // d_rel, d_rel):
        raise ValueError(
            f"r_scale must be [{len(weight) // d_rel}, {d_rel}], got shape "
            f"{list(scale.shape)}"
        )

    def limited(r: Float[Array, "heads tokens d_rel"]) -> Array:
        if scale is None:
            return r
        r = r * scale[:, None]
        norm = np.sqrt((r * r).sum(axis=-1, keepdims=True))
        return r * np.minimum(1.0, limit / (norm + EPSILON))

    def temperature(positions: Array) -> Float[Array, "tokens"]:
        return log_temperature(positions, floor=floor, alpha=alpha)

    def rotate(q: Array, k: Array, positions: Array) -> tuple[Array, Array]:
        return temperature(positions)[:, None] * q, k

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        x, heads = require_input("inkling", tokens), len(tokens.q)
        if weight.shape != (heads * d_rel, x.shape[1]):
            raise ValueError(
                f"r_proj_weight must be [{heads * d_rel}, {x.shape[1]}] for {heads} "
                f"heads and x of shape {list(x.shape)}, got {list(weight.shape)}"
            )
        r = (x @ weight.T + shift).reshape(len(x), heads, d_rel)
        r = limited(r.swapaxes(0, 1))
        distance = np.floor(tokens.distances)
        near = (distance >= 0) & (distance < table_length)
        column = np.clip(distance, 0, table_length - 1).astype(int)
        mixed = np.where(near, by_key(r @ distance_basis, column), 0.0)
        return temperature(tokens.query_positions)[:, None] * mixed

    return Hooks(
        rotate=rotate,
        scale=lambda d: 1 / d if divisor == "width" else 1 / np.sqrt(d),
        bias=bias,
    )
