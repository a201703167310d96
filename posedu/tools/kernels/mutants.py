"""Mutants: known faults of kernels, each made as a change of the NumPy reference.

A :class:`Mutant` makes a wrong reference from the right one. :func:`mutants` lists the
mutants of an encoding, and :func:`explain` finds the mutant, or the two mutants, that
give a kernel's outputs. They must give every output to the bound of the kernel's own
precision: a coarser bound would agree with faults that are none. Coarse precision is a
mutant as well, and rounds what the kernel rounds.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from itertools import combinations, permutations
from typing import Any

import numpy as np
import torch

from posedu._argument_types import check_types
from posedu._arguments import LAYOUTS
from posedu.catalog import CATALOG, EncodingRecord
from posedu.crosscheck import attention_hooks
from posedu.crosscheck.common import roundoff
from posedu.numpy.attention import Hooks, Tokens
from posedu.numpy.bias.t5 import t5_buckets
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import pairs
from posedu.tools.kernels import distances
from posedu.tools.kernels.oracle import Case, Solution

Array = np.ndarray
Change = Callable[..., Any]
REFUSED = (TypeError, ValueError, IndexError)  # errors of references for wrong options


@dataclass(frozen=True)
class Reference:
    """A NumPy implementation that mutants (known faults) change, with its arguments.

    ``implementation`` is the function, ``options`` are its keywords. ``positions`` maps
    the given positions and the shape of the features to the positions that are used; by
    default they are used as given. ``is_decoding`` says that the last token alone is a
    query.
    """

    implementation: Change
    options: Mapping[str, Any]
    positions: Callable[[Array, tuple[int, ...]], Array] = lambda at, shape: at
    is_decoding: bool = False

    def with_options(self, **options: Any) -> "Reference":
        """Return a copy of the reference with the given options (keywords) replaced."""
        return replace(self, options={**self.options, **options})

    def with_positions(self, change: Callable[[Array], Array]) -> "Reference":
        """Return a copy of the reference with positions changed by ``change``."""
        positions = self.positions
        return replace(self, positions=lambda at, shape: change(positions(at, shape)))

    def with_implementation(self, change: Callable[[Change], Change]) -> "Reference":
        """Return a copy of the reference with its function changed by ``change``."""
        return replace(self, implementation=change(self.implementation))

    def with_output(self, change: Callable[[Array, Array], Array]) -> "Reference":
        """Return a copy of the reference whose output is ``change(output, features)``.

        ``output`` is the unchanged reference's output, ``features`` its input.
        """
        implementation = self.implementation
        return replace(
            self,
            implementation=lambda x, at, **own: change(implementation(x, at, **own), x),
        )

    def with_hooks(self, change: Callable[[Hooks], Hooks]) -> "Reference":
        """Return a copy of the reference with its hooks changed by ``change``.

        Hooks are the functions by which an encoding acts on attention.
        """
        implementation = self.implementation
        return replace(self, implementation=lambda **own: change(implementation(**own)))


@check_types
@dataclass(frozen=True)
class Mutant:
    """A known fault of kernels: name, description, and the change of the reference.

    ``change`` makes the wrong reference from the right one. If ``start`` is not empty,
    ``change`` takes a number as well, which is fitted to a kernel's outputs, beginning
    at the values of ``start``. A mutant that shows in few test cases is ``alone``: it
    is tried together with a wrong option, not with other mutants.
    """

    name: str
    description: str
    change: Callable[..., Reference]
    start: tuple[float, ...] = ()
    alone: bool = False


_BASES = tuple(np.geomspace(1.5, 1e9, 60))
_SCALES = tuple(np.geomspace(1 / 512, 2, 80))


def _at(change: Callable[[Array], Array]) -> Callable[[Reference], Reference]:
    """Return the change of a reference that applies ``change`` to the used positions.

    The reference is the NumPy implementation.
    """
    return lambda reference: reference.with_positions(change)


def _token_counts(at: Array, axes: int | None) -> Array:
    rows = np.broadcast_to(np.arange(at.shape[1]), at.shape[:2])
    return rows if axes is None else np.repeat(rows[..., None], axes, -1)


def _as_torch(dtype: torch.dtype) -> Callable[[Array], Array]:
    return lambda at: torch.tensor(at).to(dtype).double().numpy()


def _head_numbers(at: Array, shape: tuple[int, ...]) -> Array:
    heads = np.arange(shape[1]).reshape(1, -1, *[1] * (at.ndim - 1))
    return np.broadcast_to(heads, (*shape[:3], *at.shape[2:]))


def _of_positions(axes: int | None, has_rows: bool) -> Iterator[Mutant]:
    """Yield mutants (known faults) that use wrong positions, such as negated ones.

    ``axes`` is the number of coordinates of a position, ``None`` for plain numbers.
    ``has_rows`` says that positions are rows of a small table.
    """
    yield Mutant("sign", "each position is negated", _at(lambda at: -at))
    yield Mutant("off by one", "each position is one too large", _at(lambda at: at + 1))
    yield Mutant("off by one", "each position is one too small", _at(lambda at: at - 1))
    yield Mutant("off by two", "each position is two too large", _at(lambda at: at + 2))
    yield Mutant(
        "padding",
        "the kernel counts the tokens of a row 0, 1, 2, …, padding included, and "
        "ignores positions",
        _at(lambda at: _token_counts(at, axes)),
    )
    yield Mutant(
        "rows",
        "the positions of the first row are used for all rows",
        _at(lambda at: np.broadcast_to(at[:1], at.shape)),
    )
    yield Mutant("nothing", "every position is taken as 0", _at(lambda at: 0 * at))
    yield Mutant(
        "twice",
        "each position is doubled, as if the encoding were applied twice",
        _at(lambda at: 2 * at),
    )
    for dtype in (torch.bfloat16, torch.float16):
        name = str(dtype).removeprefix("torch.")
        text = f"positions are rounded to {name}"
        yield Mutant("precision of positions", text, _at(_as_torch(dtype)))
    yield Mutant(
        "position 0",
        "position 0 is taken as 1",
        _at(lambda at: at + (at == 0)),
        alone=True,
    )
    yield Mutant(
        "packing",
        "positions of a row never fall: each is at least the one before",
        _at(lambda at: np.maximum.accumulate(at, axis=1)),
        alone=True,
    )
    if not has_rows:
        yield from _of_ranges(axes)
    orders = permutations(range(axes or 1)) if (axes or 1) <= 4 else _swaps(axes or 1)
    for order in orders:
        if order != (*range(axes or 1),):
            text = f"coordinates are in the order {', '.join(map(str, order))}"
            take = partial(np.take, indices=order, axis=-1)
            yield Mutant("axis order", text, _at(take))
    for axis in range(axes or 0):
        text = f"coordinate {axis} is used for all coordinates"
        take = partial(np.take, indices=[axis] * (axes or 1), axis=-1)
        yield Mutant("axis order", text, _at(take))


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
        clipped = _at(partial(np.minimum, limit - 1))
        yield Mutant("position limit", text, clipped, alone=True)
    for bits in (15, 16):
        text = f"positions are taken modulo {2**bits:,}"
        wrapped = _at(lambda at, bits=bits: at % 2**bits)
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
        yield Mutant("negative positions", text, _at(change), alone=True)


def _of_options(
    encoding: EncodingRecord, options: Mapping[str, Any]
) -> Iterator[Mutant]:
    """Yield mutants (known faults) in each of which one option has a wrong value.

    The wrong values are those in the encoding's other catalog configurations (sets of
    options), and for ``layout`` the other layout.
    """
    for name, value in options.items():
        if not isinstance(value, str | bool | int) or name in ("heads", "d"):
            continue
        others = {v.options.get(name, value): None for v in encoding.variants}
        if name == "layout":
            others = dict.fromkeys(LAYOUTS)
        for other in others:
            if other != value:
                text = f"{name} is {other!r}, not {value!r}"
                change = partial(Reference.with_options, **{name: other})
                yield Mutant(name, text, change)


def _of_numbers(
    encoding: EncodingRecord, options: Mapping[str, Any]
) -> Iterator[Mutant]:
    """Yield mutants (known faults) with an unknown number, to be fitted to a kernel.

    The number is RoPE's base or the attention factor, as far as ``encoding`` with
    ``options`` has them.
    """
    asked = signature(encoding.implementation("numpy")).parameters
    if "base" in asked and options.get("frequencies") is None:
        right = options.get("base", asked["base"].default)
        text = f"the base is {{:,.6g}}, not {right:,.6g}"
        yield Mutant("base", text, lambda r, b: r.with_options(base=b), _BASES)
    if (
        isinstance(options.get("attention_factor", 1.0), float)
        and "attention_factor" in asked
    ):
        right = options.get("attention_factor", 1.0)
        yield Mutant(
            "attention_factor",
            f"rotated features are multiplied by {{:.6g}}, not {right:.6g}",
            lambda r, c: r.with_options(attention_factor=c),
            (1.0,),
        )


def _of_units() -> Iterator[Mutant]:
    """Yield mutants (known faults) whose positions or angles have another unit."""
    yield Mutant(
        "degrees", "angles are in degrees", _at(lambda at: at * (math.pi / 180))
    )
    yield Mutant(
        "turns", "angles are in full turns", _at(lambda at: at * (2 * math.pi))
    )
    yield Mutant(
        "scale of angles",
        "positions are multiplied by {:.6g}",
        lambda r, s: r.with_positions(lambda at: s * at),
        _SCALES,
    )


def _rotated_width(x: Array, options: Mapping[str, Any]) -> int:
    """Return the number of features of ``x``, from the first on, that are rotated.

    It is twice the sum of the option ``sections``, or the option ``rotary_dim``, or
    else the number of all features.
    """
    sections = 2 * sum(options.get("sections", ()))
    return sections or options.get("rotary_dim") or x.shape[-1]


def _other_layout(layout: str) -> str:
    return LAYOUTS[1 - LAYOUTS.index(layout)]


def _from_tables(
    combine: Callable[..., Array],
    implementation: Change,
    x: Array,
    at: Array,
    **options: Any,
) -> Array:
    """Rotate ``x`` with right cosines and sines, but combine them by ``combine``.

    ``implementation`` is the right rotation; it gives the cosines and sines at the
    positions ``at`` with its ``options``. ``combine`` is a function of the rotated
    features, the cosines and sines, the indices of each pair's first and second
    features, and the two arrays of indices in the other layout.
    """
    width, layout = _rotated_width(x, options), options["layout"]
    a, b = pairs(width, layout=layout)
    first = np.zeros_like(x)
    first[..., a] = 1.0
    rotated = implementation(first, at, **options)
    cos, sin = rotated[..., a], rotated[..., b]
    others = pairs(width, layout=_other_layout(layout))
    y = implementation(x, at, **options)
    y[..., :width] = combine(x[..., :width], cos, sin, a, b, others)
    return y


def _mixed_tables(x, cos, sin, a, b, others):
    tables = np.empty((2, *x.shape))
    for features in others:
        tables[0][..., features], tables[1][..., features] = cos, sin
    cos, sin = tables
    y = np.empty_like(x)
    y[..., a] = x[..., a] * cos[..., a] - x[..., b] * sin[..., a]
    y[..., b] = x[..., a] * sin[..., b] + x[..., b] * cos[..., b]
    return y


def _reflected(x, cos, sin, a, b, others):
    y = np.empty_like(x)
    y[..., a] = x[..., a] * cos + x[..., b] * sin
    y[..., b] = x[..., a] * sin - x[..., b] * cos
    return y


def _reordered(x, cos, sin, a, b, others):
    y = np.empty_like(x)
    y[..., others[0]] = x[..., a] * cos - x[..., b] * sin
    y[..., others[1]] = x[..., a] * sin + x[..., b] * cos
    return y


def _of_rotations(options: Mapping[str, Any]) -> Iterator[Mutant]:
    """Yield mutants (known faults) of encodings that rotate pairs of features.

    ``options`` are the encoding's options, such as the layout of the pairs.
    """
    yield Mutant(
        "axis of tokens",
        "heads are counted in place of tokens: axis 1 is taken for axis 2",
        lambda r: replace(r, positions=_head_numbers),
    )
    if "layout" not in options:
        yield Mutant(
            "attention_factor",
            "the output is multiplied by {:.6g}",
            lambda r, c: r.with_output(lambda y, x: c * y),
            (1.0,),
        )
        return
    layout = options["layout"]
    other = _other_layout(layout)
    yield from _of_precision(_rounded_rotation)
    for name, text, combine in (
        (
            "tables",
            f"features are paired in the layout {layout!r}, cosines and sines in the "
            f"layout {other!r}",
            _mixed_tables,
        ),
        ("reflection", "the second feature of a pair has the wrong sign", _reflected),
        (
            "order of output",
            f"pairs are read in the layout {layout!r} and written in the layout "
            f"{other!r}, which changes no score if queries and keys are written alike",
            _reordered,
        ),
    ):
        change = partial(partial, _from_tables, combine)
        yield Mutant(name, text, lambda r, change=change: r.with_implementation(change))


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


def _rounded_rotation(
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


def _rounded_sinusoids(
    rounding: Mapping[str, Callable[[Array], Array]],
    implementation: Change,
    x: Array,
    at: Array,
    **options: Any,
) -> Array:
    """Add sines and cosines to ``x``, with rounded intermediate results.

    ``rounding`` is that of :func:`_rounded_rotation`; ``implementation`` is the right
    encoding.
    """
    a, b = pairs(x.shape[-1], layout=options["layout"])
    unit = implementation(np.zeros((1, x.shape[-1])), np.ones(1), **options)[0]
    omega = np.arctan2(unit[a], unit[b])[:, None]
    y = x.copy()
    cos, sin = _rounded_tables(rounding, at[:, None], omega)
    y[..., a], y[..., b] = x[..., a] + sin, x[..., b] + cos
    return y


def _of_precision(implementation: Callable[..., Array]) -> Iterator[Mutant]:
    """Yield mutants (known faults) whose frequencies, angles or tables are rounded.

    ``implementation`` takes a mapping of roundings, the right reference, features and
    positions.
    """

    def mutant(name: str, text: str, *what: str, dtype: torch.dtype) -> Mutant:
        rounding = dict.fromkeys(what, _as_torch(dtype))
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


def _computed_in_bfloat16(r: int, base: float) -> Iterator[Array]:
    """Yield frequencies of ``r`` features as two usual formulas give in bfloat16."""
    steps = torch.arange(0, r, 2, dtype=torch.bfloat16) / r
    for omega in (base**-steps, 1 / base**steps):
        yield omega.double().numpy()


def _of_frequencies(d: int, options: Mapping[str, Any]) -> Iterator[Mutant]:
    """Yield known faults (mutants) of RoPE's frequencies and its number of features.

    ``d`` is the head dimension, ``options`` are RoPE's options.
    """
    r, base = options.get("rotary_dim") or d, options.get("base", 10000.0)
    changed = Reference.with_options
    if options.get("frequencies") is not None:
        right = np.asarray(options["frequencies"], dtype=float)
        if 0 < (kept := np.count_nonzero(right)) < len(right):
            text = (
                f"only the first {2 * kept} features are rotated, paired by themselves"
            )
            leading = {"frequencies": right[:kept], "rotary_dim": None}
            yield Mutant("rotary_dim", text, partial(changed, **leading))
        plain = {"frequencies": None, "rotary_dim": 2 * len(right)}
        yield Mutant(
            "frequencies",
            f"frequencies are those of base {base:,.6g}, not the given ones",
            partial(changed, **plain),
        )
        right = right[::-1]
        yield Mutant(
            "frequencies",
            "frequencies are in reverse order",
            partial(changed, frequencies=right),
        )
        return
    for width in dict.fromkeys((d, d // 2, d // 4)):
        if width != r and width and width % 2 == 0:
            text = f"{width} of {d} features are rotated, not {r}"
            yield Mutant("rotary_dim", text, partial(changed, rotary_dim=width))
    p = np.arange(r // 2)
    own = {
        "frequencies are in reverse order": frequencies(r, base=base)[::-1],
        "pairs are counted from 1: base^(−2(p + 1)/d)": base ** (-2 * (p + 1) / r),
        "pairs are counted from −1: base^(−2(p − 1)/d)": base ** (-2 * (p - 1) / r),
        "frequencies are spaced up to 1/base itself": frequencies(
            r, base=base, spacing="tensor2tensor"
        ),
    }
    for text, omega in own.items():
        yield Mutant("frequencies", text, partial(changed, frequencies=omega))
    for omega in _computed_in_bfloat16(r, base):
        text = "frequencies (inv_freq) are computed in bfloat16"
        change = partial(changed, frequencies=omega)
        yield Mutant("precision of frequencies", text, change)
    for width in dict.fromkeys((r, d // 2, d // 4)):
        if width < d and width and width % 2 == 0:
            omega = frequencies(d, base=base)
            omega[width // 2 :] = 0
            yield Mutant(
                "rotary_dim",
                f"{width // 2} of the {d // 2} pairs of all {d} features are rotated "
                "(rope_type proportional)",
                partial(changed, frequencies=omega, rotary_dim=None),
            )
    if r < d:
        omega = frequencies(d, base=base)[: r // 2]
        yield Mutant(
            "rotary_dim",
            f"exponents run over all {d} features, not the {r} that are rotated",
            partial(changed, frequencies=omega, rotary_dim=None),
        )
        yield Mutant(
            "rotary_dim",
            f"the last {r} features are rotated, not the first",
            lambda ref: ref.with_implementation(partial(partial, _trailing, r)),
        )


def _trailing(
    width: int, implementation: Change, x: Array, at: Array, **options: Any
) -> Array:
    """Rotate the last ``width`` features by a reference that rotates the first.

    The reference is ``implementation``, a NumPy function of features ``x`` and
    positions ``at``.
    """
    rolled = implementation(np.roll(x, width, -1), at, **options)
    return np.roll(rolled, -width, -1)


def _summed(combine: Change) -> Callable[..., Reference]:
    """Return a change of the reference: input and encoding are joined by ``combine``.

    The right reference adds them. ``combine`` takes both arrays, and the number to fit
    if the mutant has one.
    """

    def change(reference: Reference, *value: float) -> Reference:
        def made(implementation: Change) -> Change:
            def summed(x: Array, at: Array, **options: Any) -> Array:
                return combine(x, implementation(0 * x, at, **options), *value)

            return summed

        return reference.with_implementation(made)

    return change


def _of_sums(d: int, options: Mapping[str, Any]) -> Iterator[Mutant]:
    """Yield mutants (known faults) of an encoding that is added to a model's input.

    ``d`` is the model's width, ``options`` are the encoding's options.
    """
    scaled, root = _summed(lambda x, e, c: x + c * e), math.sqrt(d)
    yield Mutant("factor", "the encoding is multiplied by {:.6g}", scaled, (1.0,))
    for text, combine in (
        ("the input is multiplied by √d", lambda x, e: root * x + e),
        ("the encoding replaces the input, where it should be added", lambda x, e: e),
    ):
        yield Mutant("input", text, _summed(combine))
    if options.get("layout") in LAYOUTS and d % 2 == 0:
        a, b = pairs(d, layout=options["layout"])

        def exchanged(x: Array, added: Array) -> Array:
            y = x.copy()
            y[..., a] += added[..., b]
            y[..., b] += added[..., a]
            return y

        yield Mutant("members", "sines and cosines are exchanged", _summed(exchanged))
    if options.get("layout") in LAYOUTS and "spacing" in options:
        yield from _of_precision(_rounded_sinusoids)


def _on_bias(change: Change) -> Callable[[Reference], Reference]:
    def changed(hooks: Hooks) -> Hooks:
        return replace(hooks, bias=lambda tokens: change(hooks.bias(tokens), tokens.d))

    return lambda reference: reference.with_hooks(changed)


def _times(sign: int, bias: Array, d: int) -> Array:
    """Multiply an attention bias by ``sign``, except where it is −∞, which hides keys.

    ``d``, the head dimension, is not used.
    """
    hidden = np.isinf(bias)
    return np.where(hidden, bias, sign * np.where(hidden, 0, bias))


def _bias_times(power: float) -> Callable[[Reference], Reference]:
    return _on_bias(lambda b, d: b * d**power)


def _scaled(power: float) -> Callable[[Reference], Reference]:
    def changed(hooks: Hooks) -> Hooks:
        return replace(hooks, scale=lambda d: d**power)

    return lambda r: r.with_hooks(changed)


def _shifted_distance(step: int) -> Callable[[Reference], Reference]:
    """Return a change of the reference that adds ``step`` to every distance.

    The distance is that between a query and a key, of which the bias is a function.
    """

    def changed(hooks: Hooks) -> Hooks:
        def bias(tokens):
            at = tokens.query_positions + step
            return hooks.bias(replace(tokens, query_positions=at))

        return replace(hooks, bias=bias)

    return lambda r: r.with_hooks(changed)


def _masked_by_positions(hooks: Hooks) -> Hooks:
    """Return hooks with a causal mask by positions, which is wrong if texts are packed.

    Hooks are the functions by which an encoding acts on attention. Positions begin
    again at 0 in each packed text; the right mask goes by the order of tokens.
    """

    def weights(scores, tokens):
        mask = tokens.mask
        if not mask.all():
            mask = tokens.key_positions <= tokens.query_positions[:, None]
        return hooks.weigh(scores, replace(tokens, mask=mask))

    return replace(hooks, weigh=weights)


def _hooks_of(case: Case) -> Hooks:
    """Return the reference's hooks, by which an encoding acts on attention."""
    implementation = CATALOG[case.name].implementation("numpy")
    return implementation(**case.options, **case.parameters)


def _at_distances(change: Callable[[Array], Array], hooks: Hooks) -> Hooks:
    """Return ``hooks`` for which every distance is changed by ``change``.

    A distance is query position minus key position; hooks are the functions by which an
    encoding acts on attention.
    """
    given = hooks.logits

    def changed(tokens: Tokens) -> Tokens:
        return distances.with_distances(tokens, change)

    return replace(
        hooks,
        bias=lambda tokens: hooks.bias(changed(tokens)),
        logits=given and (lambda tokens: given(changed(tokens))),
        mix=lambda weights, v, tokens: hooks.mix(weights, v, changed(tokens)),
    )


def _of_distances(case: Case) -> Iterator[Mutant]:
    """Yield mutants (known faults) that are wrong at some distances only.

    Those that change no logit of the encoding of ``case`` are left out.
    """
    made, hooks = case.solution, _hooks_of(case)
    largest = distances.largest_distance(CATALOG[case.name])
    line = np.array(distances.distances(made, largest))
    sides = line, (-line[:3] if case.causal else -line)

    def logits(hooks: Hooks) -> Array:
        return np.hstack([distances.logits_at(made, hooks, side) for side in sides])

    right = logits(hooks)
    changes = [
        *_of_t5_buckets(case),
        *(
            (
                "distance limit",
                f"distances beyond {limit:,} are taken as {limit:,}",
                partial(_clipped, limit=limit),
            )
            for limit in _FARTHEST
        ),
        *(
            (
                "distance limit",
                f"distances are taken modulo {2**bits:,}",
                lambda at, bits=bits: np.sign(at) * (np.abs(at) % 2**bits),
            )
            for bits in (8, 15, 16)
        ),
        (
            "precision of distances",
            "distances are rounded to bfloat16",
            _as_torch(torch.bfloat16),
        ),
        ("distance 0", "distance 0 is taken as 1", lambda at: at + (at == 0)),
        ("later keys", "a later key is taken to be at distance 0", _not_negative),
        ("later keys", "a later key has the bias of an earlier one", np.abs),
    ]
    for name, text, change in changes:
        changed = partial(_at_distances, change)
        if (logits(changed(hooks)) != right).any():
            on_hooks = partial(Reference.with_hooks, change=changed)
            yield Mutant(name, text, on_hooks, alone=True)


_FARTHEST = (
    *(4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 511, 512, 1023, 1024),
    *(2047, 2048, 4095, 4096, 8191, 8192, 32767, 65504, 65535),
)


def _not_negative(at: Array) -> Array:
    return np.maximum(at, 0)


def _clipped(at: Array, limit: int) -> Array:
    return np.clip(at, -limit, limit)


def _of_t5_buckets(
    case: Case,
) -> Iterator[tuple[str, str, Callable[[Array], Array]]]:
    """Yield wrong scales of T5's far buckets: name, text, change of distances.

    The changed distance is the first in the wrong bucket. For another encoding there
    are none.
    """
    if case.name != "t5":
        return
    sides = 2 if case.options["bidirectional"] else 1
    side = case.parameters["table"].shape[1] // sides
    exact, distance = side // 2, case.options["distance"]
    for limit in (exact, exact - 1):
        text = f"distances from {limit} on are in one bucket, without a logarithm"
        yield "buckets", text, partial(_clipped, limit=limit)
    buckets = t5_buckets(
        np.arange(distance + 1),
        bidirectional=False,
        buckets=side,
        distance=distance,
    )
    starts = np.searchsorted(buckets, np.arange(side))

    def changed(at: Array, steps: Callable[[Array], Array]) -> Array:
        far = np.maximum(np.abs(at), exact)
        bucket = np.floor(exact + steps(far))
        bucket = np.clip(bucket, exact, side - 1).astype(int)
        return np.where(np.abs(at) < exact, at, np.sign(at) * starts[bucket])

    def linear(far: Array) -> Array:
        return (far - exact) / (distance - exact) * (side - exact)

    def single(far: Array) -> Array:
        return far - exact

    def unscaled(far: Array) -> Array:
        return np.log(far / exact) * (side - exact)

    def rounded_up(far: Array) -> Array:
        return np.ceil(unscaled(far) / np.log(distance / exact))

    for text, steps in (
        ("far buckets are equally wide, without a logarithm", linear),
        ("far buckets have one distance each, without a logarithm", single),
        ("the logarithm is not divided by that of the largest distance", unscaled),
        ("numbers of far buckets are rounded up", rounded_up),
    ):
        yield "buckets", text, partial(changed, steps=steps)


def _by_head(
    order: Callable[[Array], Array], function: Callable[..., Array], *arrays: Array
) -> Array:
    """Apply a function to heads, of which each uses another head's parameters.

    ``order`` maps the numbers of heads to those of the heads whose parameters they use.
    Axis −3 of ``arrays``, the arguments of ``function``, and of its result is that of
    heads; a result with fewer axes is the same for all heads, and is returned as it is.
    """
    heads = np.arange(arrays[0].shape[-3])
    used = order(heads)
    found = {
        step: function(*(np.roll(array, -step, axis=-3) for array in arrays))
        for step in {*(heads - used).tolist()}
    }
    if any(np.ndim(result) < 3 for result in found.values()):
        return next(iter(found.values()))
    own = [found[h - n][..., n, :, :] for h, n in zip(heads, used, strict=True)]
    return np.stack(own, axis=-3)


def _with_parameters_of(order: Callable[[Array], Array], hooks: Hooks) -> Hooks:
    """Return hooks in which each head uses another head's parameters.

    Hooks are the functions by which an encoding acts on attention. ``order`` is that of
    :func:`_by_head`.
    """

    def of_tokens(function: Callable[..., Array]) -> Callable[..., Array]:
        """Return ``function`` of any arrays by head and of tokens, with that order."""

        def changed(*arguments: Any) -> Array:
            *arrays, tokens = arguments

            def moved(q: Array, k: Array, v: Array, *arrays: Array) -> Array:
                return function(*arrays, replace(tokens, q=q, k=k, v=v))

            return _by_head(order, moved, tokens.q, tokens.k, tokens.v, *arrays)

        return changed

    def rotate(q: Array, k: Array, at: Array) -> tuple[Array, Array]:
        rotated = hooks.rotate(q, k, at)
        return _by_head(order, lambda q: hooks.rotate(q, k, at)[0], q), rotated[1]

    return replace(
        hooks,
        rotate=rotate,
        bias=of_tokens(hooks.bias),
        logits=hooks.logits and of_tokens(hooks.logits),
        weigh=of_tokens(hooks.weigh),
        mix=of_tokens(hooks.mix),
    )


def _of_heads(case: Case) -> Iterator[Mutant]:
    """Yield mutants (known faults) in which heads use the parameters of others.

    There are none if all heads of the encoding of ``case`` are alike. A model that is
    split by heads has a part of them on each rank.
    """
    of_features = CATALOG[case.name].kind == "features"

    def change(order: Callable[[Array], Array], reference: Reference) -> Reference:
        if not of_features:
            return reference.with_hooks(partial(_with_parameters_of, order))

        def rotated(given: Change, x: Array, at: Array, **options: Any) -> Array:
            return _by_head(order, lambda x: given(x, at, **options), x)

        return reference.with_implementation(lambda given: partial(rotated, given))

    if of_features and case.solution.pair.heads is None:
        return
    is_first = partial(change, lambda heads: 0 * heads)
    if case.name in _MIXING_HEADS or not _changed(case, is_first).any():
        return
    for text, order in (
        ("heads are in reverse order", np.flip),
        ("each head is taken for the next", _next_head),
    ):
        yield Mutant("heads", text, partial(change, order))
    for count in _RANK_HEADS:
        yield Mutant(
            "head offset",
            f"parameters of heads begin anew after {count}, as on ranks without a head "
            "offset",
            partial(change, lambda heads, count=count: heads % count),
            alone=True,
        )


def _next_head(heads: Array) -> Array:
    return np.minimum(heads + 1, heads[-1])


_RANK_HEADS = (1, 2, 3, 4, 6)
_MIXING_HEADS = ("dape",)
"""Encodings in which a head depends on all others, so that no rank has a part."""


def _of_ranks(options: Mapping[str, Any]) -> Iterator[Mutant]:
    """Yield mutants (known faults) in which ranks do not know how many heads there are.

    A rank has the given number of heads of a model that is split by heads. There are
    none unless the number of heads is among the encoding's ``options``.
    """
    for heads in _RANK_HEADS if "heads" in options else ():

        def of_rank(implementation: Change, heads: int = heads) -> Change:
            def made(**own: Any) -> Hooks:
                few = min(heads, own["heads"])
                hooks = implementation(**own | {"heads": few})
                every = np.arange(own["heads"]) % few
                return replace(hooks, bias=lambda tokens: hooks.bias(tokens)[every])

            return made

        yield Mutant(
            "head offset",
            f"each {heads} heads have the biases of a model of {heads} heads, as on "
            "ranks that do not know the number of all heads",
            lambda r, change=of_rank: r.with_implementation(change),
            alone=True,
        )


def _of_slopes(options: Mapping[str, Any]) -> Iterator[Mutant]:
    """Yield mutants (known faults) of ALiBi's slopes; ``options`` are ALiBi's."""
    largest = options.get("bias_max", 8.0)
    formulas = {
        "8h/n": lambda h, n: largest * h / n,
        "2^(−8(h − 1)/n)": lambda h, n: 2.0 ** (-largest * (h - 1) / n),
        "2^(−8h/(n + 1))": lambda h, n: 2.0 ** (-largest * h / (n + 1)),
        "2^(−h)": lambda h, n: 2.0**-h,
        "2^(−8/h)": lambda h, n: 2.0 ** (-largest / h),
        "2^(8h/n)": lambda h, n: 2.0 ** (largest * h / n),
        "1/h": lambda h, n: 1.0 / h,
    }
    sides = 2 if options.get("sides") == "one-sided" else 1
    for text, formula in formulas.items():

        def change(reference: Reference, formula=formula) -> Reference:
            n = reference.options["heads"] // sides
            slopes = np.tile(formula(np.arange(1.0, n + 1), n), sides)
            return reference.with_options(slopes=slopes, bias_max=8.0)

        text = f"slopes are {text}, for h = 1 … n"
        yield Mutant("slope formula", text, change)


def _with_input_of(row: slice, hooks: Hooks) -> Hooks:
    """Return hooks that take one token's layer input, that of ``row``, for all tokens.

    Hooks are the functions by which an encoding acts on attention.
    """
    given = hooks.logits

    def tokens_of(tokens: Tokens) -> Tokens:
        return replace(tokens, x=np.repeat(tokens.x[row], len(tokens.x), axis=0))

    return replace(
        hooks,
        bias=lambda tokens: hooks.bias(tokens_of(tokens)),
        logits=given and (lambda tokens: given(tokens_of(tokens))),
    )


def _of_decoding(case: Case, uses_positions: bool) -> Iterator[Mutant]:
    """Yield mutants (known faults) that show if the last token alone is a query.

    ``case`` is a test case of the encoding; ``uses_positions`` is the result of
    :func:`_uses_positions`.
    """

    def at_zero(hooks: Hooks) -> Hooks:
        given = hooks.logits

        def tokens_of(tokens: Tokens) -> Tokens:
            return replace(tokens, query_positions=0 * tokens.query_positions)

        def rotate(q: Array, k: Array, at: Array) -> tuple[Array, Array]:
            return hooks.rotate(q, k, 0 * at)[0], hooks.rotate(q, k, at)[1]

        return replace(
            hooks,
            rotate=rotate,
            bias=lambda tokens: hooks.bias(tokens_of(tokens)),
            logits=given and (lambda tokens: given(tokens_of(tokens))),
            mix=lambda weights, v, tokens: hooks.mix(weights, v, tokens_of(tokens)),
        )

    def first_key(hooks: Hooks) -> Hooks:
        def weigh(scores: Array, tokens: Tokens) -> Array:
            mask = np.zeros_like(tokens.mask)
            mask[:, 0] = True
            return hooks.weigh(scores, replace(tokens, mask=mask))

        return replace(hooks, weigh=weigh)

    changes = [
        ("one query sees the first key alone: the causal mask begins there", first_key)
    ]
    if uses_positions:
        text = "one query is taken to be at position 0, its index among queries"
        changes.append((text, at_zero))
    for text, row in (
        ("one query: the layer's input of the first token is used", slice(1)),
        ("one query: the layer's input of this token is used for all", slice(-1, None)),
    ):
        change = partial(_with_input_of, row)
        on_hooks = partial(Reference.with_hooks, change=change)
        if "x" in case.inputs and _changed(case, on_hooks)[-1]:
            changes.append((text, change))
    for text, change in changes:

        def changed(reference: Reference, change=change) -> Reference:
            return reference.with_hooks(change) if reference.is_decoding else reference

        yield Mutant("decoding", text, changed, alone=True)


def _changed(case: Case, change: Callable[[Reference], Reference]) -> Array:
    """Return whether a change of the reference changes the output, for each token."""
    off = np.abs(MutatedCase(case, change).output() - case.expected)
    return (off > 1e-9).any(axis=(*range(off.ndim - 2), -1))


def _uses_positions(case: Case) -> bool:
    """Return whether the encoding of a test case depends on positions at all.

    The encodings that do not, such as FoX, depend on the order of tokens.
    """
    return bool(_changed(case, _at(lambda at: np.roll(at, 1, axis=1))).any())


def _of_biases(options: Mapping[str, Any]) -> Iterator[Mutant]:
    """Yield mutants (known faults) of biases; ``options`` are the encoding's."""
    for name, text, sign in (
        ("sign", "the bias has the opposite sign", -1),
        ("bias", "no bias is added", 0),
    ):
        yield Mutant(name, text, _on_bias(partial(_times, sign)))
    for how, power in (("divided", -0.5), ("multiplied", 0.5)):
        yield Mutant("factor", f"the bias is {how} by √d", _bias_times(power))
    yield Mutant(
        "factor",
        "the bias is multiplied by {:.6g}",
        lambda r, c: _on_bias(lambda b, d: c * b)(r),
        tuple(np.geomspace(1 / 64, 64, 25)),
    )
    yield from _of_ranks(options)


def _of_hooks(case: Case, axes: int | None, uses_positions: bool) -> Iterator[Mutant]:
    """Yield mutants (known faults) of an encoding that acts inside attention.

    ``case`` is one of its test cases; ``axes`` is the number of coordinates of a
    position, ``None`` for plain numbers; ``uses_positions`` is the result of
    :func:`_uses_positions`.
    """
    hooks = _hooks_of(case)
    has_bias = hooks.logits is None and hooks.bias is not Hooks.bias
    if has_bias:
        yield from _of_biases(case.options)
    for step, text in ((1, "too large"), (-1, "too small")):
        if has_bias and uses_positions:
            change = _shifted_distance(step)
            yield Mutant("off by one", f"each distance is one {text}", change)
    d = case.inputs["q"].shape[-1]
    right = hooks.scale(d)
    for text, power in (("multiplied by 1/√d", -0.5), ("not scaled", 0.0)):
        if not math.isclose(d**power, right):
            yield Mutant("scale", f"inner products are {text}", _scaled(power))
    if axes is None and case.causal:
        yield Mutant(
            "mask",
            "the causal mask goes by positions, not by the order in the row",
            lambda r: r.with_hooks(_masked_by_positions),
        )
    if axes is None and uses_positions:
        yield Mutant(
            "tiles",
            "positions begin anew after every 32 tokens of a row",
            _at(lambda at: at - np.arange(at.shape[1]) // 32 * 32),
            alone=True,
        )
        yield from _of_distances(case)
    yield from _of_decoding(case, uses_positions)
    if case.name == "alibi":
        yield from _of_slopes(case.options)
    if case.name == "t5":
        for distance in (16, 32, 64, 128, 256, 512, 1024):
            if distance != case.options["distance"]:
                text = f"distance is {distance}, not {case.options['distance']}"
                change = partial(Reference.with_options, distance=distance)
                yield Mutant("distance", text, change, alone=True)


@check_types
def mutants(case: Case) -> list[Mutant]:
    """Return the mutants (known faults) of the encoding that a test case is for."""
    encoding, options = CATALOG[case.name], case.options
    axes = None if encoding.axes is None else case.positions.shape[-1]
    has_rows = "tokens" in encoding.sizes
    uses_positions = _uses_positions(case)
    found = [*_of_options(encoding, options)]
    if uses_positions:
        found += _of_positions(axes, has_rows)
    if encoding.kind != "block":
        found += _of_heads(case)
    if encoding.kind == "features":
        d = case.inputs["x"].shape[-1]
        if encoding.hooks == ("rotate",):
            found += _of_rotations(options)
            if "rotary_dim" in signature(encoding.implementation("numpy")).parameters:
                found += _of_frequencies(d, options)
        else:
            found += _of_sums(d, options)
        found += _of_numbers(encoding, options)
        if not has_rows:
            found += _of_units()
        one = _at(lambda at: at if at.shape[1] > 1 else 0 * at)
        text = "a row of one token is taken to be at position 0"
        found.append(Mutant("decoding", text, one, alone=True))
    elif encoding.kind == "hooks":
        found += _of_hooks(case, axes, uses_positions)
    return found


class MutatedCase:
    """A kernel's test case, with the results of a reference that has a known fault.

    ``change`` makes this wrong reference from the right one.
    """

    def __init__(self, case: Case, change: Callable[[Reference], Reference]):
        self.case, encoding = case, CATALOG[case.name]
        implementation = encoding.implementation("numpy")
        given = Reference(implementation, case.options, is_decoding=case.is_decoding)
        reference = change(given)
        shape = next(iter(case.inputs.values())).shape
        at = np.asarray(reference.positions(case.positions, shape))
        if isinstance(case.solution, Solution):
            self._pair = copy(case.solution.pair)
            self._pair.implementation, self._pair.options = (
                reference.implementation,
                reference.options,
            )
            self._at = at
            return
        own = dict(reference.options)
        self._changed = case.solution.with_implementation(
            reference.implementation, own, at
        )
        if case.is_decoding:
            self._changed = distances.at_last_query(self._changed)

    def output(self) -> Array:
        """Return the wrong reference's output, without computing error bounds."""
        if isinstance(self.case.solution, Solution):
            x = self.case.inputs["x"]
            lead = self._at.ndim - 1 - (self._pair.encoding.axes is not None)
            out = np.empty_like(x)
            for row in np.ndindex(self._at.shape[:lead]):
                out[row] = self._pair.forward(x[row], self._at[row])
            return out
        return self._changed.evaluate()

    def solved(
        self, dtype: torch.dtype = torch.float64
    ) -> Solution | attention_hooks.Case:
        """Return the wrong reference's results, with error bounds for ``dtype``.

        For an encoding that changes features they are a :class:`Solution`, for
        attention an ``attention_hooks.Case``, with the output and the output's error
        bounds.
        """
        if isinstance(self.case.solution, Solution):
            return Solution(self._pair, self.case.inputs["x"], self._at)
        changed = self._changed
        changed.shape = replace(changed.shape, slopes="none", dtypes=(dtype,))
        changed.measure()
        return changed


def coarsest(dtype: torch.dtype, angles: str) -> torch.dtype:
    """Return the coarser of an output's ``dtype`` and ``angles``, the dtype of angles.

    An angle is position times frequency.
    """
    return max(dtype, getattr(torch, angles), key=roundoff)


@dataclass(frozen=True)
class Outputs:
    """A kernel's outputs for its test cases in one dtype.

    ``outs`` has the output for each of ``cases``, in the same order.
    """

    cases: Sequence[Case]
    outs: Sequence[Array]
    dtype: torch.dtype

    def is_right(self, n: int) -> bool:
        """Return whether the output of test case number ``n`` is within its bound."""
        off = np.abs(self.outs[n] - self.cases[n].expected)
        return bool((off <= self.cases[n].bound(self.dtype)).all())

    @property
    def near(self) -> list[int]:
        """Numbers of the test cases whose positions are all near 0."""
        return [n for n, c in enumerate(self.cases) if np.abs(c.positions).max() < 10]

    def wrong_first(self) -> "Outputs":
        """Return a copy that begins with the test cases in which outputs are wrong.

        In the others most mutants agree, so they tell less.
        """
        order = sorted(range(len(self.cases)), key=self.is_right)
        cases, outs = ([given[n] for n in order] for given in (self.cases, self.outs))
        return replace(self, cases=cases, outs=outs)

    def agree(self, change: Change, angles: str) -> bool:
        """Return whether the outputs equal a wrong reference's outputs, within bounds.

        ``change`` makes the wrong reference from the right one. ``angles`` is the dtype
        that position times frequency may have.
        """
        return self.resembles(change, angles) and self._within(change, angles)

    def resembles(self, change: Change, angles: str) -> bool:
        """True if all outputs are near the outputs of a wrong reference.

        ``change`` makes the wrong reference from the right one. Near means within 64
        times the largest error bound, where ``angles`` is the dtype that position times
        frequency may have. Nearly all wrong references fail at the first test case, so
        this is a quick test.
        """
        dtype = coarsest(self.dtype, angles)
        for case, out in zip(self.cases, self.outs, strict=True):
            bound = case.bound(dtype, angles=angles, tables=dtype).max()
            if np.isinf(bound):
                continue
            mutated = MutatedCase(case, change).output()
            if not np.abs(out - mutated).max() <= 64 * bound:
                return False
        return True

    def _within(self, change: Change, angles: str) -> bool:
        dtype = coarsest(self.dtype, angles)
        for case, out in zip(self.cases, self.outs, strict=True):
            if np.isinf(case.bound(dtype)).any():
                continue
            solved = MutatedCase(case, change).solved(dtype)
            if isinstance(solved, Solution):
                expected = solved.out
                bound = solved.bound(dtype, getattr(torch, angles), dtype)
            else:
                expected, bound = solved.expected, solved.bound(dtype)
            if not (np.abs(out - expected) <= bound).all():
                return False
        return True

    def fitted(self, change: Change, start: Sequence[float]) -> float | None:
        """Return the number with which ``change`` explains the outputs, or ``None``.

        ``change`` makes a wrong reference from the right one and the number, which is
        above 0; ``None`` if no number comes near. The search begins at the value of
        ``start`` that fits the first test case best. It minimizes the squared
        differences in this test case, then in those near position 0, then in all.
        """
        near = self.near

        def off(logarithm: float, chosen: Sequence[int]) -> Array:
            made = partial(_with, change, math.exp(logarithm))
            differences = [
                self.outs[n] - MutatedCase(self.cases[n], made).output() for n in chosen
            ]
            return np.concatenate([t.ravel() for t in differences])

        def size(logarithm: float) -> float:
            try:
                return float(np.sum(off(logarithm, near[:1]) ** 2))
            except REFUSED:
                return math.inf

        least = min(map(math.log, start), key=size)
        whole = float(np.sum(self.outs[near[0]] ** 2))
        if size(least) > 0.2 * whole and (len(start) > 1 or math.isinf(size(least))):
            return None
        for chosen in (near[:1], near, range(len(self.cases))):
            least = _least(partial(off, chosen=chosen), least)
            if not size(least) <= _NEAR * whole:
                return None
        return math.exp(least)


_NEAR = 1e-4  # square of a relative difference that roundings of bfloat16 cause
_STEP = 1e-6


def _least(off: Callable[[float], Array], x: float) -> float:
    """Return the number, near ``x``, at which the sum of squares of ``off`` is least.

    These are steps of Gauss and Newton's method, which end when they no longer help.
    """
    at, best = off(x), x
    for _ in range(20):
        slope = (off(x + _STEP) - off(x - _STEP)) / (2 * _STEP)
        step = -float(slope @ at) / (float(slope @ slope) or 1.0)
        x = best + min(max(step, -1.0), 1.0)
        new = off(x)
        if not float(new @ new) < float(at @ at):
            break
        at, best = new, x
    return best


def _with(change: Change, value: float, reference: Reference) -> Reference:
    return change(reference, value)


def _both(one: Change, other: Change, reference: Reference, *value: float) -> Reference:
    return other(one(reference), *value)


@dataclass(frozen=True)
class Explanation:
    """Mutants (known faults) that explain a kernel's outputs, and its angles' dtype.

    ``names`` are the names of the faults, ``description`` is a sentence for a reader,
    and ``angles`` the dtype of the kernel's angles. ``case`` is the first test case of
    the configuration (set of options) that fits.
    """

    names: tuple[str, ...]
    description: str
    case: Case
    angles: str


def explain(by_variant: Sequence[Outputs], angles: Sequence[str]) -> Explanation | None:
    """Return the fewest mutants that explain a kernel's outputs.

    Mutants are known faults. ``by_variant`` holds the outputs for each configuration
    (set of options) of the encoding. ``angles`` are the dtypes of angles to try, the
    finest first. The result is ``None`` if no mutant and no two mutants give the
    outputs.
    """
    tried = [_Search(outputs) for outputs in by_variant]
    for count in (1, 2):
        for dtype in angles:
            for search in tried:
                with np.errstate(all="ignore"):  # NaN agrees with nothing.
                    found = search.first(count, dtype)
                if found is not None:
                    return found
    return None


class _Search:
    """Search for mutants that explain a kernel's outputs for one configuration.

    Mutants are known faults; a configuration is a set of options. The number that a
    mutant may need is fitted once and cached.
    """

    def __init__(self, outputs: Outputs):
        self._case, self._numbers = outputs.cases[0], {}
        self._far: set[tuple] = set()  # wrong by more than any precision tried
        table = mutants(self._case)
        self._table = sorted(table, key=lambda mutant: len(mutant.start))
        self.outputs = outputs.wrong_first()
        # What is right near 0 has no wrong base or factor, and no two wrong parts.
        self._is_right_near = all(map(outputs.is_right, outputs.near))

    def first(self, count: int, angles: str) -> Explanation | None:
        """Return the first ``count`` mutants that jointly explain the kernel's outputs.

        Mutants are known faults. ``angles`` is the dtype that position times frequency
        may have. The result is ``None`` if no ``count`` mutants explain the outputs.
        """
        if count > 1 and self._is_right_near:
            return None
        for chosen in combinations(self._table, count):
            if count > 1 and not self._are_joint(chosen):
                continue
            changes = [mutant.change for mutant in chosen]
            change = changes[0] if count == 1 else partial(_both, *changes)
            for value in self._values(chosen, change):
                made = change if value is None else partial(_with, change, value)
                if self._is_far(made, (chosen, value)):
                    continue
                if self._agree(made, angles):
                    texts = [
                        m.description.format(value) if m.start else m.description
                        for m in chosen
                    ]
                    names = tuple(m.name for m in chosen)
                    return Explanation(names, "; ".join(texts), self._case, angles)
        return None

    def _are_joint(self, chosen: Sequence[Mutant]) -> bool:
        """Return whether mutants are tried together; at most one needs a number."""
        if len({m.name for m in chosen}) < len(chosen):
            return False
        if any(m.alone for m in chosen):
            others = [m for m in chosen if not m.alone]
            return len(others) == 1 and others[0].name in self._case.options
        return sum(bool(m.start) for m in chosen) <= 1

    def _is_far(self, change: Change, key: tuple) -> bool:
        """Return whether ``change`` is wrong in the first test case, in float32, too.

        ``key`` identifies it, so that it is not tried again for another dtype.
        """
        if key not in self._far:
            cases, outs = self.outputs.cases[:1], self.outputs.outs[:1]
            first = replace(self.outputs, cases=cases, outs=outs)
            try:
                is_far = not first.resembles(change, "float32")
            except (*REFUSED, attention_hooks.Crossing):
                is_far = True
            if is_far:
                self._far.add(key)
        return key in self._far

    def _agree(self, change: Change, angles: str) -> bool:
        try:
            return self.outputs.agree(change, angles)
        except (*REFUSED, attention_hooks.Crossing):
            return False

    def _values(self, chosen, change: Change) -> list[float | None]:
        """Return the numbers to try in a change of the reference by mutants.

        ``chosen`` are the mutants (known faults), ``change`` is their joint change. The
        numbers are the near roundings, to 1 to 6 significant digits, of the number that
        is fitted to the kernel's outputs, and then this number. The list is ``[None]``
        if no mutant needs a number, and empty if no number fits.
        """
        free = [mutant for mutant in chosen if mutant.start]
        if not free:
            return [None]
        if self._is_right_near:
            return []
        if chosen not in self._numbers:
            try:
                start = free[0].start[:: len(chosen)]  # of many pairs, fewer values
                value = self.outputs.fitted(change, start)
            except REFUSED:
                value = None
            self._numbers[chosen] = value
        value = self._numbers[chosen]
        if value is None:
            return []
        short = [float(f"{value:.{digits}g}") for digits in range(1, 7)]
        return [v for v in short if math.isclose(v, value, rel_tol=1e-4)] + [value]


_IN_FLOAT32 = (
    "compute frequencies, positions and their product in float32 at least, outside "
    "autocast, and convert only the cosines and sines."
)
MENDS = {
    "sign": "the angle is plus position times frequency; a bias keeps its sign.",
    "off by one": "count positions from 0.",
    "off by two": "count positions from 0; a table with an offset of 2 is read twice.",
    "padding": "use the given positions, not the index in the row.",
    "packing": "use the given positions of each text.",
    "tiles": "add the first token's index of a tile to positions inside the tile.",
    "rows": "index positions by row: cosines and sines need the batch axis.",
    "nothing": "use the positions.",
    "twice": "apply the encoding once.",
    "degrees": "use radians.",
    "turns": "use radians.",
    "axis order": "give each coordinate its own features, in the order of the options.",
    "axis of tokens": "tokens are axis 2 of [batch, heads, tokens, d].",
    "layout": "pair features as the layout says, or convert the weights.",
    "tables": "repeat cosines and sines in the layout of the features.",
    "reflection": "the first feature of a pair has −sin, the second has +sin.",
    "order of output": "write each feature of a pair where it was read.",
    "position limit": "compute positions in 32 bits at least, and lengthen the table.",
    "position 0": "use position 0 as it is; padding needs a mask, not a position.",
    "negative positions": "use signed positions, or refuse those below 0.",
    "decoding": "the positions of queries are the last of the keys' positions.",
    "head offset": "add the first head's number on a rank, and use the number of all "
    "heads.",
    "heads": "use each head's own parameters, by the number of the query's head.",
    "slope formula": "slopes are 2^(−8h/n) for head h = 1 … n of n.",
    "distance limit": "use the whole distance.",
    "distance 0": "a token is at distance 0 from itself.",
    "later keys": "keep the sign of query position minus key position.",
    "buckets": "far buckets grow by a logarithm: exact + ⌊log(distance/exact) / "
    "log(largest/exact) · exact⌋.",
    "scale": "multiply inner products by the scale that the encoding has.",
    "mask": "mask by the order of tokens in the row.",
    "precision of positions": _IN_FLOAT32,
    "precision of distances": "subtract positions as integers.",
    "precision of frequencies": _IN_FLOAT32,
    "precision of angles": _IN_FLOAT32,
    "precision of tables": "keep cosines and sines in the dtype of the features or "
    "wider.",
    "gradient": "the gradient is rotated back, by minus the angle.",
}
"""The change that mends a kernel, by the name of its fault."""
