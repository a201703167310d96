"""What every implementation asks of its scalar arguments, with one wording for the errors."""

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real

LAYOUTS = ("interleaved", "half")
SPACINGS = ("paper", "tensor2tensor")
COORDINATES = ("index", "centers", "ends")
ORDERS = ("concatenated", "alternating")
SECTION_ORDERS = ("sectioned", "interleaved", "alternating")
AFTERS = ("largest", "grid")
STRING_FORMS = ("cayley", "circulant")
PADDINGS = ("identity", "ones")
MULTIPLIERS = ("per head", "shared")
PERTURBATIONS = ("paper", "code")
COEFFICIENTS = ("paper", "code")
SERIES = ("tokens", "offset")
REMAINDERS = ("drop", "own", "sink", "renormalize")
GATES = ("learned", "independent", "fixed")
OUTPUT_GATES = ("sigmoid", "silu")
FORMS = ("difference", "key")
CONTEXT_GATES = ("content", "values", "keys")
SLOPES = ("authors", "geometric")
SIDES = ("causal", "symmetric", "one-sided")
SCALINGS = ("code", "bias unscaled", "paper")
KERPLE_SCALINGS = ("code", "paper")
DIAGONALS = ("kept", "zero")
BEYONDS = ("zero", "clip")
TABLE_ENDS = ("raise", "zero", "clip")
DIVISORS = ("root", "width")
FIRST_TOKENS = ("numbers", "rows", "tied")
ROWS = ("paper", "microsoft", "transformers")
INDICES = ("paper", "code")
ACTIVATIONS = ("relu", "leaky")
LATER = ("distance", "zero")
OVER = ("alibi", "t5", "fire")
EDGES = ("masked", "code")
TABLEAUX = ("3/8", "classical")
FARTHEST = 2**16  # how far from 0 a flow is followed, if nothing else is said
RAMPS = ("turns", "index")
GROWTHS = ("steps", "floor", "power", "learned")
TURNS = ("turns", "radians")
MEMBERS = ("cos", "sin")
TURNED = ("leading", "trailing")
AMPLITUDES = ("one", "pairs", "features")
MIXINGS = ("heads", "row sums")
SAMPLED_PER = ("sequence", "batch")
FARS = ("grouped", "constant", "chunks")
JOINS = ("floor", "exact")
LEAK = 0.01  # PyTorch's slope of a leaky ReLU below 0
LARGEST_SIZE = 2**31 - 1
LEAST_TIME = 1e-30  # the bias of a gate that forgets faster is no float32


def require_dimension(name: str, value: int, multiple: int = 2) -> int:
    """Return ``value`` if it is a positive multiple of ``multiple``, else raise."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value <= 0 or value % multiple:
        nearest = max(multiple, round(value / multiple) * multiple)
        raise ValueError(
            f"{name} must be a positive multiple of {multiple}, got {value}; "
            f"the nearest valid value is {nearest}"
        )
    if value > LARGEST_SIZE:
        raise ValueError(f"{name} must be at most {LARGEST_SIZE}, got {value}")
    return int(value)


def require_base(base: float) -> float:
    """Return ``base`` if it is a finite number above 1, else raise."""
    if isinstance(base, bool) or not isinstance(base, Real):
        raise TypeError(f"base must be a number, got {base!r}")
    if not math.isfinite(base) or base <= 1:
        raise ValueError(f"base must be finite and greater than 1, got {base}")
    return float(base)


def require_choice(name: str, value: str | None, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``choices``, else raise."""
    if not isinstance(value, str) or value not in choices:
        allowed = " or ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return value


def require_rotary_dim(rotary_dim: int | None, d: int) -> int:
    """Return how many of the ``d`` features rotate: all of them for ``None``."""
    d = require_dimension("d", d)
    if rotary_dim is None:
        return d
    rotary_dim = require_dimension("rotary_dim", rotary_dim)
    if rotary_dim > d:
        raise ValueError(f"rotary_dim must be at most d = {d}, got {rotary_dim}")
    return rotary_dim


def require_bool(name: str, value: bool) -> bool:
    """Return ``value`` if it is true or false, else raise."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return value


def require_fourier_dim(fourier_dim: int | None, d: int) -> int:
    """Return ``fourier_dim``, ``d`` for ``None``, if it is even and at least ``d``."""
    d = require_dimension("d", d)
    if fourier_dim is None:
        return d
    if require_dimension("fourier_dim", fourier_dim) < d:
        raise ValueError(f"fourier_dim must be at least d = {d}, got {fourier_dim}")
    return int(fourier_dim)


def require_finite(name: str, value: float) -> float:
    """Return ``value`` if it is a finite number, else raise."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}")
    return float(value)


def require_not_negative(name: str, value: float) -> float:
    """Return ``value`` if it is a finite number and at least 0, else raise."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be finite and not negative, got {value}")
    return float(value)


def require_positive(name: str, value: float) -> float:
    """Return ``value`` if it is a finite number above 0, else raise."""
    if require_not_negative(name, value) == 0:
        raise ValueError(f"{name} must be above 0, got {value}")
    return float(value)


def require_stretch(name: str, value: float) -> float:
    """Return ``value`` if it is a finite number and at least 1, else raise."""
    if require_not_negative(name, value) < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return float(value)


def require_room(tokens: int, name: str, limit: int) -> None:
    """Raise unless ``tokens`` different positions fit below ``limit``."""
    if tokens > limit:
        raise ValueError(f"{name} must be at least {tokens}, the tokens, got {limit}")


def require_count(name: str, value: int) -> int:
    """Return ``value`` if it is an integer and not negative, else raise."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if not 0 <= value <= LARGEST_SIZE:
        raise ValueError(f"{name} must be from 0 to {LARGEST_SIZE}, got {value}")
    return int(value)


def require_share(name: str, value: float) -> float:
    """Return ``value`` if it is a number from 0 to 1, else raise."""
    if require_not_negative(name, value) > 1:
        raise ValueError(f"{name} must be from 0 to 1, got {value}")
    return float(value)


def require_order(low: str, lower: float, high: str, higher: float) -> None:
    """Raise unless two numbers are above 0 and the first is at most the second."""
    require_positive(low, lower)
    require_positive(high, higher)
    if lower > higher:
        raise ValueError(
            f"{low} must be at most {high}, got {low} = {lower} and {high} = {higher}"
        )


def require_pair(name: str, value: int, pairs: int) -> int:
    """Return ``value`` if it is the index of one of so many pairs, else raise."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if not 0 <= value < pairs:
        raise ValueError(f"{name} must be from 0 to {pairs - 1}, got {value}")
    return int(value)


def require_index(name: str, value: int) -> int:
    """Return ``value``, from where an index counts, if it is 0 or 1, else raise."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value not in (0, 1):
        raise ValueError(f"{name} must be 0 or 1, got {value}")
    return int(value)


def require_times(shortest: float, longest: float) -> None:
    """Raise unless two time scales are in order, and gates with them are numbers."""
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
    """Return how many features turn by a list of frequencies, or raise."""
    values = list(frequencies)
    if not values or not all(math.isfinite(w) for w in values):
        raise ValueError(f"frequencies must be finite numbers, got {frequencies}")
    if rotary_dim is not None and (
        require_dimension("rotary_dim", rotary_dim) != 2 * len(values)
    ):
        raise ValueError(
            f"{len(values)} frequencies turn {2 * len(values)} features, got "
            f"rotary_dim = {rotary_dim}"
        )
    return 2 * len(values)


def require_buckets(buckets: int, distance: int, bidirectional: bool) -> int:
    """Return how many of T5's buckets hold one distance each on a side, or raise."""
    require_bool("bidirectional", bidirectional)
    require_dimension("buckets", buckets, 4 if bidirectional else 2)
    single = buckets // 4 if bidirectional else buckets // 2
    if require_dimension("distance", distance, 1) <= single:
        raise ValueError(
            f"distance must be above the {single} that have a bucket of their own, "
            f"got {distance}"
        )
    return single


def require_span(span: int, rows: str, distance: int) -> int:
    """Return the half of DeBERTa's rows that hold one offset each, or raise."""
    require_choice("rows", rows, ROWS)
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


def require_edges(edges: str | None, kernel: int) -> str | None:
    """Return ``edges`` if a kernel of this width needs it, or has none, else raise."""
    if kernel % 2 == 0:
        raise ValueError(f"kernel must be odd, got {kernel}")
    if kernel == 1 and edges is not None:
        raise ValueError(f"a kernel of 1 has no edges, got edges={edges!r}")
    return None if kernel == 1 else require_choice("edges", edges, EDGES)


def require_heads(heads: int, kv_heads: int) -> int:
    """Return how many query heads share one key-value head, or raise."""
    require_dimension("heads", heads, 1)
    require_dimension("kv_heads", kv_heads, 1)
    if heads % kv_heads:
        raise ValueError(
            f"heads must be a multiple of kv_heads, got {heads} and {kv_heads}"
        )
    return heads // kv_heads


def require_reach(past: int, future: int) -> int:
    """Return how many offsets past, …, 0, …, −future are, or raise."""
    for name, reach in (("past", past), ("future", future)):
        if isinstance(reach, bool) or not isinstance(reach, Integral):
            raise TypeError(f"{name} must be an integer, got {reach!r}")
        if not 0 <= reach < LARGEST_SIZE:
            raise ValueError(
                f"{name} must be at least 0 and below {LARGEST_SIZE}, got {reach}"
            )
    return int(past) + 1 + int(future)


def require_limit(limit: float | None, has_scale: bool) -> None:
    """Raise unless a largest norm is positive and comes with a scale, or neither."""
    if (limit is not None) != has_scale:
        raise ValueError(
            f"limit and r_scale go together, got limit = {limit} and "
            f"{'an' if has_scale else 'no'} r_scale"
        )
    if limit is not None and require_not_negative("limit", limit) == 0:
        raise ValueError("limit must be positive, or None for none, got 0")


def require_temperature(floor: float | None, alpha: float) -> None:
    """Raise unless a floor of log-scaling is positive, or none, and alpha finite."""
    require_finite("alpha", alpha)
    if floor is not None and require_not_negative("floor", floor) == 0:
        raise ValueError("floor must be positive, or None for no temperature, got 0")


def require_seed(seed: int) -> int:
    """Return ``seed`` if it is an integer from 0 to 2⁶³ − 1, else raise."""
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise TypeError(f"seed must be an integer, got {seed!r}")
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed must be at least 0 and below 2**63, got {seed}")
    return int(seed)


def require_growth(
    growth: str,
    alpha: float | None,
    length: float | None,
    index_from: int,
    is_learned: bool,
) -> tuple[float, float]:
    """Return α and L of a temperature, if it has what it grows by and no more."""
    require_choice("growth", growth, GROWTHS)
    require_index("index_from", index_from)
    if (growth == "learned") != is_learned:
        raise ValueError(
            f"slope and offset are those of growth='learned', got growth={growth!r} "
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
    return require_not_negative("alpha", alpha), require_positive("length", length)


def require_far(
    far: str, window: int, group: int | None, chunk: int | None, join: str | None
) -> None:
    """Raise unless a map of far offsets has the sizes that it needs, and no others."""
    require_choice("far", far, FARS)
    require_dimension("window", window, 1)
    sizes = {"group": group, "join": join, "chunk": chunk}
    wanted = {"grouped": ("group", "join"), "constant": (), "chunks": ("chunk",)}[far]
    for name, value in sizes.items():
        if (value is None) == (name in wanted):
            needs = "needs" if name in wanted else "has no"
            raise ValueError(f"far={far!r} {needs} {name}, got {name}={value!r}")
    if group is not None:
        require_dimension("group", group, 1)
        require_choice("join", join, JOINS)
    if chunk is not None and require_dimension("chunk", chunk, 1) < window:
        raise ValueError(
            f"chunk must be at least the window of {window}, got chunk={chunk}"
        )


def require_block(block: int) -> int:
    """Return ``block`` if it is an even block size, else raise.

    A skew matrix of odd size leaves one direction unturned.
    """
    return require_dimension("block", block)


def require_decay(gamma: float, scale_base: float, center: float) -> None:
    """Raise unless powers of (2p/d + γ)/(1 + γ), over B, fall from a finite center."""
    require_positive("gamma", gamma)
    require_positive("scale_base", scale_base)
    require_finite("center", center)


def require_image_dim(image_dim: int, d: int | None = None) -> int:
    """Return ``image_dim`` if it is a multiple of 4, and not more than ``d`` is."""
    if require_count("image_dim", image_dim) % 4:
        raise ValueError(f"image_dim must be a multiple of 4, got {image_dim}")
    if d is not None and image_dim > require_dimension("d", d, 4):
        raise ValueError(f"image_dim must be at most d = {d}, got {image_dim}")
    return int(image_dim)


def require_sections(sections: Sequence[int], order: str) -> tuple[int, ...]:
    """Return how many pairs each axis has, if pairs can be shared out so, or raise."""
    require_choice("order", order, SECTION_ORDERS)
    if isinstance(sections, str) or not isinstance(sections, Iterable):
        raise TypeError(f"sections must be a count for each axis, got {sections!r}")
    counts = tuple(require_count("a section", count) for count in sections)
    if not sum(counts):
        raise ValueError(f"sections must have at least one pair, got {counts}")
    others = counts[1:]
    if order == "alternating" and len({*others}) > 1:
        raise ValueError(
            f"all sections but the first must be equal where axes take turns, got "
            f"{counts}"
        )
    if order == "interleaved":
        for axis, count in enumerate(others, start=1):
            room = len(range(axis, sum(counts), len(counts)))
            if count > room:
                raise ValueError(
                    f"in steps of {len(counts)} among {sum(counts)} pairs axis {axis} "
                    f"has room for {room}, got sections {counts}"
                )
    return counts


def require_parts(
    parts: Sequence[int | Sequence[float]],
) -> list[int | tuple[int, int, int, float]]:
    """Return text as a count and grids as (frames, rows, columns, pace), or raise."""
    if isinstance(parts, str) or not isinstance(parts, Iterable):
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
                f"columns, pace), got {part!r}"
            )
        frames, rows, columns = (
            require_dimension(name, size, 1)  # type: ignore[arg-type]  # or refused
            for name, size in zip(("frames", "rows", "columns"), part, strict=False)
        )
        pace = require_not_negative("pace", part[3] if len(part) == 4 else 1)
        exact.append((frames, rows, columns, pace))
        reach += max(frames * pace + 1, rows, columns)
    if reach > LARGEST_SIZE:
        raise ValueError(f"coordinates must be at most {LARGEST_SIZE}, got {reach:g}")
    return exact
