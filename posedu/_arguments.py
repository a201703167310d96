"""Checks of function arguments (numbers and choices), shared by all implementations.

A choice is a string argument whose type is a ``Literal``: the signature names the type
for type checkers, and :func:`require_choice` reads the allowed values from it at run
time.
"""

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, get_args

# Rotary and sinusoidal encodings: where the two features of a pair are stored.
Layout = Literal["interleaved", "half"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)

# Sinusoidal: the frequencies of the paper or those of tensor2tensor.
Spacing = Literal["paper", "tensor2tensor"]

# Fourier features: unit of an angle, first function of a pair, length of the vector.
AngleUnit = Literal["turns", "radians"]
FirstFunction = Literal["cos", "sin"]
FourierAmplitude = Literal["one", "pairs", "features"]

# NeRF and the integrated encoding: unit of an angle, order of the features.
NeRFUnit = Literal["half turns", "radians"]
NeRFLayout = Literal["axes", "octaves", "half"]

# Hash grid: cells of a level (the paper), or its vertices (the code); a factor for each
# axis, of which the second is near 2³² divided by the golden ratio.
GridResolution = Literal["cells", "vertices"]
HASH_FACTORS = (1, 2_654_435_761, 805_459_861)

# Learned absolute embeddings: what a position beyond the table gets.
BeyondTable = Literal["raise", "zero", "clip"]

# Randomized positions: what shares one draw.
SampledPer = Literal["sequence", "batch"]

# FLOATER: the Runge–Kutta method of order 4.
Tableau = Literal["3/8", "classical"]

# Axial RoPE: order of the axes' pairs, and where a patch is.
AxisOrder = Literal["concatenated", "alternating"]
GridCoordinates = Literal["index", "centers", "ends"]

# Golden gate RoPE: angles in the plane, or quantiles for any number of axes.
GoldenRecipe = Literal["angles", "quantiles"]

# M-RoPE: which pairs belong to which axis, and where text after a picture starts.
SectionOrder = Literal["sectioned", "interleaved", "alternating"]
TextStart = Literal["largest", "grid"]

# STRING: how the generators are built.
STRINGForm = Literal["cayley", "circulant"]

# ComRoPE: multipliers to draw, and the noise of positions in training.
ComRoPEMultipliers = Literal["per head", "shared"]
ComRoPENoise = Literal["paper", "code"]

# FoPE: pairs below the cut, distribution and sharing of the coefficients.
FoPEPadding = Literal["identity", "ones"]
FoPECoefficients = Literal["paper", "code"]
FoPESeries = Literal["tokens", "offset"]

# TAPE: how attention updates the positions.
TAPEMixing = Literal["heads", "row sums"]

# Rotated values: at which end of a head the rotated features are.
RotatedEnd = Literal["leading", "trailing"]

# YaRN: what the ramp between two kinds of pairs is linear in.
YaRNRamp = Literal["turns", "index"]

# Self-Extend and its kin: offsets of far keys, and where groups join the window.
FarOffsets = Literal["grouped", "constant", "chunks"]
GroupJoin = Literal["floor", "exact"]

# Log-n temperature: what the temperature grows like.
TemperatureGrowth = Literal["steps", "floor", "power", "learned"]

# T5: the factor of products of queries and keys, 1 or 1/√d.
T5Scale = Literal["one", "root"]

# ALiBi: slopes of a number of heads that is no power of two, and biases of later keys.
ALiBiSlopes = Literal["authors", "geometric"]
ALiBiSides = Literal["causal", "symmetric", "one-sided"]

# KERPLE: whether the bias is divided by √d like the logits.
KERPLEScaling = Literal["code", "paper"]

# Sandwich: the bias of a query and its own key.
SandwichDiagonal = Literal["kept", "zero"]

# FIRE: activation of the MLP, and biases of keys after their query.
FIREActivation = Literal["relu", "leaky"]
FIRELaterKeys = Literal["distance", "zero"]

# DAPE: the bias below the MLP, and what a kernel reads beyond the last key.
DAPEBias = Literal["alibi", "t5", "fire"]
DAPEEdges = Literal["masked", "code", "published"]

# Music Transformer: logits of offsets beyond the table.
BeyondOffsets = Literal["zero", "clip"]

# Inkling: what products of queries and keys are divided by, √d or d.
InklingDivisor = Literal["root", "width"]

# TUPE: how the bias of the first token is untied from its position.
TUPEFirstToken = Literal["numbers", "rows", "tied"]

# DeBERTa: rows of the offsets, and the sign of the offset in position-to-content.
DeBERTaRows = Literal["paper", "microsoft", "transformers"]
DeBERTaIndex = Literal["paper", "code"]

# FoX: source of the gates, formula of their sums, gate of the output of FoX (Pro).
FoXGate = Literal["learned", "independent", "fixed"]
FoXForm = Literal["difference", "key"]
OutputGate = Literal["sigmoid", "silu"]

# CoPE: what is divided by √d, and what the gates are computed from.
CoPEScaling = Literal["code", "bias unscaled", "paper"]
CoPEGates = Literal["content", "values", "keys"]

# PaTH-FoX: what is divided by √d, the products alone or the whole logits.
PathScaling = Literal["product", "logit"]

# Selective RoPE: frequencies that multiply the summed phases.
PhaseTemperature = Literal["rope", "rfa", "one"]

# Retention: frequencies of the rotation, and what divides rows of weights.
RetentionSpacing = Literal["rope", "torchscale"]
RetentionNormalization = Literal["paper", "torchscale", "none"]

# Log-linear attention: how the tokens before a query are divided into buckets.
LogLinearBuckets = Literal["weak", "strong"]

# Recurrent layers
OutputNorm = Literal["head", "group", "all"]
MambaRate = Literal["softplus", "rational"]

# GRAPE: phase of a token, gates of the slope, probes divided by their root mean square.
GRAPEPhase = Literal["sigmoid", "softplus"]
GRAPEGates = Literal["query", "key", "both"]

# Laplacian: with or without degrees on both sides.
LaplacianNormalization = Literal["symmetric", "none"]
GRAPENorms = Literal["both", "key"]

# Stick-breaking: who gets the weight that no key took.
Remainder = Literal["drop", "own", "sink", "renormalize"]

FARTHEST = 2**16  # default of how far from 0 FLOATER integrates
LEAK = 0.01  # PyTorch's slope of a leaky ReLU below 0
LARGEST_SIZE = 2**31 - 1
LARGEST_ANGLE = 2**29  # where float64 still has an angle to 2⁻²⁴, as exact as float32
LEAST_TIME = 1e-30  # float32 cannot hold the bias of a gate that forgets faster

Choice = TypeVar("Choice")


def require_dimension(name: str, value: int, multiple: int = 2) -> int:
    """Return ``value`` if it is a positive multiple of ``multiple``, else raise.

    ``name`` is the argument's name, for the error message.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value > LARGEST_SIZE:
        raise ValueError(f"{name} must be at most {LARGEST_SIZE}, got {value}")
    if value <= 0 or value % multiple:
        nearest = max(multiple, round(value / multiple) * multiple)
        raise ValueError(
            f"{name} must be a positive multiple of {multiple}, got {value}; "
            f"the nearest valid value is {nearest}"
        )
    return int(value)


def _is_finite(value: Real) -> bool:
    """Return whether a number is finite as a float, which a large integer is not."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def require_base(base: float) -> float:
    """Return ``base``, the base of a series of frequencies, if finite and above 1.

    Raises otherwise.
    """
    if isinstance(base, bool) or not isinstance(base, Real):
        raise TypeError(f"base must be a number, got {base!r}")
    if not _is_finite(base) or base <= 1:
        raise ValueError(f"base must be finite and greater than 1, got {base}")
    return float(base)


def require_choice(name: str, value: Choice, choices: Any) -> Choice:
    """Return ``value`` if it is one of ``choices``, else raise.

    ``choices`` is a ``Literal`` or a collection of strings. ``name`` is the argument's
    name, for the error message.
    """
    allowed = get_args(choices) or choices
    if not isinstance(value, str) or value not in allowed:
        listed = " or ".join(repr(choice) for choice in allowed)
        raise ValueError(f"{name} must be {listed}, got {value!r}")
    return value


def require_rotary_dim(rotary_dim: int | None, d: int) -> int:
    """Return ``rotary_dim``, the number of rotated features, or ``d`` for ``None``.

    ``d`` is the head dimension. Raises unless the number is even and at most ``d``.
    """
    d = require_dimension("d", d)
    if rotary_dim is None:
        return d
    rotary_dim = require_dimension("rotary_dim", rotary_dim)
    if rotary_dim > d:
        raise ValueError(f"rotary_dim must be at most d = {d}, got {rotary_dim}")
    return rotary_dim


def require_bool(name: str, value: bool) -> bool:
    """Return ``value`` if it is ``True`` or ``False``, else raise.

    ``name`` is the argument's name, for the error message.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return value


def require_fourier_dim(fourier_dim: int | None, d: int) -> int:
    """Return ``fourier_dim`` (default ``d``) if even and at least ``d``, else raise.

    FoPE takes its frequencies from this number of features, ``d`` is the head
    dimension.
    """
    d = require_dimension("d", d)
    if fourier_dim is None:
        return d
    if require_dimension("fourier_dim", fourier_dim) < d:
        raise ValueError(f"fourier_dim must be at least d = {d}, got {fourier_dim}")
    return int(fourier_dim)


def require_finite(name: str, value: float) -> float:
    """Return ``value`` if it is a finite number, else raise.

    ``name`` is the argument's name, for the error message.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not _is_finite(value):
        raise ValueError(f"{name} must be finite, got {value}")
    return float(value)


def require_default_bias_max(bias_max: float) -> None:
    """Raise unless ``bias_max`` is 8, its default: slopes as numbers have no other."""
    if bias_max != 8:
        raise ValueError(
            f"bias_max is for slopes by a rule, got {bias_max} beside slopes as numbers"
        )


def require_not_negative(name: str, value: float) -> float:
    """Return ``value`` if it is a finite number and at least 0, else raise.

    ``name`` is the argument's name, for the error message.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not _is_finite(value) or value < 0:
        raise ValueError(f"{name} must be finite and not negative, got {value}")
    return float(value)


def require_positive(name: str, value: float) -> float:
    """Return ``value`` if it is a finite number above 0, else raise.

    ``name`` is the argument's name, for the error message.
    """
    if require_not_negative(name, value) == 0:
        raise ValueError(f"{name} must be above 0, got {value}")
    return float(value)


def require_negative(name: str, value: float) -> float:
    """Return ``value`` if it is a finite number below 0, else raise.

    ``name`` is the argument's name, for the error message.
    """
    if require_finite(name, value) >= 0:
        raise ValueError(f"{name} must be below 0, got {value}")
    return float(value)


def require_hash_grid(
    axes: int, levels: int, table_size: int, coarsest: int, finest: int
) -> None:
    """Raise unless a hash grid has 1 to 3 axes and sizes that fit each other.

    ``table_size`` is a power of two, and one level has one resolution.
    """
    if require_dimension("axes", axes, 1) > len(HASH_FACTORS):
        raise ValueError(f"axes must be 1, 2 or 3, got {axes}")
    require_dimension("levels", levels, 1)
    size = require_dimension("table_size", table_size, 1)
    if size & (size - 1):
        raise ValueError(f"table_size must be a power of two, got {table_size}")
    require_dimension("coarsest", coarsest, 1)
    if require_dimension("finest", finest, 1) < coarsest:
        raise ValueError(f"finest must be at least coarsest = {coarsest}, got {finest}")
    if levels == 1 and finest != coarsest:
        raise ValueError(
            f"one level has one resolution, got coarsest = {coarsest} and finest = "
            f"{finest}"
        )


def require_stretch(name: str, value: float) -> float:
    """Return ``value`` if it is a finite number and at least 1, else raise.

    ``value`` is a factor by which positions are stretched; ``name`` is the argument's
    name, for the error message.
    """
    if require_not_negative(name, value) < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return float(value)


def require_room(tokens: int, name: str, limit: int) -> None:
    """Raise if there are more tokens than positions from 0 to ``limit`` − 1.

    ``tokens`` is the number of tokens; ``name`` names ``limit`` in the error.
    """
    if tokens > limit:
        raise ValueError(f"{name} must be at least {tokens}, the tokens, got {limit}")


def require_count(name: str, value: int) -> int:
    """Return ``value`` if it is an integer and not negative, else raise.

    ``name`` is the argument's name, for the error message.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if not 0 <= value <= LARGEST_SIZE:
        raise ValueError(f"{name} must be from 0 to {LARGEST_SIZE}, got {value}")
    return int(value)


def require_share(name: str, value: float) -> float:
    """Return ``value`` if it is a number from 0 to 1, else raise.

    ``name`` is the argument's name, for the error message.
    """
    if require_not_negative(name, value) > 1:
        raise ValueError(f"{name} must be from 0 to 1, got {value}")
    return float(value)


def require_order(low: str, lower: float, high: str, higher: float) -> None:
    """Raise unless 0 < ``lower`` ≤ ``higher``; ``low`` and ``high`` are their names."""
    require_positive(low, lower)
    require_positive(high, higher)
    if lower > higher:
        raise ValueError(
            f"{low} must be at most {high}, got {low} = {lower} and {high} = {higher}"
        )


def require_recipe(recipe: GoldenRecipe, axes: int) -> GoldenRecipe:
    """Return ``recipe`` if golden directions in ``axes`` axes have it, else raise."""
    require_choice("recipe", recipe, GoldenRecipe)
    if recipe == "angles" and axes != 2:
        raise ValueError(
            f"recipe='angles' is for the plane, axes=2, got axes={axes}; for any other "
            "number of axes use recipe='quantiles'"
        )
    return recipe


def require_pair(name: str, value: int, pairs: int) -> int:
    """Return ``value``, the index of one of ``pairs`` feature pairs, or raise.

    Valid are the integers from 0 to ``pairs`` − 1; ``name`` names the argument in
    errors.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if not 0 <= value < pairs:
        raise ValueError(f"{name} must be from 0 to {pairs - 1}, got {value}")
    return int(value)


def require_index(name: str, value: int) -> int:
    """Return ``value``, the number that an index (of positions or terms) counts from.

    Raises unless it is 0 or 1. ``name`` is the argument's name, for the error message.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value not in (0, 1):
        raise ValueError(f"{name} must be 0 or 1, got {value}")
    return int(value)


def require_times(shortest: float, longest: float) -> None:
    """Raise unless 10⁻³⁰ ≤ ``shortest`` ≤ ``longest``, the time scales of FoX's gates.

    The bias of a gate that forgets faster does not fit in float32.
    """
    require_finite("shortest", shortest)
    require_finite("longest", longest)
    if not LEAST_TIME <= shortest <= longest:
        raise ValueError(
            f"time scales must be {LEAST_TIME:g} ≤ shortest ≤ longest, got {shortest} "
            f"and {longest}"
        )


def require_own_frequencies(
    frequencies: Iterable[float], rotary_dim: int | None
) -> int:
    """Return the number of features that a list of frequencies rotates, two for each.

    Raises unless there are frequencies, all are finite, and ``rotary_dim`` is ``None``
    or that number.
    """
    values = list(frequencies)
    if not values or not all(math.isfinite(w) for w in values):
        raise ValueError(f"frequencies must be finite numbers, got {frequencies}")
    if rotary_dim is not None and (
        require_dimension("rotary_dim", rotary_dim) != 2 * len(values)
    ):
        raise ValueError(
            f"{len(values)} frequencies rotate {2 * len(values)} features, got "
            f"rotary_dim = {rotary_dim}"
        )
    return 2 * len(values)


def require_buckets(
    buckets: int, distance: int, bidirectional: bool
) -> tuple[int, int]:
    """Return how many of T5's buckets on a side hold one distance, and how many more.

    A side is the earlier or the later keys. ``buckets`` is the number of all
    buckets; ``bidirectional`` divides them between both sides, otherwise all are for
    earlier keys. From ``distance`` on, distances share the last bucket. Raises if a
    side has fewer than two buckets.
    """
    sides = 2 if require_bool("bidirectional", bidirectional) else 1
    side = require_dimension("buckets", buckets, sides) // sides
    if side < 2:
        raise ValueError(f"buckets must be at least {2 * sides}, got {buckets}")
    single = side // 2
    if require_dimension("distance", distance, 1) <= single:
        raise ValueError(
            f"distance must be above the {single} that have a bucket of their own, "
            f"got {distance}"
        )
    return single, side - single


def require_span(span: int, rows: DeBERTaRows, distance: int) -> int:
    """Return how many of DeBERTa's rows on a side hold a single offset, or raise.

    A row is a row of the table of relative position embeddings; a side is the earlier
    or the later keys, with ``span`` rows each. ``rows`` is the rule by which offsets
    share rows, and ``distance`` the offset where the rule's logarithmic scale ends.
    """
    require_choice("rows", rows, DeBERTaRows)
    if rows == "paper":
        return require_dimension("span", span, 1)
    single = require_dimension("span", span, 2) // 2
    if single < 2:
        raise ValueError(f"span must be at least 4 for rows={rows!r}, got {span}")
    if require_dimension("distance", distance, 1) <= single + 1:
        raise ValueError(
            f"distance must be above {single + 1}, the offsets from 0 on that have a "
            f"row of their own, got {distance}"
        )
    return single


def require_edges(edges: DAPEEdges | None, kernel: int) -> DAPEEdges | None:
    """Return ``edges`` if DAPE's convolution of width ``kernel`` allows it, else raise.

    ``edges`` is the rule for the convolution's input at masked keys. The width must be
    odd. A width of 1 allows only ``None``, and a larger width requires a rule.
    """
    if kernel % 2 == 0:
        raise ValueError(f"kernel must be odd, got {kernel}")
    if kernel == 1 and edges is not None:
        raise ValueError(f"a kernel of 1 has no edges, got edges={edges!r}")
    return None if kernel == 1 else require_choice("edges", edges, DAPEEdges)


def require_heads(heads: int, kv_heads: int) -> int:
    """Return ``heads`` / ``kv_heads``, the number of query heads per key-value head.

    Raises unless ``heads`` is a multiple of ``kv_heads``.
    """
    require_dimension("heads", heads, 1)
    require_dimension("kv_heads", kv_heads, 1)
    if heads % kv_heads:
        raise ValueError(
            f"heads must be a multiple of kv_heads, got {heads} and {kv_heads}"
        )
    return heads // kv_heads


def require_reach(past: int, future: int) -> int:
    """Return the number of query–key offsets from ``past`` to −``future``, or raise.

    An offset is query position minus key position. The number is ``past`` + ``future``
    + 1. Raises unless both are integers of at least 0.
    """
    for name, reach in (("past", past), ("future", future)):
        if isinstance(reach, bool) or not isinstance(reach, Integral):
            raise TypeError(f"{name} must be an integer, got {reach!r}")
        if not 0 <= reach < LARGEST_SIZE:
            raise ValueError(
                f"{name} must be at least 0 and below {LARGEST_SIZE}, got {reach}"
            )
    return int(past) + 1 + int(future)


def require_limit(limit: float | None, has_scale: bool) -> None:
    """Raise unless Inkling's ``limit`` and ``r_scale`` are both given, or neither.

    ``limit`` is the largest norm of a token's coefficients, and must be above 0.
    ``has_scale`` says whether ``r_scale`` is given.
    """
    if (limit is not None) != has_scale:
        raise ValueError(
            f"limit and r_scale go together, got limit = {limit} and "
            f"{'an' if has_scale else 'no'} r_scale"
        )
    if limit is not None and require_not_negative("limit", limit) == 0:
        raise ValueError("limit must be positive, or None for none, got 0")


def require_temperature(floor: float | None, alpha: float) -> None:
    """Raise unless the parameters of Inkling's temperature are valid.

    The temperature is the factor 1 + ``alpha`` · log(max(1, (i + 1)/``floor``)) of
    query i's logits. ``floor`` must be above 0 or ``None`` (no temperature), and the
    temperature finite in float32 at all positions below 2⁵³.
    """
    slope = require_finite("alpha", alpha)
    if floor is None:
        return
    if require_not_negative("floor", floor) == 0:
        raise ValueError("floor must be positive, or None for no temperature, got 0")
    if floor < SHORTEST:
        raise ValueError(
            f"floor must be at least {SHORTEST:.0e}, or positions divided by it are "
            f"not finite; got {floor}"
        )
    largest = LARGEST_TEMPERATURE / math.log1p(2**53 / float(floor))
    if abs(slope) > largest:
        raise ValueError(
            f"alpha must be at most {largest:.2g} in size for floor={floor}, or "
            "temperatures at positions below 2⁵³ are not finite in float32; got "
            f"{alpha}"
        )


def require_seed(seed: int) -> int:
    """Return ``seed`` if it is an integer from 0 to 2⁶³ − 1, else raise."""
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise TypeError(f"seed must be an integer, got {seed!r}")
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed must be at least 0 and below 2**63, got {seed}")
    return int(seed)


SHORTEST = 1e-250  # positions stay below 2^53, and 2^53 / 1e-250 is finite
LARGEST_TEMPERATURE = 2.0**127  # finite in float32


def require_growth(
    growth: TemperatureGrowth,
    alpha: float | None,
    length: float | None,
    index_from: int,
    is_learned: bool,
) -> tuple[float, float]:
    """Return α and L of a log-n temperature whose formula is ``growth``, or raise.

    Raises unless exactly the parameters of that formula are given: a slope and an
    offset (``is_learned``) for ``"learned"``, ``alpha`` (α) and ``length`` (L) for all
    others. The learned formula has α = 0 and L = 1. ``index_from``, 0 or 1, is the
    number of the first position.
    """
    require_choice("growth", growth, TemperatureGrowth)
    require_index("index_from", index_from)
    if (growth == "learned") != is_learned:
        raise ValueError(
            f"slope and offset belong to growth='learned', got growth={growth!r} "
            f"{'with' if is_learned else 'without'} them"
        )
    if is_learned:
        if alpha is not None or length is not None:
            raise ValueError(
                f"growth='learned' has no alpha and no length, got {alpha} and {length}"
            )
        return 0.0, 1.0
    if alpha is None or length is None:
        raise ValueError(f"growth={growth!r} needs alpha and length")
    span = require_positive("length", length)
    if span < SHORTEST:
        raise ValueError(
            f"length must be at least {SHORTEST:.0e}, or positions divided by it are "
            f"not finite; got {length}"
        )
    slope = require_not_negative("alpha", alpha)
    logarithm = math.log1p(2**53 / span)
    largest = LARGEST_TEMPERATURE / logarithm
    if growth == "power":
        largest = math.log(LARGEST_TEMPERATURE) / logarithm
    if slope > largest:
        raise ValueError(
            f"alpha must be at most {largest:.2g} for growth={growth!r} and "
            f"length={length}, or temperatures at positions below 2⁵³ are not finite "
            f"in float32; got {alpha}"
        )
    return slope, span


def require_far(
    far: FarOffsets,
    window: int,
    group: int | None,
    chunk: int | None,
    join: GroupJoin | None,
) -> None:
    """Raise unless exactly the arguments that ``far`` needs are given.

    ``far`` is the rule by which Self-Extend and related methods count the offsets of
    distant keys, farther than ``window``. ``"grouped"`` needs ``group``, the number of
    neighboring positions that count as one, and ``join``, the rule that joins near and
    far offsets. ``"chunks"`` needs ``chunk``, the length of a chunk, of at least
    ``window`` tokens. ``"constant"`` needs none of the three.
    """
    require_choice("far", far, FarOffsets)
    require_dimension("window", window, 1)
    sizes = {"group": group, "join": join, "chunk": chunk}
    wanted = {"grouped": ("group", "join"), "constant": (), "chunks": ("chunk",)}[far]
    for name, value in sizes.items():
        if (value is None) == (name in wanted):
            needs = "needs" if name in wanted else "has no"
            raise ValueError(f"far={far!r} {needs} {name}, got {name}={value!r}")
    if group is not None:
        require_dimension("group", group, 1)
        require_choice("join", join, GroupJoin)
    if chunk is not None and require_dimension("chunk", chunk, 1) < window:
        raise ValueError(
            f"chunk must be at least the window of {window}, got chunk={chunk}"
        )


def require_block(block: int) -> int:
    """Return ``block``, the size of rotated blocks, if it is even, else raise.

    A rotation of odd size leaves one direction fixed.
    """
    return require_dimension("block", block)


def require_decay(gamma: float, scale_base: float, center: float) -> None:
    """Raise unless the parameters of xPos's exponential decay are valid.

    γ (``gamma``) and B (``scale_base``) must be above 0, and ``center``, the position
    at which the decay's factor is 1, must be finite.
    """
    require_positive("gamma", gamma)
    require_positive("scale_base", scale_base)
    require_finite("center", center)


def require_image_dim(image_dim: int, d: int | None = None) -> int:
    """Return ``image_dim`` if it is a multiple of 4 and at most ``d``, else raise.

    ``image_dim`` is the number of features that GTA rotates by image coordinates, ``d``
    the head dimension; if ``d`` is ``None``, the size is not limited.
    """
    if require_count("image_dim", image_dim) % 4:
        raise ValueError(f"image_dim must be a multiple of 4, got {image_dim}")
    if d is not None and image_dim > require_dimension("d", d, 4):
        raise ValueError(f"image_dim must be at most d = {d}, got {image_dim}")
    return int(image_dim)


def _is_listed(values: object) -> bool:
    """Return whether ``values`` can be iterated: no text, number or array of none."""
    is_iterable = isinstance(values, Iterable) and not isinstance(values, str)
    return is_iterable and getattr(values, "ndim", 1) > 0


def require_sections(sections: Sequence[int], order: SectionOrder) -> tuple[int, ...]:
    """Return ``sections``, the number of feature pairs of each axis, or raise.

    ``order`` is the rule that says which pairs belong to which axis. Raises for numbers
    that the rule does not allow, or if there is no pair.
    """
    require_choice("order", order, SectionOrder)
    if not _is_listed(sections):
        raise TypeError(f"sections must be a count for each axis, got {sections!r}")
    counts = tuple(require_count("a section", count) for count in sections)
    if not sum(counts):
        raise ValueError(f"sections must have at least one pair, got {counts}")
    others = counts[1:]
    if order == "alternating" and len({*others}) > 1:
        raise ValueError(
            f"all sections but the first must be equal for order='alternating', got "
            f"{counts}"
        )
    if order == "interleaved":
        for axis, count in enumerate(others, start=1):
            room = len(range(axis, sum(counts), len(counts)))
            if count > room:
                raise ValueError(
                    f"order='interleaved' leaves axis {axis} at most {room} of "
                    f"{sum(counts)} pairs, got sections {counts}"
                )
    return counts


def require_parts(
    parts: Sequence[int | Sequence[float]],
) -> list[int | tuple[int, int, int, float]]:
    """Return the checked parts of an M-RoPE input, or raise.

    A part of text is given and returned as a number of tokens. A picture or video is
    given as (frames, rows, columns) or (frames, rows, columns, step), with the step of
    time between frames, and returned with a step of 1 if none is given.
    """
    if not _is_listed(parts):
        raise TypeError(f"parts must be counts and grids, got {parts!r}")
    exact: list[int | tuple[int, int, int, float]] = []
    reach = 0.0
    for part in parts:
        if isinstance(part, Integral | Real) or not isinstance(part, Sequence):
            count = require_count("text", part)  # type: ignore[arg-type]  # or refused
            exact.append(count)
            reach += count
            continue
        if len(part) not in (3, 4):
            raise ValueError(
                "a picture or video must be (frames, rows, columns) or (frames, rows, "
                f"columns, step), got {part!r}"
            )
        frames, rows, columns = (
            require_dimension(name, size, 1)  # type: ignore[arg-type]  # or refused
            for name, size in zip(("frames", "rows", "columns"), part, strict=False)
        )
        step = require_not_negative("step", part[3] if len(part) == 4 else 1)
        exact.append((frames, rows, columns, step))
        reach += max(frames * step + 1, rows, columns)
    if reach > LARGEST_SIZE:
        raise ValueError(f"coordinates must be at most {LARGEST_SIZE}, got {reach:g}")
    return exact


def require_output_gate(output_gate: OutputGate | None, is_weighted: bool) -> None:
    """Raise unless FoX Pro's ``output_gate`` is known or, without weights, ``None``.

    ``is_weighted`` says whether the output gate has weights.
    """
    if output_gate is not None:
        require_choice("output_gate", output_gate, OutputGate)
    elif is_weighted:
        raise ValueError(
            "output_gate must be 'sigmoid' or 'silu' where out_gate_weight is given, "
            "got None"
        )
