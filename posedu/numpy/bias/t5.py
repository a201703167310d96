"""T5's relative bias: a trained number for each bucket of distances and each head."""

from bisect import bisect_left

import numpy as np
from jaxtyping import Float, Int

from posedu._arguments import T5Scale, require_buckets, require_choice
from posedu.numpy._arrays import Positions, require_floats, require_positions
from posedu.numpy.attention import Hooks, Tokens

Array = np.ndarray


def t5_buckets(
    offsets: Positions,
    *,
    bidirectional: bool,
    buckets: int = 32,
    distance: int = 128,
) -> Int[Array, "*shape"]:
    """T5's bucket of each offset i − j, exact: no logarithm is computed and rounded.

    Half of the buckets hold one distance each, the other half distances up to
    ``distance`` on a logarithmic scale; larger distances share the last bucket (arXiv
    1910.10683 §2.1, whose code this follows). If a side has an odd number of buckets,
    one more is on the scale. A distance that is no integer is rounded down.

    Parameters
    ----------
    offsets
        Query position minus key position, finite.
    bidirectional
        Whether later keys have half of the buckets to themselves (encoders), or all
        share bucket 0 (decoders, which mask them).
    buckets, distance
        Number of buckets, and distance where the logarithmic scale ends. Defaults 32
        and 128, T5's.

    Returns
    -------
    Integers 0 … buckets − 1. Equation ``def-t5-bucket``.

    Raises
    ------
    TypeError, ValueError
        Offsets not finite, fewer than two buckets on a side, an odd number of them
        for two sides, a ``distance`` within the buckets of one distance.
    """
    offsets = require_positions(offsets, "offsets")
    single, scaled = require_buckets(buckets, distance, bidirectional)
    distance = int(distance)  # NumPy's integers have no room for its powers
    steps = np.abs(offsets) if bidirectional else np.maximum(offsets, 0)
    starts = _starts(single, scaled, distance)
    bucket = np.searchsorted(starts, steps, side="right") - 1
    later = len(starts) * (offsets < 0) if bidirectional else 0
    return np.asarray(bucket + later)


def _starts(single: int, scaled: int, distance: int) -> list[int]:
    """The smallest distance in each bucket of one side (keys before or after a query).

    After the e = ``single`` buckets of one distance each come s = ``scaled`` ones on a
    logarithmic scale that ends at ``distance``: the t-th starts at the first
    n ≥ e (distance/e)^(t/s), which is the first with n^s e^t ≥ e^s distance^t.
    """
    e, s = single, scaled

    def start(t: int) -> int:
        least = e**s * distance**t
        return e + bisect_left(range(e, distance), least, key=lambda n: n**s * e**t)

    return [*range(e), *map(start, range(s))]


def t5(
    *,
    table: Float[Array, "heads buckets"],
    bidirectional: bool,
    distance: int = 128,
    scale: T5Scale = "one",
) -> Hooks:
    """Return the attention hooks of T5's bias.

    The bias is a trained number for each head and bucket of :func:`t5_buckets`; it is
    not divided by √d, and in T5 the products q · k are not either (arXiv 1910.10683
    §2.1).

    Parameters
    ----------
    table
        The trained numbers, one for each head and bucket.
    bidirectional, distance
        See :func:`t5_buckets`.
    scale
        Factor of the products q · k. ``"one"``: 1 (T5, default). ``"root"``: 1/√d
        (MPNet; x-transformers and GPT-NeoX, which add √d times the table).

    Returns
    -------
    Hooks (functions that attention calls) with ``scale`` and ``bias``. Equation
    ``def-t5``.

    Raises
    ------
    TypeError, ValueError
        As :func:`t5_buckets`; a table that holds no floats or has another shape;
        unknown ``scale``.
    """
    table = require_floats("table", table)
    require_choice("scale", scale, T5Scale)
    if table.ndim != 2:
        raise ValueError(f"table must be [heads, buckets], got {list(table.shape)}")
    require_buckets(table.shape[1], distance, bidirectional)

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        bucket = t5_buckets(
            tokens.distances,
            bidirectional=bidirectional,
            buckets=table.shape[1],
            distance=distance,
        )
        return table[:, bucket]

    return Hooks(scale=lambda d: 1.0 if scale == "one" else d**-0.5, bias=bias)
