"""Mutants of precision: angles, tables or products in a coarser dtype."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from posedu.numpy.rotary import pairs
from posedu.tools.kernels.mutants.positions import rounded_to
from posedu.tools.kernels.mutants.reference import Array, Change, Mutant


def _rotation_of(
    implementation: Change, x: Array, axes: int | None, options: Mapping[str, Any]
) -> tuple[Array, Array, Array]:
    """Return the partner of each feature in its pair, its frequencies and its factor.

    ``implementation`` is a reference that rotates pairs of features, ``x`` features and
    ``axes`` the number of coordinates of a position. The frequencies ``[d, axes]`` are
    angles by which a feature is rotated towards its partner, at the unit positions.

    Raises
    ------
    ValueError
        The reference rotates by other angles at other positions.
    """
    d = x.shape[-1]
    steps = np.eye(d)[:, None]

    def images(at: Array) -> Array:
        found = implementation(steps, at[None] if axes else at, **options)
        return found[:, 0]

    factor = np.diagonal(images(np.zeros(axes or 1)))
    turned = np.stack([images(unit) for unit in np.eye(axes or 1)])
    off = np.abs(turned).sum(0) * (1 - np.eye(d))
    partner = np.where(off.any(1), off.argmax(1), np.arange(d))
    rows = np.arange(d)
    sines = np.where(partner != rows, turned[:, rows, partner], 0.0)
    omega = np.arctan2(sines, turned[:, rows, rows]).T
    probe = np.linspace(0.25, 1.75, axes or 1)
    angle = omega @ probe
    right = np.diag(factor * np.cos(angle))
    right[rows, partner] += factor * np.sin(angle)
    if not np.allclose(images(probe), right, rtol=0, atol=1e-9):
        raise ValueError("the reference is no rotation by position times frequency")
    return partner, omega, factor


def rounded_rotation(
    rounding: Mapping[str, Callable[[Array], Array]],
    implementation: Change,
    x: Array,
    at: Array,
    **options: Any,
) -> Array:
    """Rotate ``x`` at positions ``at`` with rounded intermediate results.

    ``rounding`` has a function for some of ``"positions"``, ``"frequencies"``,
    ``"angles"`` (their products) and ``"tables"`` (cosines and sines).
    ``implementation`` is the right rotation.
    """
    axes = at.shape[1] if at.ndim == 2 else None
    partner, omega, factor = _rotation_of(implementation, x, axes, options)
    points = at if axes else at[:, None]
    cos, sin = _rounded_tables(rounding, points, omega)
    y = factor * x * cos
    y[..., partner] += np.where(
        partner != np.arange(len(partner)), factor * x * sin, 0.0
    )
    return y


def _rounded_tables(rounding, points: Array, omega: Array) -> tuple[Array, Array]:
    """Return cosines and sines of ``points @ omega.T``, rounded by ``rounding``."""

    def rounded(name: str, value: Array) -> Array:
        return rounding[name](value) if name in rounding else value

    omega = rounded("frequencies", omega)
    angle = rounded("angles", rounded("positions", points) @ omega.T)
    return rounded("tables", np.cos(angle)), rounded("tables", np.sin(angle))


def rounded_sinusoids(
    rounding: Mapping[str, Callable[[Array], Array]],
    implementation: Change,
    x: Array,
    at: Array,
    **options: Any,
) -> Array:
    """Add sines and cosines to ``x``, with rounded intermediate results.

    ``rounding`` is that of :func:`rounded_rotation`; ``implementation`` is the right
    encoding.
    """
    a, b = pairs(x.shape[-1], layout=options["layout"])
    unit = implementation(np.zeros((1, x.shape[-1])), np.ones(1), **options)[0]
    omega = np.arctan2(unit[a], unit[b])[:, None]
    y = x.copy()
    cos, sin = _rounded_tables(rounding, at[:, None], omega)
    y[..., a], y[..., b] = x[..., a] + sin, x[..., b] + cos
    return y


def of_precision(implementation: Callable[..., Array]) -> Iterator[Mutant]:
    """Yield mutants (known faults) whose frequencies, angles or tables are rounded.

    ``implementation`` takes a mapping of roundings, the right reference, features and
    positions.
    """

    def mutant(name: str, text: str, *what: str, dtype: torch.dtype) -> Mutant:
        rounding = dict.fromkeys(what, rounded_to(dtype))
        change = partial(partial, implementation, rounding)
        return Mutant(name, text, lambda r: r.with_implementation(change), alone=True)

    bfloat16, float16 = torch.bfloat16, torch.float16
    names = {bfloat16: "bfloat16", float16: "float16"}
    for dtype, label in names.items():
        yield mutant(
            "precision of frequencies",
            f"frequencies (inv_freq) are rounded to {label}",
            "frequencies",
            dtype=dtype,
        )
        yield mutant(
            "precision of tables",
            f"cosines and sines are rounded to {label}",
            "tables",
            dtype=dtype,
        )
    for text, *what in (
        ("angles, position times frequency, are rounded to bfloat16", "angles"),
        (
            "positions, frequencies and angles are bfloat16",
            *("positions", "frequencies", "angles"),
        ),
        (
            "positions, frequencies, angles, cosines and sines are bfloat16",
            *("positions", "frequencies", "angles", "tables"),
        ),
        (
            "positions and frequencies are bfloat16",
            *("positions", "frequencies"),
        ),
    ):
        yield mutant("precision of angles", text, *what, dtype=bfloat16)


def computed_in_bfloat16(r: int, base: float) -> Iterator[Array]:
    """Yield frequencies of ``r`` features as two usual formulas give in bfloat16."""
    steps = torch.arange(0, r, 2, dtype=torch.bfloat16) / r
    for omega in (base**-steps, 1 / base**steps):
        yield omega.double().numpy()


IN_FLOAT32 = (
    "compute frequencies, positions and their product in float32 at least, outside "
    "autocast, and convert only the cosines and sines."
)
