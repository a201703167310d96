"""Positions that move from layer to layer, followed in any of the three implementations."""

from collections.abc import Callable
from typing import Any


def follow(
    steps: Callable[..., Any],
    hooks: Any,
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

    ``steps`` is that of an implementation and ``hooks`` what it is given there. All layers have
    the same queries, keys, values, and the same to say: positions alone go on.
    """
    positions = hooks.locate(positions, fed)
    for _ in range(layers - 1):
        taken = steps(q, k, v, hooks, positions=positions, **options)
        positions = hooks.update(taken.weights, taken.tokens, fed)
    return steps(q, k, v, hooks, positions=positions, **options).out
