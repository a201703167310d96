"""Log-n temperature: a factor of the queries that grows with their position."""

from functools import partial

import numpy as np
from jaxtyping import Float

from posedu._arguments import TemperatureGrowth, require_growth
from posedu.numpy._arrays import Positions, require_floats, require_positions
from posedu.numpy.attention import Hooks

Array = np.ndarray


def log_n_temperature(
    positions: Positions,
    *,
    growth: TemperatureGrowth,
    index_from: int,
    alpha: float | None = None,
    length: float | None = None,
    slope: Float[Array, "heads"] | None = None,
    offset: Float[Array, "heads"] | None = None,
) -> Float[Array, "*heads tokens"]:
    """The temperature τ that multiplies the query at each position i.

    Equation ``def-log-n``.

    With n = max(i + index_from, 0):

    ========= ======================== ==========================================
    growth    τ                        used by
    ========= ======================== ==========================================
    "steps"   1 + α ln(1 + ⌊n/L⌋)      Llama 4 (from 1, α = 0.1, L = 8192),
                                       Ministral 3 and Mistral 4 (from 0)
    "floor"   1 + α ln max(1, n/L)     Inkling-2 (from 1, α = 0.1, L = 128000)
    "power"   (1 + n/L)^α              Beam (from 1, α = 0.1, L = 2048)
    "learned" s_h ln max(1, n) + b_h   Mistral-Large-4 (from 1); without b,
                                       arXiv 2501.19399 Eq. 2
    ========= ======================== ==========================================

    as transformers 5.23.0 has them.

    Parameters
    ----------
    positions
        Integers or finite reals, ``[tokens]``.
    growth, index_from
        See above; ``index_from`` is 0 or 1.
    alpha, length
        α, not negative, and L, above 0; for every growth but "learned". α must be so
        small that temperatures at positions below 2⁵³ are finite in float32.
    slope, offset
        s and b of "learned", one for each head.

    Returns
    -------
    float64 array ``[tokens]``, or ``[heads, tokens]`` for "learned".

    Raises
    ------
    TypeError, ValueError
        Positions that are not finite or not ``[tokens]``, an unknown ``growth``,
        parameters that the growth does not use or that are missing, arrays that hold no
        floats or are not one number for each head.
    """
    _require_both(slope, offset)
    a, span = require_growth(growth, alpha, length, index_from, slope is not None)
    at = require_positions(positions)
    if at.ndim != 1:
        raise ValueError(
            f"positions must be one number for each token, got shape {list(at.shape)}"
        )
    n = np.maximum(at.astype(np.float64) + index_from, 0)
    if slope is not None and offset is not None:
        s, b = (
            require_floats(name, array)
            for name, array in (("slope", slope), ("offset", offset))
        )
        if s.ndim != 1 or b.shape != s.shape:
            raise ValueError(
                f"slope and offset must be [heads], got shapes {list(s.shape)} and "
                f"{list(b.shape)}"
            )
        return s[:, None] * np.log(np.maximum(1, n)) + b[:, None]
    if growth == "steps":
        return 1 + a * np.log(1 + np.floor(n / span))
    if growth == "floor":
        return 1 + a * np.log(np.maximum(1, n / span))
    return (1 + n / span) ** a


def log_n(
    *,
    growth: TemperatureGrowth,
    index_from: int,
    alpha: float | None = None,
    length: float | None = None,
    slope: Float[Array, "heads"] | None = None,
    offset: Float[Array, "heads"] | None = None,
) -> Hooks:
    """Return the attention hooks of a temperature that grows with the query position.

    Hooks are functions that attention calls; here ``rotate``. The softmax of n equal
    logits is 1/n. Where they are multiplied by c ln n, one that is 1/c or more above
    n − 1 equal others keeps more than half of the weight as n grows
    (``eq-temperature-weight``).

    Arguments, errors and sources as :func:`log_n_temperature`. Equation ``def-log-n``.
    """
    temperature = partial(
        log_n_temperature,
        growth=growth,
        index_from=index_from,
        alpha=alpha,
        length=length,
        slope=slope,
        offset=offset,
    )
    temperature(np.zeros(1))  # Raises for parameters that do not fit.

    def rotate(q: Array, k: Array, positions: Array) -> tuple[Array, Array]:
        tau = temperature(positions)
        if tau.ndim > 1 and len(tau) != len(q):
            raise ValueError(f"slope must be [{len(q)}], one for each head of q")
        return tau[..., None] * q, k

    return Hooks(rotate=rotate)


def _require_both(slope: Array | None, offset: Array | None) -> None:
    if (slope is None) != (offset is None):
        raise ValueError("slope and offset go together, got one alone")
