"""What a model does with positions, found without a look at its code.

:func:`diagnose` runs a model on the same tokens at several positions and compares the
queries and keys that reach attention. At each position a rotation is a fixed matrix of
two-by-two blocks; its blocks say which columns are paired, in which sense and how far
they turn, whatever made them. Then it moves, pads, caches and packs texts and compares
outputs. ``python -m posedu.tools.diagnose`` prints the report.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from posedu.tools.configs.read import read_rope
from posedu.tools.configs.rotary_config import ConfigError, Reading, RotaryConfig
from posedu.tools.diagnose.behavior import Trial, trials
from posedu.tools.diagnose.capture import Call, Side, watching
from posedu.tools.diagnose.inputs import (
    Inputs,
    Refused,
    accepts,
    some_tokens,
    usual,
)
from posedu.tools.diagnose.measurement import Turning, measure
from posedu.tools.diagnose.report import (
    Diagnosis,
    Finding,
    Layer,
    as_json,
    findings,
    of_buffers,
    of_parts,
    of_unfilled,
)
from posedu.tools.diagnose.rotary_modules import Alone, alone
from posedu.tools.diagnose.small_model import small

__all__ = [
    "Diagnosis",
    "Finding",
    "Layer",
    "Refused",
    "Trial",
    "Turning",
    "as_json",
    "diagnose",
    "small",
]

POSITIONS = (0, 1, 2, 8, 64, 257, 1001, 4093)
"""Each a few times the one before, so that turns can be counted; the last three are no
numbers of bfloat16."""
ROWS = 24
"""Of tokens: as many samples as a fit of two numbers and a search among thousands of
columns want."""
EQUAL = 3
"""How many there are of each: of one alone, any product of two vectors has the shape
of its score."""


def diagnose(
    model: nn.Module,
    *,
    config: object | None = None,
    inputs: Inputs | None = None,
    positions: Sequence[int] = POSITIONS,
    behavior: bool = True,
) -> Diagnosis:
    """Measure the rotations of a model, and how it treats positions as a whole.

    Parameters
    ----------
    model
        Any module whose attention is ``scaled_dot_product_attention`` or a product of
        batches of matrices. It is run on its own device in its own dtype, without
        gradients, and left as it was. In 16 bits slow pairs are not seen, and outputs
        are not compared: give it in float32 (``model.float()``).
    config
        What it should do: anything that :func:`posedu.tools.read_rope` reads.
        Default: the model's own ``config``, if it has one.
    inputs
        What to call it with, from ``tokens`` and ``positions`` ``[rows, tokens]``;
        positions are ``None`` where the model has no argument ``position_ids`` or
        should count by itself. Default: ``input_ids`` and ``position_ids``.
    positions
        To look at, rising, 0 and 1 among them. Those that the model refuses, and those
        beyond its length of training, are left out.
    behavior
        Whether to try moved, padded, cached and packed texts.

    Raises
    ------
    Refused
        No attention is seen, or the model cannot be run, and it has no rotary module
        that can be asked alone; the message says why.
    ValueError
        Positions that do not rise, or lack 0 or 1.
    """
    at = list(positions)
    if at[:2] != [0, 1] or at != sorted(set(at)):
        raise ValueError(f"positions must rise from 0 and 1, got {at}")
    said = getattr(model, "config", None) if config is None else config
    reading, unread = _reading(said)
    at = [p for p in at if p < _longest(reading)]
    tried: list[Trial] = []
    parts: list[Finding] = []
    try:
        given = inputs or usual(model)
        if inputs is not None or accepts(model, "position_ids"):
            calls = _one_by_one(model, given, at)
        else:
            calls = _in_a_row(model, given, [p for p in at if p < 300])
        layers = [_layer(number, of, reading) for number, of in enumerate(calls)]
        if behavior:
            eps = max(layer.query.eps for layer in layers)
            tried = list(trials(model, given, max(calls[0]) // 2, eps))
    except Refused as why:
        layers = _parts(alone(model, at, ROWS, _axes(reading)), reading)
        if not layers:
            raise
        parts = [of_parts(str(why))]
    return Diagnosis(
        type(model).__name__,
        tuple(layers),
        reading,
        tuple(tried),
        (
            *parts,
            *of_buffers(dict(model.named_buffers())),
            *of_unfilled(dict(model.named_buffers()), {*model.state_dict()}, reading),
            *findings(layers, tried, reading),
        ),
        unread,
    )


def _reading(config: object | None) -> tuple[Reading | None, str]:
    """What a configuration says, or why it cannot be read; neither if there is none."""
    if config is None:
        return None, ""
    try:
        return read_rope(config), ""
    except (ConfigError, TypeError) as error:
        return None, " ".join(str(error).split()) or type(error).__name__


def _axes(reading: Reading | None) -> int:
    """How many coordinates a position may have."""
    ropes = reading.kinds.values() if reading else ()
    return max(
        (len(r.sections) for r in ropes if r is not None and r.sections), default=2
    )


def _longest(reading: Reading | None) -> float:
    """The positions within training, where frequencies follow no length."""
    ropes = reading.kinds.values() if reading else ()
    said = [r.trained or r.longest for r in ropes if r is not None]
    return min((length for length in said if length), default=float("inf"))


Calls = list[Mapping[int, Call]]


def _one_by_one(model: nn.Module, inputs: Inputs, at: Sequence[int]) -> Calls:
    """A few of one token, all at each of the positions: attention sees only itself."""
    tokens = some_tokens(model, ROWS, 1).expand(ROWS, EQUAL)
    seen: dict[int, list[Call]] = {}
    for p in at:
        try:
            at_p = torch.full_like(tokens, p)
            seen[p] = [_at(c, 0) for c in _watched(model, inputs, tokens, at_p)]
        except Refused:
            raise
        except Exception as error:
            if p <= 1:
                raise Refused(f"the model does not run: {error}") from error
            break
    return _by_layer(seen)


def _in_a_row(model: nn.Module, inputs: Inputs, at: Sequence[int]) -> Calls:
    """The same token again and again: attention sees the same everywhere."""
    length = at[-1] + 1
    tokens = some_tokens(model, ROWS, 1).expand(ROWS, length)
    try:
        calls = _watched(model, inputs, tokens, None)
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"the model does not run: {error}") from error
    return [{p: _at(call, p) for p in at} for call in calls]


def _watched(
    model: nn.Module, inputs: Inputs, tokens: torch.Tensor, at: torch.Tensor | None
) -> list[Call]:
    rows, length = tokens.shape
    with watching(model, (rows, length)) as calls:
        model(**inputs(tokens, at))
    if not calls:
        raise Refused(
            "no attention was seen: neither scaled_dot_product_attention nor a product "
            "of queries and keys. A fused kernel hides them: take the eager or the "
            "sdpa one for this"
        )
    return calls


def _by_layer(seen: Mapping[int, Sequence[Call]]) -> Calls:
    counts = {len(calls) for calls in seen.values()}
    if len(counts) > 1:
        raise Refused("the model calls attention more often at some positions")
    return [{p: calls[n] for p, calls in seen.items()} for n in range(counts.pop())]


def _at(call: Call, p: int) -> Call:
    def cut(side: Side) -> Side:
        sources = tuple(source[:, p : p + 1] for source in side.sources)
        return Side(side.features[:, p : p + 1], sources, side.eps)

    return Call(call.module, cut(call.query), cut(call.key))


def _layer(number: int, call: Mapping[int, Call], reading: Reading | None) -> Layer:
    name = call[0].module
    return Layer(
        name,
        measure({p: c.query for p, c in call.items()}),
        measure({p: c.key for p, c in call.items()}),
        _expected(name, number, reading),
    )


def _parts(parts: Sequence[Alone], reading: Reading | None) -> list[Layer]:
    """Where functions differ nothing is expected, nor where no layer may turn.

    Whether a layer takes the module at all is not seen.
    """
    kinds = {k: rope for k, rope in reading.kinds.items() if rope} if reading else {}
    of = Counter((part.module, part.kind) for part in parts)
    layers = []
    for part in parts:
        expected = (kinds[part.kind],) if part.kind in kinds else tuple(kinds.values())
        single = of[part.module, part.kind] == 1
        sides = map(measure, part.sides())
        layers.append(Layer(part.name, *sides, expected if single else ()))
    return layers


def _expected(
    name: str, number: int, reading: Reading | None
) -> tuple[RotaryConfig | None, ...]:
    """What a configuration has for this layer, or may have."""
    if reading is None:
        return ()
    numbers = re.findall(r"\.(\d+)\.", f".{name}.")
    index = int(numbers[-1]) if numbers else number
    kinds = dict(reading.kinds)
    parts = {kind.partition(":")[0] for kind in kinds if "_config" in kind}
    known = index < len(reading.layers) and reading.layers[index] in kinds
    if known and len(parts) < 2:  # of several, whose layers are listed is not known
        return (kinds[reading.layers[index]],)
    return tuple(kinds.values())
