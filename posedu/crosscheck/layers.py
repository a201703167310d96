"""Positions that move from layer to layer, followed in any of the three faces."""

from collections.abc import Callable
from typing import Any


def follow(
    steps: Callable[..., Any],
    doors: Any,
    q: Any,
    k: Any,
    v: Any,
    fed: Any,
    positions: Any,
    *,
    layers: int = 2,
    **options: Any,
) -> Any:
    """What the last of some layers gathers.

    ``steps`` is that of a face and ``doors`` what it is given there. All layers have
    the same queries, keys, values, and the same to say: positions alone go on.
    """
    positions = doors.locate(positions, fed)
    for _ in range(layers - 1):
        taken = steps(q, k, v, doors, positions=positions, **options)
        positions = doors.update(taken.weights, taken.tokens, fed)
    return steps(q, k, v, doors, positions=positions, **options).out
