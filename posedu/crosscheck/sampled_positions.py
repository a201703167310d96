"""Comparison of the implementations of an encoding that samples positions.

The PyTorch implementation draws random numbers, and the NumPy and SymPy implementations
are given these numbers. Lists of positions are equal for all rows of the batch,
different in each row, empty, and of a single position; far from 0 and real where the
encoding takes such positions. The module is cast to each dtype, which must change
nothing, since positions are float64 or integers in any model. There is no gradient to
compare, since positions are data.

Integers must agree up to the rounding of one sum. Where draws are real, the bound is
``(n + 8) u`` for n tokens, times the relative change of the reference's result when all
positions and draws are off by a small part of themselves, up or down at random: each
implementation computes at most a mean of n numbers, two sums and a product.
"""

from collections.abc import Iterator

import numpy as np
import torch

from posedu.catalog import EncodingRecord, Variant
from posedu.crosscheck.common import (
    CPU,
    DTYPES,
    Devices,
    Tally,
    as_rationals,
    compiled_dtypes,
    roundoff,
    to_numpy,
)

ROWS = 2
_PERTURBATION = 2.0**-32  # relative, of positions and draws
_TRIES = 8


def compare(
    tally: Tally,
    encoding: EncodingRecord,
    variant: Variant,
    devices: Devices,
    seed: int,
) -> None:
    """Compare the implementations of one configuration on lists of positions.

    ``variant`` is the configuration (set of options) of the encoding. PyTorch runs on
    each of ``devices``, and ``seed`` fixes the random numbers. Errors are added to
    ``tally``.
    """
    for positions in _lines(encoding):
        _compare(tally, encoding, variant, positions, devices, seed, compiled=False)


def compare_compiled(
    tally: Tally,
    encoding: EncodingRecord,
    variant: Variant,
    devices: Devices,
    seed: int,
) -> None:
    """Compare the compiled PyTorch module with NumPy, on five tokens.

    ``variant`` is the configuration (set of options) of the encoding. PyTorch runs on
    each of ``devices``, and ``seed`` fixes the random numbers. Errors are added to
    ``tally``.
    """
    torch.compiler.reset()
    line = np.arange(5)
    _compare(tally, encoding, variant, line, devices, seed, compiled=True)


def _lines(encoding: EncodingRecord) -> Iterator[np.ndarray]:
    yield np.arange(5)
    yield np.array([0])
    yield np.array([], dtype=np.int64)
    yield np.array([3, 0, 1, 1])
    yield np.array([[0, 1, 2], [2, 0, 1]])
    if not encoding.implementation("torch").takes_indices:
        yield 2**20 - np.arange(3)
        yield np.array([0.5, -2.25, 1e3 + 1 / 3])


def _compare(tally, encoding, variant, positions, devices, seed, *, compiled) -> None:
    torch.manual_seed(seed)
    module = encoding.make(variant, d=2, heads=1)
    drawn = module.draw(ROWS, positions.shape[-1])
    given = {n: _array(t) for n, t in drawn.items()}
    options = encoding.keywords(variant, d=2, heads=1)
    implementation = encoding.implementation("numpy")
    expected = implementation(positions, **given, **options)
    bound = _bound(implementation, positions, given, options, expected)
    for device in devices:
        draws = {n: t.to(device) for n, t in drawn.items()}
        at = torch.as_tensor(positions, device=device)
        for dtype in compiled_dtypes(device) if compiled else DTYPES:
            place = module.to(dtype).place
            run = torch.compile(place, fullgraph=True) if compiled else place
            name = "numpy–torch.compile" if compiled else "numpy–torch"
            key = (name, "forward", device, dtype, "out")
            tally.add(*key, to_numpy(run(at, **draws)), expected, bound)
    if not compiled and CPU in devices:
        exact = _exact(encoding, positions, given, options, expected.shape)
        key = ("sympy–numpy", "forward", CPU, torch.float64, "out")
        tally.add(*key, exact, expected, bound)


def _array(t: torch.Tensor) -> np.ndarray:
    return t.cpu().numpy()


def _exact(encoding, positions, given, options, shape) -> np.ndarray:
    """Positions from the symbolic implementation as an array, computed row by row.

    ``given`` are the random numbers by name, drawn by the PyTorch implementation;
    ``options`` are the encoding's options, and ``shape`` is the shape of the result,
    ``[rows, tokens]``.
    """
    out, implementation = np.empty(shape), encoding.implementation("sympy")
    for row in range(len(out)):
        line = positions if positions.ndim == 1 else positions[row % len(positions)]
        own = {n: t[row % len(t)] for n, t in given.items()}
        draws = {n: as_rationals(t) for n, t in own.items()}
        exact_row = implementation(as_rationals(line), **draws, **options)
        out[row] = [float(e) for e in exact_row]
    return out


def _bound(implementation, positions, given, options, expected) -> np.ndarray:
    u = roundoff(torch.float64)
    bound = u * np.abs(expected) + np.finfo(float).tiny
    if not any(np.issubdtype(t.dtype, np.floating) for t in given.values()):
        return bound
    rng, change = np.random.default_rng(0), np.zeros(expected.shape)
    for _ in range(_TRIES):
        at, *draws = (
            t * (1 + _PERTURBATION * rng.choice((-1.0, 1.0), t.shape))
            for t in (positions, *given.values())
        )
        perturbed = dict(zip(given, draws, strict=True))
        result = implementation(at, **perturbed, **options)
        change = np.maximum(change, np.abs(result - expected))
    return bound + (positions.shape[-1] + 8) * u / _PERTURBATION * change
