"""Mutants of the order in which heads get their parameters."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from posedu.catalog import CATALOG
from posedu.numpy.attention import Hooks
from posedu.tools.kernels.mutants.biases import MIXING_HEADS, RANK_HEADS
from posedu.tools.kernels.mutants.mutated_case import changed_tokens
from posedu.tools.kernels.mutants.reference import Array, Change, Mutant, Reference
from posedu.tools.kernels.oracle import Case


def head_numbers(at: Array, shape: tuple[int, ...]) -> Array:
    """Return each head's number, counted from 0, as positions of features."""
    heads = np.arange(shape[1]).reshape(1, -1, *[1] * (at.ndim - 1))
    return np.broadcast_to(heads, (*shape[:3], *at.shape[2:]))


def _by_head(
    order: Callable[[Array], Array], function: Callable[..., Array], *arrays: Array
) -> Array:
    """Apply a function to heads, of which each uses another head's parameters.

    ``order`` maps the numbers of heads to those of the heads whose parameters they use.
    Axis −3 of ``arrays``, the arguments of ``function``, and of its result is that of
    heads; a result with fewer axes is the same for all heads, and is returned as it is.
    """
    heads = np.arange(arrays[0].shape[-3])
    used = order(heads)
    found = {
        step: function(*(np.roll(array, -step, axis=-3) for array in arrays))
        for step in {*(heads - used).tolist()}
    }
    if any(np.ndim(result) < 3 for result in found.values()):
        return next(iter(found.values()))
    own = [found[h - n][..., n, :, :] for h, n in zip(heads, used, strict=True)]
    return np.stack(own, axis=-3)


def _with_parameters_of(order: Callable[[Array], Array], hooks: Hooks) -> Hooks:
    """Return hooks in which each head uses another head's parameters.

    Hooks are the functions by which an encoding acts on attention. ``order`` is that of
    :func:`_by_head`.
    """

    def of_tokens(function: Callable[..., Array]) -> Callable[..., Array]:
        """Return ``function`` of any arrays by head and of tokens, with that order."""

        def changed(*arguments: Any) -> Array:
            *arrays, tokens = arguments

            def moved(q: Array, k: Array, v: Array, *arrays: Array) -> Array:
                return function(*arrays, replace(tokens, q=q, k=k, v=v))

            return _by_head(order, moved, tokens.q, tokens.k, tokens.v, *arrays)

        return changed

    def rotate(q: Array, k: Array, at: Array) -> tuple[Array, Array]:
        rotated = hooks.rotate(q, k, at)
        return _by_head(order, lambda q: hooks.rotate(q, k, at)[0], q), rotated[1]

    return replace(
        hooks,
        rotate=rotate,
        bias=of_tokens(hooks.bias),
        logits=hooks.logits and of_tokens(hooks.logits),
        weigh=of_tokens(hooks.weigh),
        mix=of_tokens(hooks.mix),
    )


def of_heads(case: Case) -> Iterator[Mutant]:
    """Yield mutants (known faults) in which heads use the parameters of others.

    There are none if all heads of the encoding of ``case`` are alike. A model that is
    split by heads has a part of them on each rank.
    """
    of_features = CATALOG[case.name].kind == "features"

    def change(order: Callable[[Array], Array], reference: Reference) -> Reference:
        if not of_features:
            return reference.with_hooks(partial(_with_parameters_of, order))

        def rotated(given: Change, x: Array, at: Array, **options: Any) -> Array:
            return _by_head(order, lambda x: given(x, at, **options), x)

        return reference.with_implementation(lambda given: partial(rotated, given))

    if of_features and case.solution.pair.heads is None:
        return
    is_first = partial(change, lambda heads: 0 * heads)
    if case.name in MIXING_HEADS or not changed_tokens(case, is_first).any():
        return
    for text, order in (
        ("heads are in reverse order", np.flip),
        ("each head is taken for the next", _next_head),
    ):
        yield Mutant("heads", text, partial(change, order))
    for count in RANK_HEADS:
        yield Mutant(
            "head offset",
            f"parameters of heads begin anew after {count}, as on ranks without a head "
            "offset",
            partial(change, lambda heads, count=count: heads % count),
            alone=True,
        )


def _next_head(heads: Array) -> Array:
    return np.minimum(heads + 1, heads[-1])
