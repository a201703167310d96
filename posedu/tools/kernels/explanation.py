"""Search for the mutant, or the two mutants, that give a kernel's outputs.

They must give every output to the bound of the kernel's own precision: a coarser bound
would agree with faults that are none.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations, product

import numpy as np
import torch

from posedu.crosscheck import attention_hooks
from posedu.crosscheck.common import roundoff
from posedu.tools.kernels.mutants import mutants
from posedu.tools.kernels.mutants.mutated_case import MutatedCase
from posedu.tools.kernels.mutants.precision import IN_FLOAT32
from posedu.tools.kernels.mutants.reference import (
    REFUSED,
    Array,
    Change,
    Mutant,
    Reference,
)
from posedu.tools.kernels.oracle import Case, Solution


def coarsest(dtype: torch.dtype, angles: str) -> torch.dtype:
    """Return the coarser of an output's ``dtype`` and ``angles``, the dtype of angles.

    An angle is position times frequency.
    """
    return max(dtype, getattr(torch, angles), key=roundoff)


def relative_error(case: Case, out: Array) -> float:
    """Return the largest error of an output, over the largest right number."""
    off = float(np.abs(out - case.expected).max())
    return off and off / float(np.abs(case.expected).max() or 1.0)


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

    @property
    def are_far(self) -> list[bool]:
        """For each test case, whether its output is plainly wrong, without a bound.

        It is off by more than the square root of the unit roundoff, relative to the
        test case's largest number. What is not far may be wrong, too.
        """
        limit = roundoff(self.dtype) ** 0.5
        pairs = zip(self.cases, self.outs, strict=True)
        return [relative_error(case, out) > limit for case, out in pairs]

    def wrong_first(self) -> "Outputs":
        """Return a copy that begins with the test cases in which outputs are wrong.

        In the others most mutants agree, so they tell less. Those that are far off are
        taken for the wrong ones, if there are any: bounds are slow to measure.
        """
        far = self.are_far
        is_last = self.is_right if not any(far) else lambda n: not far[n]
        order = sorted(range(len(self.cases)), key=is_last)
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
    finest first. Mutants with a number that must be fitted, which takes long, are tried
    after the others. The result is ``None`` if no mutant and no two mutants give the
    outputs.
    """
    tried = [_Search(outputs) for outputs in by_variant]
    for count, is_fitted, dtype in product((1, 2), (False, True), angles):
        for search in tried:
            with np.errstate(all="ignore"):  # NaN agrees with nothing.
                found = search.first(count, dtype, is_fitted=is_fitted)
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
        # A scale of buckets may be that of another option, which says less.
        order = sorted(mutants(self._case), key=lambda mutant: mutant.name != "buckets")
        self._table = sorted(order, key=lambda mutant: len(mutant.start))
        self.outputs = outputs.wrong_first()

    @cached_property
    def _is_right_near(self) -> bool:
        """True if all outputs near position 0 are right.

        Such a kernel has no wrong base or factor, and no two wrong parts.
        """
        return all(map(self.outputs.is_right, self.outputs.near))

    def first(self, count: int, angles: str, *, is_fitted: bool) -> Explanation | None:
        """Return the first ``count`` mutants that jointly explain the kernel's outputs.

        Mutants are known faults. ``angles`` is the dtype that position times frequency
        may have; ``is_fitted`` says whether one of the mutants has a number to be
        fitted. The result is ``None`` if no ``count`` mutants explain the outputs.
        """
        if count > 1 and self._is_right_near:
            return None
        for chosen in combinations(self._table, count):
            if any(mutant.start for mutant in chosen) != is_fitted:
                continue
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
    "precision of positions": IN_FLOAT32,
    "precision of distances": "subtract positions as integers.",
    "precision of frequencies": IN_FLOAT32,
    "precision of angles": IN_FLOAT32,
    "precision of tables": "keep cosines and sines in the dtype of the features or "
    "wider.",
    "gradient": "the gradient is rotated back, by minus the angle.",
}
"""The change that mends a kernel, by the name of its fault."""
