"""A model's rotary module and the function that applies its table, without the rest.

Where a model cannot be run as a whole, or hides its attention, these two can still be
asked: a module whose class is named after rotation makes a table of positions, and a
function beside it, named so too, turns queries and keys by that table.
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

from posedu.tools.diagnose.capture import HEADS, Call, Side

NAMED = re.compile("Rotary|RoPE|RotaryConfig|ROPE|(?<![a-z])(rotary|rope)")
SHAPES = ((1, 1), (3, 1, 1))
"""Of the positions of one token, alone or with the three coordinates of M-RoPE."""
TABLE = {"cos": 0, "sin": 1, "freqs_cis": 0, "freqs_ci": 0, "freqs": 0}
"""Where each stands in what a rotary module returns."""

Table = tuple[Tensor, ...]
Turn = Callable[[Tensor, Tensor, Table], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Alone:
    """One rotary module with one function, for one kind of layer where it knows some.

    ``calls`` are by position, as if attention had been given what comes out.
    """

    module: str
    function: str
    kind: str
    calls: Mapping[int, Call]

    @property
    def name(self) -> str:
        """Of the layer that it stands for."""
        where = ".".join(filter(None, (self.module, self.kind)))
        return f"{where} with {self.function}" if where else self.function

    def sides(self) -> tuple[dict[int, Side], dict[int, Side]]:
        """Queries and keys, by position."""
        return (
            {p: call.query for p, call in self.calls.items()},
            {p: call.key for p, call in self.calls.items()},
        )


def alone(model: nn.Module, at: Sequence[int], rows: int, axes: int = 2) -> list[Alone]:
    """Of each rotary module the functions that keep lengths best, of equals the first.

    At those positions that it takes, or ``axes`` coordinates that are all the same.
    """
    shapes = (*SHAPES, (1, axes), (1, 1, axes))
    used = _used(model)
    found: list[Alone] = []
    for name, module in model.named_modules():
        if not NAMED.search(type(module).__name__):
            continue
        beside = _functions(vars(sys.modules[type(module).__module__]))
        functions = {n: f for n, f in beside.items() if n in used} or beside
        for kind in _kinds(module):
            tried = {
                n: _calls(module, kind, f, at, rows, shapes)
                for n, f in functions.items()
            }
            worked = {n: calls for n, calls in tried.items() if calls}
            least = min(map(_stretched, worked.values()), default=0)
            kept: list[Alone] = []
            for other, calls in worked.items():
                if _stretched(calls) == least and not any(
                    _equal(a.calls, calls) for a in kept
                ):
                    kept.append(Alone(name, other, kind, calls))
            found += kept
    return found


def _functions(namespace: Mapping[str, Any]) -> dict[str, Turn]:
    """Those that take queries and then a table, by name."""
    found = {}
    for name, own in namespace.items():
        if not NAMED.search(name) or isinstance(own, type) or not callable(own):
            continue
        turn = _turn(own)
        if turn is not None:
            found[name] = turn
    return found


def _used(model: nn.Module) -> set[str]:
    """Names that the code of the model's modules speaks of."""
    codes = (inspect.unwrap(type(m).forward).__code__ for m in model.modules())
    return {name for code in codes for name in code.co_names if NAMED.search(name)}


def _turn(function: Callable[..., Any]) -> Turn | None:
    """What it does to queries and keys; ``None`` if more than a table is wanted."""
    parameters = inspect.signature(function).parameters
    names = list(parameters)
    first = next((i for i, n in enumerate(names) if n in TABLE), 0)
    free = [p for p in list(parameters.values())[first:] if p.name not in TABLE]
    if not first or any(p.default is p.empty for p in free):
        return None
    wanted = [n for n in names if n in TABLE]

    def turn(q: Tensor, k: Tensor, table: Table) -> tuple[Tensor, Tensor]:
        given = {n: table[TABLE[n]] for n in wanted}
        if first == 1:
            return function(q, **given), function(k, **given)
        turned = function(*(q, k, k)[:first], **given)
        return turned[0], turned[1]

    return turn


def _kinds(module: nn.Module) -> list[str]:
    """Of layers, where its forward asks for one."""
    if "layer_type" not in inspect.signature(module.forward).parameters:
        return [""]
    own = getattr(module, "layer_types", None)
    own = own or getattr(getattr(module, "config", None), "layer_types", None) or [""]
    return sorted(set(own))


def _calls(
    module: nn.Module,
    kind: str,
    turn: Turn,
    at: Sequence[int],
    rows: int,
    shapes: Sequence[Sequence[int]],
) -> dict[int, Call]:
    """At the positions before the first that fails.

    In the shapes that keep lengths best, of these with the most coordinates: a table of
    one of two is not as wide.
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
                turned = {p: turn(q, k, table) for p, table in tables.items()}
            except Exception:  # a stranger's function and a shape that is not its own
                continue
            if all(x.shape == q.shape for pair in turned.values() for x in pair):
                own = {p: _call((q, k), pair, swapped) for p, pair in turned.items()}
                found.append((_stretched(own), -width, own))
    return min(found, key=lambda f: f[:2], default=(0.0, 0, {}))[2]


def _stretched(calls: Mapping[int, Call]) -> float:
    """How far lengths of queries change from position to position, in hundredths."""
    lengths = [np.linalg.norm(c.query.features, axis=-1) for c in calls.values()]
    ratio = np.stack(lengths) / lengths[0]
    return round(float(np.abs(ratio - 1).max()), 2)


def _tables(
    module: nn.Module, kind: str, at: Sequence[int], shape: Sequence[int]
) -> Iterator[tuple[int, Table]]:
    """Of each position; nothing of a module that takes something else."""
    names = list(inspect.signature(module.forward).parameters)
    if "position_ids" not in names:
        return
    given: dict[str, Any] = {"layer_type": kind} if kind else {}
    if names[0] != "position_ids":
        given[names[0]] = torch.zeros(1, 1, 1)
    for p in at:
        try:
            with torch.no_grad():
                made = module(**given, position_ids=torch.full(shape, p))
        except Exception:  # a stranger's module and a shape that is not its own
            return
        table = made if isinstance(made, tuple) else (made,)
        turns = len(table) == 2 or (
            isinstance(table[0], Tensor) and table[0].is_complex()
        )
        if not turns or not all(isinstance(x, Tensor) for x in table):
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
