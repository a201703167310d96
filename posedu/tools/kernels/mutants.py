"""Mutants: known faults of kernels, each made as a change of the NumPy reference.

A :class:`Mutant` makes a wrong reference from the right one. :func:`mutants` lists the
mutants of an encoding, and :func:`explain` finds the mutant, or the two mutants, that
give a kernel's outputs.
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
from scipy.optimize import least_squares

from posedu._argument_types import check_types
from posedu._arguments import LAYOUTS
from posedu.catalog import CATALOG, EncodingRecord
from posedu.crosscheck import attention_hooks
from posedu.crosscheck.common import roundoff
from posedu.numpy.attention import Hooks
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import pairs
from posedu.tools.kernels.oracle import Case, Solution

Array = np.ndarray
Change = Callable[..., Any]
REFUSED = (TypeError, ValueError, IndexError)  # errors of references for wrong options


@dataclass(frozen=True)
class Reference:
    """A NumPy implementation that mutants (known faults) change, with its arguments.

    ``implementation`` is the function, ``options`` are its keywords. ``positions`` maps
    the given positions and the shape of the features to the positions that are used; by
    default they are used as given.
    """

    implementation: Change
    options: Mapping[str, Any]
    positions: Callable[[Array, tuple[int, ...]], Array] = lambda at, shape: at

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
    at the values of ``start``.
    """

    name: str
    description: str
    change: Callable[..., Reference]
    start: tuple[float, ...] = ()


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


def _of_positions(axes: int | None) -> Iterator[Mutant]:
    """Yield mutants (known faults) that use wrong positions, such as negated ones.

    ``axes`` is the number of coordinates of a position, ``None`` for plain numbers.
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
    yield Mutant(
        "degrees", "angles are in degrees", _at(lambda at: at * (math.pi / 180))
    )
    yield Mutant(
        "turns", "angles are in full turns", _at(lambda at: at * (2 * math.pi))
    )
    for dtype in (torch.bfloat16, torch.float16):
        name = str(dtype).removeprefix("torch.")
        text = f"positions are rounded to {name}"
        yield Mutant("precision of positions", text, _at(_as_torch(dtype)))
    for order in permutations(range(axes or 1)):
        if order != (*range(axes or 1),):
            text = f"coordinates are in the order {', '.join(map(str, order))}"
            take = partial(np.take, indices=order, axis=-1)
            yield Mutant("axis order", text, _at(take))
    for axis in range(axes or 0):
        text = f"coordinate {axis} is used for all coordinates"
        take = partial(np.take, indices=[axis] * (axes or 1), axis=-1)
        yield Mutant("axis order", text, _at(take))


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

    The number is RoPE's base, the attention factor, or a factor of all positions, as
    far as ``encoding`` with ``options`` has them.
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


def _of_frequencies(d: int, options: Mapping[str, Any]) -> Iterator[Mutant]:
    """Yield known faults (mutants) of RoPE's frequencies and its number of features.

    ``d`` is the head dimension, ``options`` are RoPE's options.
    """
    r, base = options.get("rotary_dim") or d, options.get("base", 10000.0)
    changed = Reference.with_options
    if options.get("frequencies") is not None:
        right = np.asarray(options["frequencies"], dtype=float)
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


def _of_hooks(axes: int | None) -> Iterator[Mutant]:
    """Yield mutants (known faults) of an encoding that acts inside attention.

    ``axes`` is the number of coordinates of a position, ``None`` for plain numbers.
    """
    for name, text, sign in (
        ("sign", "the bias has the opposite sign", -1),
        ("bias", "no bias is added", 0),
    ):
        yield Mutant(name, text, _on_bias(partial(_times, sign)))
    for how, power in (("divided", -0.5), ("multiplied", 0.5)):
        yield Mutant("factor", f"the bias is {how} by √d", _bias_times(power))
    yield Mutant("heads", "heads are in reverse order", _on_bias(lambda b, d: b[::-1]))
    later = _on_bias(lambda b, d: np.concatenate((b[1:], b[-1:])))
    yield Mutant("heads", "each head has the bias of the next", later)
    for text, scale in (("multiplied by 1/√d", -0.5), ("not scaled", 0.0)):
        yield Mutant("scale", f"inner products are {text}", _scaled(scale))
    for step, text in ((1, "too large"), (-1, "too small")):
        change = _shifted_distance(step)
        yield Mutant("off by one", f"each distance is one {text}", change)
    if axes is None:
        yield Mutant(
            "mask",
            "the causal mask goes by positions, not by the order in the row",
            lambda r: r.with_hooks(_masked_by_positions),
        )
    yield Mutant(
        "factor",
        "the bias is multiplied by {:.6g}",
        lambda r, c: _on_bias(lambda b, d: c * b)(r),
        tuple(np.geomspace(1 / 64, 64, 25)),
    )


@check_types
def mutants(case: Case) -> list[Mutant]:
    """Return the mutants (known faults) of the encoding that a test case is for."""
    encoding, options = CATALOG[case.name], case.options
    axes = None if encoding.axes is None else case.positions.shape[-1]
    found = [*_of_options(encoding, options), *_of_positions(axes)]
    if encoding.kind == "features":
        d = case.inputs["x"].shape[-1]
        if encoding.hooks == ("rotate",):
            found += _of_rotations(options)
            if "rotary_dim" in signature(encoding.implementation("numpy")).parameters:
                found += _of_frequencies(d, options)
        else:
            found += _of_sums(d, options)
        found += _of_numbers(encoding, options)
    elif encoding.kind == "hooks":
        found += _of_hooks(axes)
    if encoding.kind == "hooks" or "tokens" in encoding.sizes:
        found = [
            m for m in found if m.name not in ("degrees", "turns", "scale of angles")
        ]
    return found


class MutatedCase:
    """A kernel's test case, with the results of a reference that has a known fault.

    ``change`` makes this wrong reference from the right one.
    """

    def __init__(self, case: Case, change: Callable[[Reference], Reference]):
        self.case, encoding = case, CATALOG[case.name]
        implementation = encoding.implementation("numpy")
        reference = change(Reference(implementation, case.options))
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

    def agree(self, change: Change, angles: str) -> bool:
        """Return whether the outputs equal a wrong reference's outputs, within bounds.

        ``change`` makes the wrong reference from the right one. ``angles`` is the dtype
        that position times frequency may have.
        """
        return self._near(change, angles) and self._within(change, angles)

    def _near(self, change: Change, angles: str) -> bool:
        """True if all outputs are near the outputs of a wrong reference.

        ``change`` makes the wrong reference from the right one. Near means within 64
        times the largest error bound, where ``angles`` is the dtype that position times
        frequency may have. Nearly all wrong references fail at the first test case, so
        this is a quick test.
        """
        dtype = coarsest(self.dtype, angles)
        for case, out in zip(self.cases, self.outs, strict=True):
            bound = case.bound(dtype, angles=angles, tables=dtype).max()
            mutated = MutatedCase(case, change).output()
            if not np.abs(out - mutated).max() <= 64 * bound:
                return False
        return True

    def _within(self, change: Change, angles: str) -> bool:
        dtype = coarsest(self.dtype, angles)
        for case, out in zip(self.cases, self.outs, strict=True):
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
        differences in the test cases near position 0, and then in all test cases.
        """
        first = [n for n, c in enumerate(self.cases) if np.abs(c.positions).max() < 10]

        def off(logarithm: Array, chosen: Sequence[int]) -> Array:
            made = partial(_with, change, float(np.exp(logarithm[0])))
            differences = [
                self.outs[n] - MutatedCase(self.cases[n], made).output() for n in chosen
            ]
            return np.concatenate([t.ravel() for t in differences])

        def size(logarithm: Array) -> float:
            try:
                return float(np.sum(off(logarithm, first[:1]) ** 2))
            except REFUSED:
                return math.inf

        least = min((np.log([value]) for value in start), key=size)
        whole = float(np.sum(self.outs[first[0]] ** 2))
        if size(least) > 0.2 * whole and (len(start) > 1 or math.isinf(size(least))):
            return None
        for chosen in (first, range(len(self.cases))):
            tight = dict.fromkeys(("xtol", "ftol", "gtol"), 1e-15)
            with np.errstate(over="ignore"):
                fit = least_squares(off, least, args=(chosen,), method="lm", **tight)
            if chosen is first and size(fit.x) > 1e-3 * whole:
                return None
            least = fit.x
        return float(np.exp(least[0]))


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
    finest first. With angles in bfloat16 nearly anything agrees, so only single mutants
    are tried. The result is ``None`` if no mutant and no two mutants explain the
    outputs.
    """
    tried = [_Search(outputs) for outputs in by_variant]
    fine = [dtype for dtype in angles if dtype != "bfloat16"]
    coarse = [dtype for dtype in angles if dtype == "bfloat16"]
    for count, dtypes in ((1, fine), (2, fine), (1, coarse)):
        for dtype in dtypes:
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
        self.outputs, self._numbers = outputs, {}
        table = mutants(outputs.cases[0])
        self._table = sorted(table, key=lambda mutant: len(mutant.start))

    def first(self, count: int, angles: str) -> Explanation | None:
        """Return the first ``count`` mutants that jointly explain the kernel's outputs.

        Mutants are known faults. ``angles`` is the dtype that position times frequency
        may have. The result is ``None`` if no ``count`` mutants explain the outputs.
        """
        for chosen in combinations(self._table, count):
            if (
                len({m.name for m in chosen}) < count
                or sum(bool(m.start) for m in chosen) > 1
            ):
                continue
            changes = [mutant.change for mutant in chosen]
            change = changes[0] if count == 1 else partial(_both, *changes)
            for value in self._values(chosen, change):
                made = change if value is None else partial(_with, change, value)
                if self._agree(made, angles):
                    texts = [
                        m.description.format(value) if m.start else m.description
                        for m in chosen
                    ]
                    names = tuple(m.name for m in chosen)
                    case = self.outputs.cases[0]
                    return Explanation(names, "; ".join(texts), case, angles)
        return None

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
        if chosen not in self._numbers:
            try:
                value = self.outputs.fitted(change, free[0].start)
            except REFUSED:
                value = None
            self._numbers[chosen] = value
        value = self._numbers[chosen]
        if value is None:
            return []
        short = [float(f"{value:.{digits}g}") for digits in range(1, 7)]
        return [v for v in short if math.isclose(v, value, rel_tol=1e-4)] + [value]
