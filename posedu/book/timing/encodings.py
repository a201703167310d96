"""Timing of an encoding at its hook, and of a limit to which its time is compared.

The hook is the point of attention where the encoding acts. The limit is a copy of the
inputs, or attention without an encoding.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import Module

from posedu._argument_types import check_types
from posedu._arguments import require_choice
from posedu.book.timing.clock import Run
from posedu.book.timing.results import Measurement, Timing, collect, compare
from posedu.book.timing.timed_calls import compiled, copy_of, with_gradient
from posedu.catalog import CATALOG, EncodingRecord, Variant
from posedu.torch import Attention, Sinusoidal, grid
from posedu.torch._tensors import Positions


def _is_rotation(entry: EncodingRecord) -> bool:
    """Return whether an encoding rotates features and so is timed without attention.

    ``entry`` is the encoding's catalog record.
    """
    return entry.kind == "features" and "rotate" in entry.hooks


def _inputs(
    entry: EncodingRecord,
    length: int,
    d: int,
    heads: int,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Tensor, ...]:
    """Return random input tensors to time an encoding.

    They are queries and keys ``[1, heads, length, d]`` for an encoding that rotates
    features, otherwise one tensor of tokens ``[1, length, heads · d]``. ``entry`` is
    the encoding's catalog record.
    """
    rotates = _is_rotation(entry)
    shape = (1, heads, length, d) if rotates else (1, length, heads * d)
    return tuple(
        torch.randn(shape, dtype=dtype, device=device, requires_grad=True)
        for _ in range(1 + rotates)
    )


def _at_its_hook(
    entry: EncodingRecord, variant: Variant, inputs: tuple[Tensor, ...], heads: int
) -> Run:
    """Return a function that applies an encoding to the inputs, as a model would.

    ``entry`` is the encoding's catalog record, ``variant`` its configuration.
    ``inputs`` are queries and keys for an encoding that rotates features, otherwise one
    tensor of tokens. An encoding that acts inside attention is applied by a whole
    attention layer.
    """
    length, width = inputs[0].shape[-2:]
    d = width if _is_rotation(entry) else width // heads
    module = entry.make(variant, d=d, heads=heads, tokens=length)
    module.to(inputs[0].device)
    positions = _positions(entry, length, inputs[0].device)
    if _is_rotation(entry):
        return lambda: module.rotate(*inputs, positions)
    if entry.kind == "features":
        return lambda: (module(*inputs, positions),)
    if entry.kind == "positions":
        return _embedded(inputs, module)
    if entry.kind == "layers":
        return _layer(inputs, heads, module)
    return _attention(inputs, heads, module, positions)


def _positions(entry: EncodingRecord, length: int, device: torch.device):
    """Return positions 0, 1, 2, …, or a grid's if positions have several axes.

    ``entry`` is the encoding's catalog record. Positions with axes are a tensor
    ``[length, axes]`` of the most nearly square grid with ``length`` cells.
    """
    if entry.axes is None:
        return range(length)
    rows = max(n for n in range(1, math.isqrt(length) + 1) if length % n == 0)
    cells = grid(length // rows, rows, coordinates="ends", device=device)
    return torch.stack([cells[:, k % 2] for k in range(entry.axes)], -1)


def _limit(
    entry: EncodingRecord, inputs: tuple[Tensor, ...], heads: int
) -> tuple[str, Run]:
    if entry.kind in ("features", "positions"):
        return "copy", copy_of(*inputs)
    return "attention without encoding", _attention(inputs, heads, None)


def _embedded(inputs: tuple[Tensor, ...], module: Module) -> Run:
    """Return a function that adds sinusoids to the tokens of ``inputs``.

    ``inputs`` is one tensor of tokens ``[1, length, width]`` in a tuple. ``module`` is
    an encoding that samples or shifts positions; the sinusoids are computed at the
    positions that it returns.
    """
    (x,) = inputs
    sinusoids = Sinusoidal(x.shape[-1], layout="half")
    positions = torch.arange(x.shape[1], device=x.device)[None]
    return lambda: (sinusoids.embed(x, module.locate(positions, x)),)


def _layer(inputs: tuple[Tensor, ...], heads: int, module: Module) -> Run:
    """Return a function that computes attention, then the next layer's positions.

    ``inputs`` is one tensor of tokens ``[1, length, width]`` in a tuple. ``module`` is
    an encoding that updates positions from layer to layer.
    """
    (x,) = inputs
    attention = Attention(x.shape[-1], heads, encoding=module)
    attention.to(device=x.device, dtype=x.dtype)
    start = module.locate(torch.arange(x.shape[1], device=x.device)[None], x)

    def run() -> tuple[Tensor, ...]:
        out, steps = attention.steps(x, start)
        return out, module.update(steps.weights, steps.tokens, out)

    return run


def _attention(
    inputs: tuple[Tensor, ...],
    heads: int,
    encoding: Module | None,
    positions: Positions | None = None,
) -> Run:
    (x,) = inputs
    attention = encoding
    if not isinstance(encoding, Attention):
        has_kernel = encoding is not None and encoding.uses("attend")
        route = "fused" if has_kernel else None  # the fastest that supports it
        attention = Attention(x.shape[-1], heads, encoding=encoding, route=route)
    attention.to(device=x.device, dtype=x.dtype)
    return lambda: (attention(x, positions),)


@check_types
def time_encoding(
    name: str,
    *,
    lengths: Sequence[int] = (512, 1024, 2048),
    head_dims: Sequence[int] = (64,),
    dtypes: Sequence[torch.dtype] = (torch.float32,),
    device: str | torch.device = "cpu",
    heads: int = 16,
    repeats: int = 30,
    compile: bool = False,
    seed: int = 0,
    save_to: str | Path | None = None,
    keep: bool = False,
) -> Timing:
    """Time an encoding at its hook, forward and forward + backward, with the limit.

    The hook is the point of attention where the encoding acts; the limit is what its
    time is compared to: a copy of the tensors, or attention without an encoding. Every
    configuration in the catalog that fits the head dimension d is timed, for one
    sequence of each length. The tensors are q and k ``[1, heads, L, d]`` of an encoding
    that rotates features, otherwise x ``[1, L, heads · d]``. Where an encoding samples
    positions, sinusoids of the positions are added to x; the encoding ``sinusoidal`` is
    timed with these sinusoids alone. Where an encoding updates positions from layer to
    layer, the next layer's positions are part of the result, and the attention output
    takes the place of the MLP output. The limit of forward + backward is two copies, or
    bare attention with its own backward.

    Parameters
    ----------
    name
        A key of ``posedu.catalog.CATALOG``.
    lengths, head_dims, dtypes
        Sizes and dtypes to time; each combination is a cell.
    device
        ``"cpu"`` or ``"cuda"``.
    heads
        Number of heads.
    repeats
        Timed calls of each configuration in a cell.
    compile
        Also time each configuration under ``torch.compile(fullgraph=True)``; this
        resets everything that the process had compiled before.
    seed
        Seed of the random inputs.
    save_to
        A file that is rewritten after every cell.
    keep
        Return the result in the file if it is complete and was made at the same
        commit, with the same versions and settings, on the same device.

    Returns
    -------
    Timing
        The measurements; after an interrupt, the measurements of the finished cells.

    Raises
    ------
    ValueError, TypeError
        Unknown name, lengths that are not positive integers, odd head dimensions.
    """
    require_choice("name", name, tuple(CATALOG))
    entry = CATALOG[name]
    device = torch.device(device)

    def measure(length: int, d: int, dtype: torch.dtype) -> Iterator[Measurement]:
        inputs = _inputs(entry, length, d, heads, dtype, device)
        runs = {
            entry.label(variant): _at_its_hook(entry, variant, inputs, heads)
            for variant in entry.variants
            if d % entry.divisor(variant) == 0
        }
        if compile:
            torch.compiler.reset()
            runs |= {f"{label}, compiled": compiled(run) for label, run in runs.items()}
        limit_name, limit = _limit(entry, inputs, heads)
        cell = {
            "device": device,
            "repeats": repeats,
            "limit_name": limit_name,
            "length": length,
            "d": d,
            "dtype": dtype,
        }
        moved = 2 * sum(t.nbytes for t in inputs)
        with torch.no_grad():
            yield from compare(runs, limit, task="forward", bytes_moved=moved, **cell)
        if limit_name == "copy":
            limit = copy_of(*inputs, *inputs)
        else:
            limit = with_gradient(limit, inputs)
        yield from compare(
            {label: with_gradient(run, inputs) for label, run in runs.items()},
            limit,
            task="forward + backward",
            bytes_moved=2 * moved,
            **cell,
        )

    settings = {"heads": heads, "repeats": repeats, "compile": compile}
    result = Timing.begin(name, device, seed, **settings)
    cells = list(product(lengths, head_dims, dtypes))
    return collect(result, measure, cells, save_to, keep)
