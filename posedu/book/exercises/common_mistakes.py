"""Diagnosis of a wrong answer: a known misconception, or a slip of any exercise.

A misconception is a typical wrong answer that the exercise lists. A slip is a mistake
that can happen in any exercise. It is found by comparing results alone: the learner's
results are the right ones after some operation (such as a reversed sign), or the right
ones for changed arguments, or equal for all arguments.
"""

import copy
import inspect
import warnings
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.records import Exercise
from posedu.book.exercises.values import (
    agree,
    as_array,
    differs,
    free_symbols,
    show,
    value_at,
)

Array = np.ndarray
Place = tuple[int, int]  # a case, and a part of its result
Pairs = list[tuple[Array, Array]]  # the given and the right result of each case


def diagnose(exercise: Exercise, given: list[Any], wanted: list[Any]) -> str:
    """Return the reply on the mistake that explains a learner's results, or ''.

    ``given`` and ``wanted`` are the learner's and the right results for all test
    inputs.
    """
    found = Diagnosis(exercise, given, wanted)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Warnings would be about code that the learner has not written.
        warnings.simplefilter("ignore")
        return (
            found.misconception([found.everywhere])
            or found.inexact()
            or found.misconception(found.partial())
            or found.strange_number()
            or found.operation()
            or found.other_argument()
            or ("" if found.is_exact() else found.relation(ROUNDED))
            or found.relation(RELATIONS)
            or found.not_whole()
        )


def locate(exercise: Exercise, given: list[Any], wanted: list[Any]) -> str:
    """Return a reply that unexplained results are nearly right, or wrong in one region.

    ``given`` and ``wanted`` are the learner's and the right results for all test
    inputs. A region is, for example, the diagonal of a matrix. NaN and infinities in
    the results for inputs other than the one that is shown get a reply, too. The reply
    is an empty string if the results have none of these.
    """
    found = Diagnosis(exercise, given, wanted)
    with np.errstate(all="ignore"):
        strange = found.strange_number(later=True)
    return (
        strange
        or ("" if found.is_exact() else found.relation(NEARLY))
        or found.region()
    )


def parts(result: Any, want: Any) -> list[Array]:
    """Split an exercise's result into arrays: one for each entry of a tuple, else one.

    A list of numbers is a single array. The structure of ``want``, the right result,
    decides how ``result``, the learner's or the right one, is split.
    """
    if isinstance(want, list) and all(as_array(w).ndim == 0 for w in want):
        return [as_array(list(result))]
    if isinstance(want, tuple | list):
        pairs = zip(result, want, strict=True)
        return [array for r, w in pairs for array in parts(r, w)]
    return [as_array(result)]


class Diagnosis:
    """Comparison of a learner's results with the right ones, for all test inputs.

    The methods look for the mistake that explains the results. If a result is a tuple,
    slips (mistakes that can happen in any exercise) are looked for in one entry alone:
    the first that is wrong for the test input that the reply shows.
    """

    def __init__(self, exercise: Exercise, given: list[Any], wanted: list[Any]):
        self.exercise, self.results = exercise, wanted
        self.given = [parts(g, w) for g, w in zip(given, wanted, strict=True)]
        self.wanted = [parts(w, w) for w in wanted]
        self.everywhere = [
            (case, part)
            for case, results in enumerate(self.wanted)
            for part in range(len(results))
        ]
        self.shown, self.number = next(
            (case, part)
            for case, part in self.everywhere
            if not self._is_given(self.wanted[case], case, part)
        )
        self.part = [place for place in self.everywhere if place[1] == self.number]

    def _is_given(self, results: list[Array], case: int, part: int) -> bool:
        """Return whether ``results[part]`` is what the learner gave for a test input.

        ``results`` are the arrays of one result, by :func:`parts`. ``case`` is the
        number of the test input, ``part`` the number of the array. If ``results`` has
        fewer arrays, false.
        """
        got, tolerance = self.given[case][part], self.exercise.tolerance
        return len(results) > part and agree(got, results[part], tolerance)

    def _comes_from(self, answer: Callable[..., Any], places: list[Place]) -> bool:
        """Return whether a function gives the learner's results in the given places.

        Each place is a pair: the number of a test input, and the number of an entry of
        the result's tuple (0 if the result is no tuple). Exact results may come as
        rounded decimals. If ``answer``, the function, raises an exception, false.
        """
        found: dict[int, list[Array]] = {}
        for case, part in places:
            if case not in found:
                arguments = copy.deepcopy(self.exercise.cases[case])
                try:
                    found[case] = parts(answer(*arguments), self.results[case])
                except Exception:  # the answer may not be defined for this case
                    return False
            if not self._is_given(found[case], case, part) and not (
                len(found[case]) > part
                and _are_decimals(self.given[case][part], found[case][part])
            ):
                return False
        return True

    def _pairs(self) -> Pairs:
        return [(self.given[c][p], self.wanted[c][p]) for c, p in self.part]

    def _reply(self, name: str, message: str) -> str:
        several = len(self.wanted[0]) > 1
        return f"{f'Result {self.number}: ' if several else ''}{name}. {message}"

    def partial(self) -> list[list[Place]]:
        """Return the places in which a misconception may explain some of the results.

        These are the entry of a tuple in which slips are looked for, for all test
        inputs. Where an answer has NaN or infinities only for inputs after the one that
        is shown, a misconception that explains all other results explains the mistake,
        so these follow.
        """
        finite = [place for place in self.everywhere if self._is_finite(place)]
        shows_finite = any(case == self.shown for case, _ in finite)
        return [self.part, finite] if shows_finite else [self.part]

    def misconception(self, searched: list[list[Place]]) -> str:
        """Return the reply on the misconception behind the learner's results, or ''.

        A misconception is a typical wrong answer that the exercise lists. It must give
        the learner's results in all places of an entry of ``searched``, those where
        they are right included.
        """
        for places in searched:
            for known in self.exercise.misconceptions:
                if self._comes_from(known.answer, places):
                    text = f"A known mistake: {known.name}"
                    if places is not self.part:
                        return f"{text}. {known.message}"
                    return self._reply(text, known.message)
        return ""

    def _is_finite(self, place: Place) -> bool:
        """Return whether the learner's numbers in a place have no NaN and infinity.

        True, too, where the right result has one.
        """
        got, want = (
            results[place[0]][place[1]] for results in (self.given, self.wanted)
        )
        if got.dtype.kind != "f" or want.dtype.kind != "f":
            return True
        return bool(np.isfinite(got).all() or not np.isfinite(want).all())

    def inexact(self) -> str:
        """Return a reply on exact results with a rounding error, or ''."""
        tolerance = self.exercise.tolerance
        wrong = [pair for pair in self._pairs() if not agree(*pair, tolerance)]
        if all(_are_decimals(got, want) for got, want in wrong):
            return self._reply("Your answer has decimals", _DECIMALS)
        if all(_are_rounded(got, want) for got, want in wrong):
            return self._reply("Decimals made rational", _MADE_RATIONAL)
        return ""

    def strange_number(self, later: bool = False) -> str:
        """Return a reply on NaN or infinities that the right result lacks.

        An empty string if the learner's results have none of these for the test input
        that is shown or, with ``later``, for any other one. NaN or infinities are no
        mistake of their own where the right result of any test input has them.
        """
        has_nan = any(_has_nan(want) for _, want in self._pairs())
        has_infinity = any(_has_infinity(want) for _, want in self._pairs())
        where = " for another input" if later else ""
        for case, part in self.part:
            got, want = self.given[case][part], self.wanted[case][part]
            if case != self.shown and not later:
                continue
            if _has_nan(got) and not has_nan:
                return self._reply(f"Your answer contains NaN{where}", _NAN)
            if _has_infinity(got) and not has_infinity:
                if _are_logits(got, want):
                    return self._reply("Logits, not weights", _LOGITS)
                return self._reply(
                    f"Your answer contains an infinity{where}", _INFINITY
                )
        return ""

    def not_whole(self) -> str:
        """Return a reply on decimals where whole numbers are asked for.

        An empty string if the learner's results have no decimals there.
        """
        if all(want.dtype.kind in "iu" for _, want in self._pairs()) and any(
            got.dtype.kind == "f" and (got % 1).any() for got, _ in self._pairs()
        ):
            return self._reply(
                "Your answer is not a whole number",
                "Must it be rounded up, down or to the nearest one? Or is it a share, "
                "or a mean, where a count is asked for?",
            )
        return ""

    def operation(self) -> str:
        """Return a reply on the operation from the right results to the learner's.

        The operation is, for instance, a reversed sign or a transposition. The reply is
        an empty string if no operation does it. Zeros alone are evidence of none.
        """
        tolerance = self.exercise.tolerance
        for name, message, operation in OPERATIONS:
            try:
                made = [as_array(operation(want)) for _, want in self._pairs()]
            except (
                TypeError,
                ValueError,
            ):  # the operation is not defined for these entries
                continue
            pairs = zip((got for got, _ in self._pairs()), made, strict=True)
            if any(map(np.any, made)) and all(
                agree(got, other, tolerance) for got, other in pairs
            ):
                return self._reply(name, message)
        return ""

    def other_argument(self) -> str:
        """Return a reply on the changed arguments that explain the learner's results.

        The solution is called with changed arguments, such as two exchanged ones, and
        must then give the learner's results. Results that are the same for every input
        get a reply of their own. The reply is an empty string if no change explains the
        results.
        """
        results = [self.given[case][part] for case, part in self.part]
        if len(results) > 1 and all(agree(r, results[0], 0.0) for r in results):
            return self._reply(
                "Your answer is the same for every input",
                "On which of the arguments must it depend?",
            )
        for name, message, change in self._changes():

            def answer(*case: Any, change: Callable[..., Any] = change) -> Any:
                return change(case)

            if self._comes_from(answer, self.part) and self._is_evidence():
                return self._reply(name, message)
        return ""

    def _is_evidence(self) -> bool:
        """Return whether results that a changed argument explains are no coincidence.

        Counts and truth values agree by chance easily, so at least half of them must be
        wrong, and at least half of these distinct: the changed argument then explains
        more than the right one or a fixed result would.
        """
        pairs, tolerance = self._pairs(), self.exercise.tolerance
        if any(want.dtype.kind not in "biu" for _, want in pairs):
            return True
        wrong = [got for got, want in pairs if not agree(got, want, tolerance)]
        distinct = {(got.shape, tuple(got.flat)) for got in wrong}
        are_distinct = len(distinct) > 1 and 2 * len(distinct) >= len(wrong)
        return 2 * len(wrong) >= len(pairs) and are_distinct

    def _changes(self) -> Iterator[tuple[str, str, Callable[[tuple], Any]]]:
        """Yield each slip in the arguments: a name, a message, and a function.

        A slip is, for instance, the exchange of two arguments. The function takes the
        tuple of arguments and returns the results that an answer with this slip would
        give.
        """
        solution, cases = self.exercise.solution, self.exercise.cases
        names = list(inspect.signature(solution).parameters)[: len(cases[0])]
        several = len(self.wanted[0])
        for n, name in enumerate(names):
            yield (
                f"Your answer is `{name}` itself",
                "The argument is returned as it was given.",
                lambda case, n=n: [case[n]] * several if several > 1 else case[n],
            )
        for (a, first_name), (b, second_name) in combinations(enumerate(names), 2):
            yield (
                f"Your answer exchanges `{first_name}` and `{second_name}`",
                "It would be right if each stood in the place of the other.",
                lambda case, a=a, b=b: solution(*_with(case, {a: case[b], b: case[a]})),
            )
        for n, name in enumerate(names):
            for value in _options(case[n] for case in cases):
                yield (
                    f"Your answer ignores `{name}`",
                    f"Whatever `{name}` is, the result is that of {show(value)}.",
                    lambda case, n=n, value=value: solution(*_with(case, {n: value})),
                )
            for shape, change in CHANGES:
                other = shape.format(f"`{name}`")
                yield (
                    f"Your answer is right for {other}",
                    f"It is as if your code used {other} in place of `{name}`.",
                    lambda case, n=n, change=change: solution(
                        *_with(case, {n: change(case[n])})
                    ),
                )

    def is_exact(self) -> bool:
        """Return whether the exercise's right results are SymPy expressions."""
        return any(want.dtype.kind == "O" for _, want in self._pairs())

    def _plain_pairs(self) -> Pairs:
        """Return pairs of the learner's and the right array, both as real numbers.

        Each test input gives one pair. Axes of length 1 are dropped. The list is empty
        if any number of an array has no real value.
        """
        arrays = [array for pair in self._pairs() for array in pair]
        exact = [array for array in arrays if array.dtype.kind == "O"]
        symbols = free_symbols(entry for array in exact for entry in array.flat)
        pairs = [
            (_valued(got, symbols), _valued(want, symbols))
            for got, want in self._pairs()
        ]
        if any(got is None or want is None for got, want in pairs):
            return []
        return [(np.squeeze(got), np.squeeze(want)) for got, want in pairs]

    def relation(self, relations: "Relations") -> str:
        """Return a reply on the first relation that holds for the learner's results.

        A relation is, for instance, that the learner's results are the right ones times
        one factor. Each of ``relations`` is a name, a message and a test of the
        relation. The reply is an empty string if none of the ``relations`` holds.
        """
        pairs = self._plain_pairs()
        if not pairs or any(want.dtype.kind == "b" for _, want in pairs):
            return ""
        for name, message, related in relations:
            if related(pairs, self.exercise.tolerance):
                return self._reply(name, message)
        return ""

    def region(self) -> str:
        """Return a reply on the region of the results that has all wrong numbers.

        A region is, for instance, the diagonal or the last row. The reply is an empty
        string if the wrong numbers are in no one region.
        """
        pairs, tolerance = self._plain_pairs(), self.exercise.tolerance
        for name, mask in REGIONS if pairs else ():
            if all(_is_wrong_in(mask, got, want, tolerance) for got, want in pairs):
                return self._reply(
                    f"Only {name} is wrong", "All your other numbers are right."
                )
        return ""


_DECIMALS = (
    "Up to rounding it is right, but results in SymPy must be exact: "
    "`sp.Rational(1, 3)` for 1/3, `sp.Integer(2)` for 2.0, `sp.pi`, `sp.sqrt`."
)
_MADE_RATIONAL = (
    "Up to a rounding error it is right. A division has rounded, and "
    "`sp.Rational` or `sp.nsimplify` cannot undo it: `sp.Rational(1, 3)` divides "
    "exactly, `sp.Rational(1 / 3)` does not."
)
_NAN = (
    "NaN comes from 0/0, 0 · ∞, ∞ − ∞, from ∞/∞ (after an exponential that overflows), "
    "or from the logarithm or root of a negative number. Where does your code compute "
    "one of these?"
)
_INFINITY = (
    "It comes from a division by 0, from log 0 or from the exponential of a large "
    "number. Where does your code compute one of these?"
)
_LOGITS = (
    "Your answer is −∞ where 0 is right. That is the logit, or the logarithm, of a "
    "weight of 0: is a softmax or an exponential missing at the end?"
)


def _valued(array: Array, symbols: list[sp.Expr]) -> Array | None:
    """Return an array's entries as real numbers; None if an entry has no real value.

    The entries are numbers or SymPy expressions, and the ``symbols`` in these are
    replaced by one fixed choice of numbers.
    """
    if array.dtype.kind != "O":
        return array
    values = [value_at(sp.sympify(entry), symbols=symbols) for entry in array.flat]
    if any(value is None or abs(value.imag) > 1e-9 for value in values):
        return None
    return np.array([value.real for value in values]).reshape(array.shape)


def _are_decimals(got: Array, want: Array) -> bool:
    """Return whether ``got`` has the exact results of ``want`` as rounded decimals.

    ``got`` is the learner's array and ``want`` the right one, of SymPy numbers.
    """
    if not _has_decimals(got) or _has_decimals(want):
        return False
    errors = _exact_errors(got, want)
    return bool(errors) and max(errors) < 1e-6


def _are_rounded(got: Array, want: Array) -> bool:
    """Return whether ``got``, without decimals, is off by rounding errors only.

    ``got`` is the learner's array and ``want`` the right one, of SymPy numbers.
    """
    errors = [] if _has_decimals(got) else _exact_errors(got, want)
    return bool(errors) and 1e-30 < max(errors) < 1e-9


def _has_decimals(array: Array) -> bool:
    if array.dtype.kind != "O":
        return array.dtype.kind == "f"
    return any(isinstance(e, float) for e in array.flat) or _holds(array, sp.Float)


def _exact_errors(got: Array, want: Array) -> list[float]:
    """Return the absolute errors of SymPy expressions at one value of their symbols.

    ``got`` is the learner's array and ``want`` the right one. The list is empty if
    ``want`` has no expressions, or if an error cannot be computed.
    """
    if want.dtype.kind != "O" or got.shape != want.shape:
        return []
    try:
        pairs = zip(got.flat, want.flat, strict=True)
        values = [value_at(sp.sympify(g) - sp.sympify(w)) for g, w in pairs]
    except (TypeError, sp.SympifyError):  # not expressions
        return []
    return [] if None in values else [abs(value) for value in values]


def _has_nan(array: Array) -> bool:
    is_float = array.dtype.kind == "f"
    return bool(np.isnan(array).any()) if is_float else _holds(array, sp.nan)


def _has_infinity(array: Array) -> bool:
    is_float = array.dtype.kind == "f"
    infinities = sp.oo, -sp.oo, sp.zoo
    return bool(np.isinf(array).any()) if is_float else _holds(array, *infinities)


def _holds(array: Array, *parts: Any) -> bool:
    """Return whether a SymPy expression in an array contains one of some ``parts``."""
    return any(isinstance(e, sp.Basic) and e.has(*parts) for e in array.flat)


def _are_logits(got: Array, want: Array) -> bool:
    """Return whether ``got`` is −∞ just where ``want``, an array of weights, is 0."""
    if got.dtype.kind != "f" or want.dtype.kind != "f":
        return False
    hidden = want == 0
    are_weights = hidden.any() and (want >= 0).all() and (want <= 1).all()
    return bool(are_weights and (got[hidden] == -np.inf).all()) and bool(
        np.isfinite(got[~hidden]).all()
    )


def _with(case: tuple, changed: dict[int, Any]) -> tuple:
    return tuple(changed.get(n, value) for n, value in enumerate(case))


def _options(values: Iterator[Any]) -> list[Any]:
    """Return the distinct values of an argument that are strings, booleans or dtypes.

    ``values`` are the argument's values in all test inputs. The list is empty if there
    are fewer than two distinct ones: the argument then chooses nothing.
    """
    kinds = str | bool | torch.dtype
    found = dict.fromkeys(v for v in values if isinstance(v, kinds))
    return list(found) if len(found) > 1 else []


# Operations on the right result.


def _only(condition: Callable[[Any], bool], change: Callable[[Any], Any]) -> Any:
    """Restrict the function ``change``, of one argument, to arguments with a condition.

    The returned function raises TypeError for arguments with which ``condition`` is
    false.
    """

    def changed(x: Any) -> Any:
        if not condition(x):
            raise TypeError("this change is not defined for this argument")
        return change(x)

    return changed


def _is_whole(x: Array) -> bool:
    """Return whether an array has numbers for which "one too many" is a likely slip.

    These numbers are integers, floats, and SymPy numbers that are integers.
    """
    return x.dtype.kind == "i" or all(getattr(e, "is_integer", False) for e in x.flat)


def _entrywise(function: Any, symbolic: Any) -> Callable[[Array], Array]:
    def apply(x: Array) -> Array:
        if x.dtype.kind != "O":
            return function(x)
        return np.array([symbolic(e) for e in x.flat], dtype=object).reshape(x.shape)

    return apply


def _flipped(axis: int) -> Callable[[Array], Array]:
    return _only(lambda x: x.ndim > 0, lambda x: np.flip(x, axis))


OPERATIONS: tuple[tuple[str, str, Callable[[Array], Array]], ...] = (
    (
        "Your answer has every sign reversed",
        "Its numbers are minus the right ones.",
        np.negative,
    ),
    (
        "Your answer exchanges True and False",
        "It is the opposite of the right one everywhere.",
        _only(lambda x: x.dtype.kind == "b", np.logical_not),
    ),
    (
        "One too many",
        "Your numbers are too large by 1.",
        _only(_is_whole, lambda x: x + 1),
    ),
    (
        "One too few",
        "Your numbers are too small by 1.",
        _only(_is_whole, lambda x: x - 1),
    ),
    (
        "Your answer is the complement",
        "It is 1 minus the right result, like the part that is left in place of the "
        "part that is taken.",
        _only(lambda x: x.dtype.kind != "i", lambda x: 1 - x),
    ),
    (
        "Your answer is upside down",
        "It is 1 divided by the right result.",
        lambda x: 1 / x,
    ),
    *(
        (
            f"Your answer is the right one {way}",
            "Is a number or an array made whole on the way, or is there a `//`?",
            _entrywise(function, symbolic),
        )
        for way, function, symbolic in (
            ("rounded down", np.floor, sp.floor),
            ("cut to whole numbers", np.trunc, lambda x: sp.sign(x) * sp.floor(abs(x))),
            ("rounded to whole numbers", np.round, lambda x: sp.Integer(round(x))),
        )
    ),
    (
        "Your answer is squared",
        "It is the square of the right result.",
        lambda x: x**2,
    ),
    (
        "Your answer is a square root",
        "It is the root of the right result.",
        _entrywise(np.sqrt, sp.sqrt),
    ),
    (
        "Your answer is a logarithm",
        "It is the logarithm of the right result.",
        _entrywise(np.log, sp.log),
    ),
    (
        "Your answer is an exponential",
        "The right result is in its exponent.",
        _entrywise(np.exp, sp.exp),
    ),
    (
        "Your answer has lost the sign",
        "It consists of the absolute values of the right result.",
        abs,
    ),
    (
        "Your answer is transposed",
        "Rows and columns have changed places.",
        lambda x: x.swapaxes(-1, -2),
    ),
    (
        "Your answer is in reverse order",
        "It has the right entries, but the last one comes first.",
        _flipped(-1),
    ),
    (
        "Your answer has its rows in reverse order",
        "They are the right rows, but the last one comes first.",
        _flipped(0),
    ),
)


# Changes of an argument.


def _is_true_or_false(x: Any) -> bool:
    return isinstance(x, bool) or getattr(x, "dtype", None) in (bool, torch.bool)


def _is_numeric(x: Any) -> bool:
    kinds = int | float | sp.Expr | sp.MatrixBase | np.ndarray | torch.Tensor
    return isinstance(x, kinds) and not _is_true_or_false(x)


def _counts(x: Any) -> bool:
    """Return whether a value is an integer, or an array of integers: counts or indices.

    Arrays are NumPy arrays and tensors. Booleans are no integers.
    """
    if isinstance(x, np.ndarray):
        return x.dtype.kind == "i"
    if isinstance(x, torch.Tensor):
        return x.dtype == torch.int64
    return isinstance(x, int | sp.Integer) and not isinstance(x, bool)


def _has_axes(x: Any) -> bool:
    return isinstance(x, np.ndarray | torch.Tensor) and x.ndim > 0


def _reversed(axis: int) -> Callable[[Any], Any]:
    def change(x: Any) -> Any:
        return x.flip(axis) if isinstance(x, torch.Tensor) else np.flip(x, axis)

    return _only(_has_axes, change)


def _is_real(x: Any) -> bool:
    if isinstance(x, torch.Tensor):
        return x.is_floating_point()
    return isinstance(x, float) or (isinstance(x, np.ndarray) and x.dtype.kind == "f")


def _cut(x: Any) -> Any:
    return x.trunc() if isinstance(x, torch.Tensor) else np.trunc(x)


def _times_pi(x: Any) -> Any:
    return x * (sp.pi if isinstance(x, sp.Expr | sp.MatrixBase) else np.pi)


CHANGES: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("{} + 1", _only(_counts, lambda x: x + 1)),
    ("{} − 1", _only(_counts, lambda x: x - 1)),
    ("−{}", _only(_is_numeric, lambda x: -x)),
    ("the opposite of {}", _only(_is_true_or_false, np.logical_not)),
    ("1/{}", _only(lambda x: _is_numeric(x) and not _counts(x), lambda x: 1 / x)),
    ("twice {}", _only(_is_numeric, lambda x: 2 * x)),
    ("half of {}", _only(_is_numeric, lambda x: x // 2 if _counts(x) else x / 2)),
    ("the square of {}", _only(_is_numeric, lambda x: x * x)),
    (
        "the root of {}",
        _only(
            _is_numeric, lambda x: x**sp.S.Half if isinstance(x, sp.Expr) else x**0.5
        ),
    ),
    ("{} in degrees", _only(_is_numeric, lambda x: _times_pi(x) / 180)),
    ("2π times {}", _only(_is_numeric, lambda x: 2 * _times_pi(x))),
    ("{} cut to whole numbers", _only(_is_real, _cut)),
    ("{} transposed", lambda x: x.swapaxes(-1, -2) if _has_axes(x) else x.T),
    ("{} in reverse order", _reversed(0)),
    ("{} with its last axis in reverse order", _reversed(-1)),
)


# Relations between the given and the right results.


def _factors(pairs: Pairs, tolerance: float) -> list[float] | None:
    """Return the factors between the learner's and the right results.

    ``pairs`` has the learner's and the right array for each test input, and the factors
    have one number for each. None if the numbers for some input do not share one
    factor, up to ``tolerance``.
    """
    found = []
    for got, want in pairs:
        largest = abs(want).argmax() if want.size else 0
        if not want.size or not np.isfinite(got).all() or not want.flat[largest]:
            return None
        factor = got.flat[largest] / want.flat[largest]
        scaled, allowed = np.asarray(factor * want), tolerance * max(1, abs(factor))
        if not factor or not agree(got, scaled, allowed):
            return None
        found.append(float(factor))
    return found


def _same_factor(pairs: Pairs, tolerance: float) -> bool:
    factors = _factors(pairs, tolerance)
    enough = sum(np.count_nonzero(want) for _, want in pairs) > 2
    if factors is None or not enough:
        return False
    return bool(np.ptp(factors) <= 1e-6 * abs(factors[0]))


def _factor_by_case(pairs: Pairs, tolerance: float) -> bool:
    enough = all(np.count_nonzero(want) > 2 for _, want in pairs)
    return enough and _factors(pairs, tolerance) is not None


def _same_constant(pairs: Pairs, tolerance: float) -> bool:
    gaps = np.concatenate([np.ravel(g.astype(float) - w) for g, w in pairs])
    return bool(gaps.size > 2 and np.ptp(gaps) <= 2 * tolerance)


def _constant_by_case(pairs: Pairs, tolerance: float) -> bool:
    gaps = [np.ravel(g.astype(float) - w) for g, w in pairs]
    return all(gap.size > 2 and np.ptp(gap) <= 2 * tolerance for gap in gaps)


def _moved(by: int) -> Callable[[Pairs, float], bool]:
    """Make a test that all results are the right ones, shifted ``by`` along an axis.

    ``by`` is a number of places. The returned test takes pairs of the learner's and the
    right array, and the largest difference accepted between two numbers.
    """

    def related(pairs: Pairs, tolerance: float) -> bool:
        for axis in range(-max(want.ndim for _, want in pairs), 0):
            if all(_is_moved(g, w, axis, by, tolerance) for g, w in pairs):
                return any(want.shape[axis] > 2 for _, want in pairs)
        return False

    return related


def _is_moved(got: Array, want: Array, axis: int, by: int, tolerance: float) -> bool:
    if want.ndim < -axis or want.shape[axis] < 2:
        return False
    here, there = (np.moveaxis(x, axis, 0) for x in (got, want))
    if by < 0:
        here, there = there, here
    return agree(here[abs(by) :], there[: -abs(by)], tolerance)


def _rearranged(pairs: Pairs, tolerance: float) -> bool:
    ordered = [tuple(np.sort(x, axis=None) for x in pair) for pair in pairs]
    wrong = [want for got, want in pairs if not agree(got, want, tolerance)]
    enough = any(len(np.unique(want)) > 2 for want in wrong)
    return enough and all(agree(got, want, tolerance) for got, want in ordered)


def _errors(got: Array, want: Array) -> Array:
    """Return the absolute errors of the learner's numbers.

    They are 0 where both numbers are the same infinity, and infinite where only the
    right one is.
    """
    return abs(np.subtract(got, want, out=np.zeros(want.shape), where=got != want))


def _sizes(want: Array) -> Array:
    """Return the absolute values of the right numbers, 0 in place of infinity."""
    return np.where(np.isfinite(want), abs(want), 0.0)


def _within(share: float) -> Callable[[Pairs, float], bool]:
    """Make a test that no number is off by more than ``share`` of the largest one.

    The returned test takes pairs of the learner's and the right array, and ignores the
    tolerance, its second argument. The largest one is the largest right number in
    absolute value of the same test input.
    """

    def related(pairs: Pairs, tolerance: float) -> bool:
        return all(
            want.dtype.kind == "f"
            and _errors(got, want).max(initial=0) <= share * _sizes(want).max(initial=0)
            for got, want in pairs
        )

    return related


def _to_digits(pairs: Pairs, tolerance: float) -> bool:
    """Return whether no number is off by more than 2^-7 of the right one.

    ``pairs`` has the learner's and the right array for each test input. bf16 rounds
    by up to 2^-8, and two roundings may add up. ``tolerance`` is ignored.
    """
    return all(
        want.dtype.kind == "f" and (_errors(got, want) <= 2**-7 * _sizes(want)).all()
        for got, want in pairs
    )


Relations = tuple[tuple[str, str, Callable[[Pairs, float], bool]], ...]

ROUNDED: Relations = (
    (
        "Your answer is right to about six digits only",
        "float32 has that many. Is something rounded to float32 on the way, is a small "
        "number added, or is a difference quotient taken for a derivative?",
        _within(1e-5),
    ),
)

RELATIONS: Relations = (
    (
        "A constant factor is wrong",
        "All your numbers are the right ones times one and the same number.",
        _same_factor,
    ),
    (
        "A factor is wrong that depends on the input",
        "For each input your numbers are the right ones times one number. Look for a "
        "division by a size, a root or a sum that is missing or too many.",
        _factor_by_case,
    ),
    (
        "A constant is added",
        "All your numbers are off by one and the same amount.",
        _same_constant,
    ),
    (
        "A constant is added that depends on the input",
        "For each input all your numbers are off by one amount.",
        _constant_by_case,
    ),
    (
        "Everything stands one place too late",
        "Your numbers are the right ones, shifted by one along an axis.",
        _moved(1),
    ),
    (
        "Everything stands one place too early",
        "Your numbers are the right ones, shifted by one along an axis.",
        _moved(-1),
    ),
    (
        "The right numbers in the wrong places",
        "No number is missing and none is too many. Look at the order of the axes, and "
        "at what comes first along each.",
        _rearranged,
    ),
)

NEARLY: Relations = (
    (
        "Your answer is right to about two digits only",
        "bf16 has that many. Something is rounded to 16 bits on the way, or a small "
        "constant is wrong or stands in the wrong place.",
        _to_digits,
    ),
)


# Regions of an array.


def _matrix(mask: Callable[[Array, Array, tuple[int, int]], Array]) -> Any:
    def region(shape: tuple[int, ...]) -> Array:
        if len(shape) < 2 or 1 in shape[-2:]:
            return np.zeros(shape, dtype=bool)
        i, j = np.indices(shape[-2:])
        return np.broadcast_to(mask(i, j, shape[-2:]), shape)

    return region


def _square(mask: Callable[[Array, Array], Array]) -> Any:
    return _matrix(lambda i, j, shape: mask(i, j) & (shape[0] == shape[1]))


def _entry(index: int) -> Callable[[tuple[int, ...]], Array]:
    def region(shape: tuple[int, ...]) -> Array:
        mask = np.zeros(shape, dtype=bool)
        if len(shape) == 1 and shape[0]:
            mask[index] = True
        return mask

    return region


REGIONS: tuple[tuple[str, Callable[[tuple[int, ...]], Array]], ...] = (
    ("the first entry", _entry(0)),
    ("the last entry", _entry(-1)),
    ("the first row", _matrix(lambda i, j, shape: i == 0)),
    ("the last row", _matrix(lambda i, j, shape: i == shape[0] - 1)),
    ("the first column", _matrix(lambda i, j, shape: j == 0)),
    ("the last column", _matrix(lambda i, j, shape: j == shape[1] - 1)),
    ("the diagonal", _square(lambda i, j: i == j)),
    ("the part above the diagonal", _square(lambda i, j: j > i)),
    ("the part below the diagonal", _square(lambda i, j: j < i)),
)


def _is_wrong_in(mask: Any, got: Array, want: Array, tolerance: float) -> bool:
    return (
        bool(mask(want.shape).any())
        and not (differs(got, want, tolerance) & ~mask(want.shape)).any()
    )
