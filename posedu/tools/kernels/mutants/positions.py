"""Mutants of positions: shifted, permuted, limited or in other units."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, permutations

import numpy as np
import torch

from posedu.tools.kernels.mutants.options import SCALES
from posedu.tools.kernels.mutants.reference import Array, Mutant, moved


def _token_counts(at: Array, axes: int | None) -> Array:
    rows = np.broadcast_to(np.arange(at.shape[1]), at.shape[:2])
    return rows if axes is None else np.repeat(rows[..., None], axes, -1)


def rounded_to(dtype: torch.dtype) -> Callable[[Array], Array]:
    """Return a function that rounds an array to the dtype."""
    return lambda at: torch.tensor(at).to(dtype).double().numpy()


def of_positions(axes: int | None, has_rows: bool) -> Iterator[Mutant]:
    """Yield mutants (known faults) that use wrong positions, such as negated ones.

    ``axes`` is the number of coordinates of a position, ``None`` for plain numbers.
    ``has_rows`` says that positions are rows of a small table.
    """
    yield Mutant("sign", "each position is negated", moved(lambda at: -at))
    yield Mutant(
        "off by one", "each position is one too large", moved(lambda at: at + 1)
    )
    yield Mutant(
        "off by one", "each position is one too small", moved(lambda at: at - 1)
    )
    yield Mutant(
        "off by two", "each position is two too large", moved(lambda at: at + 2)
    )
    yield Mutant(
        "padding",
        "the kernel counts the tokens of a row 0, 1, 2, …, padding included, and "
        "ignores positions",
        moved(lambda at: _token_counts(at, axes)),
    )
    yield Mutant(
        "rows",
        "the positions of the first row are used for all rows",
        moved(lambda at: np.broadcast_to(at[:1], at.shape)),
    )
    yield Mutant("nothing", "every position is taken as 0", moved(lambda at: 0 * at))
    yield Mutant(
        "twice",
        "each position is doubled, as if the encoding were applied twice",
        moved(lambda at: 2 * at),
    )
    for dtype in (torch.bfloat16, torch.float16):
        name = str(dtype).removeprefix("torch.")
        text = f"positions are rounded to {name}"
        yield Mutant("precision of positions", text, moved(rounded_to(dtype)))
    yield Mutant(
        "position 0",
        "position 0 is taken as 1",
        moved(lambda at: at + (at == 0)),
        alone=True,
    )
    yield Mutant(
        "packing",
        "positions of a row never fall: each is at least the one before",
        moved(lambda at: np.maximum.accumulate(at, axis=1)),
        alone=True,
    )
    if not has_rows:
        yield from _of_ranges(axes)
    orders = permutations(range(axes or 1)) if (axes or 1) <= 4 else _swaps(axes or 1)
    for order in orders:
        if order != (*range(axes or 1),):
            text = f"coordinates are in the order {', '.join(map(str, order))}"
            take = partial(np.take, indices=order, axis=-1)
            yield Mutant("axis order", text, moved(take))
    for axis in range(axes or 0):
        text = f"coordinate {axis} is used for all coordinates"
        take = partial(np.take, indices=[axis] * (axes or 1), axis=-1)
        yield Mutant("axis order", text, moved(take))


def _swaps(axes: int) -> Iterator[tuple[int, ...]]:
    """Yield the orders of ``axes`` coordinates in which two are exchanged."""
    for one, other in combinations(range(axes), 2):
        order = [*range(axes)]
        order[one], order[other] = other, one
        yield tuple(order)


_LIMITS = (2048, 4096, 8192, 32768, 65536, 131072, 524288)


def _of_ranges(axes: int | None) -> Iterator[Mutant]:
    """Yield mutants (known faults) that are wrong at far or negative positions only.

    ``axes`` is the number of coordinates of a position, ``None`` for plain numbers.
    """
    for limit in _LIMITS:
        text = f"positions from {limit:,} on are taken as {limit - 1:,}"
        clipped = moved(partial(np.minimum, limit - 1))
        yield Mutant("position limit", text, clipped, alone=True)
    for bits in (15, 16):
        text = f"positions are taken modulo {2**bits:,}"
        wrapped = moved(lambda at, bits=bits: at % 2**bits)
        yield Mutant("position limit", text, wrapped, alone=True)
    signs = [
        ("taken as 0", lambda at: np.maximum(at, 0)),
        ("used without their sign", np.abs),
    ]
    if axes is None:  # With several axes the reference has no such angles.
        unsigned = "taken as unsigned 32-bit integers"
        signs.append((unsigned, lambda at: at % 2**32))
    for text, change in signs:
        text = f"negative positions are {text}"
        yield Mutant("negative positions", text, moved(change), alone=True)


def of_units() -> Iterator[Mutant]:
    """Yield mutants (known faults) whose positions or angles have another unit."""
    yield Mutant(
        "degrees", "angles are in degrees", moved(lambda at: at * (math.pi / 180))
    )
    yield Mutant(
        "turns", "angles are in full turns", moved(lambda at: at * (2 * math.pi))
    )
    yield Mutant(
        "scale of angles",
        "positions are multiplied by {:.6g}",
        lambda r, s: r.with_positions(lambda at: s * at),
        SCALES,
    )
