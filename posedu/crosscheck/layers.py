"""Attention in several layers, each of which changes the next layer's positions."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from posedu._renamed import renamed_names


def run_layers(
    steps: Callable[..., Any],
    hooks: Any,
    q: Any,
    k: Any,
    v: Any,
    mlp_output: Any,
    positions: Any,
    *,
    layers: int = 2,
    **options: Any,
) -> Any:
    """Return the attention output of the last of ``layers`` layers.

    ``steps`` is the attention function of one implementation, which returns attention
    weights and output; ``hooks`` is the encoding in that implementation, which computes
    each layer's positions; and ``options`` are further arguments of ``steps``. All
    layers have equal queries ``q``, keys ``k``, values ``v`` and MLP output, so that a
    layer differs from the layer before by its positions alone. ``positions`` are those
    of the first layer.
    """
    positions = hooks.locate(positions, mlp_output)
    for _ in range(layers - 1):
        result = steps(q, k, v, hooks, positions=positions, **options)
        positions = hooks.update(result.weights, result.tokens, mlp_output)
    return steps(q, k, v, hooks, positions=positions, **options).out


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
