"""Measurement of a model's position handling, without reading its code.

:func:`diagnose` runs a model on the same tokens at several positions and compares the
queries and keys that reach attention. At each position a rotation is a fixed matrix of
two-by-two blocks. The blocks show which columns are paired, and the direction and angle
of their rotation, whatever code made them. Then it shifts, pads, caches and packs texts
and compares outputs, and measures the scale and the bias of scores.
``posedu diagnose`` prints the report.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from posedu._argument_types import check_types
from posedu.tools._foreign_code import called
from posedu.tools.configs.read import read_rope
from posedu.tools.configs.rotary_config import (
    ConfigError,
    NoRopeError,
    Reading,
    RotaryConfig,
)
from posedu.tools.diagnose.behavior import Trial, trials
from posedu.tools.diagnose.capture import Call, Side, watching
from posedu.tools.diagnose.inputs import (
    Inputs,
    Refused,
    accepts,
    default_inputs,
    draw_tokens,
)
from posedu.tools.diagnose.measurement import MeasuredRotation, measure
from posedu.tools.diagnose.ranks import RankDiagnosis, RankResult, diagnose_ranks
from posedu.tools.diagnose.report import (
    FAULT,
    Diagnosis,
    Finding,
    Layer,
    as_json,
    coarse_buffers,
    findings,
    ignored,
    measured_alone,
    unfilled_buffers,
    unrotated,
    without_attention,
)
from posedu.tools.diagnose.rotary_modules import RotaryModule, rotary_modules
from posedu.tools.diagnose.scores import (
    ExpectedBias,
    expected_bias,
    measure_scores,
    of_scores,
)
from posedu.tools.diagnose.small_model import small

__all__ = [
    "Diagnosis",
    "Finding",
    "Layer",
    "MeasuredRotation",
    "RankDiagnosis",
    "RankResult",
    "Refused",
    "Trial",
    "as_json",
    "diagnose",
    "diagnose_ranks",
    "small",
]

POSITIONS = (0, 1, 2, 8, 64, 257, 1001, 4093)
"""Positions at which rotations are measured. Each is a few times the one before, so
that full turns can be counted, and bfloat16 does not represent the last three."""
ROWS = 24
"""Number of tokens that are drawn: enough samples for a fit of two numbers and for a
search among thousands of columns."""
REPEATS = 3
"""Number of copies of each token in its row. With a single token, any product of two
vectors would have the shape of a score."""


@check_types
def diagnose(
    model: nn.Module,
    *,
    config: object | None = None,
    inputs: Inputs | None = None,
    positions: Sequence[int] = POSITIONS,
    behavior: bool = True,
) -> Diagnosis:
    """Measure the rotations of a model, and test its handling of positions.

    Parameters
    ----------
    model
        Any module whose attention is ``scaled_dot_product_attention`` or a product of
        batches of matrices. It is run on its own device in its own dtype, without
        gradients, and left as it was. In 16 bits low frequencies are not seen, and
        outputs are not compared: give it in float32 (``model.float()``).
    config
        The expected rotary embeddings: anything that :func:`posedu.tools.read_rope`
        reads. Default: the model's own ``config``, if it has one.
    inputs
        Function from ``tokens`` and ``positions`` ``[rows, tokens]`` to the keywords of
        the model's ``forward``. Positions are ``None`` if the model has no argument
        ``position_ids`` or should count positions itself. Default: ``input_ids`` and
        ``position_ids``.
    positions
        Positions to measure at, increasing, with 0 and 1 among them. Those that the
        model refuses, and those beyond its training length, are left out.
    behavior
        Whether to test shifted, padded, cached, packed and longer texts.

    Raises
    ------
    Refused
        No attention is seen, or the model cannot be run, and it has no rotary module
        that can be measured alone; the message gives the reason.
    ValueError
        The positions do not increase, or lack 0 or 1.
    """
    at = list(positions)
    if at[:2] != [0, 1] or at != sorted(set(at)):
        raise ValueError(f"`positions` must begin with 0 and 1 and increase, got {at}")
    config = getattr(model, "config", None) if config is None else config
    reading, error = _reading(config)
    at = [p for p in at if p < _longest(reading)]
    tried: list[Trial] = []
    of_model: list[Finding] = []
    of_logits: list[Finding] = []
    left_out: list[str] = []
    is_pooled = is_alone = False
    try:
        given = inputs or default_inputs(model)
        near = [p for p in at if p < 300]
        if inputs is not None or accepts(model, "position_ids"):
            calls = _single_token_calls(model, given, at)
        else:
            calls = _repeated_token_calls(model, given, near)
        layers = _layers(calls, reading)
        if all(map(_is_constant, layers)) and accepts(model, "position_ids"):
            counted = _counted_layers(model, given, near, reading)
            if _is_rotated(counted):
                layers, of_model = counted, [ignored()]
        if behavior:
            eps = max(layer.query.eps for layer in layers)
            far = max(calls[0]) // 2
            tried = list(trials(model, given, far, eps, trained=_trained(reading)))
            expected = expected_bias(config, reading)
            of_logits, left_out, is_pooled = _of_scores(model, given, layers, expected)
    except Refused as reason:
        modules = rotary_modules(model, at, ROWS, _axes(reading))
        layers = _layers_of(modules, reading)
        if not layers:
            raise
        is_alone, of_model = True, [measured_alone(str(reason))]
        left_out = ["all trials (only the rotary module was measured)"]
    has_none = isinstance(error, NoRopeError) or (reading and not reading.is_rotated)
    is_unrotated = bool(has_none) and not _is_rotated(layers)
    config_error = "" if error is None or is_unrotated else _one_line(error)
    if is_unrotated:
        of_model = [*of_model, unrotated()]
    buffers = dict(model.named_buffers())
    found = [
        *of_model,
        *coarse_buffers(buffers),
        *unfilled_buffers(buffers, {*model.state_dict()}, reading),
        *findings(layers, tried, reading, is_pooled=is_pooled),
        *of_logits,
    ]
    if is_alone:
        found = [without_attention(finding) for finding in found]
    return Diagnosis(
        type(model).__name__,
        tuple(layers),
        reading,
        tuple(tried),
        tuple(sorted(found, key=lambda finding: finding.level != FAULT)),
        config_error,
        is_unrotated,
        tuple(left_out),
    )


def _of_scores(
    model: nn.Module,
    inputs: Inputs,
    layers: Sequence[Layer],
    expected: ExpectedBias | None,
) -> tuple[list[Finding], list[str], bool]:
    """Return findings on the scores of attention, and what could not be compared.

    The flag is true if some queries see other than one key for each token. ``inputs``
    maps tokens and positions to keywords of the model; ``layers`` are the measured
    calls of attention, and ``expected`` is the bias that the configuration requires.
    """
    try:
        scores, is_pooled = measure_scores(model, inputs)
    except Refused as reason:
        found, left_out = of_scores((), layers, None)
        if expected:
            left_out.append(f"bias by distance ({reason})")
        return found, left_out, False
    return *of_scores(scores, layers, expected), is_pooled


def _reading(config: object | None) -> tuple[Reading | None, Exception | None]:
    """Read a model's configuration; return ``None`` and the error if that fails.

    ``config`` is anything that :func:`posedu.tools.read_rope` reads. If it is ``None``,
    there is neither a reading nor an error.
    """
    if config is None:
        return None, None
    try:
        return read_rope(config), None
    except (ConfigError, TypeError) as error:
        return None, error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _axes(reading: Reading | None) -> int:
    """Return the largest number of coordinates of a position in a configuration.

    ``reading`` is the content of the configuration. The number is 2 if it is ``None``,
    or if no kind of layer has several coordinates.
    """
    ropes = reading.kinds.values() if reading else ()
    return max(
        (len(r.sections) for r in ropes if r is not None and r.sections), default=2
    )


def _longest(reading: Reading | None) -> float:
    """Return the least training length of a configuration's layers, or infinity.

    ``reading`` is the content of the configuration. The result is infinity if it is
    ``None`` or gives no length. Up to the least training length, frequencies do not
    depend on the length of the text.
    """
    ropes = reading.kinds.values() if reading else ()
    lengths = [r.trained or r.longest for r in ropes if r is not None]
    return min((length for length in lengths if length), default=float("inf"))


def _trained(reading: Reading | None) -> int | None:
    """Return the greatest training length of layers that depend on a text's length.

    ``reading`` is the content of the configuration. The result is ``None`` if it is
    ``None``, or no frequencies depend on the length of the text.
    """
    ropes = reading.kinds.values() if reading else ()
    lengths = [r.trained for r in ropes if r is not None and r.follows_length]
    return max((length for length in lengths if length), default=None)


def _is_rotated(layers: Sequence[Layer]) -> bool:
    return any(layer.query.width or layer.key.width for layer in layers)


def _is_constant(layer: Layer) -> bool:
    """True if no query or key of a layer depends on the position."""
    return not any(
        side.width or side.unexplained or side.is_absolute
        for side in (layer.query, layer.key)
    )


Calls = list[Mapping[int, Call]]


def _single_token_calls(model: nn.Module, inputs: Inputs, at: Sequence[int]) -> Calls:
    """Capture each layer's attention on copies of a token that share one position.

    ``inputs`` maps tokens and positions to keywords of the model. The positions ``at``
    are run one by one. A token attends only to copies of itself. The result has the
    queries and keys of each layer by position.
    """
    tokens = draw_tokens(model, ROWS, 1).expand(ROWS, REPEATS)
    by_position: dict[int, list[Call]] = {}
    for p in at:
        try:
            at_p = torch.full_like(tokens, p)
            calls = _attention_calls(model, inputs, tokens, at_p)
            by_position[p] = [_at(call, 0) for call in calls]
        except Refused:
            raise
        except Exception as error:
            if p <= 1:
                raise Refused(f"the model does not run: {error}") from error
            break
    return _by_layer(by_position)


def _repeated_token_calls(model: nn.Module, inputs: Inputs, at: Sequence[int]) -> Calls:
    """Capture each layer's attention on rows that repeat one token, by position.

    ``inputs`` maps tokens and positions to keywords of the model. Every token has the
    same context. The result has the queries and keys of each layer at the positions
    ``at``, without the last ones if the model refuses a text of that length.
    """
    token = draw_tokens(model, ROWS, 1)
    for count in range(len(at), 1, -1):
        tokens = token.expand(ROWS, at[count - 1] + 1)
        try:
            calls = _attention_calls(model, inputs, tokens, None)
        except Refused:
            raise
        except Exception as error:
            if count == 2:
                raise Refused(f"the model does not run: {error}") from error
            continue
        return [{p: _at(call, p) for p in at[:count]} for call in calls]
    raise Refused("no two positions are within the training length")


def _counted_layers(
    model: nn.Module, inputs: Inputs, at: Sequence[int], reading: Reading | None
) -> list[Layer]:
    """Measure layers at positions that the model counts itself.

    The positions ``at`` are measured. ``inputs`` maps tokens and positions to keywords
    of the model; ``reading`` is the content of its configuration. There are no layers
    if the model does not run without positions.
    """
    try:
        calls = _repeated_token_calls(model, inputs, at)
    except Refused:
        return []
    return _layers(calls, reading)


def _attention_calls(
    model: nn.Module, inputs: Inputs, tokens: torch.Tensor, at: torch.Tensor | None
) -> list[Call]:
    rows, length = tokens.shape
    with watching(model, (rows, length)) as calls:
        called(model, **inputs(tokens, at))
    if not calls:
        raise Refused(
            "no attention was seen: neither scaled_dot_product_attention nor a product "
            "of queries and keys. A fused kernel hides them; use eager or sdpa "
            "attention for the diagnosis"
        )
    return calls


def _by_layer(by_position: Mapping[int, Sequence[Call]]) -> Calls:
    counts = {len(calls) for calls in by_position.values()}
    if len(counts) > 1:
        raise Refused("the model calls attention more often at some positions")
    return [
        {p: calls[n] for p, calls in by_position.items()} for n in range(counts.pop())
    ]


def _at(call: Call, p: int) -> Call:
    def cut(side: Side) -> Side:
        sources = tuple(source[:, p : p + 1] for source in side.sources)
        return Side(side.features[:, p : p + 1], sources, side.eps)

    return Call(call.module, cut(call.query), cut(call.key))


def _layers(calls: Calls, reading: Reading | None) -> list[Layer]:
    return [_layer(number, of, reading) for number, of in enumerate(calls)]


def _layer(number: int, call: Mapping[int, Call], reading: Reading | None) -> Layer:
    name = call[0].module
    return Layer(
        name,
        measure({p: c.query for p, c in call.items()}),
        measure({p: c.key for p, c in call.items()}),
        _expected(name, number, reading),
    )


def _layers_of(modules: Sequence[RotaryModule], reading: Reading | None) -> list[Layer]:
    """Measure rotary modules that were run alone, and report them as layers.

    ``reading`` is the content of the model's configuration, if any. It is not known
    which layers use a module. So a module is compared with the configuration's rotary
    embedding of the module's kind of layer, or with those of all kinds; a module that
    several functions apply differently is compared with none.
    """
    kinds = {k: rope for k, rope in reading.kinds.items() if rope} if reading else {}
    counts = Counter((each.module, each.kind) for each in modules)
    layers = []
    for each in modules:
        expected = (kinds[each.kind],) if each.kind in kinds else tuple(kinds.values())
        is_single = counts[each.module, each.kind] == 1
        sides = map(measure, each.sides())
        layers.append(Layer(each.name, *sides, expected if is_single else ()))
    return layers


def _expected(
    name: str, number: int, reading: Reading | None
) -> tuple[RotaryConfig | None, ...]:
    """Return the rotary embeddings that a configuration has or allows for a layer.

    ``reading`` is the content of the configuration, ``name`` is the name of the layer's
    module, and ``number`` counts calls of attention, for names without a layer's
    number. The tuple is empty if ``reading`` is ``None``.
    """
    if reading is None:
        return ()
    numbers = re.findall(r"\.(\d+)\.", f".{name}.")
    index = int(numbers[-1]) if numbers else number
    kinds = dict(reading.kinds)
    parts = {kind.partition(":")[0] for kind in kinds if "_config" in kind}
    is_listed = index < len(reading.layers) and reading.layers[index] in kinds
    # With several parts it is not known whose layers are listed.
    if is_listed and len(parts) < 2:
        return (kinds[reading.layers[index]],)
    return tuple(kinds.values())
