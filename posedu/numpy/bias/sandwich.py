"""Sandwich: the position–position term of sinusoidal encodings as a bias."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import (
    SandwichDiagonal,
    require_choice,
    require_dimension,
    require_index,
    require_positive,
)
from posedu.numpy._arrays import Positions, require_positions
from posedu.numpy.attention import Hooks, Tokens

Array = np.ndarray


def sandwich_sum(
    offsets: Positions, *, width: int, index_from: int
) -> Float[Array, "*shape"]:
    """Sandwich's sum for each offset i − j: Σ cos((i − j) 10000^(−2k/width)).

    The sum runs over width/2 indices k.

    Parameters
    ----------
    offsets
        Query position minus key position, finite.
    width
        Features of the sinusoidal encoding, even; the head dimension has no part in it.
    index_from
        The first index k: 1, as the formula counts, or 0, as sinusoidal tables do.

    Returns
    -------
    float64 array. Equation ``def-sandwich``.

    Raises
    ------
    TypeError, ValueError
        Offsets not finite, a ``width`` that is odd or not positive, an ``index_from``
        other than 0 and 1.
    """
    t = require_positions(offsets, "offsets")
    half = require_dimension("width", width) // 2
    k = np.arange(half) + require_index("index_from", index_from)
    return np.asarray(np.cos(t[..., None] * 10000.0 ** (-2 * k / width)).sum(-1))


def sandwich(
    *,
    heads: int,
    width: int,
    index_from: int,
    diagonal: SandwichDiagonal,
    compression: float = 8.0,
) -> Hooks:
    """Return the attention hooks of Sandwich.

    The bias is :func:`sandwich_sum` divided by a ratio of each head (arXiv 2212.10356).

    Parameters
    ----------
    heads
        Query heads. The ratio of head h = 1 … heads is compression · h/heads.
    width, index_from
        See :func:`sandwich_sum`.
    diagonal
        ``"kept"``: the sum as it is, width/2 at distance 0. ``"zero"``: width/2 is
        subtracted, as in NeMo's code; softmax ignores the difference.
    compression
        The ratio of the last head, which is the largest. Default 8.

    Returns
    -------
    Hooks (functions that attention calls) with ``bias``. Equation ``def-sandwich``.

    Raises
    ------
    TypeError, ValueError
        As :func:`sandwich_sum`; ``heads`` not a positive integer, ``compression`` not
        positive, unknown ``diagonal``.
    """
    h = np.arange(1, require_dimension("heads", heads, 1) + 1)
    ratio = (require_positive("compression", compression) * h / heads)[:, None, None]
    require_dimension("width", width)
    require_index("index_from", index_from)
    less = (
        width / 2
        if require_choice("diagonal", diagonal, SandwichDiagonal) == "zero"
        else 0
    )

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        total = sandwich_sum(tokens.distances, width=width, index_from=index_from)
        return (total - less) / ratio

    return Hooks(bias=bias)
