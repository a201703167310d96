"""Random rounding: the error that roundings cause in a result and its gradient.

The reference implementation runs unmodified, on arrays of :class:`Rounded` numbers.
Every operation on them is followed by a rounding, a random relative error. The spread
of the results over several runs is the error that such roundings cause, whatever the
formula. Results of exact numbers alone are exact, and are rounded when they are added
to others. The error of a gradient is found in the same way: with the errors of a run
held fixed, the result is a smooth function, and its slope has each factor of the chain
rule off by a rounding.

An array also records its decisions where a function has a kink: which whole numbers lie
below and above, which of two numbers is the lesser. A run whose decisions differ from
those of the exact run is on the other side of a kink.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from posedu.numpy.attention import Hooks, weigh

STORED_HOOKS = (
    *("rotate", "values", "transport", "bias"),
    *("logits", "weigh", "mix", "output"),
)

_DECIDING = {np.floor, np.ceil, np.rint, np.sign, np.isfinite} | {
    *(np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
}
_CHOOSING = {np.minimum, np.maximum}
_SUMMING = {np.einsum, np.cumsum, np.sum}
_MOVING = {np.where, np.concatenate, np.moveaxis, np.take_along_axis, np.tril} | {
    *(np.broadcast_to, np.repeat, np.swapaxes, np.reshape, np.stack, np.max),
    np.asarray,
}
_EXACT = {np.negative, np.absolute, np.conjugate} | _DECIDING | _CHOOSING


class Arithmetic:
    """Model of roundings: sizes of errors, random draws, and the decisions at kinks.

    ``stored`` is the relative error of matrix products and of the results of hooks
    (functions by which an encoding acts on attention). An implementation may keep both
    in the dtype of the activations. ``summed`` is the error of partial sums, relative
    to the sum of absolute values. ``inner`` is the relative error of all other
    operations. ``decisions`` are recorded in order: which side of a kink, a point
    without a derivative, a number is on.
    """

    def __init__(
        self,
        stored: float = 0.0,
        inner: float = 0.0,
        summed: float = 0.0,
        seed: int = 0,
    ):
        self.stored, self.inner, self.summed, self.seed = stored, inner, summed, seed
        self.decisions: list[bytes] = []

    @cached_property
    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    @cached_property
    def _rng_of_known(self) -> np.random.Generator:
        return np.random.default_rng((self.seed, 1))

    @property
    def key(self) -> tuple[float, float, float, int]:
        """Sizes of errors and the seed, from which all random errors follow."""
        return self.stored, self.inner, self.summed, self.seed

    @property
    def exact(self) -> "Arithmetic":
        """Arithmetic without errors that records its decisions in this object's list.

        A decision is the side of a kink (a point without a derivative) that a number is
        on.
        """
        exact = Arithmetic()
        exact.decisions = self.decisions
        return exact

    def again(self) -> "Arithmetic":
        """Return new arithmetic that draws the same errors, from the first one on."""
        return Arithmetic(*self.key)

    def wrap(self, x: np.ndarray | np.generic) -> "Rounded":
        """Return ``x`` as a :class:`Rounded` array, which rounds by this model."""
        wrapped = np.asarray(x).view(Rounded)
        wrapped.arithmetic = self
        return wrapped

    def errors(self, size: np.ndarray, amount: float) -> np.ndarray | float:
        """Draw a random error of at most ``amount`` times ``size`` for each entry.

        ``size`` has the absolute sizes of an array's entries. If ``amount`` is 0, the
        result is 0.
        """
        if amount == 0:
            return 0.0
        drawn = self._rng.uniform(-amount, amount, np.shape(size))
        return np.where(np.isfinite(size), size, 0.0) * drawn

    def errors_of_sums(
        self, function: Callable, given: Any, options: dict[str, Any]
    ) -> np.ndarray | float:
        """Draw the rounding errors of the sums that ``function`` computes.

        ``given`` and ``options`` are the positional and keyword arguments of
        ``function``, such as ``np.einsum``. A sum of n terms has n − 1 partial sums,
        none of which exceeds the sum of absolute values. Each partial sum rounds
        independently, and their errors add in squares, whatever the order. In exact
        arithmetic the result is 0.
        """
        if self.summed == 0:
            return 0.0
        terms = function(*_mapped(np.ones_like, given), **options)
        size = function(*_mapped(np.abs, given), **options)
        return self.errors(size * np.sqrt(np.maximum(terms - 1, 0)), self.summed)

    def errors_of_known(self, x: "Rounded") -> np.ndarray | float:
        """Draw rounding errors of the numbers ``x``, which are exact in this model.

        An implementation has to compute these numbers (parameters, or results of
        parameters alone), too, and rounds them. The result is 0 in exact arithmetic,
        for numbers of this very arithmetic, whose errors are in them, and for integers.
        """
        if self.inner == 0 or x.arithmetic.key == self.key or not _is_inexact(x):
            return 0.0
        size = np.abs(x.view(np.ndarray))
        drawn = self._rng_of_known.uniform(-self.inner, self.inner, size.shape)
        return np.where(np.isfinite(size), size, 0.0) * drawn

    def store(self, x: Any) -> Any:
        """Return a hook's result with a random error in each entry.

        A hook is a function by which an encoding acts on attention. The error is that
        of storing an array in the dtype. If the hook returns a pair, both arrays get
        errors.
        """
        if isinstance(x, tuple):
            return tuple(map(self.store, x))
        x = np.asarray(x)
        return self.wrap(x + self.errors(x, self.stored))

    def hooks(self, hooks: Hooks) -> Hooks:
        """Return a copy of ``hooks`` whose results have random rounding errors.

        Hooks are the functions by which an encoding acts on attention. Only those in
        ``STORED_HOOKS`` get errors: an implementation may store their results in the
        dtype.
        """

        def storing(hook: Callable) -> Callable:
            return lambda *arguments: self.store(hook(*arguments))

        def undecided(*arguments: Any) -> np.ndarray:
            """Weights by softmax, whose terms are positive: it is at no kink."""
            before = len(self.decisions)
            weights = weigh(*arguments)
            del self.decisions[before:]
            return weights

        if hooks.weigh is weigh:
            hooks = replace(hooks, weigh=undecided)
        stored = {name: getattr(hooks, name) for name in STORED_HOOKS}
        return replace(
            hooks, **{n: storing(hook) for n, hook in stored.items() if hook}
        )


class Rounded(np.ndarray):
    """NumPy array whose operations round as its ``arithmetic`` says.

    ``arithmetic``, an :class:`Arithmetic`, is the model of roundings. The array passes
    through the reference's checks of arguments, which call ``np.asarray(x, like=x)``.
    """

    arithmetic: Arithmetic

    def __array_finalize__(self, source):
        self.arithmetic = getattr(source, "arithmetic", None)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        models: list[Arithmetic] = []
        given = [_plain(x, models) for x in inputs]
        if out is not None:
            options["out"] = tuple(_plain(x, []) for x in out)
        arithmetic = _arithmetic(models)
        result = getattr(ufunc, method)(*given, **options)
        if ufunc in _DECIDING:
            arithmetic.decisions.append(np.asarray(result).tobytes())
        elif ufunc in _CHOOSING and method == "__call__":
            arithmetic.decisions.append(np.less(*given).tobytes())
        if not _is_inexact(result):
            return result
        if ufunc in _EXACT:
            return arithmetic.wrap(result)
        is_product = ufunc is np.matmul
        amount = arithmetic.stored if is_product else arithmetic.inner
        rounded = result + arithmetic.errors(result, amount)
        if ufunc is np.add and method == "__call__":
            others = [x for x in inputs if isinstance(x, Rounded)]
            others = [x for x in others if x.arithmetic is not arithmetic]
            rounded = sum(map(arithmetic.errors_of_known, others), rounded)
        if is_product or (ufunc is np.add and method != "__call__"):
            options.pop("out", None)
            rounded = rounded + arithmetic.errors_of_sums(
                getattr(ufunc, method), given, options
            )
        return arithmetic.wrap(rounded)

    def __array_function__(self, function, types, arguments, options):
        if function is np.asarray and not options:  # most calls, for ``like=``
            (x,) = arguments
            return x if _is_inexact(x) else x.view(np.ndarray)
        models: list[Arithmetic] = []
        given, options = _plain(arguments, models), _plain(options, models)
        arithmetic = _arithmetic(models)
        result = function(*given, **options)
        if function is np.clip:
            arithmetic.decisions.append(np.equal(result, given[0]).tobytes())
            return _wrapped(arithmetic, result)
        if not _is_inexact(result) or function in _MOVING:
            return _wrapped(arithmetic, result)
        rounded = result + arithmetic.errors(result, arithmetic.inner)
        if function in _SUMMING:
            of_sums = arithmetic.errors_of_sums(function, given, options)
            rounded = rounded + of_sums
        return _wrapped(arithmetic, rounded)


def _arithmetic(models: list[Arithmetic]) -> Arithmetic:
    """Return the model of roundings for an operation on arrays of these models.

    If exact and inexact arrays mix, the inexact model is taken.
    """
    first, *others = models
    if all(other is first for other in others):
        return first
    return max(models, key=lambda arithmetic: arithmetic.key)


def _mapped(change: Callable, tree: Any) -> Any:
    """Apply ``change`` to all arrays in nested tuples, lists and dictionaries.

    Anything else in ``tree`` is returned as it is.
    """
    if isinstance(tree, dict):
        return {name: _mapped(change, branch) for name, branch in tree.items()}
    if isinstance(tree, tuple | list):
        return type(tree)(_mapped(change, branch) for branch in tree)
    return change(tree) if isinstance(tree, np.ndarray) else tree


def _plain(tree: Any, models: list[Arithmetic]) -> Any:
    """Return ``tree`` with plain arrays for :class:`Rounded` arrays.

    The models of roundings of these arrays are appended to ``models``.
    """
    if type(tree) is Rounded:
        models.append(tree.arithmetic)
        return tree.view(np.ndarray)
    if type(tree) is tuple or type(tree) is list:
        return type(tree)([_plain(branch, models) for branch in tree])
    if type(tree) is dict:
        return {name: _plain(branch, models) for name, branch in tree.items()}
    return tree


def _wrapped(arithmetic: Arithmetic, result: Any) -> Any:
    return arithmetic.wrap(result) if _is_inexact(result) else result


def _is_inexact(result: Any) -> bool:
    return isinstance(result, np.ndarray | np.generic) and result.dtype.kind in "fc"
