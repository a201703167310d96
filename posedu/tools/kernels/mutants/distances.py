"""Mutants of a bias that differ at some distances only."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from posedu.catalog import CATALOG
from posedu.numpy.attention import Hooks, Tokens
from posedu.numpy.bias.t5 import t5_buckets
from posedu.tools.kernels import distances
from posedu.tools.kernels.mutants.biases import hooks_of
from posedu.tools.kernels.mutants.positions import rounded_to
from posedu.tools.kernels.mutants.reference import Array, Mutant, Reference
from posedu.tools.kernels.oracle import Case


def _at_distances(change: Callable[[Array], Array], hooks: Hooks) -> Hooks:
    """Return ``hooks`` for which every distance is changed by ``change``.

    A distance is query position minus key position; hooks are the functions by which an
    encoding acts on attention.
    """
    given = hooks.logits

    def changed(tokens: Tokens) -> Tokens:
        return distances.with_distances(tokens, change)

    return replace(
        hooks,
        bias=lambda tokens: hooks.bias(changed(tokens)),
        logits=given and (lambda tokens: given(changed(tokens))),
        mix=lambda weights, v, tokens: hooks.mix(weights, v, changed(tokens)),
    )


def of_distances(case: Case) -> Iterator[Mutant]:
    """Yield mutants (known faults) that are wrong at some distances only.

    Those that change no logit of the encoding of ``case`` are left out.
    """
    made, hooks = case.solution, hooks_of(case)
    largest = distances.largest_distance(CATALOG[case.name])
    line = np.array(distances.distances(made, largest))
    sides = line, (-line[:3] if case.causal else -line)

    def logits(hooks: Hooks) -> Array:
        return np.hstack([distances.logits_at(made, hooks, side) for side in sides])

    right = logits(hooks)
    changes = [
        *_of_t5_buckets(case),
        *(
            (
                "distance limit",
                f"distances beyond {limit:,} are taken as {limit:,}",
                partial(_clipped, limit=limit),
            )
            for limit in _FARTHEST
        ),
        *(
            (
                "distance limit",
                f"distances are taken modulo {2**bits:,}",
                lambda at, bits=bits: np.sign(at) * (np.abs(at) % 2**bits),
            )
            for bits in (8, 15, 16)
        ),
        (
            "precision of distances",
            "distances are rounded to bfloat16",
            rounded_to(torch.bfloat16),
        ),
        ("distance 0", "distance 0 is taken as 1", lambda at: at + (at == 0)),
        ("later keys", "a later key is taken to be at distance 0", _not_negative),
        ("later keys", "a later key has the bias of an earlier one", np.abs),
    ]
    for name, text, change in changes:
        changed = partial(_at_distances, change)
        if (logits(changed(hooks)) != right).any():
            on_hooks = partial(Reference.with_hooks, change=changed)
            yield Mutant(name, text, on_hooks, alone=True)


_FARTHEST = (
    *(4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 511, 512, 1023, 1024),
    *(2047, 2048, 4095, 4096, 8191, 8192, 32767, 65504, 65535),
)


def _not_negative(at: Array) -> Array:
    return np.maximum(at, 0)


def _clipped(at: Array, limit: int) -> Array:
    return np.clip(at, -limit, limit)


def _of_t5_buckets(
    case: Case,
) -> Iterator[tuple[str, str, Callable[[Array], Array]]]:
    """Yield wrong scales of T5's far buckets: name, text, change of distances.

    The changed distance is the first in the wrong bucket. For another encoding there
    are none.
    """
    if case.name != "t5":
        return
    sides = 2 if case.options["bidirectional"] else 1
    side = case.parameters["table"].shape[1] // sides
    exact, distance = side // 2, case.options["distance"]
    for limit in (exact, exact - 1):
        text = f"distances from {limit} on are in one bucket, without a logarithm"
        yield "buckets", text, partial(_clipped, limit=limit)
    buckets = t5_buckets(
        np.arange(distance + 1),
        bidirectional=False,
        buckets=side,
        distance=distance,
    )
    starts = np.searchsorted(buckets, np.arange(side))

    def changed(at: Array, steps: Callable[[Array], Array]) -> Array:
        far = np.maximum(np.abs(at), exact)
        bucket = np.floor(exact + steps(far))
        bucket = np.clip(bucket, exact, side - 1).astype(int)
        return np.where(np.abs(at) < exact, at, np.sign(at) * starts[bucket])

    def linear(far: Array) -> Array:
        return (far - exact) / (distance - exact) * (side - exact)

    def single(far: Array) -> Array:
        return far - exact

    def unscaled(far: Array) -> Array:
        return np.log(far / exact) * (side - exact)

    def rounded_up(far: Array) -> Array:
        return np.ceil(unscaled(far) / np.log(distance / exact))

    for text, steps in (
        ("far buckets are equally wide, without a logarithm", linear),
        ("far buckets have one distance each, without a logarithm", single),
        ("the logarithm is not divided by that of the largest distance", unscaled),
        ("numbers of far buckets are rounded up", rounded_up),
    ):
        yield "buckets", text, partial(changed, steps=steps)
