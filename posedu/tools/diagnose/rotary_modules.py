"""Measurement of a model's rotary module and the function that applies its output.

A rotary module is a module whose class is named after rotation; it makes a table of
cosines and sines for positions. A function in the same file, also named after rotation,
rotates queries and keys by that table. Module and function can be run if the whole
model cannot, or if it hides its attention.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from posedu.tools._foreign_code import called
from posedu.tools.diagnose.capture import HEADS, Call, Side

NAMED = re.compile("Rotary|RoPE|RotaryConfig|ROPE|(?<![a-z])(rotary|rope)")
SHAPES = ((1, 1), (3, 1, 1))
"""Shapes of the positions of one token, alone or with the three axes of M-RoPE."""
TABLE = {"cos": 0, "sin": 1, "freqs_cis": 0, "freqs_ci": 0, "freqs": 0}
"""Index of each tensor in the result of a rotary module."""

Table = tuple[Tensor, ...]
Rotation = Callable[[Tensor, Tensor, Table], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class RotaryModule:
    """A model's rotary module, run with a function that rotates by the module's table.

    The table holds cosines and sines. ``module`` and ``function`` are names. ``kind``
    is the kind of layer, an argument of the module, empty if the module has no such
    argument. ``calls`` holds the rotated queries and keys by position.
    """

    module: str
    function: str
    kind: str
    calls: Mapping[int, Call]

    @property
    def name(self) -> str:
        """Name for reports: the module, the kind of layer and the function."""
        where = ".".join(filter(None, (self.module, self.kind)))
        return f"{where} with {self.function}" if where else self.function

    def sides(self) -> tuple[dict[int, Side], dict[int, Side]]:
        """Return the rotated queries and the rotated keys, by position."""
        return (
            {p: call.query for p, call in self.calls.items()},
            {p: call.key for p, call in self.calls.items()},
        )


def rotary_modules(
    model: nn.Module, at: Sequence[int], rows: int, axes: int = 2
) -> list[RotaryModule]:
    """Run a model's rotary modules, each with the functions that keep lengths best.

    A function rotates queries and keys by the module's table, and keeps lengths if
    rotated vectors are as long as before. Of functions with equal results the first is
    taken. Each position in ``at`` is given alone or as ``axes`` equal coordinates,
    whichever the module takes. ``rows`` is the number of random sequences to rotate.
    """
    shapes = (*SHAPES, (1, axes), (1, 1, axes))
    used = _used(model)
    found: list[RotaryModule] = []
    for name, module in model.named_modules():
        if not NAMED.search(type(module).__name__):
            continue
        in_file = _functions(vars(sys.modules[type(module).__module__]))
        functions = {n: f for n, f in in_file.items() if n in used} or in_file
        for kind in _kinds(module):
            tried = {
                n: _calls(module, kind, f, at, rows, shapes)
                for n, f in functions.items()
            }
            worked = {n: calls for n, calls in tried.items() if calls}
            least = min(map(_stretched, worked.values()), default=0)
            distinct: list[RotaryModule] = []
            for function, calls in worked.items():
                if _stretched(calls) == least and not any(
                    _equal(other.calls, calls) for other in distinct
                ):
                    distinct.append(RotaryModule(name, function, kind, calls))
            found += distinct
    return found


def _functions(namespace: Mapping[str, Any]) -> dict[str, Rotation]:
    """Functions named after rotation that take queries, then a table, by name.

    ``namespace`` is the content of a file; the table holds cosines and sines.
    """
    found = {}
    for name, own in namespace.items():
        if not NAMED.search(name) or isinstance(own, type) or not callable(own):
            continue
        rotation = _rotation(own)
        if rotation is not None:
            found[name] = rotation
    return found


def _used(model: nn.Module) -> set[str]:
    """Names like "apply_rotary" or "rope" in the code of the modules of ``model``."""
    codes = (inspect.unwrap(type(m).forward).__code__ for m in model.modules())
    return {name for code in codes for name in code.co_names if NAMED.search(name)}


def _rotation(function: Callable[..., Any]) -> Rotation | None:
    """Return a function of queries, keys and a table that calls ``function`` with them.

    The table holds cosines and sines. The result is ``None`` if ``function`` takes no
    table, or needs more arguments than these.
    """
    parameters = inspect.signature(function).parameters
    names = list(parameters)
    first = next((i for i, n in enumerate(names) if n in TABLE), 0)
    free = [p for p in list(parameters.values())[first:] if p.name not in TABLE]
    if not first or any(p.default is p.empty for p in free):
        return None
    wanted = [n for n in names if n in TABLE]

    def rotate(q: Tensor, k: Tensor, table: Table) -> tuple[Tensor, Tensor]:
        given = {n: table[TABLE[n]] for n in wanted}
        if first == 1:
            return function(q, **given), function(k, **given)
        rotated = function(*(q, k, k)[:first], **given)
        return rotated[0], rotated[1]

    return rotate


def _kinds(module: nn.Module) -> list[str]:
    """Kinds of layers that the forward of a rotary module takes, as ``layer_type``.

    The list is [""] if it has no such argument, or the kinds are not known.
    """
    if "layer_type" not in inspect.signature(module.forward).parameters:
        return [""]
    own = getattr(module, "layer_types", None)
    own = own or getattr(getattr(module, "config", None), "layer_types", None) or [""]
    return sorted(set(own))


def _calls(
    module: nn.Module,
    kind: str,
    rotate: Rotation,
    at: Sequence[int],
    rows: int,
    shapes: Sequence[Sequence[int]],
) -> dict[int, Call]:
    """Rotate random queries and keys at the positions before the first that fails.

    The results are returned by position, of those in ``at``; there are none if no shape
    works. ``rotate`` applies the table of ``module``, which ``kind``, a kind of layer,
    may select. ``rows`` is the number of sequences. Positions are given in the one of
    ``shapes`` with which ``rotate`` keeps the lengths of queries best; of several such
    shapes it is the one with the widest table, which has the most coordinates.
    """
    found: list[tuple[float, int, dict[int, Call]]] = []
    for shape in shapes:
        tables = dict(_tables(module, kind, at, shape))
        if 1 not in tables:
            continue
        width = tables[0][0].shape[-1]
        for d, swapped in product((width, 2 * width), (False, True)):
            generator = torch.Generator().manual_seed(0)
            q, k = torch.randn(2, rows, HEADS, 1, d, generator=generator)
            if swapped:
                q, k = q.transpose(1, 2), k.transpose(1, 2)
            try:
                rotated = {
                    p: called(rotate, q, k, table) for p, table in tables.items()
                }
            except Exception:  # The function may raise anything for a wrong shape.
                continue
            if all(x.shape == q.shape for pair in rotated.values() for x in pair):
                own = {p: _call((q, k), pair, swapped) for p, pair in rotated.items()}
                found.append((_stretched(own), -width, own))
    return min(found, key=lambda f: f[:2], default=(0.0, 0, {}))[2]


def _stretched(calls: Mapping[int, Call]) -> float:
    """Largest relative change of the lengths of rotated queries, rounded to hundredths.

    ``calls`` holds the rotated queries by position. The lengths are compared with those
    at the first position.
    """
    lengths = [np.linalg.norm(c.query.features, axis=-1) for c in calls.values()]
    ratio = np.stack(lengths) / lengths[0]
    return round(float(np.abs(ratio - 1).max()), 2)


def _tables(
    module: nn.Module, kind: str, at: Sequence[int], shape: Sequence[int]
) -> Iterator[tuple[int, Table]]:
    """Yield each position, and a rotary module's table of cosines and sines for it.

    ``kind`` is the kind of layer, for modules that take one. Each position is given as
    a tensor of ``shape``. The first position at which the module fails or returns no
    table ends the sequence.
    """
    names = list(inspect.signature(module.forward).parameters)
    if "position_ids" not in names:
        return
    given: dict[str, Any] = {"layer_type": kind} if kind else {}
    if names[0] != "position_ids":
        given[names[0]] = torch.zeros(1, 1, 1)
    for p in at:
        try:
            with torch.no_grad():
                at_p = torch.full(shape, p)
                made = called(module, **given, position_ids=at_p)
        except Exception:  # The module may raise anything for a wrong shape.
            return
        table = made if isinstance(made, tuple) else (made,)
        is_rotation = len(table) == 2 or (
            isinstance(table[0], Tensor) and table[0].is_complex()
        )
        if not is_rotation or not all(isinstance(x, Tensor) for x in table):
            return
        yield p, table


def _call(
    before: tuple[Tensor, Tensor], after: tuple[Tensor, Tensor], swapped: bool
) -> Call:
    def side(x: Tensor, y: Tensor) -> Side:
        x, y = (z if swapped else z.transpose(1, 2) for z in (x, y))
        features, source = (z.double().numpy() for z in (y, x.flatten(2)))
        return Side(features, (source,), torch.finfo(y.dtype).eps)

    return Call("", *map(side, before, after))


def _equal(one: Mapping[int, Call], other: Mapping[int, Call]) -> bool:
    return one.keys() == other.keys() and all(
        call.query.features.shape == other[p].query.features.shape
        and np.allclose(call.query.features, other[p].query.features, atol=1e-6)
        for p, call in one.items()
    )
